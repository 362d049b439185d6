"""The layers of an image laid over one another, and the tree that results.

As a container engine would see it: later layers win, whiteouts take away, links are followed inside the image
only. Contents are read from the layer that a file comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from canserve.facts import Missing
from canserve.trees.image.layer import FILE, FOLDER, HARD, LINK, Layer, Node
from canserve.trees.names import below, inside, unavailable, unreadable
from canserve.trees.positions import Positions, Use
from canserve.trees.tree import Children, Cost, Entry, Hole, Listing, whole

MAX_LINKS = 40
"""Links followed on the way to one path; the kernel's own limit."""
MAX_FILES = 400_000
"""Files in one listing."""
MAX_DEPTH = 64
MAX_NESTED_LINKS = 2
MAX_READ = 64 << 20
"""Bytes of one read."""

Fetch: TypeAlias = Callable[[int, Sequence[str]], Mapping[str, bytes | Missing]]
"""Contents of these paths of the layer with this number."""
Visit: TypeAlias = Callable[[int, Sequence[str], Use], Mapping[str, Missing]]
"""Use these paths of the layer with this number, one after the other; the answer holds what could not be."""


def _cannot(number: int, paths: Sequence[str], use: Use) -> Mapping[str, Missing]:
    del number, use
    return {path: unreadable("", path, "large files of this image cannot be read") for path in paths}


@dataclass(slots=True)
class Folder:
    """A folder of the merged image."""

    names: dict[str, Folder | Leaf] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Leaf:
    """Anything else: a file, a link, a device."""

    node: Node
    layer: int
    path: str
    """In its layer."""


@dataclass(frozen=True, slots=True)
class Unread:
    """Layers below that were not read: of what is not seen, nothing is known."""

    missing: Missing
    closed: frozenset[str] = frozenset()
    """Folders in which nothing is missing."""

    def covers(self, path: str) -> bool:
        """Whether something may be at a path although it was not seen."""
        return not inside_of(path, self.closed)


def inside_of(path: str, folders: frozenset[str]) -> bool:
    """Whether a path is one of these folders, or lies in one."""
    while path:
        if path in folders:
            return True
        path = path.rpartition("/")[0]
    return False


class _NowhereError(Exception):
    """A path that cannot be followed to its end; carries why."""


def follow(root: Folder, path: str) -> tuple[Folder | Leaf | None, str]:
    """What a path leads to and where that really lies, as the kernel would go with the image as its root."""
    parts = inside(path)
    if parts is None:
        raise _NowhereError("a path that leads out of the image")
    todo = list(reversed(parts))
    trail: list[tuple[str, Folder]] = [("", root)]
    links = 0
    while todo:
        part = todo.pop()
        if part == "..":
            trail = trail[:-1] or trail
            continue
        found = trail[-1][1].names.get(part)
        real = below("/".join(name for name, _ in trail[1:]), part)
        if isinstance(found, Folder):
            trail.append((part, found))
        elif isinstance(found, Leaf) and found.node.kind == LINK:
            links += 1
            if links > MAX_LINKS:
                raise _NowhereError("too many links")
            target = found.node.target
            if target.startswith("/"):
                trail = trail[:1]
            todo.extend(reversed([p for p in target.split("/") if p not in {"", "."}]))
            if len(todo) > MAX_LINKS * MAX_DEPTH:
                raise _NowhereError("links that lead too deep")
        else:
            return (None, real) if todo else (found, real)
    return trail[-1][1], "/".join(name for name, _ in trail[1:])


def merge(layers: Sequence[Layer]) -> tuple[Folder, tuple[tuple[str, str], ...]]:
    """The root folder of the layers, lowest first; and the names that are not listed, with the reason."""
    root = Folder()
    holes: list[tuple[str, str]] = []
    for number, layer in enumerate(layers):
        for path in layer.opaque:
            if (folder := _folder(root, path)) is not None:
                folder.names.clear()
        for path in layer.removed:
            if (folder := _folder(root, path.rpartition("/")[0])) is not None:
                folder.names.pop(path.rpartition("/")[2], None)
        for path, node in layer.nodes.items():
            _put(root, path, node, number)
        holes += layer.holes
    return root, tuple(holes)


def at(root: Folder, path: str) -> Folder | Leaf | None:
    """What stands at a path; links are not followed, as in a layer they are not."""
    found: Folder | Leaf | None = root
    for part in path.split("/") if path else ():
        found = found.names.get(part) if isinstance(found, Folder) else None
    return found


def _folder(root: Folder, path: str) -> Folder | None:
    """The folder that unpacking would write into: through links, which stay inside of the image."""
    try:
        found, _ = follow(root, path)
    except _NowhereError:
        return None
    return found if isinstance(found, Folder) else None


def _put(root: Folder, path: str, node: Node, number: int) -> None:
    folder = root
    *parents, name = path.split("/")
    for depth, part in enumerate(parents, 1):
        found = folder.names.get(part)
        if isinstance(found, Leaf):
            found = _folder(root, "/".join(parents[:depth])) if found.node.kind == LINK else None
        if found is None:  # a layer need not list the folders of its files
            found = folder.names[part] = Folder()
        folder = found
    if node.kind != FOLDER:
        source = _hard(root, node) if node.kind == HARD else None
        folder.names[name] = source or Leaf(node, number, path)
    elif not isinstance(folder.names.get(name), Folder):
        folder.names[name] = Folder()


def _hard(root: Folder, node: Node) -> Leaf | None:
    """What a hard link is another name of: in this layer or, where the engine copied it up, a lower one."""
    found = at(root, node.target)
    return found if isinstance(found, Leaf) else None


class ImageTree:
    """A read-only view of a merged image."""

    def __init__(
        self,
        subject: str,
        origin: str,
        layers: Sequence[Layer],
        fetch: Fetch,
        cost: Callable[[], Cost] = Cost,
    ) -> None:
        self.subject = subject
        self.origin = origin
        self._cost = cost
        self._layers = layers
        self._fetch = fetch
        self.visitor: Visit = _cannot
        self.seekable: frozenset[int] = frozenset()
        """Numbers of layers of which single files can be had."""
        self.unread: Unread | None = None
        self._root, unlisted = merge(layers)
        self._holes = tuple(Hole(name, unreadable(subject, name, why)) for name, why in unlisted)

    @property
    def cost(self) -> Cost:
        """What getting the layers has taken so far."""
        return self._cost()

    def children(self, folder: str = "") -> Children | None:
        """The names in one folder."""
        try:
            found, real = follow(self._root, folder)
        except _NowhereError as error:
            return Children(holes=(Hole(folder, unreadable(self.subject, folder, str(error))),))
        if not isinstance(found, Folder):
            unseen = self._below(folder, real) if found is None else ()
            return Children(holes=unseen) if unseen else None
        files: dict[str, Entry] = {}
        folders: list[str] = []
        linked: set[str] = set()
        holes = [hole for hole in self._holes if hole.prefix.rpartition("/")[0] == real]
        holes += self._below(folder, real)
        for name in sorted(found.names):
            match self._kind(below(real, name), found.names[name]):
                case Entry() as entry:
                    files[name] = entry
                case Folder():
                    folders.append(name)
                    if isinstance(found.names[name], Leaf):
                        linked.add(name)
                case Missing() as missing:
                    holes.append(Hole(below(folder, name), missing))
                case None:
                    pass
        return Children(files, tuple(folders), frozenset(linked), tuple(holes))

    def listing(self, prefix: str = "") -> Listing:
        """All files below a folder; linked folders are entered, but not for ever."""
        entries: dict[str, Entry] = {}
        holes: list[Hole] = []
        todo: list[tuple[str, tuple[int, ...], int]] = [(prefix, (), 0)]
        while todo:
            folder, above, links = todo.pop()
            try:
                found, real = follow(self._root, folder)
            except _NowhereError as error:
                holes.append(Hole(folder, unreadable(self.subject, folder, str(error))))
                continue
            if folder == prefix:
                holes += self._below(prefix, real)
            if not isinstance(found, Folder):
                continue
            if why := _end(found, above, links):
                holes.append(Hole(folder, unreadable(self.subject, folder, why)))
                continue
            if len(entries) > MAX_FILES:
                why = f"more than {MAX_FILES} files; the listing was cut short"
                return Listing(entries, (Hole(prefix, unreadable(self.subject, prefix, why)),))
            here = (h for h in self._holes if h.prefix.rpartition("/")[0] == real)
            holes += (Hole(below(folder, hole.prefix.rpartition("/")[2]), hole.missing) for hole in here)
            deeper = []
            for name in sorted(found.names):
                path = below(folder, name)
                match self._kind(below(real, name), found.names[name]):
                    case Entry() as entry:
                        entries[path] = entry
                    case Folder():
                        further = links + isinstance(found.names[name], Leaf)
                        deeper.append((path, (*above, id(found)), further))
                    case Missing() as missing:
                        holes.append(Hole(path, missing))
                    case None:
                        pass
            todo.extend(reversed(deeper))
        return Listing(entries, tuple(holes))

    def read(self, path: str, start: int = 0, end: int | None = None) -> bytes:
        """Bytes of a regular file."""
        return whole(self, path)[start:end]

    def read_many(self, paths: Sequence[str]) -> Mapping[str, bytes | Missing]:
        """These files whole; each layer that must be read again is passed over once."""
        got: dict[str, bytes | Missing] = {}
        again: dict[int, dict[str, list[str]]] = {}
        room = MAX_READ
        for path in paths:
            leaf = self._leaf(path)
            if isinstance(leaf, Missing):
                got[path] = leaf
            elif (content := self._layers[leaf.layer].content(leaf.path)) is not None:
                got[path] = content
            elif leaf.node.size > room:
                got[path] = unreadable(
                    self.subject, path, f"{leaf.node.size} bytes, more than are read at once"
                )
            else:
                room -= leaf.node.size
                again.setdefault(leaf.layer, {}).setdefault(leaf.path, []).append(path)
        for number, wanted in again.items():
            found = self._fetch(number, list(wanted))
            for inner, shown in wanted.items():
                got.update(dict.fromkeys(shown, found[inner]))
        return got

    def at_hand(self, path: str) -> bool:
        """Whether a small file can be had without passing over a packed layer once more."""
        leaf = self._leaf(path)
        if isinstance(leaf, Missing):
            return True
        return leaf.layer in self.seekable or self._layers[leaf.layer].content(leaf.path) is not None

    def visit(self, paths: Sequence[str], use: Use) -> Mapping[str, Missing]:
        """Unpack files of any size one after the other; each layer is passed over once."""
        failed: dict[str, Missing] = {}
        places: dict[int, dict[str, list[str]]] = {}
        for path in paths:
            leaf = self._leaf(path)
            if isinstance(leaf, Missing):
                failed[path] = leaf
            else:
                places.setdefault(leaf.layer, {}).setdefault(leaf.path, []).append(path)
        for number, shown in places.items():

            def each(inner: str, file: Positions, shown: Mapping[str, list[str]] = shown) -> None:
                for path in shown[inner]:
                    use(path, file)

            for inner, missing in self.visitor(number, list(shown), each).items():
                failed.update(dict.fromkeys(shown[inner], missing))
        return failed

    def _leaf(self, path: str) -> Leaf | Missing:
        try:
            found, real = follow(self._root, path)
        except _NowhereError as error:
            return unreadable(self.subject, path, str(error))
        if isinstance(found, Leaf) and found.node.kind == FILE:
            return found
        hole = next((hole for hole in self._holes if hole.covers(path)), None)
        if hole is not None:
            return hole.missing
        if found is None and self.unread is not None and self.unread.covers(real):
            return self.unread.missing
        return unavailable(self.subject, path, "no such file" if found is None else "not a regular file")

    def _below(self, folder: str, real: str) -> tuple[Hole, ...]:
        """A hole that is the folder itself, where layers that were not read may hold more of it."""
        if self.unread is None or not self.unread.covers(real):
            return ()
        return (Hole(folder, self.unread.missing),)

    def _kind(self, path: str, found: Folder | Leaf) -> Entry | Folder | Missing | None:
        """What a name stands for, links followed; None: nothing that holds files."""
        if isinstance(found, Leaf) and found.node.kind == LINK:
            try:
                followed, real = follow(self._root, path)
            except _NowhereError as error:
                return unreadable(self.subject, path, str(error))
            if followed is None:  # it dangles, as it would in the container
                return self.unread.missing if self.unread is not None and self.unread.covers(real) else None
            found = followed
        if isinstance(found, Folder):
            return found
        if found.node.kind == FILE:
            return Entry(found.node.size)
        if found.node.kind == HARD:
            nothing = unreadable(self.subject, path, "a hard link to nothing in the image")
            return self.unread.missing if self.unread is not None else nothing
        return None


def _end(folder: Folder, above: Iterable[int], links: int) -> str | None:
    """Why a listing goes no further."""
    above = tuple(above)
    if id(folder) in above:
        return "a link that leads back to a folder above it"
    if links > MAX_NESTED_LINKS:
        return f"more than {MAX_NESTED_LINKS} linked folders within one another"
    return "nested too deeply" if len(above) >= MAX_DEPTH else None
