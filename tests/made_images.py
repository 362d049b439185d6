"""Images written by hand: layers, layouts and archives, for the tests of reading them."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import zstandard

Member = bytes | tuple[bytes, str] | None
"""Contents of a file; a kind of ``tarfile`` with a link's target; None: a folder."""


def layer(members: Mapping[str, Member]) -> bytes:
    """The tar archive of a layer."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            if content is None:
                info.type = tarfile.DIRTYPE
                archive.addfile(info)
            elif isinstance(content, tuple):
                info.type, info.linkname = content
                archive.addfile(info)
            else:
                info.size = len(content)
                info.mode = 0o755 if "bin/" in name else 0o644
                archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def link(target: str) -> tuple[bytes, str]:
    """A symbolic link."""
    return tarfile.SYMTYPE, target


def hard(target: str) -> tuple[bytes, str]:
    """A hard link."""
    return tarfile.LNKTYPE, target


def sha(data: bytes) -> str:
    """Hexadecimal SHA-256."""
    return hashlib.sha256(data).hexdigest()


def packed(data: bytes, how: str) -> bytes:
    """A layer as registries hold it: ``gzip``, ``zstd`` or plain."""
    match how:
        case "gzip":
            return gzip.compress(data, 1, mtime=0)
        case "zstd":
            return zstandard.ZstdCompressor(level=1).compress(data)
        case _:
            return data


PINNED = ("NCCL_SOCKET_IFNAME=eth0", "PATH=/usr/bin")
"""An environment that pins an interface, as some images do."""
PLAIN = ("PATH=/usr/bin",)


def config_of(
    layers: Sequence[bytes], architecture: str = "arm64", environment: Sequence[str] = PINNED
) -> bytes:
    """An image's config."""
    told: dict[str, Any] = {
        "architecture": architecture,
        "os": "linux",
        "config": {"Entrypoint": ["vllm", "serve"], "Env": list(environment)},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{sha(each)}" for each in layers]},
    }
    return json.dumps(told).encode()


class Layout:
    """An OCI layout that grows."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.manifests: list[dict[str, Any]] = []
        (root / "blobs" / "sha256").mkdir(parents=True)

    def put(self, data: bytes) -> dict[str, Any]:
        """Store a blob; its descriptor."""
        (self.root / "blobs" / "sha256" / sha(data)).write_bytes(data)
        return {"digest": f"sha256:{sha(data)}", "size": len(data), "mediaType": "application/octet-stream"}

    def image(
        self, layers: Sequence[bytes], architecture: str = "arm64", how: str = "gzip"
    ) -> dict[str, Any]:
        """Store an image; the descriptor of its manifest, with its platform."""
        told = {
            "schemaVersion": 2,
            "config": self.put(config_of(layers, architecture)),
            "layers": [self.put(packed(each, how)) for each in layers],
        }
        platform = {"os": "linux", "architecture": architecture}
        return {**self.put(json.dumps(told).encode()), "platform": platform}

    def started(self, files: Mapping[str, Member], how: Mapping[str, Any]) -> Layout:
        """Put in an image of one layer, as it is, with ``how`` its containers are started."""
        blob = layer(files)
        config = json.loads(config_of([blob])) | {"config": how}
        told = {
            "schemaVersion": 2,
            "config": self.put(json.dumps(config).encode()),
            "layers": [self.put(blob)],
        }
        platform = {"os": "linux", "architecture": "arm64"}
        return self.add({**self.put(json.dumps(told).encode()), "platform": platform})

    def add(self, descriptor: dict[str, Any], name: str | None = None) -> Layout:
        """Put a manifest into the index, under a name."""
        notes = {"annotations": {"org.opencontainers.image.ref.name": name}} if name else {}
        self.manifests.append({**descriptor, **notes})
        (self.root / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": self.manifests}))
        return self


def docker_archive(
    path: Path, layers: Sequence[bytes], tag: str = "me/vllm:1", environment: Sequence[str] = PINNED
) -> Path:
    """What ``docker save`` wrote before it wrote layouts as well."""
    config = config_of(layers, environment=environment)
    names = [f"{sha(each)}/layer.tar" for each in layers]
    listed = [{"Config": f"{sha(config)}.json", "RepoTags": [tag], "Layers": names}]
    members: dict[str, Member] = dict(zip(names, layers, strict=True))
    members |= {f"{sha(config)}.json": config, "manifest.json": json.dumps(listed).encode()}
    path.write_bytes(layer(members))
    return path
