"""The pages of a simple index: PEP 503 (HTML), PEP 691 (JSON), with PEP 592, 658, 700 and 714."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from urllib.parse import urldefrag, urljoin

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
JSON_KIND = "application/vnd.pypi.simple.v1+json"
MAX_FILES = 50_000
MAX_TEXT = 2_000


@dataclass(frozen=True, slots=True)
class File:
    """One file of a project that the index offers."""

    name: str
    url: str
    version: Version
    build: tuple[int, str] | None
    """Build tag of a wheel, ``(0, "")`` for none; None: not a wheel."""
    pythons: tuple[str, ...]
    """``cp38``, ``py3``; empty for a source distribution."""
    platforms: tuple[str, ...]
    """``manylinux1_x86_64``, ``any``; empty for a source distribution."""
    sha256: str | None = None
    size: int | None = None
    requires_python: str | None = None
    yanked: str | None = None
    """The reason, perhaps empty; None: it is not yanked."""
    metadata_sha256: str | None = None
    """Digest of the METADATA file that lies beside it at ``url.metadata``; None: there is none."""
    uploaded: str | None = None
    """When it was uploaded, UTC, ISO 8601 (PEP 700); None: the page does not say."""

    @property
    def is_wheel(self) -> bool:
        """Whether it is a wheel."""
        return self.build is not None


@dataclass(frozen=True, slots=True)
class Offer:
    """What one page says."""

    files: tuple[File, ...]
    unusable: int = 0
    """Files of other kinds, or with names that no installer can read."""


class PageError(ValueError):
    """A page that is not of a known form."""


def parse_page(body: bytes, kind: str, url: str, project: str) -> Offer:
    """Read a page of either form. Raises PageError."""
    try:
        if kind.endswith("+json") or kind == "application/json":
            links = list(_json_links(body))
        else:
            links = list(_html_links(body, url))
    except (ValueError, RecursionError) as error:
        raise PageError(f"not a readable index page: {str(error)[:200]}") from None
    if len(links) > MAX_FILES:
        raise PageError(f"more than {MAX_FILES} files")
    files = [file for link in links if (file := file_of(link, url, project)) is not None]
    return Offer(tuple(files), len(links) - len(files))


@dataclass(frozen=True, slots=True)
class Link:
    """One file as its page states it, nothing believed yet."""

    name: str
    url: str
    hashes: Mapping[str, object]
    size: object = None
    requires_python: object = None
    yanked: object = False
    metadata: object = False
    uploaded: object = None


def file_of(link: Link, base: str, project: str) -> File | None:
    """The file behind a link; None when it is none of this project that pip could install."""
    named = _named(link.name)
    if named is None or named[0] != canonicalize_name(project):
        return None
    _, version, build, pythons, platforms = named
    url, sha256 = _without_fragment(urljoin(base, link.url))
    size = link.size if isinstance(link.size, int) and 0 < link.size < 1 << 50 else None
    return File(
        link.name, url, version, build, pythons, platforms,
        _digest(link.hashes.get("sha256")) or sha256,
        size,
        link.requires_python[:MAX_TEXT] if isinstance(link.requires_python, str) else None,
        _yanked(link.yanked),
        _digest(link.metadata.get("sha256")) if isinstance(link.metadata, Mapping) else None,
        link.uploaded[:MAX_TEXT] if isinstance(link.uploaded, str) else None,
    )  # fmt: skip


def _named(
    name: str,
) -> tuple[str, Version, tuple[int, str] | None, tuple[str, ...], tuple[str, ...]] | None:
    """Project, version, build tag, interpreters and platforms, as the file name states them."""
    try:
        if name.endswith(".whl"):
            project, version, build, tags = parse_wheel_filename(name)
            pythons = tuple(sorted({tag.interpreter for tag in tags}))
            platforms = tuple(sorted({tag.platform for tag in tags}))
            return project, version, build or (0, ""), pythons, platforms
        project, version = parse_sdist_filename(name)
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
        return None
    return project, version, None, (), ()


def _without_fragment(url: str) -> tuple[str, str | None]:
    bare, fragment = urldefrag(url)
    match = re.search(r"(?:^|&)sha256=([0-9a-fA-F]{64})(?:&|$)", fragment)
    return bare, match[1].lower() if match else None


def _digest(value: object) -> str | None:
    return value.lower() if isinstance(value, str) and re.fullmatch(r"[0-9a-fA-F]{64}", value) else None


def _yanked(value: object) -> str | None:
    if isinstance(value, str):
        return value[:MAX_TEXT]
    return "" if value is True else None


def _html_links(body: bytes, url: str) -> Iterator[Link]:
    from canserve.trees.index.anchors import anchors

    api, base, links = anchors(body)
    check_api(api)
    root = urljoin(url, base) if base else url
    return (replace(link, url=urljoin(root, link.url)) for link in links)


def _json_links(body: bytes) -> Iterator[Link]:
    page = json.loads(body)
    if not isinstance(page, dict) or not isinstance(page.get("files"), list):
        raise PageError("JSON without a list of files")
    check_api(page.get("meta", {}).get("api-version") if isinstance(page.get("meta"), dict) else None)
    for entry in page["files"]:
        if not isinstance(entry, dict):
            continue
        name, url, hashes = entry.get("filename"), entry.get("url"), entry.get("hashes")
        if isinstance(name, str) and isinstance(url, str):
            yield Link(
                name, url, hashes if isinstance(hashes, dict) else {}, entry.get("size"),
                entry.get("requires-python"), entry.get("yanked", False),
                entry.get("core-metadata", entry.get("dist-info-metadata", False)),
                entry.get("upload-time"),
            )  # fmt: skip


def check_api(version: object) -> None:
    """Refuse a major version that is not known. Raises PageError."""
    if version is not None and str(version).partition(".")[0] != "1":
        raise PageError(f"version {str(version)[:20]!r} of the index format is not known here")
