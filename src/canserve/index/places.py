"""Where index data lies: shipped inside the package, and in the user's folder once it was updated.

Of a project's two files the better one that can be read is taken. One that cannot, being damaged or
of another schema, is named once in ``problems`` and passed over.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path

from canserve.index.shelf import Shelf, ShelfError, unpack
from canserve.trees.cache import default_folder

SUFFIX = ".index"
MAX_BYTES = 16 << 20
"""An index is some ten thousand bytes long."""
HELP = "`canserve index update` writes it anew"
_problems: dict[str, None] = {}


def user_folder() -> Path:
    """Where the user's own index lies: beside the cache, in the folder that CANSERVE_CACHE may name."""
    return default_folder() / "index"


def shipped_names() -> tuple[str, ...]:
    """The projects whose index came with the package."""
    folder = files("canserve.index").joinpath("data")
    names = (entry.name for entry in folder.iterdir())
    return tuple(sorted(name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX)))


@cache
def shipped(project: str) -> Shelf:
    """The index that came with the package. Raises ShelfError."""
    place = files("canserve.index").joinpath("data", f"{project}{SUFFIX}")
    try:
        return unpack(place.read_bytes())
    except FileNotFoundError:
        raise ShelfError(f"no index of {project} is shipped") from None


def read_from(folder: Path, project: str) -> Shelf | None:
    """The index in a folder; None: there is none. Raises ShelfError, which names the file and what helps."""
    path = folder / f"{project}{SUFFIX}"
    try:
        shelf = unpack(_read(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ShelfError(f"{path}: {error.strerror or error}; {HELP}") from None
    except ShelfError as error:
        raise ShelfError(f"{path}: {error}; {HELP}") from None
    if shelf.project != project:
        raise ShelfError(f"{path}: index data of {shelf.project}; {HELP}")
    return shelf


def _read(path: Path) -> bytes:
    """The whole file. Raises ShelfError for what is none, or larger than any index."""
    if not path.is_file():
        if path.exists():
            raise ShelfError("not a file")
        raise FileNotFoundError(path)
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ShelfError(f"larger than {MAX_BYTES} bytes")
    return data


@cache
def loaded(project: str) -> Shelf:
    """The best index of a project there is here. Raises ShelfError when there is none that can be read."""
    try:
        mine = read_from(user_folder(), project)
    except ShelfError as error:
        _problems[str(error)] = None
        mine = None
    try:
        packaged = shipped(project)
    except ShelfError as error:
        if shipped_names().count(project):
            _problems[f"the index of {project} that was shipped: {error}; {HELP}"] = None
        if mine is None:
            raise
        return mine
    return packaged if mine is None or worth(packaged) > worth(mine) else mine


def worth(shelf: Shelf) -> tuple[int, str, int]:
    """What is compared: the reader that made it, its date, how many releases it holds."""
    return (int(shelf.reader) if shelf.reader.isdecimal() else 0, shelf.built, len(shelf.releases))


def problems() -> tuple[str, ...]:
    """One line for every file that was passed over, with what helps."""
    return tuple(_problems)


def forget() -> None:
    """Look at the files anew when they are next asked for."""
    shipped.cache_clear()
    loaded.cache_clear()
    _problems.clear()
