"""The central directory of a zip archive, read with suspicion.

Format: PKWARE APPNOTE 6.3.10, sections 4.3.7 (local header), 4.3.12 (central directory), 4.3.14 to 4.3.16
(end records). Own code because the standard library wants a seekable file and reads it in dozens of small
steps, each of which would be a request; and because it believes what the directory says.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from canserve.trees.archive.blob import Blob
from canserve.trees.names import printable, refusal, unreadable
from canserve.trees.tree import Hole, TreeError

TAIL = 65_536 + 22
"""Bytes read first: the longest comment that may follow the end record, and the record."""
MAX_DIRECTORY = 32 << 20
MAX_MEMBERS = 100_000
"""The largest wheels on the package index hold about 20,000."""
MAX_HOLES = 1_000

_END, _END64, _LOCATOR64 = b"PK\5\6", b"PK\6\6", b"PK\6\7"
_CENTRAL = struct.Struct("<4s6H3I5H2I")
LOCAL = struct.Struct("<4s5H3I2H")
_BIG = 0xFFFFFFFF
_UTF8, _ENCRYPTED = 0x800, 0x1
_METHODS = {0: "stored", 8: "deflated"}


@dataclass(frozen=True, slots=True)
class Member:
    """One file in the archive."""

    name: str
    raw: bytes
    """The name as its bytes stand in the archive."""
    offset: int
    """Of its local header."""
    packed: int
    """Compressed size in bytes."""
    size: int
    """Declared size in bytes."""
    crc: int
    method: int
    end: int
    """No byte of it lies at or after this position."""

    @property
    def span(self) -> tuple[int, int]:
        """Where its header and data lie."""
        return self.offset, self.end


@dataclass(frozen=True, slots=True)
class Directory:
    """What an archive says it holds."""

    members: dict[str, Member]
    holes: tuple[Hole, ...]


def read_directory(blob: Blob, subject: str) -> Directory:
    """Read the end record and the central directory: one or two round trips. Raises TreeError."""
    tail = blob.tail(TAIL)
    base = blob.size - len(tail)
    count, length, start, after = _end_record(blob, tail, base, subject)
    if count > MAX_MEMBERS or length > MAX_DIRECTORY:
        raise _refused(subject, f"{count} members in a directory of {length} bytes; more than is read")
    if start + length != after:
        raise _refused(subject, "the central directory is not where the end record says")
    if start >= base:
        central = tail[start - base : start - base + length]
    else:
        missing = (start, min(base, start + length))
        central = (blob.spans([missing])[0] + tail)[:length]
    try:
        return _directory(central, count, start, subject)
    except struct.error as error:
        raise _refused(subject, f"the central directory is cut short or corrupt: {error}") from None


def _refused(subject: str, why: str) -> TreeError:
    return TreeError(unreadable(subject, "", f"not a readable zip archive: {why}"))


def _end_record(blob: Blob, tail: bytes, base: int, subject: str) -> tuple[int, int, int, int]:
    """Number of members, length and start of the directory, and the position after it."""
    at = tail.rfind(_END)
    while at >= 0:
        if len(tail) - at >= 22 and at + 22 + struct.unpack_from("<H", tail, at + 20)[0] == len(tail):
            break
        at = tail.rfind(_END, 0, at)  # the signature may stand in a comment
    if at < 0:
        raise _refused(subject, "it has no end record (cut short, or not a zip archive)")
    disk, first, here, count, length, start = struct.unpack_from("<4H2I", tail, at + 4)
    if tail[max(0, at - 20) : max(0, at - 16)] == _LOCATOR64:
        return _end_record64(blob, struct.unpack_from("<Q", tail, at - 12)[0], base + at - 20, subject)
    if disk or first or here != count:
        raise _refused(subject, "it is one part of several")
    return count, length, start, base + at


def _end_record64(blob: Blob, at: int, locator: int, subject: str) -> tuple[int, int, int, int]:
    if not 0 <= at <= locator - 56:
        raise _refused(subject, "its zip64 end record is not before the locator")
    record = blob.spans([(at, at + 56)])[0]
    if record[:4] != _END64:
        raise _refused(subject, "its zip64 end record is not where the locator says")
    count, length, start = struct.unpack_from("<3Q", record, 32)
    return count, length, start, at


def _directory(central: bytes, count: int, start: int, subject: str) -> Directory:
    found = sorted(_members(central, count, start), key=lambda member: member.offset)
    members: dict[str, Member] = {}
    holes: list[Hole] = []
    twice = set[str]()
    for index, member in enumerate(found):
        limit = found[index + 1].offset if index + 1 < len(found) else start
        if member.offset + LOCAL.size + len(member.raw) + member.packed > limit:
            raise _refused(subject, f"{printable(member.name)} overlaps what follows it")
        if why := refusal(member.name.removesuffix("/")):
            holes.append(Hole(printable(member.name), unreadable(subject, member.name, why)))
        elif member.name in members or member.name in twice:
            twice.add(member.name)
        elif not member.name.endswith("/"):
            members[member.name] = _ending(member, limit)
    for name in sorted(twice):
        members.pop(name, None)
        holes.append(Hole(name, unreadable(subject, name, "stands in the archive more than once")))
    if len(holes) > MAX_HOLES:
        raise _refused(subject, f"{len(holes)} members with names that cannot be used")
    return Directory(members, tuple(holes))


def _ending(member: Member, limit: int) -> Member:
    """With the tightest bound that is certain: the next header, or all its fields at their longest."""
    longest = member.offset + LOCAL.size + len(member.raw) + 0xFFFF + member.packed
    return Member(
        member.name, member.raw, member.offset, member.packed, member.size, member.crc, member.method,
        min(limit, longest),
    )  # fmt: skip


def _members(central: bytes, count: int, start: int) -> Iterator[Member]:
    position = 0
    for _ in range(count):
        fields = _CENTRAL.unpack_from(central, position)
        flags, method, crc, packed, size = fields[3], fields[4], *fields[7:10]
        name_length, extra_length, comment_length, offset = *fields[10:13], fields[16]
        position += _CENTRAL.size
        raw = central[position : position + name_length]
        extra = central[position + name_length : position + name_length + extra_length]
        position += name_length + extra_length + comment_length
        if fields[0] != b"PK\1\2" or position > len(central):
            raise struct.error("a record is not where it should be")
        size, packed, offset = _wide(extra, size, packed, offset)
        if offset >= start:
            raise struct.error("a member lies behind the directory")
        name = raw.decode("utf-8" if flags & _UTF8 else "cp437", "surrogateescape")
        method = -1 if flags & _ENCRYPTED else method
        yield Member(name, raw, offset, packed, size, crc, method, offset)
    if position != len(central):
        raise struct.error("it holds more than it says")


def _wide(extra: bytes, size: int, packed: int, offset: int) -> tuple[int, int, int]:
    """The sizes and the offset, from the zip64 extra field where the record has no room for them."""
    if _BIG not in (size, packed, offset):
        return size, packed, offset
    at = 0
    while at + 4 <= len(extra):
        tag, length = struct.unpack_from("<2H", extra, at)
        if tag == 1:
            values = iter(struct.unpack_from(f"<{length // 8}Q", extra, at + 4))
            wide = tuple(next(values, value) if value == _BIG else value for value in (size, packed, offset))
            return wide[0], wide[1], wide[2]
        at += 4 + length
    return size, packed, offset


def problem(member: Member) -> str | None:
    """Why this member cannot be unpacked; None: it can."""
    if member.method == -1:
        return "it is encrypted"
    if member.method not in _METHODS:
        return f"compression method {member.method} is not one that wheels use"
    if member.method == 0 and member.packed != member.size:
        return "it is stored, but with two different sizes"
    return None
