"""A folder on this machine: a virtual environment, a source checkout, a copy of an image's files.

Lazy: only folders that are asked for are listed. Links are followed as the kernel would if the folder were
its root, and only inside it. Nothing but regular files is ever opened.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from canserve.facts import Missing
from canserve.trees.names import below, inside, printable, refusal, unavailable, unreached, unreadable
from canserve.trees.tree import Children, Cost, Entry, Hole, Listing, TreeError

MAX_FILES = 200_000
"""Files in one listing. The largest engine release has under 10,000."""
MAX_FOLDERS = 20_000
"""Folders in one listing."""
MAX_NAMES = 100_000
"""Names in one folder; what is beyond is a hole."""
MAX_READ = 64 << 20
"""Bytes of one read."""
MAX_DEPTH = 64
MAX_NESTED_LINKS = 2
"""Linked folders in linked folders; without an end to it, a few links are an astronomic number of paths."""
MAX_LINKS = 40
"""Links followed on the way to one path; the kernel's own limit."""

_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
"""Opening a pipe that slipped in must not wait, and links are followed by ``_real`` only."""


class _NowhereError(Exception):
    """A path that cannot be followed to its end; carries why."""


@dataclass(frozen=True, slots=True)
class _Folder:
    linked: bool


@dataclass(frozen=True, slots=True)
class _Special:
    """A pipe, a socket or a device."""

    missing: Missing


@dataclass(frozen=True, slots=True)
class _Way:
    """How a listing came to a folder."""

    above: tuple[str, ...] = ()
    """Real paths of the folders above it."""
    links: int = 0
    """Linked folders among them."""

    def further(self, real: str, linked: bool) -> _Way:
        return _Way((*self.above, real), self.links + linked)

    def end(self, real: str) -> str | None:
        """Why the listing goes no further."""
        if real in self.above:
            return "a link that leads back to a folder above it"
        if self.links > MAX_NESTED_LINKS:
            return f"more than {MAX_NESTED_LINKS} linked folders within one another"
        return "nested too deeply" if len(self.above) >= MAX_DEPTH else None


class FolderTree:
    """A read-only view of one folder."""

    def __init__(self, root: Path, subject: str | None = None, origin: str = "folder") -> None:
        self.root = Path(os.path.realpath(root))
        self.subject = printable(subject if subject is not None else str(root))
        self.origin = origin

    @property
    def cost(self) -> Cost:
        """Nothing travels."""
        return Cost()

    def children(self, folder: str = "") -> Children | None:
        """The names in one folder."""
        try:
            real = self._folder(folder)
        except (OSError, _NowhereError) as error:
            return Children(holes=(Hole(folder, self._trouble(folder, error)),))
        if real is None:
            return None
        files: dict[str, Entry] = {}
        folders: list[str] = []
        linked = set[str]()
        holes: list[Hole] = []
        for name, kind in self._scan(real, folder):
            match kind:
                case Entry():
                    files[name] = kind
                case Missing():
                    holes.append(Hole(below(folder, printable(name)) if name else folder, kind))
                case _Folder():
                    folders.append(name)
                    if kind.linked:
                        linked.add(name)
                case _Special():
                    pass  # nothing is ever imported from one
        return Children(files, tuple(folders), frozenset(linked), tuple(holes))

    def listing(self, prefix: str = "") -> Listing:
        """All files below a folder; links that lead back or multiply are not followed for ever."""
        entries: dict[str, Entry] = {}
        holes: list[Hole] = []
        todo: list[tuple[str, _Way]] = [(prefix, _Way())]
        for _ in range(MAX_FOLDERS):
            if not todo or len(entries) + len(holes) > MAX_FILES:
                break
            folder, way = todo.pop()
            real = self._enter(folder, way, holes)
            if real is None:
                continue
            deeper = []
            for name, kind in self._scan(real, folder):
                path = below(folder, name)
                match kind:
                    case Entry():
                        entries[path] = kind
                    case Missing():
                        holes.append(Hole(below(folder, printable(name)) if name else folder, kind))
                    case _Special():
                        holes.append(Hole(path, kind.missing))
                    case _Folder():
                        deeper.append((path, way.further(real, kind.linked)))
            todo.extend(reversed(deeper))
        if todo or len(entries) + len(holes) > MAX_FILES:
            why = f"more than {MAX_FILES} files or {MAX_FOLDERS} folders; the listing was cut short"
            return Listing(entries, (Hole(prefix, unreadable(self.subject, prefix, why)),))
        return Listing(entries, tuple(holes))

    def _folder(self, path: str) -> str | None:
        """The real path of a folder; None: nothing is there, or something else."""
        real = self._real(path)
        return real if real is not None and stat.S_ISDIR(os.lstat(self._at(real)).st_mode) else None

    def _enter(self, folder: str, way: _Way, holes: list[Hole]) -> str | None:
        """The real path of a folder that is to be listed, or None with the hole noted."""
        try:
            real = self._folder(folder)
        except (OSError, _NowhereError) as error:
            holes.append(Hole(folder, self._trouble(folder, error)))
            return None
        if real is not None and (why := way.end(real)):
            holes.append(Hole(folder, unreadable(self.subject, folder, why)))
            return None
        return real

    def read(self, path: str, start: int = 0, end: int | None = None) -> bytes:
        """Bytes of a regular file."""
        try:
            real = self._real(path)
            if real is None:
                raise TreeError(unavailable(self.subject, path, "no such file"))
            return self._bytes(path, real, start, end)
        except (OSError, _NowhereError) as error:
            raise TreeError(self._trouble(path, error)) from None

    def read_many(self, paths: Sequence[str]) -> Mapping[str, bytes | Missing]:
        """Each file, or why not."""
        got: dict[str, bytes | Missing] = {}
        for path in paths:
            try:
                got[path] = self.read(path)
            except TreeError as error:
                got[path] = error.missing
        return got

    def _bytes(self, path: str, real: str, start: int, end: int | None) -> bytes:
        handle = os.open(self._at(real), _OPEN)
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise TreeError(unreadable(self.subject, path, _kind(status.st_mode)))
            wanted = (status.st_size if end is None else end) - start
            if wanted > MAX_READ:
                why = f"{wanted} bytes, more than the {MAX_READ} that are read"
                raise TreeError(unreadable(self.subject, path, why))
            return b"".join(_pread(handle, start, MAX_READ if end is None else end - start))
        finally:
            os.close(handle)

    def _scan(self, real: str, folder: str) -> Iterator[tuple[str, Entry | Missing | _Folder | _Special]]:
        """Names in a folder, sorted: files, folders, and Missing for what is neither.

        The name is empty where the folder as a whole is meant.
        """
        seen: list[os.DirEntry[str]] = []
        cut: Missing | None = None
        try:
            with os.scandir(self._at(real)) as found:
                for entry in found:
                    if len(seen) == MAX_NAMES:
                        cut = unreadable(self.subject, folder, f"more than {MAX_NAMES} names in one folder")
                        break
                    seen.append(entry)
        except OSError as error:
            cut = self._trouble(folder, error)
        if cut is not None:
            yield "", cut
        for entry in sorted(seen, key=lambda one: one.name):
            yield entry.name, self._kind_of(entry, below(folder, entry.name))

    def _kind_of(self, entry: os.DirEntry[str], path: str) -> Entry | Missing | _Folder | _Special:
        if why := refusal(entry.name):
            return unreadable(self.subject, path, why)
        try:
            if entry.is_dir(follow_symlinks=False):
                return _Folder(linked=False)
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                real = self._real(path)
                if real is None:
                    return unavailable(self.subject, path, "a link to nothing")
                status = os.lstat(self._at(real))
            if stat.S_ISDIR(status.st_mode):
                return _Folder(linked=True)
        except (OSError, _NowhereError) as error:
            return self._trouble(path, error)
        if not stat.S_ISREG(status.st_mode):
            return _Special(unreadable(self.subject, path, _kind(status.st_mode)))
        return Entry(status.st_size)

    def _at(self, real: str) -> str:
        return f"{self.root}/{real}" if real else str(self.root)

    def _real(self, path: str) -> str | None:
        """The path with every link in it followed inside the root; None: nothing is there.

        An absolute link means the root of the tree, as it would in the container the tree was copied from,
        unless it names a place inside the root as this machine sees it.
        """
        parts = inside(path)
        if parts is None:
            raise _NowhereError("leads out of the tree")
        todo, done, links = list(reversed(parts)), list[str](), 0
        while todo:
            part = todo.pop()
            if part == "..":
                if not done:
                    raise _NowhereError("a link that leads out of the tree")
                done.pop()
                continue
            here = "/".join([*done, part])
            try:
                mode = os.lstat(self._at(here)).st_mode
            except (FileNotFoundError, NotADirectoryError):
                return None
            if not stat.S_ISLNK(mode):
                done.append(part)
                continue
            links += 1
            if links > MAX_LINKS:
                raise _NowhereError("a loop of links")
            target = str(Path(self._at(here)).readlink())
            if target.startswith("/"):
                done, target = [], self._rooted(target)
            todo.extend(part for part in reversed(target.split("/")) if part not in {"", "."})
        return "/".join(done)

    def _rooted(self, target: str) -> str:
        """An absolute link target, from the tree's root."""
        top = str(self.root)
        if target == top or target.startswith(top.rstrip("/") + "/"):
            return target[len(top) :]
        first = target.strip("/").split("/", 1)[0]
        if not os.path.lexists(self._at(first)):
            raise _NowhereError(f"a link to {target}, outside the tree")
        return target

    def _trouble(self, path: str, error: OSError | _NowhereError) -> Missing:
        if isinstance(error, _NowhereError):
            return unreached(self.subject, path, str(error), "name the place the link leads to as the build")
        why = error.strerror or type(error).__name__
        if isinstance(error, PermissionError):
            return unavailable(self.subject, path, why, "run canserve as a user who may read it")
        return unavailable(self.subject, path, why)


def _pread(handle: int, start: int, count: int) -> Iterator[bytes]:
    while count > 0 and (chunk := os.pread(handle, min(count, 1 << 20), start)):
        yield chunk
        start += len(chunk)
        count -= len(chunk)


def _kind(mode: int) -> str:
    names = ((stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"), (stat.S_ISDIR, "a folder"),
             (stat.S_ISLNK, "a link"))  # fmt: skip
    return next((f"{name}, not a file" for test, name in names if test(mode)), "a device, not a file")
