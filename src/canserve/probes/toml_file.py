"""Files in TOML that a user writes: bounded, and every fault one line that names the file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from canserve.trees.names import printable

MAX_BYTES = 1 << 20
MAX_WORDS = 200
"""Characters that are told of what the parser says."""


def file_bytes(path: Path, error: type[ValueError]) -> bytes:
    """The file's content. Raises the caller's error: unreadable, or too large."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as why:
        raise error(f"{path}: {why.strerror or why}") from why
    if len(data) > MAX_BYTES:
        raise error(f"{path}: larger than {MAX_BYTES} bytes")
    return data


def parsed(data: bytes, name: str, error: type[ValueError]) -> tuple[str, dict[str, Any]]:
    """The text, and what it says. Raises the caller's error."""
    try:
        text = data.decode("utf-8")
        return text, tomllib.loads(text)
    except (ValueError, RecursionError) as why:  # what is no UTF-8 and what is no TOML are both ValueErrors
        raise error(f"{name}: not TOML: {printable(str(why), MAX_WORDS)}") from why
