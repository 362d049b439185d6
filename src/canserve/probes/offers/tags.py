"""The tags of a repository in a registry, by the OCI distribution specification 1.1 (``tags/list``)."""

from __future__ import annotations

import json
import re
import types
from dataclasses import replace
from fnmatch import fnmatchcase
from urllib.parse import urljoin, urlsplit

from packaging.version import InvalidVersion, Version

from canserve.plan.offers.offer import Gathered, Layer, Offer
from canserve.trees.archive.remote import Place
from canserve.trees.image.registry import PREFIX, Registry
from canserve.trees.names import printable, unreadable
from canserve.trees.tree import TreeError
from canserve.units import Bytes

MAX_PAGES = 50
MAX_TAGS = 20_000
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_NEXT = re.compile(r'<([^<>]{1,2000})>\s*;\s*rel="?next"?', re.IGNORECASE)
_NUMBER = re.compile(r"v?(\d+(?:\.\d+)+(?:[._-]?(?:a|b|rc|post|dev)\d+)*)", re.IGNORECASE)
_SIGNATURE = re.compile(r"sha256-[0-9a-f]{64}(\.[a-z]+)?")
"""Names under which signatures and attestations are kept beside images."""


def read_tags(spec: str, place: Place, most: int) -> Gathered:
    """The images of ``docker://HOST/REPOSITORY[:GLOB]``, those with the highest version numbers first.

    Never raises for what the registry does: what could not be listed is said in a line.
    """
    repository, glob = _split(spec)
    try:
        registry = Registry(repository, place)
        found, cut = _listed(registry)
    except TreeError as error:
        return Gathered(unheard=(f"{printable(spec)}: {error.missing.why}",))
    chosen = sorted((tag for tag in found if fnmatchcase(tag, glob)), key=_newest, reverse=True)
    unheard = [f"{printable(repository)}: {cut}"] if cut else []
    if len(chosen) > most:
        unheard.append(f"{printable(spec)}: {len(chosen)} tags; the {most} that seem newest are judged")
    if not chosen and not unheard:
        unheard.append(f"{printable(spec)}: none of {len(found)} tags is named so")
    return Gathered(tuple(Offer(f"{repository}:{tag}", "tag") for tag in chosen[:most]), tuple(unheard))


def _split(spec: str) -> tuple[str, str]:
    """``docker://host:5000/name:0.17*`` -> the repository and the glob; a port is no glob."""
    rest = spec if spec.startswith(PREFIX) else f"{PREFIX}{spec}"
    start, colon, last = rest.rpartition(":")
    return (start, last or "*") if colon and "/" not in last else (rest, "*")


def _listed(registry: Registry) -> tuple[list[str], str | None]:
    """All tags, and why the list is cut, if it is."""
    base = registry.base
    url: str | None = f"{base}/tags/list?n=1000"
    found: dict[str, None] = {}
    for _ in range(MAX_PAGES):
        if url is None:
            return list(found), None
        page = registry.page(url)
        before = len(found)
        found.update(dict.fromkeys(_tags(page.body or b"", registry.subject)))
        url = _next(page.link, page.url, base)
        if len(found) > MAX_TAGS:
            return list(found)[:MAX_TAGS], f"more than {MAX_TAGS} tags"
        if url is not None and len(found) == before:
            return list(found), "its list of tags goes on without an end; what came first was taken"
    return list(found), f"its list of tags has more than {MAX_PAGES} pages"


def _tags(body: bytes, subject: str) -> list[str]:
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict) or not isinstance(told.get("tags", ""), list | types.NoneType):
        raise TreeError(
            unreadable(subject, "tags/list", "the registry answered tags/list in an unknown form")
        )
    listed = told["tags"] or ()  # an empty repository's list is null
    good = (tag for tag in listed if isinstance(tag, str) and _TAG.fullmatch(tag))
    return [tag for tag in good if not _SIGNATURE.fullmatch(tag)]


def _next(link: str, url: str, base: str) -> str | None:
    """Where the list goes on: on the same host and path only, as the login is meant for these."""
    found = _NEXT.search(link)
    if found is None:
        return None
    onward = urljoin(url, found[1])
    return onward if urlsplit(onward)[:3] == urlsplit(f"{base}/tags/list")[:3] else None


def _newest(tag: str) -> tuple[Version, str]:
    """By the version number that stands in it; tags without one come last."""
    found = _NUMBER.search(tag)
    try:
        return (Version(found[1]) if found else Version("0"), tag)
    except InvalidVersion:
        return (Version("0"), tag)


def measured(offer: Offer, place: Place, arch: str | None) -> Offer:
    """The same with what its registry says of its size and layers; unchanged where it does not say it."""
    try:
        pulled = Registry(offer.target, place).pull(arch)
    except TreeError:
        return offer
    layers, unpacked = pulled.manifest.layers, pulled.config.diff_ids
    packed = None
    if len(layers) == len(unpacked):
        packed = tuple(
            Layer(digest, Bytes(layer.size)) for digest, layer in zip(unpacked, layers, strict=True)
        )
    return replace(
        offer,
        digests=offer.digests | {pulled.digest, pulled.manifest.config.digest},
        size=Bytes(sum(layer.size for layer in layers)),
        packed=packed,
        layers=unpacked or None,
        date=pulled.config.created or offer.date,
    )
