"""A file on a server, read by byte ranges through the cache; whole, where ranges are refused."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from canserve.facts import Cause, Evidence, Missing
from canserve.trees.archive.blob import FileBlob, Span
from canserve.trees.cache import Cache
from canserve.trees.fanout import fanout
from canserve.trees.names import unavailable, unreadable
from canserve.trees.tree import Cost, TreeError
from canserve.trees.web.client import Range, RangesRefusedError, Web, WebError

MAX_WHOLE = 4 << 30
"""Largest file that is downloaded whole, in bytes."""
_SPARE = 256 << 20


@dataclass(frozen=True, slots=True)
class Remote:
    """A file on a server, as an index describes it."""

    url: str
    name: str
    """File name."""
    sha256: str | None = None
    """Hexadecimal; without it nothing is cached, for nothing says what the content should be."""
    size: int | None = None
    explain: Callable[[WebError], Missing] | None = field(default=None, compare=False, repr=False)
    """A failed request in the words of whoever named the file; None: in an index's."""


def _quiet(message: str) -> None:
    del message


@dataclass(frozen=True, slots=True)
class Place:
    """The way to a file: over which connections, through which cache, and who is told about long waits."""

    web: Web
    cache: Cache
    tell: Callable[[str], None] = field(default=_quiet)


class RemoteBlob:
    """Ranges of a remote file."""

    def __init__(self, remote: Remote, place: Place, subject: str) -> None:
        self._remote = remote
        self._place = place
        self._subject = subject
        self._url = remote.url
        self._size = remote.size
        self._tail: tuple[int, bytes] | None = None
        self._whole: FileBlob | None = None
        self._kind = f"spans-{remote.sha256}"
        self._lock = threading.Lock()
        self._kept: dict[Span, bool] = dict.fromkeys(_spans(place.cache, self._kind), False)
        self.refused: str | None = None
        """Why the file was downloaded whole; None: it was not."""
        if remote.sha256 and (path := place.cache.file("files", remote.sha256)):
            self._whole = FileBlob(path, subject)
            self._size = self._whole.size
        elif remote.sha256 and self._size is None:  # HTML indexes do not state it
            self._size = _number(place.cache.get(self._kind, "size"))

    @property
    def cost(self) -> Cost:
        """Of all requests over these connections."""
        return self._place.web.cost

    @property
    def size(self) -> int:
        """In bytes, as the index says or the server said."""
        if self._size is None:
            self.tail(1)
        assert self._size is not None
        return self._size

    def held(self, span: Span) -> bool:
        """Whether these bytes need no request."""
        return self._whole is not None or self._in_tail(span) or self._around(span) is not None

    def tail(self, count: int) -> bytes:
        """The last bytes."""
        if self._whole is not None:
            return self._whole.tail(count)
        if self._size is not None:
            span = (max(0, self._size - count), self._size)
            data = self.spans([span])[0]
        else:
            got = self._ranged(lambda url: self._place.web.tail(url, count))
            if got is None:
                return self.tail(count)
            self._size, data = got.total, got.data
            if self._remote.sha256:
                self._place.cache.put(self._kind, "size", str(got.total).encode())
            self._keep((got.total - len(data), got.total), data)
        self._tail = (len(data), data)
        return data

    def spans(self, wanted: Sequence[Span]) -> list[bytes]:
        """Runs of bytes, several at once over the network."""
        got = [self._here(span) for span in wanted]
        absent = [span for span, data in zip(wanted, got, strict=True) if data is None]
        if not absent:
            return [data for data in got if data is not None]
        fetched = dict(zip(absent, fanout(self._fetch, absent), strict=True))
        return [fetched[span] if data is None else data for span, data in zip(wanted, got, strict=True)]

    def passing(self) -> RemoteBlob:
        """Without keeping what is read; the file itself where it is here already."""
        if self._whole is not None:
            return self
        bare = replace(self._remote, sha256=None, size=self._size)
        return RemoteBlob(bare, self._place, self._subject)

    def forget(self, span: Span) -> None:
        """Drop what is kept around these bytes."""
        if self._whole is not None and self._remote.sha256:
            self._place.cache.drop("files", self._remote.sha256)
            self._whole = None
        while (kept := self._around(span)) is not None:
            self._drop(kept)

    def _here(self, span: Span) -> bytes | None:
        start, end = span
        if self._whole is not None:
            return self._whole.spans([span])[0]
        if self._tail is not None and self._in_tail(span):
            assert self._size is not None
            base = self._size - self._tail[0]
            return self._tail[1][start - base : end - base]
        while (kept := self._around(span)) is not None:
            data = self._from_cache(kept, span)
            if data is not None:
                return data
            self._drop(kept)
        return None

    def _from_cache(self, kept: Span, span: Span) -> bytes | None:
        key, offset = f"{kept[0]}-{kept[1]}", span[0] - kept[0]
        if self._kept.get(kept):  # its digest was verified before
            return self._place.cache.part(self._kind, key, offset, span[1] - span[0])
        data = self._place.cache.get(self._kind, key)
        if data is None or len(data) != kept[1] - kept[0]:
            return None
        with self._lock:
            self._kept[kept] = True
        return data[offset : offset + span[1] - span[0]]

    def _around(self, span: Span) -> Span | None:
        with self._lock:
            return next((k for k in self._kept if k[0] <= span[0] and span[1] <= k[1]), None)

    def _in_tail(self, span: Span) -> bool:
        return self._tail is not None and self._size is not None and span[0] >= self._size - self._tail[0]

    def _keep(self, span: Span, data: bytes) -> None:
        if self._remote.sha256 and self._place.cache.put(self._kind, f"{span[0]}-{span[1]}", data):
            with self._lock:
                self._kept[span] = True

    def _drop(self, kept: Span) -> None:
        self._place.cache.drop(self._kind, f"{kept[0]}-{kept[1]}")
        with self._lock:
            self._kept.pop(kept, None)

    def _fetch(self, span: Span) -> bytes:
        got = None if self._whole else self._ranged(lambda url: self._place.web.span(url, *span))
        if got is None:
            assert self._whole is not None
            return self._whole.spans([span])[0]
        if len(got.data) != span[1] - span[0]:
            why = f"ends at byte {got.total}, before byte {span[1]}"
            raise TreeError(unreadable(self._subject, self._remote.name, why))
        self._keep(span, got.data)
        return got.data

    def _ranged(self, ask: Callable[[str], Range]) -> Range | None:
        """One range; None: the server refuses ranges, and the whole file is here now."""
        try:
            try:
                got = ask(self._url)
            except WebError as error:
                # The address a redirect led to may be valid for minutes only; the index's own is tried again.
                if self._url == self._remote.url or error.status not in {401, 403, 404, 410}:
                    raise
                got = ask(self._remote.url)
        except RangesRefusedError as error:
            self._download(str(error))
            return None
        except WebError as error:
            raise TreeError(_told(error, self._subject, self._remote)) from None
        if self._size is not None and got.total != self._size:
            why = f"has {got.total} bytes on the server, {self._size} in the index"
            raise TreeError(unreadable(self._subject, self._remote.name, why))
        self._url = got.url
        return got

    def _download(self, because: str) -> None:
        with self._lock:
            if self._whole is None:
                self._whole = download(self._remote, self._place, self._subject)
                self.refused = because
                self._size = self._whole.size


class WholeBlob:
    """A remote file that is downloaded whole when bytes of it are first needed."""

    def __init__(self, remote: Remote, place: Place, subject: str) -> None:
        self._remote = remote
        self._place = place
        self._subject = subject
        self._whole: FileBlob | None = None

    @property
    def cost(self) -> Cost:
        """Of all requests over these connections."""
        return self._place.web.cost

    @property
    def size(self) -> int:
        """In bytes."""
        return self._file().size

    def held(self, span: Span) -> bool:
        """Whether it was downloaded already."""
        del span
        return self._whole is not None

    def tail(self, count: int) -> bytes:
        """The last bytes."""
        return self._file().tail(count)

    def spans(self, wanted: Sequence[Span]) -> list[bytes]:
        """Runs of bytes."""
        return self._file().spans(wanted)

    def forget(self, span: Span) -> None:
        """Its digest was right; nothing else can be had."""

    def _file(self) -> FileBlob:
        if self._whole is None:
            self._whole = download(self._remote, self._place, self._subject)
        return self._whole


def _number(data: bytes | None) -> int | None:
    return int(data) if data is not None and data.isdigit() else None


def _spans(cache: Cache, kind: str) -> list[Span]:
    found = []
    for key in cache.keys(kind):
        start, dash, end = key.partition("-")
        if dash and start.isdecimal() and end.isdecimal():
            found.append((int(start), int(end)))
    return found


def download(remote: Remote, place: Place, subject: str) -> FileBlob:
    """The whole file, through the cache, its digest verified. Raises TreeError."""
    if remote.sha256 and (path := place.cache.file("files", remote.sha256)):
        return FileBlob(path, subject)
    limit = MAX_WHOLE if remote.size is None else remote.size
    if limit > MAX_WHOLE:
        why = f"{limit} bytes, more than the {MAX_WHOLE} that are downloaded"
        raise TreeError(unreadable(subject, remote.name, why))
    size = f" ({limit / 1e6:.0f} MB)" if remote.size else ""
    place.tell(f"downloading {remote.name}{size} whole")
    try:
        with place.cache.new() as (path, handle):
            free = shutil.disk_usage(path.parent).free
            if remote.size and free < remote.size + _SPARE:
                why = f"{remote.size} bytes do not fit into the cache: {free} are free"
                ask = "set CANSERVE_CACHE to a folder with more room"
                raise TreeError(unavailable(subject, remote.name, why, ask))
            digest, count = place.web.download(remote.url, handle, limit)
            _verify(remote, digest, count, subject)
            blob = FileBlob(path, subject, place.web.cost)  # stays readable when the name goes away
            place.cache.adopt("files", digest, path, count)
            return blob
    except WebError as error:
        raise TreeError(_told(error, subject, remote)) from None
    except OSError as error:
        why = f"it cannot be kept in the cache: {error.strerror or error}"
        ask = "set CANSERVE_CACHE to a folder that can be written"
        raise TreeError(unavailable(subject, remote.name, why, ask)) from None


def _verify(remote: Remote, digest: str, count: int, subject: str) -> None:
    why = None
    if remote.size is not None and count != remote.size:
        why = f"{count} bytes came, {remote.size} are in the index"
    elif remote.sha256 is not None and digest != remote.sha256:
        why = f"its SHA-256 is {digest}, not {remote.sha256} as in the index"
    if why:
        raise TreeError(unreadable(subject, remote.name, why))


def _told(error: WebError, subject: str, remote: Remote) -> Missing:
    return missing(error, subject, remote.name) if remote.explain is None else remote.explain(error)


def missing(error: WebError, subject: str, name: str) -> Missing:
    """A failed request as a value."""
    evidence = Evidence(subject, name, error.why, whole=False)
    ask = error.ask or ("try again, or name another index" if error.cause is Cause.UNREACHED else None)
    return Missing(error.cause, error.why, (evidence,), ask)
