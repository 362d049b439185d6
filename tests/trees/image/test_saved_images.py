"""Images on disk: every form that engines save, chosen and refused for the right reason."""

from __future__ import annotations

import gzip
import json
import tarfile
from pathlib import Path

import pytest

from canserve.facts import Cause
from canserve.trees.archive.remote import Place
from canserve.trees.cache import Cache
from canserve.trees.image.early import Sought
from canserve.trees.image.opening import Image, open_image
from canserve.trees.tree import TreeError
from canserve.trees.web.client import Web
from made_images import Layout, Member, docker_archive, layer, link, sha

SOUGHT = Sought(frozenset({"vllm"}))

BASE = layer({"vllm/a.py": b"old", "lib": link("vllm")})
TOP = layer({"vllm/a.py": b"new", "vllm/b.py": b"b"})


def opened(target: str, tmp_path: Path, arch: str | None = None) -> Image:
    return open_image(target, Place(Web(offline=True), Cache(tmp_path / "cache")), SOUGHT, arch)


def why(target: str, tmp_path: Path, arch: str | None = None) -> str:
    with pytest.raises(TreeError) as error:
        opened(target, tmp_path, arch)
    return error.value.missing.why


@pytest.mark.parametrize("how", ["gzip", "zstd", "plain"])
def test_a_layout(tmp_path: Path, how: str) -> None:
    layout = Layout(tmp_path / "image")
    layout.add(layout.image([BASE, TOP], how=how))
    for _ in ("read", "from the cache"):
        image = opened(f"oci:{layout.root}", tmp_path)
        assert image.tree.read("lib/a.py") == b"new"
        assert image.config.architecture == "aarch64"
        assert image.config.environment["NCCL_SOCKET_IFNAME"] == "eth0"
        assert image.config.entrypoint == ("vllm", "serve")
        assert image.digest == layout.manifests[0]["digest"]


def test_an_archive_of_a_layout(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "image")
    layout.add(layout.image([BASE, TOP]), "one")
    path = tmp_path / "image.tar"
    with tarfile.open(path, "w") as archive:
        archive.add(layout.root, ".")
    assert opened(f"oci-archive:{path}", tmp_path).tree.read("vllm/b.py") == b"b"
    assert opened(f"docker-archive:{path}:one", tmp_path).tree.read("vllm/b.py") == b"b"


def test_what_docker_saves(tmp_path: Path) -> None:
    path = docker_archive(tmp_path / "saved.tar", [BASE, TOP])
    for tag in ("", ":me/vllm:1", ":vllm:1"):
        assert opened(f"docker-archive:{path}{tag}", tmp_path).tree.read("vllm/a.py") == b"new"
    assert "no image called other; there are me/vllm:1" in why(f"docker-archive:{path}:other", tmp_path)


def test_layers_that_an_old_engine_linked(tmp_path: Path) -> None:
    config = json.dumps(
        {"architecture": "amd64", "rootfs": {"diff_ids": [f"sha256:{sha(BASE)}"] * 2}}
    ).encode()
    listed = [{"Config": "c.json", "RepoTags": None, "Layers": ["a/layer.tar", "b/layer.tar"]}]
    members: dict[str, Member] = {"a/layer.tar": BASE, "b/layer.tar": link("../a/layer.tar"), "c.json": config,
               "manifest.json": json.dumps(listed).encode()}  # fmt: skip
    path = tmp_path / "saved.tar"
    path.write_bytes(layer(members))
    assert opened(f"docker-archive:{path}", tmp_path).tree.read("lib/a.py") == b"old"


def test_the_platform_is_chosen_or_asked_for(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "image")
    both = [layout.image([layer({"vllm/a.py": name.encode()})], name) for name in ("amd64", "arm64")]
    attestation = {**layout.put(b"{}"), "annotations": {"vnd.docker.reference.type": "attestation-manifest"}}
    index = {"schemaVersion": 2, "manifests": [*both, attestation]}
    layout.add({**layout.put(json.dumps(index).encode())}, "multi")
    target = f"oci:{layout.root}:multi"
    assert opened(target, tmp_path, "x86_64").tree.read("vllm/a.py") == b"amd64"
    assert opened(target, tmp_path, "aarch64").tree.read("vllm/a.py") == b"arm64"
    assert "say which with --arch" in why(target, tmp_path)
    assert "no image for ppc64le" in why(target, tmp_path, "ppc64le")


def test_an_image_of_another_architecture_is_refused(tmp_path: Path) -> None:
    path = docker_archive(tmp_path / "saved.tar", [BASE])
    assert "an image for aarch64, not for x86_64" in why(f"docker-archive:{path}", tmp_path, "x86_64")


def test_a_layer_that_is_not_its_digest_is_refused_and_not_kept(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "image")
    layout.add(layout.image([BASE], how="plain"))
    evil = layer({"vllm/a.py": b"evi", "lib": link("vllm")})
    assert len(evil) == len(BASE)
    (layout.root / "blobs" / "sha256" / sha(BASE)).write_bytes(evil)
    for _ in range(2):
        assert "not that of its digest" in why(f"oci:{layout.root}", tmp_path)


def test_a_layer_that_is_cut_short(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "image")
    descriptor = layout.image([BASE, TOP])
    layout.add(descriptor)
    blob = layout.root / "blobs" / "sha256" / sha(gzip.compress(TOP, 1, mtime=0))
    blob.write_bytes(blob.read_bytes()[:-30])
    assert "bytes, not" in why(f"oci:{layout.root}", tmp_path)
    cut = gzip.compress(TOP, 1, mtime=0)[:-30]
    other = Layout(tmp_path / "other")
    told = {"schemaVersion": 2, "config": other.put(b"{}"), "layers": [other.put(cut)]}
    other.add(other.put(json.dumps(told).encode()))
    assert "no readable tar archive" in why(f"oci:{other.root}", tmp_path)


def test_a_packed_archive_says_what_to_do(tmp_path: Path) -> None:
    path = docker_archive(tmp_path / "saved.tar", [BASE])
    packed = tmp_path / "saved.tar.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(TreeError) as error:
        opened(f"docker-archive:{packed}", tmp_path)
    assert error.value.missing.cause is Cause.UNREADABLE
    assert "gunzip" in (error.value.missing.ask or "")


@pytest.mark.parametrize(
    "index",
    ["{}", "[]", "not json", '{"manifests": [{"digest": "sha256:../../etc/passwd", "size": 1}]}',
     '{"manifests": [{"digest": "md5:x", "size": 1}]}', '{"manifests": []}', "[" * 100_000,
     '{"manifests": [{"digest": "sha256:' + "0" * 64 + '", "size": -1}]}'],
)  # fmt: skip
def test_hostile_indexes_are_refused(tmp_path: Path, index: str) -> None:
    (tmp_path / "image").mkdir()
    (tmp_path / "image" / "index.json").write_text(index)
    assert why(f"oci:{tmp_path / 'image'}", tmp_path)


def test_an_index_that_leads_to_itself_ends(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "image")
    nested = {**layout.image([BASE])}
    for _ in range(8):
        nested = layout.put(json.dumps({"manifests": [nested]}).encode())
    layout.add(nested)
    assert "nested more than" in why(f"oci:{layout.root}", tmp_path)


def test_nothing_there(tmp_path: Path) -> None:
    assert "no such file" in why(f"oci:{tmp_path / 'none'}", tmp_path)
    (tmp_path / "empty").mkdir()
    assert "neither index.json nor manifest.json" in why(f"oci:{tmp_path / 'empty'}", tmp_path)
