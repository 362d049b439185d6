"""One layer of an image: a tar archive of what it adds, and marks of what it takes away.

A packed layer has no directory, so it is passed over once; the files of Python packages that engines are read
from are kept on the way. Both go into the cache, under the layer's digest.
"""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from canserve.facts import Missing
from canserve.trees.archive.blob import Around, Blob, Span
from canserve.trees.archive.stream import BROKEN, BombError, Readable, Visit, exactly, told, walk
from canserve.trees.names import printable, refusal, unreadable
from canserve.trees.positions import Use, in_steps, spooled
from canserve.trees.tree import TreeError

FORM = 4
"""Of what ``dump`` writes; another one is not read."""
MAX_UNPACKED = 96 << 30
"""Unpacked bytes of one layer that are passed over; engine images measured have 10 to 40 GB in all."""
MAX_NODES = 1_000_000
MAX_HOLES = 10_000
MAX_KEPT_FILE = 8 << 20
MAX_KEPT = 512 << 20
"""Unpacked bytes that are kept of one layer."""
MAX_TARGET = 4096
OPAQUE = ".wh..wh..opq"
WHITEOUT = ".wh."

_SITE = re.compile(r"(?:.*?/)?(?:site|dist)-packages/")

FILE, FOLDER, LINK, HARD, SPECIAL = "f", "d", "l", "h", "s"


@dataclass(frozen=True, slots=True)
class Node:
    """One name in a layer."""

    kind: str
    """``FILE``, ``FOLDER``, ``LINK`` (symbolic), ``HARD`` (to a path of the same image), ``SPECIAL``."""
    size: int = 0
    target: str = ""
    """Of links, as written."""


@dataclass(frozen=True, slots=True)
class Layer:
    """What a layer holds."""

    nodes: Mapping[str, Node]
    """By path from the root of the image."""
    removed: frozenset[str] = frozenset()
    """Paths of lower layers that are gone."""
    opaque: frozenset[str] = frozenset()
    """Folders of which nothing of the lower layers is left."""
    holes: tuple[tuple[str, str], ...] = ()
    """Names that are not listed, and why."""
    packed: Mapping[str, bytes] = field(default_factory=dict)
    """Contents that were kept, as zlib packs them."""
    twice: frozenset[str] = frozenset()
    """Names that stand more than once, which the standard forbids: the last one counts."""
    passed: int | None = None
    """Bytes of the blob after which reading was stopped, its digest unverified; None: read to the end."""

    def content(self, path: str) -> bytes | None:
        """A kept file; None: it is not kept."""
        packed = self.packed.get(path)
        return None if packed is None else _unpacked(packed, self.nodes[path].size)

    def dump(self) -> bytes:
        """As one run of bytes, for the cache."""
        places: dict[str, tuple[int, int]] = {}
        at = 0
        for name, data in self.packed.items():
            places[name] = (at, at + len(data))
            at += len(data)
        nodes = {name: [node.kind, node.size, node.target] for name, node in self.nodes.items()}
        marks = [sorted(self.removed), sorted(self.opaque), self.holes, sorted(self.twice), self.passed]
        head = [FORM, nodes, marks, places]
        body = b"".join(self.packed.values())
        listed = zlib.compress(json.dumps(head, separators=(",", ":")).encode(), 1)
        return len(listed).to_bytes(8, "big") + listed + body


def _unpacked(packed: bytes, size: int) -> bytes | None:
    """So many bytes and no more; None: they are not what they should be, and have to be read again."""
    machine = zlib.decompressobj()
    try:
        data = machine.decompress(packed, size + 1)
    except zlib.error:
        return None
    return data if machine.eof and len(data) == size else None


Enough: TypeAlias = Callable[[Layer], bool]
"""Whether what was read of a layer so far will do."""


def load(data: bytes | None) -> Layer | None:
    """From what ``dump`` gave; None: it is of another form."""
    if data is None:
        return None
    try:
        start = 8 + int.from_bytes(data[:8], "big")
        form, nodes, marks, places = json.loads(zlib.decompress(data[8:start]))
        if form != FORM:
            return None
        removed, opaque, holes, twice, passed = marks
        return Layer(
            {name: Node(*fields) for name, fields in nodes.items()},
            frozenset(removed),
            frozenset(opaque),
            tuple((name, why) for name, why in holes),
            {name: data[start + a : start + b] for name, (a, b) in places.items()},
            frozenset(twice),
            passed,
        )
    except (ValueError, TypeError, AttributeError, zlib.error):
        return None


def read_layer(
    blob: Blob,
    subject: str,
    packages: Collection[str],
    diff: str | None,
    enough: Enough | None = None,
    packed: bool = False,
) -> Layer | Missing:
    """Pass over a layer once. ``packages``: import packages whose source is kept.

    ``diff``: hexadecimal SHA-256 that the unpacked layer must have, or the blob as it is; None: nothing says.
    ``packed``: it is certain that this is the blob's own. ``enough``: asked of what was read so far whenever that could be all there is of a folder of packages.
    """
    reading = _Pass(worth_keeping(packages), enough)
    unpacked, whole = hashlib.sha256(), Digested(blob)
    try:
        walk(whole, MAX_UNPACKED, reading.visit, unpacked.update if diff and not packed else None)
        if diff and diff not in {unpacked.hexdigest(), whole.hexdigest()}:
            return unreadable(subject, "", f"a layer whose content is not that of its digest {diff[:12]}")
    except _Enough:
        return replace(reading.builder.layer(), passed=whole.passed)
    except BROKEN as error:
        return unreadable(subject, "", f"a layer that is no readable tar archive: {told(error)}")
    return reading.builder.layer()


class _Enough(Exception):  # noqa: N818 - no error: the rest need not be read
    """Raised through the archive's reader to leave it."""


class Digested(Around):
    """A blob that is read from start to end, and digested on the way; its ``tail`` is not."""

    def __init__(self, blob: Blob) -> None:
        super().__init__(blob)
        self._sum = hashlib.sha256()
        self._at = 0

    @property
    def passed(self) -> int:
        """Bytes that were read so far."""
        return self._at

    def spans(self, wanted: Sequence[Span]) -> list[bytes]:
        """The blob's; what continues where the last one ended is digested."""
        got = self._blob.spans(wanted)
        for (start, end), data in zip(wanted, got, strict=True):
            if start <= self._at < end:
                self._sum.update(memoryview(data)[self._at - start :])
                self._at = end
        return got

    def hexdigest(self) -> str:
        """Of the whole blob; what was not read yet is read now."""
        while self._at < self.size:
            self.spans([(self._at, min(self._at + (1 << 20), self.size))])
        return self._sum.hexdigest()


def read_files(
    blob: Blob, subject: str, paths: Iterable[str], twice: Collection[str] = ()
) -> dict[str, bytes | Missing]:
    """The contents of these files, by passing over the layer once more, up to the last one of them.

    ``twice``: names that stand more than once.
    """
    wanted = set(paths)
    got: dict[str, bytes | Missing] = {}
    once = wanted.isdisjoint(twice)

    def visit(member: tarfile.TarInfo, handle: Readable | None) -> None:
        name = clean(member.name)
        if handle is not None and name in wanted:
            got[name] = exactly(handle, member.size)
            if once and len(got) == len(wanted):
                raise _Enough

    if (lost := _pass_over(blob, subject, visit)) is not None:
        got.update(dict.fromkeys(wanted - got.keys(), lost))
    return got


def visit_files(blob: Blob, subject: str, paths: Iterable[str], use: Use) -> dict[str, Missing]:
    """Use these files, of any size, by passing over the layer once more; the answer holds what could not be."""
    wanted = dict.fromkeys(paths)
    failed: dict[str, Missing] = {}

    def visit(member: tarfile.TarInfo, handle: Readable | None) -> None:
        name = clean(member.name)
        if handle is None or name not in wanted:
            return
        del wanted[name]
        try:
            with spooled(in_steps(handle.read, member.size), member.size, (subject, name)) as file:
                use(name, file)
        except TreeError as error:
            failed[name] = error.missing
        if not wanted:
            raise _Enough

    if (lost := _pass_over(blob, subject, visit)) is not None:
        failed.update(dict.fromkeys(wanted, lost))
    return failed


def _pass_over(blob: Blob, subject: str, visit: Visit) -> Missing | None:
    """Why files were not met; None: ``visit`` has met all that it looked for."""
    try:
        walk(blob, MAX_UNPACKED, visit)
    except _Enough:
        return None
    except BROKEN as error:
        return unreadable(subject, "", f"a layer that is no readable tar archive: {told(error)}")
    return unreadable(subject, "", "a file that is no longer in its layer")


def worth_keeping(packages: Collection[str]) -> re.Pattern[str]:
    """Paths whose content is kept: sources of these packages, and what describes installations."""
    named = "|".join(re.escape(name) for name in sorted(packages))
    return re.compile(
        rf"(?:^|/)(?:{named})/.*\.(?:py|pyi|json|toml|txt|cpp|h)$"
        r"|\.(?:dist|egg)-info/(?:METADATA|PKG-INFO|WHEEL|RECORD|entry_points\.txt|direct_url\.json|top_level\.txt)$"
        r"|\.(?:pth|egg-link)$|(?:^|/)(?:pyvenv\.cfg|pyproject\.toml|setup\.py|setup\.cfg|version\.py)$"
        r"|^(?:etc|usr/lib)/os-release$|^var/lib/dpkg/status$|^etc/ld\.so\.conf(?:\.d/[^/]+\.conf)?$"
        r"|^usr/local/cuda[^/]*/version\.json$|(?:^|/)triton/(?:(?:runtime|common)/build|backends/nvidia/compiler)\.py$"
        r"|(?:^|/)[\w.-]*entrypoint[\w.-]*$|^(?:[\w.-]+/){0,3}[\w.-]+\.sh$"
    )


class Builder:
    """A layer in the making: names as they come, sorted by what they mean."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._removed: set[str] = set()
        self._opaque: set[str] = set()
        self._holes: list[tuple[str, str]] = []
        self._twice: set[str] = set()
        self.packed: dict[str, bytes] = {}

    def layer(self) -> Layer:
        """What was gathered."""
        removed, opaque = frozenset(self._removed), frozenset(self._opaque)
        return Layer(self._nodes, removed, opaque, tuple(self._holes), self.packed, frozenset(self._twice))

    def put(self, name: str, node: Node) -> bool:
        """Note a name; whether it is one of the tree. Raises BombError when there are too many."""
        folder, _, base = name.rpartition("/")
        if why := refusal(name) or _unfit(node.target):
            self._holes.append((printable(name), why))
        elif base == OPAQUE:
            self._opaque.add(folder)
        elif base.startswith(WHITEOUT):
            self._removed.add(f"{folder}/{base[len(WHITEOUT) :]}".removeprefix("/"))
        else:
            before = self._nodes.get(name)
            if before is not None and not before.kind == node.kind == FOLDER:
                self.packed.pop(name, None)  # unpacking leaves the later one
                self._twice.add(name)
            self._nodes[name] = node
            if len(self._nodes) > MAX_NODES:
                raise BombError(f"more than {MAX_NODES} names")
            return True
        if len(self._holes) + len(self._removed) > MAX_HOLES:
            raise BombError("more unusable names, or whiteouts, than any real layer has")
        return False


class Order:
    """Whether names come as those who pack a folder write them: sorted, so that what has passed by is whole."""

    def __init__(self) -> None:
        self._last = ""
        self._sorted = {"by part": True, "as text": True}
        self._site = ""

    def left(self, name: str) -> bool:
        """Whether, with this name, a folder of packages has passed by; never where names are not sorted."""
        if not name or name.rpartition("/")[2].startswith(WHITEOUT):  # written where the builder likes
            return False
        self._sorted["by part"] &= self._last.split("/") <= name.split("/")
        self._sorted["as text"] &= self._last <= name
        self._last = name
        if self._site and name.startswith(self._site):
            return False
        before = self._site
        found = _SITE.match(name)
        self._site = found[0] if found else ""
        return bool(before) and any(self._sorted.values())


class _Pass:
    """What one pass over a layer gathers."""

    def __init__(self, keep: re.Pattern[str], enough: Enough | None) -> None:
        self._keep = keep
        self._enough = enough
        self._room = MAX_KEPT
        self._order = Order()
        self.builder = Builder()

    def visit(self, member: tarfile.TarInfo, handle: Readable | None) -> None:
        name = clean(member.name)
        if self._enough is not None and self._order.left(name) and self._enough(self.builder.layer()):
            raise _Enough
        if not name or not self.builder.put(name, _node(member, handle)) or handle is None:
            return
        if member.size <= min(MAX_KEPT_FILE, self._room) and self._keep.search(name):
            self.builder.packed[name] = zlib.compress(exactly(handle, member.size), 1)
            self._room -= member.size


def _node(member: tarfile.TarInfo, handle: Readable | None) -> Node:
    if member.isdir():
        return Node(FOLDER)
    if member.issym():
        return Node(LINK, target=member.linkname)
    if member.islnk():
        return Node(HARD, target=clean(member.linkname))
    return Node(SPECIAL) if handle is None else Node(FILE, member.size)


def clean(name: str) -> str:
    """``./usr/lib/`` and ``/usr/lib`` -> ``usr/lib``, as unpacking would take them."""
    return name.removeprefix("./").strip("/") if name not in {".", "./", "/"} else ""


def _unfit(target: str) -> str | None:
    """Why a link is not listed; where it leads is looked at when it is followed."""
    if len(target) > MAX_TARGET:
        return "a link whose target is too long"
    return None if target.isprintable() else "a link whose target holds control characters"
