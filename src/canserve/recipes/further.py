"""Further files that a recipe refers to: stated here with their purpose, read by whoever may look at files.

A text is read until it asks for no file that it was not given: then ``Recipe.files`` says what each of them was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from posixpath import dirname, join, normpath

from canserve.facts import Cause, Fact, Known, Missing
from canserve.subjects.recipe import Further, Shared

MAX_FILES = 40
NOT_LOOKED = Missing(Cause.UNREACHED, "nobody looked for it")
_OPEN = "$`%"
_PATTERN = "*?["


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process that names a file looks for it."""

    folder: str = ""
    """From the recipe's folder on."""
    elsewhere: str = ""
    """What holds its files where those of the recipe's machine are not seen: a container, another machine."""
    mounts: tuple[Shared, ...] = ()
    inline: Mapping[str, str] = field(default_factory=dict)
    """Files of a container whose text the recipe itself holds."""

    def path(self, name: str) -> str | None:
        """A file's path from the recipe's folder on; None: it lies in what is elsewhere."""
        if not self.elsewhere:
            return joined(self.folder, name)
        return outside(name, self.mounts)


HERE = Place()


@dataclass(slots=True)
class Files:
    """What is known of further files, and which were asked for. Paths are those from the recipe's folder on."""

    given: Mapping[str, Fact[str | None]] = field(default_factory=dict)
    asked: list[Further] = field(default_factory=list)

    def text(self, wanted: Further, place: Place = HERE) -> str | None:
        """The content of a file, or the names in a folder, one a line; None: it is not known. What was asked for is remembered, once."""
        if wanted.path in place.inline:
            return place.inline[wanted.path]
        path = place.path(wanted.path)
        if path is None:
            path = wanted.path
            why = f"it lies in {place.elsewhere}, and nothing that is shared with it holds it"
            found: Fact[str | None] = Missing(Cause.UNREACHED, why)
        else:
            found = self._found(path)
        size = Known(None if found.value is None else len(found.value), found.evidence) \
            if isinstance(found, Known) else found  # fmt: skip
        one = replace(wanted, path=path, found=size)
        if one not in self.asked:
            self.asked.append(one)
        return found.value if isinstance(found, Known) else None

    def spare(self, purpose: str) -> None:
        """What is served does not depend on files with this purpose."""
        self.asked[:] = [replace(one, decides=one.decides and one.purpose != purpose) for one in self.asked]

    def unreadable(self, path: str, why: str) -> None:
        """What was read of a file is not what it should be."""
        missing = Missing(Cause.UNREADABLE, why)
        self.asked[:] = [replace(one, found=missing) if one.path == path else one for one in self.asked]

    def _found(self, path: str) -> Fact[str | None]:
        if any(sign in path for sign in _OPEN):
            return Missing(Cause.UNREACHED, "a part of its name is left open", ask="write its name out")
        if any(sign in path for sign in _PATTERN):
            return Missing(Cause.UNREACHED, "a pattern for names: which files it stands for is known only there",
                           ask="write their names out")  # fmt: skip
        if path not in self.given and len({one.path for one in self.asked}) >= MAX_FILES:
            return Missing(Cause.UNREACHED, f"more than {MAX_FILES} further files")
        return self.given.get(path, NOT_LOOKED)


def wanted(name: str, line: int, purpose: str, required: bool = True, decides: bool = False) -> Further:
    """A file as it is named."""
    return Further(name, line, purpose, NOT_LOOKED, required, decides)


def joined(folder: str, path: str) -> str:
    """A path as it is from the recipe's folder on; a slash at its end asks for the names in a folder."""
    return path if path.startswith("~") else normpath(join(folder, path)) + "/" * path.endswith("/")


def folder_of(path: str) -> str:
    """Where a file lies, from the recipe's folder on."""
    return dirname(path)


def outside(path: str, mounts: Sequence[Shared]) -> str | None:
    """Where a file of a container lies outside of it; None: nothing that is shared holds it."""
    path = normpath(path)
    for mount in sorted(mounts, key=lambda mount: -len(mount.target)):
        target = mount.target.rstrip("/")
        if target and (path == target or path.startswith(f"{target}/")) and _is_path(mount.source):
            return normpath(mount.source + path[len(target) :])
    return None


def _is_path(source: str) -> bool:
    """Whether it is a folder or file, and not a volume's name."""
    return source[:1] in ("/", ".", "~")
