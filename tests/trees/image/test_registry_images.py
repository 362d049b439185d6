"""Images in a registry on the loopback interface: what travels, logins, and servers that misbehave."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import stat
import struct
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import zstandard

from canserve.facts import Cause
from canserve.trees.archive.remote import Place
from canserve.trees.cache import Cache
from canserve.trees.image.early import Sought
from canserve.trees.image.login import login_for
from canserve.trees.image.opening import Image, open_image
from canserve.trees.image.registry import reference
from canserve.trees.positions import Positions, visit
from canserve.trees.tree import TreeError
from canserve.trees.web.client import Web
from made_images import config_of, layer, link, packed, sha
from web_server import Behaviour, Handler, Site, page, ranged, running, status

SOUGHT = Sought(frozenset({"vllm"}))

FILES = {f"vllm/m{number}.py": b"class M%d: ...\n" % number * 300 for number in range(40)}
LARGE = {"usr/lib/libtorch.so": hashlib.shake_256(b"x").digest(3_000_000)}


class Registry:
    """Repository ``me/vllm`` of a server."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.host = site.url.removeprefix("http://")

    def blob(self, data: bytes, annotations: Mapping[str, str] | None = None) -> dict[str, Any]:
        self.site.put(f"/v2/me/vllm/blobs/sha256:{sha(data)}", ranged(data))
        told: dict[str, Any] = {"digest": f"sha256:{sha(data)}", "size": len(data), "mediaType": "x"}
        return told | ({"annotations": annotations} if annotations else {})

    def image(self, layers: Sequence[dict[str, Any]], tag: str = "1", architecture: str = "arm64") -> bytes:
        config = config_of([], architecture)
        told = {"schemaVersion": 2, "config": self.blob(config), "layers": list(layers)}
        data = json.dumps(told).encode()
        for name in (tag, f"sha256:{sha(data)}"):
            self.site.put(
                f"/v2/me/vllm/manifests/{name}", page(data, "application/vnd.oci.image.manifest.v1+json")
            )
        return data

    @property
    def target(self) -> str:
        return f"docker://{self.host}/me/vllm:1"


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running() as site:
        yield Registry(site)


def opened(registry: Registry, tmp_path: Path, arch: str | None = None, offline: bool = False) -> Image:
    web = Web(offline=offline, pause=lambda _: None)
    return open_image(registry.target, Place(web, Cache(tmp_path / "cache")), SOUGHT, arch)


def missing(registry: Registry, tmp_path: Path, arch: str | None = None) -> Any:
    with pytest.raises(TreeError) as error:
        opened(registry, tmp_path, arch)
    return error.value.missing


def stargz(files: Mapping[str, bytes | tuple[bytes, str]]) -> tuple[bytes, str]:
    """An eStargz layer as the format describes it, and the digest of its table."""

    def member(data: bytes) -> bytes:
        machine = zlib.compressobj(6, zlib.DEFLATED, 31)
        return machine.compress(data) + machine.flush()

    out = io.BytesIO()
    entries: list[dict[str, Any]] = []
    for name, content in files.items():
        info = tarfile.TarInfo(name)
        if isinstance(content, tuple):
            info.type, info.linkname = content
            out.write(member(info.tobuf(tarfile.PAX_FORMAT)))
            entries.append({"name": name, "type": "symlink", "linkName": content[1]})
            continue
        info.size = len(content)
        out.write(member(info.tobuf(tarfile.PAX_FORMAT)))
        entries.append(
            {
                "name": name,
                "type": "reg",
                "size": len(content),
                "offset": out.tell(),
                "digest": f"sha256:{sha(content)}",
            }
        )
        out.write(member(content + b"\0" * (-len(content) % 512)))
    table = json.dumps({"version": 1, "entries": entries}).encode()
    start = out.tell()
    info = tarfile.TarInfo("stargz.index.json")
    info.size = len(table)
    out.write(member(info.tobuf(tarfile.PAX_FORMAT) + table + b"\0" * (-len(table) % 512 + 1024)))
    extra = b"SG" + struct.pack("<H", 22) + b"%016xSTARGZ" % start
    out.write(b"\x1f\x8b\x08\x04" + b"\0" * 4 + b"\0\xff" + struct.pack("<H", len(extra)) + extra)
    out.write(b"\x01\0\0\xff\xff" + b"\0" * 8)
    return out.getvalue(), f"sha256:{sha(table)}"


def chunked(files: Mapping[str, bytes], prefix: str) -> tuple[bytes, dict[str, str]]:
    """A zstd:chunked layer, one frame a chunk of 100,000 bytes, and its annotations."""
    packer, out, entries = zstandard.ZstdCompressor(level=1), io.BytesIO(), []
    for name, content in files.items():
        for at in range(0, max(1, len(content)), 100_000):
            piece, start = content[at : at + 100_000], out.tell()
            out.write(packer.compress(piece))
            entry: dict[str, Any] = {
                "name": name,
                "offset": start,
                "endOffset": out.tell(),
                "chunkSize": len(piece),
            }
            entry |= {"type": "chunk", "chunkOffset": at} if at else {
                "type": "reg", "size": len(content), "digest": f"sha256:{sha(content)}"}  # fmt: skip
            entries.append(entry)
    table = json.dumps({"version": 1, "entries": entries}).encode()
    packed_table, start = packer.compress(table), out.tell()
    out.write(packed_table)
    place = f"{start}:{len(packed_table)}:{len(table)}:1"
    return out.getvalue(), {
        f"{prefix}manifest-position": place,
        f"{prefix}manifest-checksum": f"sha256:{sha(packed_table)}",
    }


def test_a_seekable_image_moves_little(registry: Registry, tmp_path: Path) -> None:
    blob, digest = stargz({**LARGE, **FILES, "lib": link("vllm")})
    registry.image([registry.blob(blob, {"containerd.io/snapshot/stargz/toc.digest": digest})])
    image = opened(registry, tmp_path)
    assert image.tree.read("lib/m7.py") == FILES["vllm/m7.py"]
    got = image.tree.read_many(sorted(FILES))
    assert got == FILES
    assert image.tree.cost.bytes < len(blob) / 20
    assert image.tree.cost.requests < 12
    assert not image.notes
    assert image.tree.read("usr/lib/libtorch.so", 10, 20) == LARGE["usr/lib/libtorch.so"][10:20]


@pytest.mark.parametrize("prefix", ["io.github.containers.zstd-chunked.", "io.containers.zstd-chunked."])
def test_chunks_of_zstd(registry: Registry, tmp_path: Path, prefix: str) -> None:
    blob, annotations = chunked({**LARGE, **FILES}, prefix)
    registry.image([registry.blob(blob, annotations)])
    image = opened(registry, tmp_path)
    assert image.tree.read_many(sorted(FILES)) == FILES
    assert image.tree.cost.bytes < len(blob) / 20
    assert image.tree.read("usr/lib/libtorch.so") == LARGE["usr/lib/libtorch.so"]


@pytest.mark.parametrize("form", ["eStargz", "zstd:chunked", "plain"])
def test_large_files_by_position(registry: Registry, tmp_path: Path, form: str) -> None:
    files = {**LARGE, **FILES}
    if form == "eStargz":
        blob, digest = stargz(files)
        annotations = {"containerd.io/snapshot/stargz/toc.digest": digest}
    elif form == "plain":
        blob, annotations = packed(layer(files), "gzip"), {}
    else:
        blob, annotations = chunked(files, "io.github.containers.zstd-chunked.")
    registry.image([registry.blob(blob, annotations)])
    tree = opened(registry, tmp_path).tree
    before = tree.cost
    got: dict[str, bytes] = {}

    def use(path: str, file: Positions) -> None:
        got[path] = file.read(0, 7) + file.read(file.size - 7, file.size)

    assert visit(tree, {path: len(data) for path, data in LARGE.items()}, use) == {}
    assert got == {path: data[:7] + data[-7:] for path, data in LARGE.items()}
    assert tree.cost.since(before).requests <= len(LARGE) + len(blob) // (16 << 20) + 1


def test_a_table_that_nobody_vouches_for_is_not_used(registry: Registry, tmp_path: Path) -> None:
    lie, _ = stargz({"vllm/m0.py": b"what the table says"})
    registry.image([registry.blob(lie, {"containerd.io/snapshot/stargz/toc.digest": f"sha256:{'0' * 64}"})])
    image = opened(registry, tmp_path)
    assert image.tree.read("vllm/m0.py") == b"what the table says", "passed over, as a plain layer"
    assert "no table of contents" in image.notes[0]


@pytest.mark.parametrize("how", ["gzip", "zstd", "plain"])
def test_a_plain_image_is_passed_over_once(registry: Registry, tmp_path: Path, how: str) -> None:
    blobs = [packed(layer(each), how) for each in (LARGE, FILES)]
    registry.image([registry.blob(blob) for blob in blobs])
    image = opened(registry, tmp_path)
    assert image.tree.read("vllm/m3.py") == FILES["vllm/m3.py"]
    assert image.tree.cost.bytes < sum(map(len, blobs)) + 20_000
    again = opened(registry, tmp_path)
    assert again.tree.read_many(sorted(FILES)) == FILES
    assert again.tree.cost.bytes < 5_000, "its layers are known by their digests"


def test_a_known_image_by_digest_needs_no_network(registry: Registry, tmp_path: Path) -> None:
    data = registry.image([registry.blob(packed(layer(FILES), "gzip"))])
    target = f"docker://{registry.host}/me/vllm@sha256:{sha(data)}"
    place = Place(Web(), Cache(tmp_path / "cache"))
    open_image(target, place, SOUGHT, None)
    offline = Place(Web(offline=True), Cache(tmp_path / "cache"))
    assert open_image(target, offline, SOUGHT, None).tree.read("vllm/m1.py") == FILES["vllm/m1.py"]


def test_the_platform_of_an_index(registry: Registry, tmp_path: Path) -> None:
    listed = []
    for name in ("amd64", "arm64"):
        data = registry.image([registry.blob(layer({"vllm/a.py": name.encode()}))], name, name)
        platform = {"os": "linux", "architecture": name}
        listed.append({"digest": f"sha256:{sha(data)}", "size": len(data), "platform": platform})
    index = json.dumps({"schemaVersion": 2, "manifests": listed}).encode()
    registry.site.put("/v2/me/vllm/manifests/1", page(index, "application/vnd.oci.image.index.v1+json"))
    assert opened(registry, tmp_path, "aarch64").tree.read("vllm/a.py") == b"arm64"
    assert "say which with --arch" in missing(registry, tmp_path).why


# -- logins


def guarded(behaviour: Behaviour, wanted: str, challenge: str) -> Behaviour:
    """Only for who brings this authorization."""

    def behave(handler: Handler) -> None:
        if handler.headers.get("Authorization") == wanted:
            behaviour(handler)
        else:
            handler.answer(401, b"", WWW_Authenticate=challenge)

    return behave


def lock(registry: Registry, wanted: str, challenge: str) -> None:
    for path, behaviour in list(registry.site.routes.items()):
        if path.startswith("/v2/"):
            registry.site.routes[path] = guarded(behaviour, wanted, challenge)


def test_a_token_is_asked_for_where_the_registry_says(registry: Registry, tmp_path: Path) -> None:
    registry.image([registry.blob(packed(layer(FILES), "gzip"))])
    realm = f"{registry.site.url}/token"
    lock(registry, "Bearer abc", f'Bearer realm="{realm}",service="here",scope="repository:me/vllm:pull"')
    registry.site.put("/token", page(b'{"token": "abc"}', "application/json"))
    assert opened(registry, tmp_path).tree.read("vllm/m1.py") == FILES["vllm/m1.py"]
    asked = next(each for each in registry.site.requests if each.path.startswith("/token"))
    assert "service=here" in asked.path
    assert "repository%3Ame%2Fvllm%3Apull" in asked.path
    assert "authorization" not in asked.headers


def test_a_token_does_not_follow_a_redirect_elsewhere(registry: Registry, tmp_path: Path) -> None:
    with running() as store:
        data = packed(layer(FILES), "plain")
        registry.image([registry.blob(data)])
        moved = store.put("/stored", ranged(data)).replace("127.0.0.1", "localhost")
        registry.site.put(f"/v2/me/vllm/blobs/sha256:{sha(data)}", status(307, Location=moved))
        lock(registry, "Bearer abc", f'Bearer realm="{registry.site.url}/token"')
        registry.site.put("/token", page(b'{"access_token": "abc"}', "application/json"))
        assert opened(registry, tmp_path).tree.read("vllm/m1.py") == FILES["vllm/m1.py"]
        assert store.requests
        assert all("authorization" not in request.headers for request in store.requests)


def test_refusals_say_what_to_do(registry: Registry, tmp_path: Path) -> None:
    assert "check the name" in missing(registry, tmp_path).ask
    registry.image([])
    lock(registry, "Basic never", 'Basic realm="here"')
    found = missing(registry, tmp_path)
    assert found.cause is Cause.UNAVAILABLE
    assert f"docker login {registry.host}" in found.ask
    for behaviour in (status(500), status(503), status(429, Retry_After="1")):
        registry.site.put("/v2/me/vllm/manifests/1", behaviour)
        assert missing(registry, tmp_path).cause is Cause.UNAVAILABLE


def test_logins_of_docker_and_of_a_helper(tmp_path: Path) -> None:
    config, environment = tmp_path / "config.json", {"DOCKER_CONFIG": str(tmp_path)}
    assert login_for("here:5000", environment).login is None
    auth = base64.b64encode(b"me:pass:word").decode()
    config.write_text(json.dumps({"auths": {"https://here:5000/v1/": {"auth": auth}}}))
    found = login_for("here:5000", environment).login
    assert found is not None
    assert (found[0].reveal(), found[1].reveal()) == ("me", "pass:word")
    assert "pass" not in repr(found)
    assert login_for("there", environment).login is None
    config.write_text(json.dumps({"credHelpers": {"here": "none-such"}}))
    assert "not installed" in (login_for("here", environment).trouble or "")
    config.write_text(json.dumps({"credHelpers": {"here": "../../bin/sh"}}))
    assert "no usable name" in (login_for("here", environment).trouble or "")
    for broken in ("", "[]", '{"auths": {"here": {"auth": "%%%"}}}', '{"auths": 7}'):
        config.write_text(broken)
        assert login_for("here", environment).login is None


def test_a_helper_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper = tmp_path / "docker-credential-test"
    helper.write_text('#!/bin/sh\nread host\necho "{\\"Username\\": \\"u-$host\\", \\"Secret\\": \\"s\\"}"\n')
    helper.chmod(helper.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (tmp_path / "config.json").write_text(json.dumps({"credHelpers": {"here": "test"}}))
    found = login_for("here", {"DOCKER_CONFIG": str(tmp_path)}).login
    assert found is not None
    assert found[0].reveal() == "u-here"


# -- misbehaviour


def test_what_is_not_its_digest_is_refused(registry: Registry, tmp_path: Path) -> None:
    blob = packed(layer(FILES), "gzip")
    registry.image([registry.blob(blob)])
    other = packed(layer({**FILES, "vllm/m0.py": b"evil"}), "gzip")
    registry.site.put(
        f"/v2/me/vllm/blobs/sha256:{sha(blob)}", ranged(other + b"\0" * (len(blob) - len(other)))
    )
    assert (
        "not that of its digest" in missing(registry, tmp_path).why
        or "bytes" in missing(registry, tmp_path).why
    )


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"layers": 7}', b'{"schemaVersion": 1, "fsLayers": []}',
                                  b"[" * 100_000, b'{"manifests": []}'])  # fmt: skip
def test_hostile_manifests(registry: Registry, tmp_path: Path, body: bytes) -> None:
    registry.site.put("/v2/me/vllm/manifests/1", page(body, "application/json"))
    assert missing(registry, tmp_path).cause is Cause.UNREADABLE


@pytest.mark.parametrize(
    ("target", "base"),
    [
        ("docker://localhost:5000/a/b:1", "http://localhost:5000/v2/a/b"),
        ("docker://127.0.0.1/a", "http://127.0.0.1/v2/a"),
        ("docker://registry.example/a/b@sha256:" + "0" * 64, "https://registry.example/v2/a/b"),
        ("docker://127.0.0.1.example/a", "https://127.0.0.1.example/v2/a"),
    ],
)
def test_references(target: str, base: str) -> None:
    assert reference(target).base == base


@pytest.mark.parametrize("target", ["docker://vllm/vllm-openai:v1", "docker://a.b", "docker://a.b/../x:1", "docker://a.b/X",
                                    "docker://a.b/x:../y", "docker://a.b/x@sha256:12"])  # fmt: skip
def test_what_names_no_image(target: str) -> None:
    with pytest.raises(TreeError):
        reference(target)
