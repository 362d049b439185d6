"""A zip archive (a wheel, a zipped source distribution) as a tree, local or remote.

Only the bytes of the members that are asked for are read. Members that lie near each other travel together.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from canserve.facts import Missing
from canserve.trees.archive.blob import Blob, passing
from canserve.trees.archive.directory import LOCAL, Member, problem, read_directory
from canserve.trees.archive.members import Archive, Members
from canserve.trees.fanout import WIDTH
from canserve.trees.names import unavailable, unreadable
from canserve.trees.positions import Use, checksummed, spooled
from canserve.trees.tree import Entry, TreeError, whole

MAX_READ = 64 << 20
"""Unpacked bytes of one ``read``."""
MAX_MEMBER = 16 << 20
"""Unpacked bytes of one member of a ``read_many``."""
MAX_TOGETHER = 128 << 20
"""Unpacked bytes of one ``read_many``; all Python files of the largest engine release are 40 MB."""
MAX_RUN = 8 << 20
"""Packed bytes of one range, so that no answer has to be held that is larger."""
SPARE = 128 << 10
"""Bytes between members that may travel for nothing, in one ``read_many`` of a small archive."""
FEW, FEW_OF_SMALL = 3, 8
"""Requests in one ``read_many`` that are not worth saving; of a small archive the bytes between are worth more."""
SMALL = 32 << 20
"""Bytes of a small archive."""
_STEP = 1 << 20


class ZipTree(Archive):
    """A read-only view of a zip archive. Raises TreeError when its directory cannot be read."""

    def __init__(self, blob: Blob, subject: str, origin: str) -> None:
        super().__init__(blob, subject, origin)
        directory = read_directory(blob, subject)
        self._members = directory.members
        entries = {name: Entry(m.size, f"crc32:{m.crc:08x}") for name, m in directory.members.items()}
        self._names = Members(entries, directory.holes)

    def read(self, path: str, start: int = 0, end: int | None = None) -> bytes:
        """Unpack a member from its beginning up to ``end``; read whole, its checksum is verified."""
        member = self._members.get(path)
        if member is None:
            raise TreeError(unavailable(self.subject, path, "no such file"))
        stop = member.size if end is None else min(end, member.size)
        if stop - start > MAX_READ:
            why = f"{stop - start} bytes, more than the {MAX_READ} that are read"
            raise TreeError(self._unreadable(member, why))
        if start > 0 or stop < member.size or member.size > MAX_MEMBER:
            return self._part(member, start, stop)
        return whole(self, path)

    def read_many(self, paths: Sequence[str]) -> Mapping[str, bytes | Missing]:
        """Unpack members; those that lie near each other travel in one range."""
        got: dict[str, bytes | Missing] = {}
        wanted: list[Member] = []
        room = MAX_TOGETHER
        for path in dict.fromkeys(paths):
            member = self._members.get(path)
            if member is None:
                got[path] = unavailable(self.subject, path, "no such file")
            elif (why := problem(member)) or (why := _too_large(member, room)):
                got[path] = self._unreadable(member, why)
            else:
                room -= member.size
                wanted.append(member)
        got.update(self._unpacked(sorted(wanted, key=lambda member: member.offset)))
        return got

    def visit(self, paths: Sequence[str], use: Use) -> Mapping[str, Missing]:
        """Unpack members of any size one after the other; the answer holds those that could not be."""
        failed: dict[str, Missing] = {}
        blob = passing(self._blob)
        for path in paths:
            try:
                member = self._members.get(path)
                if member is None:
                    raise TreeError(unavailable(self.subject, path, "no such file"))
                with spooled(self._pieces(blob, member), member.size, (self.subject, path)) as file:
                    use(path, file)
            except TreeError as error:
                failed[path] = error.missing
        return failed

    def _pieces(self, blob: Blob, member: Member) -> Iterator[bytes]:
        """A member's content, step by step. Raises TreeError, also where its checksum is wrong."""
        if why := problem(member):
            raise TreeError(self._unreadable(member, why))
        head = blob.spans([(member.offset, min(member.end, member.offset + LOCAL.size + 0x1FFFE))])[0]
        try:
            at = member.offset + _data_start(member, memoryview(head))
            packed = _runs_of(blob, at, member.packed)
            content = packed if member.method == 0 else _inflated(packed, member.size)
            yield from checksummed(content, member.crc, (self.subject, member.name))
        except _CorruptError as error:
            raise TreeError(self._unreadable(member, str(error))) from None

    def _unpacked(self, wanted: Sequence[Member]) -> dict[str, bytes | Missing]:
        got: dict[str, bytes | Missing] = {}
        runs = list(_runs(wanted, self._blob))
        for start in range(0, len(runs), WIDTH):  # so that packed data of a few runs only is held at a time
            batch = runs[start : start + WIDTH]
            for run, data in zip(batch, self._fetch(batch), strict=True):
                for member in run.members:
                    got[member.name] = self._whole(member, data, run.start)
        bad = [member for member in wanted if isinstance(got[member.name], Missing)]
        for member in bad:  # a cache may have gone bad: drop what it has and ask the origin once more
            if self._blob.held(member.span):
                self._blob.forget(member.span)
                if not self._blob.held(member.span):
                    fresh = self._fetch([_Run(*member.span, [member])])
                    got[member.name] = self._whole(member, fresh[0], member.offset)
        return got

    def _fetch(self, runs: Sequence[_Run]) -> list[bytes | Missing]:
        """The bytes of each run; where they cannot be had together, of those that can."""
        try:
            return list(self._blob.spans([(run.start, run.end) for run in runs]))
        except TreeError as error:
            if len(runs) == 1:
                return [error.missing]
            return [self._fetch([run])[0] for run in runs]

    def _whole(self, member: Member, data: bytes | Missing, base: int) -> bytes | Missing:
        if isinstance(data, Missing):
            return data
        view = memoryview(data)[member.offset - base : member.end - base]
        try:
            packed = view[_data_start(member, view) :][: member.packed]
            if len(packed) != member.packed:
                raise _CorruptError("its data is cut short")
            return _checked(member, bytes(packed) if member.method == 0 else _inflate(packed, member.size))
        except _CorruptError as error:
            return self._unreadable(member, str(error))

    def _part(self, member: Member, start: int, stop: int) -> bytes:
        """A piece of a large member: unpacked from its beginning, everything before the piece thrown away."""
        if why := problem(member):
            raise TreeError(self._unreadable(member, why))
        head = self._blob.spans([(member.offset, min(member.end, member.offset + LOCAL.size + 0x1FFFE))])[0]
        try:
            at = member.offset + _data_start(member, memoryview(head))
            if member.method == 0:
                return self._blob.spans([(at + start, at + stop)])[0]
            kept, position = bytearray(), 0
            for piece in _inflated(_runs_of(self._blob, at, member.packed), member.size):
                kept += piece[max(0, start - position) : max(0, stop - position)]
                position += len(piece)
                if position >= stop:
                    break
            whole = start == 0 and stop == member.size
            return _checked(member, bytes(kept)) if whole else bytes(kept)
        except _CorruptError as error:
            raise TreeError(self._unreadable(member, str(error))) from None

    def _unreadable(self, member: Member, why: str) -> Missing:
        return unreadable(self.subject, member.name, why)


def _runs_of(blob: Blob, at: int, count: int) -> Iterator[bytes]:
    for start in range(at, at + count, MAX_RUN):
        yield blob.spans([(start, min(start + MAX_RUN, at + count))])[0]


class _CorruptError(Exception):
    """A member that does not hold what the directory says."""


@dataclass(frozen=True, slots=True)
class _Run:
    """A range that is fetched at once, and the members in it."""

    start: int
    end: int
    members: list[Member]


def _runs(wanted: Sequence[Member], blob: Blob) -> Iterator[_Run]:
    """Members sorted by offset, grouped into ranges; those that are here already stand alone."""
    absent = [member for member in wanted if not blob.held(member.span)]
    yield from (_Run(*member.span, [member]) for member in wanted if blob.held(member.span))
    gaps = [b.offset - a.end for a, b in pairwise(absent)]
    bridged = _bridged(gaps, blob.size, sum(member.packed for member in absent))
    run: _Run | None = None
    for index, member in enumerate(absent):
        if run and index - 1 in bridged and member.end - run.start <= MAX_RUN:
            run = _Run(run.start, member.end, [*run.members, member])
            continue
        if run:
            yield run
        run = _Run(*member.span, [member])
    if run:
        yield run


def _bridged(gaps: Sequence[int], size: int, wanted: int) -> set[int]:
    """Which gaps between wanted members are worth fetching for the sake of fewer requests.

    Small ones always: another request costs as much as 64 KiB (in a small archive less, or a few members
    would be all of it). Larger ones, the smallest first, while there are many requests and a small share
    of the archive or of the wanted bytes covers them.
    """
    always = min(64 << 10, size // 400)
    budget = max(min(SPARE, size // 200), size // 2_000, wanted // 50)
    few = FEW if size > SMALL else FEW_OF_SMALL
    chosen = {index for index, gap in enumerate(gaps) if gap <= always}
    for gap, index in sorted((gap, index) for index, gap in enumerate(gaps) if gap > always):
        if len(gaps) - len(chosen) < few or gap > budget:
            break
        budget -= gap
        chosen.add(index)
    return chosen


def _too_large(member: Member, room: int) -> str | None:
    if member.size > MAX_MEMBER:
        return f"{member.size} bytes, more than the {MAX_MEMBER} that are read"
    if member.size > room:
        return f"more than {MAX_TOGETHER} bytes asked for at once"
    if member.packed > MAX_MEMBER + (MAX_MEMBER >> 4):
        return f"{member.packed} packed bytes for {member.size}"
    return None


def _data_start(member: Member, local: memoryview) -> int:
    """Where the data begins, counted from the local header, which must agree with the directory."""
    if len(local) < LOCAL.size:
        raise _CorruptError("its header is cut short")
    fields = LOCAL.unpack_from(local)
    name_length, extra_length = fields[9], fields[10]
    if fields[0] != b"PK\3\4" or local[LOCAL.size : LOCAL.size + name_length] != member.raw:
        raise _CorruptError("its header does not agree with the central directory")
    return LOCAL.size + int(name_length) + int(extra_length)


def _inflate(packed: memoryview, size: int) -> bytes:
    return b"".join(_inflated(iter([packed]), size))


def _inflated(packed: Iterator[bytes | memoryview], size: int) -> Iterator[bytes]:
    """Unpack step by step; never more than one step beyond the declared size."""
    machine = zlib.decompressobj(-15)
    total = 0
    for chunk in packed:
        rest = chunk
        while rest and not machine.eof:
            try:
                piece = machine.decompress(rest, _STEP)
            except zlib.error as error:
                raise _CorruptError(f"its data is corrupt: {error}") from None
            rest = machine.unconsumed_tail
            total += len(piece)
            if total > size:
                raise _CorruptError(f"it unpacks to more than the {size} bytes it declares")
            yield piece
    last = machine.flush()
    yield last
    if total + len(last) != size:
        raise _CorruptError(f"it unpacks to {total + len(last)} bytes but declares {size}")


def _checked(member: Member, data: bytes) -> bytes:
    if len(data) != member.size:
        raise _CorruptError(f"it holds {len(data)} bytes but declares {member.size}")
    if zlib.crc32(data) != member.crc:
        raise _CorruptError("its checksum is wrong")
    return data
