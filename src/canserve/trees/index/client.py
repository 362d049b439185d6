"""Asking the configured indexes for a project, with a short memory; and opening what they offer."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from urllib.parse import unquote, urlsplit

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.trees.archive.remote import Place, missing
from canserve.trees.index.choose import Choice, NoChoice, choose
from canserve.trees.index.default_index import ASK
from canserve.trees.index.pages import ACCEPT, JSON_KIND, File, Link, Offer, PageError, file_of, parse_page
from canserve.trees.index.pip_config import PipConfig
from canserve.trees.names import printable, unavailable, unreadable
from canserve.trees.secret import shown
from canserve.trees.web.client import Page, WebError

FRESH = 600.0
"""Seconds for which a page is believed without asking again."""
MAX_PAGE = 32 << 20
MAX_FOLDER = 20_000


@dataclass(frozen=True, slots=True)
class Found:
    """The file that is meant, and the look that found it."""

    file: File
    notes: tuple[str, ...]
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class _Seen:
    """One place that was asked."""

    offer: Offer | None
    """None: it does not have the project."""
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class _Kept:
    """A page and when it was fetched, in seconds of the epoch."""

    at: float
    page: Page


@dataclass(frozen=True, slots=True)
class Index:
    """All places pip would ask, as one."""

    config: PipConfig | Missing
    place: Place
    clock: Callable[[], float] = field(default=time.time)

    def find(self, requirement: Requirement, arch: str | None, subject: str) -> Fact[Found]:
        """The file that this requirement means."""
        if isinstance(self.config, Missing):
            return self.config
        answers = list(self._answers(self.config, requirement.name, subject))
        seen = [answer for answer in answers if isinstance(answer, _Seen)]
        failed = [answer for answer in answers if isinstance(answer, Missing)]
        files = {file.name: file for a in reversed(seen) if a.offer for file in a.offer.files}
        evidence = tuple(answer.evidence for answer in seen)
        choice = choose(list(files.values()), requirement, arch)
        if isinstance(choice, Choice):
            notes = [*choice.notes, *(f"not asked in full: {one.why}" for one in failed)]
            return Known(Found(choice.file, tuple(notes), evidence), evidence)
        if failed:  # what was not seen may hold it
            return Missing(failed[0].cause, failed[0].why, failed[0].evidence + evidence, failed[0].ask)
        return _not_offered(choice, requirement, evidence, bool(self.config.indexes))

    def offered(self, project: str, subject: str) -> Fact[tuple[File, ...]]:
        """Every file of a project that all places together offer; Missing when one could not be asked."""
        if isinstance(self.config, Missing):
            return self.config
        answers = list(self._answers(self.config, project, subject))
        failed = [answer for answer in answers if isinstance(answer, Missing)]
        if failed:
            return failed[0]
        seen = [answer for answer in answers if isinstance(answer, _Seen)]
        files = {file.name: file for a in reversed(seen) if a.offer for file in a.offer.files}
        return Known(tuple(files.values()), tuple(answer.evidence for answer in seen))

    def _answers(self, config: PipConfig, project: str, subject: str) -> Iterator[_Seen | Missing]:
        if config.unknown_default:
            yield config.unknown_default
        name = canonicalize_name(project)
        for url in config.indexes:
            yield self._ask(f"{url.rstrip('/')}/{name}/", name, subject)
        for link in config.find_links:
            folder = _local(link)
            yield _folder(folder, name, subject) if folder else self._ask(link, name, subject)

    def _ask(self, url: str, project: str, subject: str) -> _Seen | Missing:
        folder = _local(url)
        asked = self._page(url, subject) if folder is None else _file_page(folder, url, subject)
        if asked is None:
            return _Seen(None, Evidence(subject, shown(url), "no such project there"))
        if isinstance(asked, Missing):
            return asked
        at, page = (asked.at, asked.page) if isinstance(asked, _Kept) else (self.clock(), asked)
        try:
            offer = parse_page(page.body or b"", page.kind, page.url, project)
        except PageError as error:
            return unreadable(subject, shown(url), str(error))
        left_out = f", {offer.unusable} others that cannot be installed" if offer.unusable else ""
        when = datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
        saw = f"{len(offer.files)} files{left_out}"
        return _Seen(offer, Evidence(subject, shown(url), saw, when=when))

    def _page(self, url: str, subject: str) -> _Kept | Missing | None:
        """A page from the cache while it is fresh, else from the server; None: it answered 404."""
        key = hashlib.sha256(url.encode()).hexdigest()
        kept = self._kept(key)
        if kept and (self.place.web.offline or 0 <= self.clock() - kept.at < FRESH):
            return kept
        try:
            page = self.place.web.page(url, ACCEPT, MAX_PAGE, kept.page.etag if kept else None)
        except WebError as error:
            return None if error.status in {404, 410} else missing(error, subject, shown(url))
        if page.body is None and kept:
            page = kept.page
        return self._keep(key, page)

    def _kept(self, key: str) -> _Kept | None:
        data = self.place.cache.get("pages", key)
        if data is None:
            return None
        head, _, body = data.partition(b"\n")
        try:
            values = json.loads(head)
            return _Kept(float(values["at"]), Page(body, values["kind"], values["etag"], values["url"]))
        except (ValueError, KeyError, TypeError):
            return None

    def _keep(self, key: str, page: Page) -> _Kept:
        at = self.clock()
        head = json.dumps({"at": at, "kind": page.kind, "etag": page.etag, "url": page.url})
        self.place.cache.put("pages", key, head.encode() + b"\n" + (page.body or b""))
        return _Kept(at, page)


def _not_offered(
    choice: NoChoice, requirement: Requirement, evidence: tuple[Evidence, ...], asked: bool
) -> Missing:
    near = f"; nearest: {', '.join(choice.near)}" if choice.near else ""
    ask = "check the name, or add the index that has it to PIP_EXTRA_INDEX_URL"
    if choice.near:
        ask = f"name one of {requirement.name}'s releases"
    elif not asked:
        ask = ASK
    where = "" if asked else " (pip is configured to use no index)"
    return Missing(Cause.UNAVAILABLE, printable(f"{choice.why}{where}{near}", 400), evidence, ask)


def _local(url: str) -> Path | None:
    """The folder or file that an address without a server means."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return None if parts.scheme in {"http", "https"} else Path(url).expanduser()


def _file_page(path: Path, url: str, subject: str) -> Page | Missing | None:
    """``index.html`` (or PEP 691's JSON) in a folder that is laid out as an index."""
    base = path.absolute().as_uri().rstrip("/") + "/"
    for name, kind in (("index.json", JSON_KIND), ("index.html", "text/html")):
        try:
            with (path / name).open("rb") as handle:
                body = handle.read(MAX_PAGE + 1)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            return unavailable(subject, url, error.strerror or "cannot be read")
        if len(body) > MAX_PAGE:
            return unreadable(subject, url, f"more than {MAX_PAGE} bytes")
        return Page(body, kind, None, base)
    return None


def _folder(path: Path, project: str, subject: str) -> _Seen | Missing:
    """A folder of files, as ``--find-links`` takes it; or one file, or one page that names some."""
    try:
        if path.suffix in {".html", ".htm"}:
            offer = parse_page(path.read_bytes()[:MAX_PAGE], "text/html", path.absolute().as_uri(), project)
            return _Seen(offer, Evidence(subject, str(path), f"{len(offer.files)} files"))
        paths = [path] if path.is_file() else list(islice(path.iterdir(), MAX_FOLDER))
    except FileNotFoundError:
        return _Seen(None, Evidence(subject, str(path), "no such folder"))
    except PageError as error:
        return unreadable(subject, str(path), str(error))
    except OSError as error:
        return unavailable(subject, str(path), error.strerror or "cannot be listed")
    links = (Link(p.name, p.absolute().as_uri(), {}) for p in sorted(paths) if p.name.isprintable())
    files = [file for link in links if (file := file_of(link, "", project)) is not None]
    return _Seen(Offer(tuple(files)), Evidence(subject, str(path), f"{len(files)} files of {project}"))
