"""A search of hubs that answer in the documented forms, and of some that do not."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from canserve.plan.offers.offer import Gathered
from canserve.probes.offers.hubs import MAX_PAGES, MAX_REPOSITORIES, search
from canserve.rules.hubs import Hub, Kind, hubs, words
from canserve.trees.archive.remote import Place
from canserve.trees.cache import Cache
from canserve.trees.web.client import Web
from canserve.units import Bytes
from web_server import Behaviour, Site, page, status

ARM = frozenset({"arm64"})
DIGEST = f"sha256:{'a' * 64}"
SEARCHES: dict[Kind, str] = {
    "docker-hub": "/v2/search/repositories/",
    "quay": "/api/v1/find/repositories",
    "github": "/search/repositories",
}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(Web(pause=lambda _: None), Cache(tmp_path), lambda _: None)


def answer(told: object) -> Behaviour:
    return page(json.dumps(told).encode(), "application/json")


def hub_of(site: Site, kind: Kind = "docker-hub") -> Hub:
    return Hub(kind, site.url, "registry.example")


def docker_hub(site: Site, *names: str, more: str | None = None) -> None:
    """Repositories that a search finds, in Docker Hub's form."""
    rows = [
        {"repo_name": name, "short_description": "x", "star_count": 1, "pull_count": 9, "is_official": False}
        for name in names
    ]
    site.put(
        SEARCHES["docker-hub"], answer({"count": len(rows), "next": more, "previous": "", "results": rows})
    )


def docker_tag(name: str, *archs: str, **other: object) -> dict[str, object]:
    images = [{"architecture": arch, "os": "linux", "size": 7_000_000_000, "digest": DIGEST, "status": "active"}
              for arch in archs]  # fmt: skip
    return {"name": name, "full_size": 8_000_000_000, "last_updated": "2026-03-08T10:00:00.5Z", "images": images,
            "digest": f"sha256:{name.encode().hex():0<64}"[:71], **other}  # fmt: skip


def put_tags(site: Site, name: str, *rows: object) -> None:
    owner, _, rest = name.partition("/")
    told = {"count": len(rows), "next": None, "previous": None, "results": list(rows)}
    site.put(f"/v2/namespaces/{owner}/repositories/{rest}/tags", answer(told))


def names(found: Gathered) -> list[str]:
    return [offer.target for offer in found.offers]


def test_docker_hub(site: Site, place: Place) -> None:
    docker_hub(site, "team/spark-engine", "other/engine")
    put_tags(site, "team/spark-engine", docker_tag("old", "amd64"), docker_tag("new", "arm64", "amd64"))
    put_tags(site, "other/engine", docker_tag("1", "arm64", last_updated="2026-05-01T00:00:00Z",
                                              images=[{"architecture": "arm64", "os": "linux", "size": 5}]))  # fmt: skip
    found = search(hub_of(site), ["engine spark"], place, ARM)
    assert names(found) == [
        "docker://registry.example/other/engine:1",
        "docker://registry.example/team/spark-engine:new",
    ]
    newest, second = found.offers
    assert newest.size == Bytes(5) and second.size == Bytes(7_000_000_000)
    assert second.date == "2026-03-08T10:00:00.5Z" and DIGEST in second.digests
    assert {offer.source for offer in found.offers} == {"search"} and found.unheard == ()


def test_only_the_words_are_sent(site: Site, place: Place) -> None:
    docker_hub(site, "team/engine")
    put_tags(site, "team/engine", docker_tag("1", "arm64"))
    search(hub_of(site), ["engine & spark"], place, ARM)
    asked = [urlsplit(request.path) for request in site.requests]
    assert parse_qs(asked[0].query)["query"] == ["engine & spark"]
    assert [each.path for each in asked] == [
        SEARCHES["docker-hub"],
        "/v2/namespaces/team/repositories/engine/tags",
    ]
    assert not any({"authorization", "cookie", "referer"} & set(request.headers) for request in site.requests)


def test_images_of_the_hub_itself_and_several_architectures(site: Site, place: Place) -> None:
    docker_hub(site, "engine")
    put_tags(site, "library/engine", docker_tag("1", "arm64", "amd64"))
    found = search(hub_of(site), ["x"], place, frozenset({"arm64", "amd64"}))
    assert names(found) == ["docker://registry.example/library/engine:1"]
    assert found.offers[0].size is None, "of which architecture, is not decided"


def test_tags_of_the_same_image_are_one(site: Site, place: Place) -> None:
    docker_hub(site, "team/engine")
    put_tags(site, "team/engine", docker_tag("latest", "arm64"), docker_tag("0.17", "arm64"))
    (offer,) = search(hub_of(site), ["x"], place, ARM).offers
    assert offer.also == ("docker://registry.example/team/engine:0.17",)


def test_quay(site: Site, place: Place) -> None:
    rows = [
        {
            "kind": "repository",
            "name": "engine",
            "namespace": {"name": "team", "kind": "organization"},
            "score": 1.0,
        },
        {"kind": "application", "name": "chart", "namespace": {"name": "team"}},
        {"kind": "repository", "name": "odd", "namespace": "team"},
    ]
    site.put(
        SEARCHES["quay"],
        answer({"results": rows, "has_additional": False, "page": 1, "page_size": 10, "start_index": 0}),
    )
    tags = [
        {"name": "1", "size": 99, "manifest_digest": DIGEST, "last_modified": "Sun, 08 Mar 2026 10:00:00 -0000",
         "is_manifest_list": False},
        {"name": "2", "size": None, "is_manifest_list": True, "last_modified": "nonsense"},
    ]  # fmt: skip
    site.put(
        "/api/v1/repository/team/engine/tag/", answer({"tags": tags, "page": 1, "has_additional": False})
    )
    first, second = search(hub_of(site, "quay"), ["x"], place, ARM).offers
    assert (first.target, first.size) == ("docker://registry.example/team/engine:1", Bytes(99))
    assert first.date is not None and first.date.startswith("2026-03-08T10:00:00")
    assert (second.size, second.date) == (None, None)


def test_pages_and_repositories_are_bounded_and_that_is_said(site: Site, place: Place) -> None:
    many = [f"team/engine{number}" for number in range(MAX_REPOSITORIES + 5)]
    docker_hub(site, *many, more="https://hub.example/v2/search/repositories/?page=2")
    found = search(hub_of(site), ["x"], place, ARM)
    asked = [request.path for request in site.requests]
    assert sum(path.startswith(SEARCHES["docker-hub"]) for path in asked) == MAX_PAGES
    assert len(asked) == MAX_PAGES + MAX_REPOSITORIES
    assert f"{len(many)} repositories; of the first {MAX_REPOSITORIES}" in found.unheard[0]
    assert sum("404" in line for line in found.unheard) == MAX_REPOSITORIES, (
        "each that did not answer is named"
    )


def test_names_from_outside_are_names_of_images_or_nothing(site: Site, place: Place) -> None:
    docker_hub(site, "team/$(reboot)", "te am/x", "team/\x1b[2J", "../../etc", "-x/y", "a" * 300, "team/good")
    put_tags(site, "team/good", docker_tag("ok", "arm64"), docker_tag("; rm -rf /", "arm64"), {"name": 5}, 7)
    found = search(hub_of(site), ["x"], place, ARM)
    assert names(found) == ["docker://registry.example/team/good:ok"]
    assert found.offers[0].also == () and len(site.requests) == 2, "of the others nothing was asked"


def test_figures_that_cannot_be_are_not_taken(site: Site, place: Place) -> None:
    docker_hub(site, "team/engine")
    odd = [{"architecture": "arm64", "os": "linux", "size": size} for size in (-5, True, "7", 1 << 60)]
    rows = [docker_tag(f"t{n}", images=[one], digest=f"sha256:{n}") for n, one in enumerate(odd)]
    put_tags(site, "team/engine", *rows)
    assert {offer.size for offer in search(hub_of(site), ["x"], place, ARM).offers} == {None}


def test_github_repositories_and_the_images_under_their_names(site: Site, place: Place) -> None:
    rows = [{"full_name": "Team/Engine", "private": False}, {"full_name": "x/without"}, {"full_name": "y/busy"},
            {"full_name": "z/secret", "private": True}, {"full_name": 5}]  # fmt: skip
    site.put(SEARCHES["github"], answer({"total_count": 5, "incomplete_results": False, "items": rows}))
    tags = ["nightly", "0.17.1", "0.14.0", "0.9", f"sha256-{'0' * 64}.sig"]
    site.put("/v2/team/engine/tags/list", answer({"name": "team/engine", "tags": tags}))
    site.put("/v2/x/without/tags/list", status(403))
    site.put("/v2/y/busy/tags/list", status(503))
    registry = site.url.removeprefix("http://")
    found = search(Hub("github", site.url, registry), ["engine"], place, ARM)
    assert names(found) == [f"docker://{registry}/team/engine:{tag}" for tag in ("0.17.1", "0.14.0", "0.9")]
    assert {offer.source for offer in found.offers} == {"search"}
    (line,) = found.unheard
    assert "y/busy" in line and "503" in line, (
        "a repository without images is no trouble, a registry that fails is"
    )


@pytest.mark.parametrize("kind", ["docker-hub", "quay", "github"])
@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        (page(b"<html>rate limited</html>", "text/html"), "did not answer with JSON, but with text/html"),
        (answer([]), "JSON of an unknown form"),
        (answer({"detail": "x"}), "has no list of "),
        (answer({"results": {"a": 1}, "items": 7}), "has no list of "),
        (page(b"{" * 50_000, "application/json"), "did not answer with JSON"),
        (page(b" " * (5 << 20), "application/json"), "bytes"),
        (status(429), "429"),
        (status(500), "500"),
        (status(403), "403"),
    ],
)
def test_a_hub_that_does_not_answer_is_a_line_and_no_error(
    site: Site, place: Place, kind: Kind, behaviour: Behaviour, said: str
) -> None:
    site.put(SEARCHES[kind], behaviour)
    found = search(hub_of(site, kind), ["one", "two"], place, ARM)
    assert found.offers == () and len(found.unheard) == 1
    assert said in found.unheard[0] and found.unheard[0].startswith(f"{kind} {site.url}: ")


def test_the_public_hubs_are_those_that_the_tools_document() -> None:
    assert {(hub.kind, hub.registry) for hub in hubs()} == {
        ("docker-hub", "docker.io"),
        ("quay", "quay.io"),
        ("github", "ghcr.io"),
    }
    assert all(hub.address.startswith("https://") and not hub.address.endswith("/") for hub in hubs())
    assert words()
