"""The word that every request over HTTP carries: in a file that its owner alone can read."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path

from canserve.api import SpecError
from canserve.store.journal import default_folder
from canserve.trees.secret import Secret

NAME = "mcp-token"
_FORM = re.compile(r"[A-Za-z0-9_-]{32,200}")


def token_in(path: Path) -> Secret:
    """The token in a file, which is made where there is none. Raises SpecError for one that others can read."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _read(path)
    except OSError as error:
        raise SpecError(
            f"{path}: {error.strerror or error}", "name another file with --token-file"
        ) from error
    with os.fdopen(new, "w", encoding="ascii") as file:
        text = secrets.token_urlsafe(32)
        file.write(f"{text}\n")
    return Secret(text)


def _read(path: Path) -> Secret:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(1024).decode("ascii", "replace").strip()
    except OSError as error:
        raise SpecError(
            f"{path}: {error.strerror or error}", "name another file with --token-file"
        ) from error
    if mode & 0o077:
        raise SpecError(f"{path}: others can read it", f"chmod 600 {path}")
    if not _FORM.fullmatch(text):
        raise SpecError(f"{path}: it holds no token", "remove it, or write 32 letters and digits or more")
    return Secret(text)


def usual() -> Path:
    """Where the token is, unless told otherwise."""
    return default_folder() / NAME
