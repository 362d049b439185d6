"""Environments with real engines, installed once from the package index and kept in the user's cache.

Each is a folder whose name ends in the digest of its lock, and is finished when it holds ``made``. Whoever needs one asks
``place``; of several who ask at once, one installs and the others wait. An installation that was broken off goes on where
it was. They can be seen under any path (bind mounts): nothing in them names the folder they were made in.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import platformdirs

LOCKS = Path(__file__).with_name("locks")
PYTHON = Path("/usr/bin/python3")
"""The system's own: the lab's hosts have no home folders of this machine, where other interpreters lie."""
PATIENCE = 1500.0
"""Seconds for one installation."""
SHEBANG = b"""#!/bin/sh
'''exec' "$(dirname "$(readlink -f "$0")")/python3" "$0" "$@"
' '''
"""
"""To sh: run the Python beside this file; to Python: a string."""


class InstallError(Exception):
    """An environment could not be made."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """One environment."""

    name: str
    finish: Callable[[Path], None]
    """What the packages need done to run without an accelerator; given the folder of packages."""
    warm: str = ""
    """Modules to import once: so it is known that it works, and they are compiled, as where it is used nobody can."""
    compiled: tuple[str, ...] = ()
    """Folders and files below the packages that are compiled as a whole."""
    number: int = 1
    """Raised when the same lock is to give another environment."""

    @property
    def lock(self) -> Path:
        """Names and versions of all packages."""
        return LOCKS / f"{self.name}.txt"


def home() -> Path:
    """Where environments and models of the tests are kept: ``CANSERVE_TEST_ENGINES``, or the user's cache."""
    given = os.environ.get("CANSERVE_TEST_ENGINES")
    return Path(given) if given else platformdirs.user_cache_path("canserve-tests") / "engines"


def digest(*parts: bytes) -> str:
    """Of everything that decides what is made."""
    found = hashlib.sha256()
    for part in parts:
        found.update(hashlib.sha256(part).digest())
    return found.hexdigest()[:16]


@contextmanager
def made_once(folder: Path) -> Iterator[bool]:
    """Whether the folder is still to be made; while it is, everybody else who asks waits. Finished when nothing is raised."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    mark = folder / "made"
    if mark.exists():
        yield False
        return
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if mark.exists():
            yield False
            return
        yield True
        mark.touch()


def place(recipe: Recipe) -> Path:
    """The environment's folder, made if it is not there. Raises InstallError."""
    version = _interpreter()
    key = digest(recipe.lock.read_bytes(), version.encode(), str(recipe.number).encode())
    folder = home() / f"{recipe.name}-{key}"
    with made_once(folder) as wanted:
        if wanted:
            _install(recipe, folder)
            packages = folder / "lib" / f"python{version}" / "site-packages"
            recipe.finish(packages)
            _movable(folder / "bin")
            _warm(recipe, folder / "bin/python3", packages)
    return folder


def _interpreter() -> str:
    if not PYTHON.exists():
        raise InstallError(f"no {PYTHON} (Debian: python3)")
    words = [str(PYTHON), "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"]
    return _run(words, f"{PYTHON} has no venv").strip()


def _install(recipe: Recipe, folder: Path) -> None:
    python = folder / "bin/python3"
    if not python.exists():
        shutil.rmtree(folder, ignore_errors=True)
        _run([str(PYTHON), "-m", "venv", "--without-pip", str(folder)], "no environment could be made")
    words = ("install", "--quiet", "--no-deps", "--no-compile", "--requirement", str(recipe.lock))
    _run(
        [sys.executable, "-m", "pip", "--python", str(python), *words],
        f"{recipe.name} could not be installed",
    )


def _warm(recipe: Recipe, python: Path, packages: Path) -> None:
    if recipe.compiled:
        files = [str(path) for each in recipe.compiled for path in sorted(packages.glob(each))]
        _run([str(python), "-m", "compileall", "-q", *files], f"{recipe.name} could not be compiled")
    if recipe.warm:
        _run([str(python), "-c", f"import {recipe.warm}"], f"{recipe.name} cannot be imported")


def _movable(programs: Path) -> None:
    """Scripts start the interpreter that lies beside them, not one under an absolute path."""
    ours = f"#!{programs.resolve()}/".encode()
    for script in programs.iterdir():
        if script.is_symlink() or not script.is_file():
            continue
        text = script.read_bytes()
        first, _, rest = text.partition(b"\n")
        if first.startswith(ours):
            script.write_bytes(SHEBANG + rest)


def _run(words: list[str], failed: str) -> str:
    # What is compiled once is to be kept, whatever this machine's own settings are.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE, env=env)
    except subprocess.TimeoutExpired as error:
        raise InstallError(f"{failed}: not within {PATIENCE:.0f} s") from error
    if done.returncode != 0:
        raise InstallError(f"{failed}: {done.stderr.strip()[-1500:]}")
    return done.stdout
