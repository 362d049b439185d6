"""The tool's own state, as a bug report needs it: versions, places, sizes; never a secret, and no path of a person's home."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Annotated, Literal

from canserve import __version__

PACKAGES = (
    "click",
    "rich",
    "packaging",
    "httpx",
    "huggingface_hub",
    "jinja2",
    "google-re2",
    "zstandard",
    "pyyaml",
    "mcp",
)
PROGRAMS = {
    "ssh": ("-V",),
    "docker": ("--version",),
    "podman": ("--version",),
    "rsync": ("--version",),
    "nvidia-smi": ("--version",),
}
"""What canserve may call, and how each tells its version without doing anything."""
VARIABLES = (
    "CANSERVE_CACHE", "CANSERVE_DATA", "CANSERVE_TRACE", "CANSERVE_API_KEY", "HF_HOME", "HF_ENDPOINT", "HF_TOKEN",
    "HF_HUB_OFFLINE", "PIP_INDEX_URL", "PIP_CONFIG_FILE", "HTTPS_PROXY", "https_proxy", "SSL_CERT_FILE", "NO_COLOR",
    "TERM", "LANG", "LC_ALL",
)  # fmt: skip
"""That change what canserve does; only those below are shown with their value."""
SHOWN = frozenset({"CANSERVE_TRACE", "HF_HUB_OFFLINE", "NO_COLOR", "TERM", "LANG", "LC_ALL"})
PATIENCE = 5
"""Seconds for a program to tell its version."""


@dataclass(frozen=True, slots=True)
class Item:
    """One line."""

    topic: Literal["canserve", "python", "packages", "index", "places", "programs", "variables", "terminal"]
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class ToolState:
    """All of it."""

    version: Annotated[Literal[1], "Of this format."]
    items: tuple[Item, ...]


def tool_state(*, paths: bool = False) -> ToolState:
    """The state here and now; ``paths``: with paths as they are, else the home folder is ``~``."""
    home = str(Path.home())
    found = [
        *_self(),
        *_packages(),
        *_index(),
        *_places(),
        *_programs(),
        *_variables(os.environ),
        *_terminal(),
    ]
    if not paths:
        found = [Item(item.topic, item.name, _without(item.value, home)) for item in found]
    return ToolState(1, tuple(found))


def _without(text: str, home: str) -> str:
    return text if home in ("", "/") else text.replace(home, "~")


def _self() -> Iterator[Item]:
    yield Item("canserve", "version", __version__)
    yield Item("canserve", "installed", "from a working tree" if _editable() else "as a package")
    yield Item("python", "version", f"{platform.python_implementation()} {platform.python_version()}")
    inside = "in a virtual environment" if sys.prefix != sys.base_prefix else "not in a virtual environment"
    yield Item("python", "environment", inside)
    yield Item("python", "platform", platform.platform())


def _editable() -> bool:
    try:
        told = metadata.distribution("canserve").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return True
    return '"editable": true' in (told or "")


def _packages() -> Iterator[Item]:
    for name in PACKAGES:
        try:
            yield Item("packages", name, metadata.version(name))
        except metadata.PackageNotFoundError:
            yield Item("packages", name, "not installed")


def _index() -> Iterator[Item]:
    from canserve.index.places import loaded, problems, user_folder
    from canserve.index.shelf import ShelfError
    from canserve.index.sources import projects

    for project in projects():
        own = (user_folder() / f"{project.name}.index").exists()
        try:
            shelf = loaded(project.name)
            last = shelf.version(-1) if shelf.releases else "none"
            text = f"{len(shelf.releases)} releases to {last}, of {shelf.built}{', also one of the user' if own else ''}"
        except ShelfError as error:
            text = str(error)
        yield Item("index", project.name, text)
    for problem in problems():
        yield Item("index", "problem", problem)


def _places() -> Iterator[Item]:
    from canserve.store.journal import FILE
    from canserve.store.journal import default_folder as data
    from canserve.trees.cache import default_folder as cache

    yield Item("places", "cache", f"{cache()}: {_size(cache())}")
    yield Item("places", "journal", f"{data() / FILE}: {_journal(data() / FILE)}")


def _size(folder: Path) -> str:
    if not folder.is_dir():
        return "not there yet"
    try:
        sizes = [path.lstat().st_size for path in folder.rglob("*") if path.is_file()]
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    return f"{len(sizes)} files, {sum(sizes) / 1e6:.1f} MB; {free / 1e9:.1f} GB free"


def _journal(path: Path) -> str:
    """How many runs in which state; the file is opened for reading alone."""
    if not path.exists():
        return "not there yet"
    try:
        with sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=2) as db:
            form = db.execute("PRAGMA user_version").fetchone()[0]
            rows = db.execute("SELECT state, count(*) FROM runs GROUP BY state ORDER BY state").fetchall()
    except sqlite3.Error as error:
        return f"cannot be read: {error}"
    runs = ", ".join(f"{count} {state}" for state, count in rows) or "no runs"
    return f"form {form}, {runs}"


def _programs() -> Iterator[Item]:
    for name, words in PROGRAMS.items():
        yield Item("programs", name, _told(name, words))


def _told(name: str, words: Iterable[str]) -> str:
    where = shutil.which(name)
    if where is None:
        return "not there"
    try:
        done = subprocess.run(  # noqa: S603 - programs and words of the table above
            [where, *words], capture_output=True, text=True, errors="replace", timeout=PATIENCE, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"there, and does not tell its version: {type(error).__name__}"
    lines = (done.stdout.strip() or done.stderr.strip()).splitlines()
    return lines[0][:120] if lines else "there"


def _variables(environment: Mapping[str, str]) -> Iterator[Item]:
    for name in VARIABLES:
        if name in environment:
            yield Item("variables", name, environment[name][:100] if name in SHOWN else "set")


def _terminal() -> Iterator[Item]:
    for name, stream in (("stdout", sys.stdout), ("stderr", sys.stderr)):
        kind = "a terminal" if stream.isatty() else "no terminal"
        yield Item("terminal", name, f"{kind}, {stream.encoding}")
    yield Item("terminal", "size", "x".join(map(str, shutil.get_terminal_size())))
