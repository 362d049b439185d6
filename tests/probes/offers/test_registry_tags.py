"""The tags of a repository: pages, logins, and registries that misbehave; and what a registry says of sizes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from canserve.plan.offers.offer import Gathered, Offer
from canserve.probes.offers.tags import MAX_PAGES, measured, read_tags
from canserve.trees.archive.remote import Place
from canserve.trees.cache import Cache
from canserve.trees.web.client import Web
from made_images import config_of, layer, packed, sha
from web_server import Behaviour, Handler, Site, page, status

LIST = "/v2/me/engine/tags/list"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(Web(pause=lambda _: None), Cache(tmp_path), lambda _: None)


def named(site: Site, glob: str = "") -> str:
    return f"docker://{site.url.removeprefix('http://')}/me/engine{glob}"


def tags(found: Gathered) -> list[str]:
    return [offer.target.rpartition(":")[2] for offer in found.offers]


def listing(*names: object, link: str = "") -> Behaviour:
    body = json.dumps({"name": "me/engine", "tags": names}).encode()
    return page(body, "application/json", **({"Link": link} if link else {}))


def test_the_highest_versions_come_first(site: Site, place: Place) -> None:
    site.put(LIST, listing("latest", "v0.9.0", "v0.17.1-arm64", "0.17.1rc1.dev25", "0.10", "nightly"))
    found = read_tags(named(site), place, 99)
    assert tags(found) == ["v0.17.1-arm64", "0.17.1rc1.dev25", "0.10", "v0.9.0", "nightly", "latest"]
    assert found.unheard == () and {offer.source for offer in found.offers} == {"tag"}
    assert found.offers[0].target == f"{named(site)}:v0.17.1-arm64"


def test_a_pattern_and_a_bound(site: Site, place: Place) -> None:
    site.put(LIST, listing("0.17.0", "0.17.1", "0.18", "spark-1"))
    assert tags(read_tags(named(site, ":0.17.*"), place, 99)) == ["0.17.1", "0.17.0"]
    cut = read_tags(named(site), place, 2)
    assert tags(cut) == ["0.18", "0.17.1"] and "4 tags; the 2 that seem newest" in cut.unheard[0]
    none = read_tags(named(site, ":9*"), place, 2)
    assert none.offers == () and "none of 4 tags is named so" in none.unheard[0]


def test_pages_are_followed(site: Site, place: Place) -> None:
    def behave(handler: Handler) -> None:
        last = "last=b" in handler.path
        listing(*(["c"] if last else ["a", "b"]), link="" if last else f'<{LIST}?n=2&last=b>; rel="next"')(
            handler
        )

    site.put(LIST, behave)
    assert sorted(tags(read_tags(named(site), place, 99))) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("link", "asked"),
    [
        (
            "<http://127.0.0.9:1/v2/me/engine/tags/list?last=a>; rel=next",
            1,
        ),  # another host: the login is not for it
        ("</v2/other/tags/list?last=a>; rel=next", 1),
        ("<not a link", 1),
        (f"<{LIST}?last=a>; rel=next", 2),  # the same page for ever
    ],
)
def test_a_list_leads_nowhere_else_and_ends(site: Site, place: Place, link: str, asked: int) -> None:
    site.put(LIST, listing("a", link=link))
    assert tags(read_tags(named(site), place, 99)) == ["a"]
    assert len(site.requests) == asked


def test_pages_without_an_end_are_cut_and_that_is_said(site: Site, place: Place) -> None:
    def behave(handler: Handler) -> None:
        number = len(site.requests)
        listing(f"t{number}", link=f'<{LIST}?last=t{number}>; rel="next"')(handler)

    site.put(LIST, behave)
    found = read_tags(named(site), place, 99)
    assert len(found.offers) == MAX_PAGES and f"more than {MAX_PAGES} pages" in found.unheard[0]


def test_names_from_outside_are_names_of_tags_or_nothing(site: Site, place: Place) -> None:
    signature = f"sha256-{'0' * 64}.sig"
    site.put(
        LIST, listing("good", "$(reboot)", "a b", "\x1b[2J", "../x", "-rf", 7, None, signature, "x" * 200)
    )
    assert tags(read_tags(named(site), place, 99)) == ["good"]


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        (page(b"<html>", "text/html"), "unknown form"),
        (page(b"[]", "application/json"), "unknown form"),
        (page(b'{"tags": {"a": 1}}', "application/json"), "unknown form"),
        (page(b'{"errors": []}', "application/json"), "unknown form"),
        (page(b"[" * 100_000, "application/json"), "unknown form"),
        (page(b'{"tags": ["' + b"x" * (9 << 20) + b'"]}', "application/json"), "bytes"),
        (status(404), "404"),
        (status(429), "429"),
        (status(503), "503"),
    ],
)
def test_a_registry_that_does_not_answer_is_a_line_and_no_error(
    site: Site, place: Place, behaviour: Behaviour, said: str
) -> None:
    site.put(LIST, behaviour)
    found = read_tags(named(site), place, 99)
    assert found.offers == () and said in found.unheard[0] and named(site) in found.unheard[0]


def test_an_empty_repository_is_no_error(site: Site, place: Place) -> None:
    site.put(LIST, page(b'{"name": "me/engine", "tags": null}', "application/json"))
    assert "none of 0 tags" in read_tags(named(site), place, 9).unheard[0]


def test_what_is_no_repository_is_a_line(place: Place) -> None:
    assert "names no registry" in read_tags("docker://engine:1*", place, 9).unheard[0]
    assert "not the name of an image" in read_tags("docker://h.example/UPPER", place, 9).unheard[0]


def put_image(site: Site, tag: str, layers: list[bytes], told: list[bytes] | None = None) -> None:
    config = config_of(layers if told is None else told)
    blobs = [packed(each, "gzip") for each in layers]
    manifest = json.dumps({
        "schemaVersion": 2,
        "config": {"digest": f"sha256:{sha(config)}", "size": len(config), "mediaType": "x"},
        "layers": [{"digest": f"sha256:{sha(b)}", "size": len(b), "mediaType": "x"} for b in blobs],
    }).encode()  # fmt: skip
    site.put(f"/v2/me/engine/blobs/sha256:{sha(config)}", page(config))
    site.put(f"/v2/me/engine/manifests/{tag}", page(manifest, "application/vnd.oci.image.manifest.v1+json"))


def test_a_registry_says_size_layers_and_digests(site: Site, place: Place) -> None:
    layers = [layer({"a": b"a" * 999}), layer({"b": b"b" * 9999})]
    put_image(site, "1", layers)
    found = measured(Offer(f"{named(site)}:1", "tag"), place, "aarch64")
    assert found.packed is not None and found.size is not None
    assert [each.digest for each in found.packed] == [f"sha256:{sha(each)}" for each in layers]
    assert sum(each.size.count for each in found.packed) == found.size.count
    assert f"sha256:{sha(config_of(layers))}" in found.digests, "by which docker knows the image"
    assert len(site.requests) == 2, "no layer was fetched"


def test_layers_that_do_not_match_their_digests_are_not_told_apart(site: Site, place: Place) -> None:
    put_image(site, "1", [layer({"a": b"a"})], told=[])
    found = measured(Offer(f"{named(site)}:1", "tag"), place, "aarch64")
    assert found.packed is None and found.layers is None and found.size is not None


def test_what_is_not_measured_stays_as_it_is(site: Site, place: Place) -> None:
    offer = Offer(f"{named(site)}:absent", "tag")
    assert measured(offer, place, "aarch64") == offer
    put_image(site, "1", [layer({"a": b"a"})])
    foreign = Offer(f"{named(site)}:1", "tag")
    assert measured(foreign, place, "x86_64") == foreign
