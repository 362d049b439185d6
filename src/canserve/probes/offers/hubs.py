"""A search of public image hubs, which the user asks for: names and sizes of images, and nothing else.

Forms: Docker Hub's ``/v2/search/repositories/`` and ``/v2/namespaces/NAMESPACE/repositories/NAME/tags``; Quay's
``/api/v1/find/repositories`` and ``/api/v1/repository/NAMESPACE/NAME/tag/``; GitHub's ``/search/repositories``, and
the tags of ``ghcr.io/OWNER/NAME`` as its registry lists them. Only the words leave this machine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, urlencode

from canserve.plan.offers.held import merged
from canserve.plan.offers.offer import Gathered, Offer
from canserve.probes.offers.tags import read_tags
from canserve.rules.hubs import Hub, Kind
from canserve.trees.archive.remote import Place
from canserve.trees.image.registry import PREFIX
from canserve.trees.names import printable
from canserve.trees.web.client import WebError
from canserve.units import Bytes

MAX_ANSWER = 4 << 20
MAX_REPOSITORIES = 12
"""Of one hub, whose tags are asked for."""
MAX_PAGES = 2
TAGS_EACH = 3
"""Of one repository, the newest."""
_PAGE = 25
_REPOSITORY = re.compile(r"[a-z0-9]+(?:[._/-]+[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_MOMENT = re.compile(r"20\d\d-\d\d-\d\dT[0-9:.+Z-]{5,30}")


class HubError(Exception):
    """A hub that did not answer as it should, in a line."""


@dataclass(frozen=True, slots=True)
class _Form:
    """How a kind of hub is asked and how it answers."""

    search: Callable[[str, int], str]
    """Words and page, as path and query."""
    found: str
    """Key of the list of repositories."""
    repository: Callable[[Mapping[str, Any]], str | None]
    more: Callable[[Mapping[str, Any]], bool]
    tags: _Tags | None
    """None: the registry itself is asked for them."""


@dataclass(frozen=True, slots=True)
class _Tags:
    """How the tags of a repository are asked for."""

    path: Callable[[str], str]
    listed: str
    """Key of the list of tags."""
    tag: Callable[[Mapping[str, Any], Offer, str | None], Offer | None]


def search(hub: Hub, words: Sequence[str], place: Place, archs: frozenset[str]) -> Gathered:
    """Images that a hub offers for any of these words, newest first. Never raises for what the hub does.

    ``archs``: CPU architectures of the machines, as images name them; images that a hub says are made for
    others only are left out.
    """
    form, asked = _FORMS[hub.kind], _Asked(hub, place)
    unheard: list[str] = []
    repositories: dict[str, None] = {}
    for text in words:
        try:
            repositories.update(dict.fromkeys(_found(form, asked, text)))
        except HubError as error:
            unheard.append(f"{hub.kind} {hub.address}: {error}")
            break
    names = list(repositories)
    if len(names) > MAX_REPOSITORIES:
        unheard.append(
            f"{hub.kind}: {len(names)} repositories; of the first {MAX_REPOSITORIES} the tags were listed"
        )
    offers: list[Offer] = []
    for name in names[:MAX_REPOSITORIES]:
        try:
            offers += _images(form, asked, name, archs)
        except HubError as error:
            unheard.append(f"{hub.kind} {name}: {error}")
    offers.sort(key=lambda offer: offer.date or "", reverse=True)
    return Gathered(merged(offers), tuple(unheard))


def _found(form: _Form, asked: _Asked, text: str) -> Iterator[str]:
    """Names of repositories, in the hub's own order."""
    for page in range(1, MAX_PAGES + 1):
        answer = asked(form.search(text, page))
        for one in _rows(answer, form.found):
            name = form.repository(one)
            if name is not None and len(name) < 256 and _REPOSITORY.fullmatch(name):
                yield name
        if not form.more(answer):
            return


def _images(form: _Form, asked: _Asked, name: str, archs: frozenset[str]) -> list[Offer]:
    if form.tags is None:
        return _in_registry(asked, name)
    answer = asked(form.tags.path(name))
    start = Offer(f"{PREFIX}{asked.hub.registry}/{name}", "search", note=f"found by {asked.hub.kind}")
    only = next(iter(archs)) if len(archs) == 1 else None
    found = []
    for row in _rows(answer, form.tags.listed):
        tag = row.get("name")
        if not isinstance(tag, str) or not _TAG.fullmatch(tag):
            continue
        offer = form.tags.tag(row, replace(start, target=f"{start.target}:{tag}"), only)
        if offer is not None:
            found.append(offer)
    return list(merged(found))[:TAGS_EACH]


def _in_registry(asked: _Asked, name: str) -> list[Offer]:
    """The newest of what lies under a repository's own name; for most there is nothing, which is no trouble."""
    target = f"{PREFIX}{asked.hub.registry}/{name}"
    found = read_tags(target, asked.place, TAGS_EACH)
    if not found.offers and any("HTTP" in line and not _NO_IMAGES.search(line) for line in found.unheard):
        raise HubError(found.unheard[0])
    note = f"found by {asked.hub.kind}"
    return [replace(offer, source="search", note=note) for offer in found.offers]


_NO_IMAGES = re.compile(r"HTTP 40[134]")
"""How registries answer for a repository that they do not have, or that is not for everybody."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """One hub, asked by path."""

    hub: Hub
    place: Place

    def __call__(self, path: str) -> Mapping[str, Any]:
        """Its answer as a JSON object. Raises HubError."""
        try:
            page = self.place.web.page(f"{self.hub.address}{path}", "application/json", MAX_ANSWER)
        except WebError as error:
            raise HubError(error.why) from None
        try:
            told = json.loads(page.body or b"")
        except (ValueError, RecursionError):
            kind = f", but with {printable(page.kind, 40)}" if page.kind else ""
            raise HubError(f"it did not answer with JSON{kind}") from None
        if not isinstance(told, dict):
            raise HubError("it answered with JSON of an unknown form")
        return told


def _rows(answer: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    listed = answer.get(key)
    if not isinstance(listed, list):
        raise HubError(f"its answer has no list of {key}")
    return [one for one in listed[:1000] if isinstance(one, dict)]


def _hub_search(text: str, page: int) -> str:
    return f"/v2/search/repositories/?{urlencode({'query': text, 'page': page, 'page_size': _PAGE})}"


def _hub_repository(one: Mapping[str, Any]) -> str | None:
    """``owner/name``; those of Docker itself have no owner in the answer, and ``library`` in their address."""
    name = one.get("repo_name")
    return (name if "/" in name else f"library/{name}") if isinstance(name, str) else None


def _hub_tags(name: str) -> str:
    owner, _, rest = name.partition("/")
    return (
        f"/v2/namespaces/{quote(owner, safe='')}/repositories/{quote(rest, safe='')}/tags?page_size={_PAGE}"
    )


def _hub_tag(row: Mapping[str, Any], offer: Offer, arch: str | None) -> Offer | None:
    images = row.get("images")
    listed = [one for one in images if isinstance(one, dict)] if isinstance(images, list) else []
    offered = {one.get("architecture"): one for one in listed if one.get("os") in {"linux", None, ""}}
    if arch is not None and offered and arch not in offered:
        return None
    one = offered.get(arch) if arch is not None else None
    return replace(
        offer,
        size=_size(one.get("size")) if one else None,
        digests=frozenset(_digests(row.get("digest"), one.get("digest") if one else None)),
        architecture=arch if one else None,
        date=_moment(row.get("last_updated")),
    )


def _quay_search(text: str, page: int) -> str:
    return f"/api/v1/find/repositories?{urlencode({'query': text, 'page': page})}"


def _quay_repository(one: Mapping[str, Any]) -> str | None:
    owner, name = one.get("namespace"), one.get("name")
    held = owner.get("name") if isinstance(owner, dict) else None
    if one.get("kind") != "repository" or not isinstance(held, str) or not isinstance(name, str):
        return None
    return f"{held}/{name}"


def _quay_tags(name: str) -> str:
    return f"/api/v1/repository/{quote(name)}/tag/?onlyActiveTags=true&limit={_PAGE}&page=1"


def _quay_tag(row: Mapping[str, Any], offer: Offer, arch: str | None) -> Offer | None:
    del arch  # it lists no architectures
    return replace(
        offer,
        size=None if row.get("is_manifest_list") else _size(row.get("size")),
        digests=frozenset(_digests(row.get("manifest_digest"))),
        date=_moment(row.get("last_modified")),
    )


def _size(told: Any) -> Bytes | None:
    return Bytes(told) if type(told) is int and 0 < told < 1 << 45 else None


def _digests(*told: Any) -> Iterator[str]:
    return (each for each in told if isinstance(each, str) and _DIGEST.fullmatch(each))


def _moment(told: Any) -> str | None:
    """ISO 8601, from that or from the form of RFC 5322."""
    if not isinstance(told, str):
        return None
    if _MOMENT.fullmatch(told):
        return told
    try:
        return parsedate_to_datetime(told[:60]).isoformat()
    except (ValueError, TypeError):
        return None


def _github_search(text: str, page: int) -> str:
    return f"/search/repositories?{urlencode({'q': text, 'page': page, 'per_page': _PAGE})}"


def _github_repository(one: Mapping[str, Any]) -> str | None:
    """Image names are in lower case, whatever the repository's is."""
    name = one.get("full_name")
    return name.lower() if isinstance(name, str) and one.get("private") is not True else None


def _github_more(answer: Mapping[str, Any]) -> bool:
    count = answer.get("total_count")
    return type(count) is int and count > _PAGE


_FORMS: dict[Kind, _Form] = {
    "docker-hub": _Form(
        _hub_search,
        "results",
        _hub_repository,
        lambda answer: answer.get("next") is not None,
        _Tags(_hub_tags, "results", _hub_tag),
    ),
    "quay": _Form(
        _quay_search,
        "results",
        _quay_repository,
        lambda answer: answer.get("has_additional") is True,
        _Tags(_quay_tags, "tags", _quay_tag),
    ),
    "github": _Form(_github_search, "items", _github_repository, _github_more, None),
}
