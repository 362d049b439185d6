"""Further files that a recipe refers to, read where they may be: in its own folder tree, or named by the user."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.recipes.further import NOT_LOOKED
from canserve.subjects.recipe import Recipe

MAX_BYTES = 256 * 1024
MAX_TOTAL = 4 << 20
"""Of all further files of one recipe."""
MAX_ROUNDS = 12
"""Files that name files."""
MAX_NAMES = 20
"""Of settings in one folder."""
NAME_IT = "name it with a further --recipe FILE"


@dataclass(slots=True)
class Reach:
    """Which files may be read for a recipe."""

    folder: Path | None
    """Where the recipe lies; None: nowhere, it came by standard input."""
    root: Path | None = None
    """No file outside of it is read; None: the folder."""
    named: Mapping[str, str] = field(default_factory=dict)
    """Texts of files that the user names, by their path."""
    used: set[str] = field(default_factory=set)
    """Of those, which the recipe refers to."""
    _read: int = 0

    def look(self, path: str) -> Fact[str | None]:
        """The text of a file by its path from the recipe's folder on; Known(None): it is not there."""
        if (told := self._named(path)) is not None:
            self.used.add(told)
            return Known(self.named[told], (Evidence(told, "--recipe", f"stands for {path}"),))
        if self.folder is None:
            return Missing(Cause.UNREACHED, "a recipe from standard input has no folder", ask=NAME_IT)
        if path.startswith(("/", "~")):
            return Missing(Cause.UNREACHED, "it is a file of the machine that runs it", ask=NAME_IT)
        return self._below(self.folder, path)

    def _named(self, path: str) -> str | None:
        """The file that the user names for it: by its place, else, where it cannot be read itself, by its name."""
        beside = self.folder or Path()
        for name in self.named:
            if _plain(beside / path) == _plain(Path(name)):
                return name
        away = self.folder is None or path.startswith(("/", "~", "../"))
        same = [name for name in self.named if away and Path(name).name == Path(path).name]
        return same[0] if len(same) == 1 else None

    def _below(self, folder: Path, path: str) -> Fact[str | None]:
        try:
            root = (self.root or folder).resolve()
            real = (folder / path).resolve()
            if not real.is_relative_to(root):
                there = "a link leads out of" if not path.startswith("..") else "it lies outside of"
                return Missing(Cause.UNREACHED, f"{there} the recipe's folder", ask=NAME_IT)
            return _names(real) if path.endswith("/") else self._text(real)
        except FileNotFoundError:
            return Known(None, (Evidence(str(folder / path), "open", "no such file"),))
        except NotADirectoryError:
            return Known(None, (Evidence(str(folder / path), "open", "no such folder"),))
        except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: links in a circle
            why = error.strerror if isinstance(error, OSError) and error.strerror else "not a path"
            return Missing(Cause.UNAVAILABLE, f"it cannot be read: {why}")

    def _text(self, real: Path) -> Fact[str | None]:
        """Raises OSError. What is replaced by a link in the meantime is not followed, and a pipe not waited for."""
        file = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(file, "rb") as opened:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                return Missing(Cause.UNREADABLE, "it is no plain file")
            data = opened.read(MAX_BYTES + 1)
        self._read += len(data)
        if len(data) > MAX_BYTES:
            return Missing(Cause.UNREADABLE, f"larger than {MAX_BYTES} bytes")
        if self._read > MAX_TOTAL:
            return Missing(Cause.UNREACHED, f"more than {MAX_TOTAL} bytes of further files")
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            return Missing(Cause.UNREADABLE, "not UTF-8")
        if "\0" in text or "\1" in text:
            return Missing(Cause.UNREADABLE, "not a text: it holds zeros")
        return Known(text, (Evidence(str(real), "open", f"{len(data)} bytes"),))


def _names(folder: Path) -> Fact[str | None]:
    """Settings in a folder by name: ``*.conf``, in the order in which they count. Raises OSError."""
    found = sorted(each.name for each in folder.iterdir() if each.name.endswith(".conf"))
    if len(found) > MAX_NAMES:
        return Missing(Cause.UNREACHED, f"more than {MAX_NAMES} files")
    return Known("\n".join(found), (Evidence(str(folder), "list", f"{len(found)} files"),))


def _plain(path: Path) -> str:
    """A path without steps that lead nowhere; links are not looked at."""
    return os.path.normpath(path.absolute())


def whole(read: Callable[[Mapping[str, Fact[str | None]]], Recipe], reach: Reach) -> Recipe:
    """The recipe with all files that it refers to, and those that these refer to."""
    known: dict[str, Fact[str | None]] = {}
    for _ in range(MAX_ROUNDS):
        recipe = read(known)
        asked = [file.path for file in recipe.files if file.found == NOT_LOOKED]
        if not asked:
            return recipe
        known |= {path: reach.look(path) for path in asked}
    return read(known)
