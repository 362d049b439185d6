"""Registries that refuse, break off or send something else: always a cause, never a wrong answer."""

from __future__ import annotations

from typing import Any

import pytest

from canserve.facts import Cause
from image_registry import FILES, INDEX, Shop
from made_images import config_of, layer, packed
from web_server import (
    cut_short,
    first,
    page,
    ranged,
    status,
    whole,
)


@pytest.mark.parametrize("code", [401, 403, 404, 408, 410, 418, 429, 500, 502, 503, 504])
@pytest.mark.parametrize("what", ["manifest", "config", "layer"])
def test_every_refusal_has_a_cause(shop: Shop, code: int, what: str) -> None:
    blob = shop.place(shop.blobs[0])
    config = next(path for path in shop.site.routes if "blobs" in path and path != blob)
    shop.site.put({"manifest": "/v2/me/i/manifests/1", "config": config, "layer": blob}[what], status(code))
    found = shop.missing()
    assert found.cause in {Cause.UNAVAILABLE, Cause.UNREACHED}
    assert str(code) in found.why
    assert "pip" not in (found.ask or ""), "a registry is no package index"
    if code in {401, 403}:
        assert f"docker login {shop.host}" in (found.ask or "")


def test_it_waits_as_long_as_it_is_asked_to(shop: Shop) -> None:
    place = shop.place(shop.blobs[0])
    shop.site.put(place, first(2, status(429, Retry_After="7"), ranged(shop.blobs[0])))
    assert shop.open().tree.read("vllm/m1.py") == FILES["vllm/m1.py"]
    assert shop.paused == [7.0, 7.0]
    shop.site.put("/v2/me/i/manifests/1", status(429, Retry_After="86400"))
    found = shop.missing()
    assert "429" in found.why
    assert "86400 s" in found.why
    assert found.ask == "try again later"


def test_a_cut_blob_is_taken_up_again(shop: Shop) -> None:
    blob = shop.blobs[0]
    shop.site.put(shop.place(blob), cut_short(blob, 2))
    assert shop.open().tree.read("vllm/m7.py") == FILES["vllm/m7.py"]
    assert len(shop.paused) == 2
    (shop.cache / "gone").mkdir(parents=True)
    other = Shop(shop.site, shop.cache / "gone", shop.sought)
    shop.site.put(shop.place(blob), cut_short(blob))
    found = other.missing()
    assert "after 5 attempts" in found.why
    assert found.cause is Cause.UNREACHED


def test_a_registry_without_ranges_sends_the_whole_layer(shop: Shop) -> None:
    blob = packed(layer({**FILES, "x": bytes(range(256)) * 9000}), "zstd")
    shop.put([blob])
    shop.site.put(shop.place(blob), whole(blob))
    assert shop.open().tree.read("vllm/m7.py") == FILES["vllm/m7.py"]


def test_a_layer_that_is_shorter_than_its_manifest_says(shop: Shop) -> None:
    blob = shop.blobs[0]
    shop.site.put(shop.place(blob), ranged(blob[:-100]))
    assert shop.missing().cause is Cause.UNREADABLE


# -- documents


def test_platforms_that_are_not_there_are_named(shop: Shop) -> None:
    digest = shop.manifest({"schemaVersion": 2, "config": shop.blob(config_of([], "ppc64le")), "layers": []})
    listed = [
        {"digest": digest, "size": 9, "platform": {"os": system, "architecture": name}}
        for system, name in (
            ("linux", "amd64"),
            ("linux", "s390x"),
            ("windows", "arm64"),
            ("unknown", "unknown"),
        )
    ]
    shop.manifest({"schemaVersion": 2, "manifests": listed}, INDEX)
    why = shop.missing(arch="aarch64").why
    assert "no image for aarch64; there are s390x, x86_64" in why
    assert "not for x86_64" in shop.missing(arch="x86_64").why, "the config says otherwise than the index"


def test_a_digest_is_held_to_its_word(shop: Shop) -> None:
    other = shop.manifest({"schemaVersion": 2, "config": shop.blob(config_of([])), "layers": []}, tag="2")
    assert shop.open(tag=f"@{other}").digest == other
    assert shop.open(tag=f":1@{other}").digest == other, "the digest counts, not the tag"
    lie = f"sha256:{'7' * 64}"
    shop.site.put(f"/v2/me/i/manifests/{lie}", page(b"{}", "application/json"))
    assert "not that of its digest" in shop.missing(tag=f"@{lie}").why


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (b"<html>busy</html>", "no JSON"),
        ({"schemaVersion": 1, "name": "me/i", "fsLayers": [{"blobSum": "sha256:0"}]}, "schema 1"),
        ({"schemaVersion": 2, "config": {"digest": "md5:1", "size": 1}, "layers": []}, "no SHA-256 digest"),
        ({"schemaVersion": 2, "config": {"digest": f"sha256:{'0' * 64}", "size": -1}, "layers": []}, "no size"),
        ({"schemaVersion": 2, "config": {"digest": f"sha256:{'0' * 64}", "size": 1 << 60}, "layers": []}, "no size"),
        ({"schemaVersion": 2, "layers": [{}] * 513}, "list of layers"),
        ({"schemaVersion": 2, "config": {"digest": f"sha256:{'0' * 64}", "size": 9, "mediaType":
            "application/vnd.cncf.helm.config.v1+json"}, "layers": []}, "artifact of another kind"),
        ({"schemaVersion": 2, "config": {"digest": f"sha256:{'0' * 64}", "size": 9}, "layers": [
            {"digest": f"sha256:{'0' * 64}", "size": 9, "mediaType": "application/vnd.oci.image.layer.v1.tar+gzip+encrypted"}]},
            "encrypted"),
    ],
)  # fmt: skip
def test_manifests_that_are_none(shop: Shop, told: Any, why: str) -> None:
    shop.manifest(told)
    found = shop.missing()
    assert found.cause is Cause.UNREADABLE
    assert why in found.why


def test_media_types_are_not_believed(shop: Shop) -> None:
    blob = packed(layer(FILES), "zstd")
    pointer = shop.blob(blob) | {"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip"}
    shop.manifest({"schemaVersion": 2, "config": shop.blob(config_of([])), "layers": [pointer]}, "text/plain")
    assert shop.open().tree.read("vllm/m7.py") == FILES["vllm/m7.py"]


def test_a_layer_that_may_not_be_distributed(shop: Shop) -> None:
    kind = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"
    pointer = {"digest": f"sha256:{'5' * 64}", "size": 99, "mediaType": kind}
    shop.manifest({"schemaVersion": 2, "config": shop.blob(config_of([])), "layers": [pointer]})
    found = shop.missing()
    assert "may not be distributed" in found.why
    assert "docker save" in (found.ask or "")
