"""Names from outside: which ones may stand in a listing, and how the others are shown."""

from __future__ import annotations

from canserve.facts import Cause, Evidence, Missing

MAX_PATH = 4096
"""Longest path that is listed, in characters; Linux itself allows no longer one."""

_SHOWN = 200


def printable(text: str, limit: int = _SHOWN) -> str:
    """The text with everything that could act on a terminal escaped, cut to ``limit`` characters."""
    cut = text if len(text) <= limit else text[: limit - 3] + "..."
    return "".join(c if c.isprintable() else _escaped(c) for c in cut)


def _escaped(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was not UTF-8, as os.fsdecode keeps it
        return f"\\x{code - 0xDC00:02x}"
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")


def refusal(path: str) -> str | None:
    """Why a path from an archive or folder is not listed; None: it is fine."""
    if len(path) > MAX_PATH:
        return f"its name has {len(path)} characters"
    if not path.isprintable():
        return "its name holds control characters or is not UTF-8"
    parts = path.split("/")
    if path.startswith("/") or ".." in parts:
        return "its name leads out of the tree"
    if "" in parts or "." in parts:
        return "its name has empty parts"
    return None


def inside(path: str) -> tuple[str, ...] | None:
    """The parts of a path that stays in its tree, ``.`` and empty parts removed; None: it does not stay."""
    if "\0" in path or path.startswith("/"):
        return None
    parts = tuple(part for part in path.split("/") if part not in {"", "."})
    return None if ".." in parts else parts


def below(prefix: str, name: str) -> str:
    """``prefix/name``, or just the one that is not empty."""
    return f"{prefix}/{name}" if prefix and name else prefix or name


def unreadable(subject: str, path: str, why: str, ask: str | None = None) -> Missing:
    """It answered, but could not be understood, or was refused for its size or form."""
    return _missing(Cause.UNREADABLE, subject, path, why, ask)


def unavailable(subject: str, path: str, why: str, ask: str | None = None) -> Missing:
    """It is there, or should be, but does not answer."""
    return _missing(Cause.UNAVAILABLE, subject, path, why, ask)


def unreached(subject: str, path: str, why: str, ask: str | None = None) -> Missing:
    """Never got there."""
    return _missing(Cause.UNREACHED, subject, path, why, ask)


def _missing(cause: Cause, subject: str, path: str, why: str, ask: str | None) -> Missing:
    shown = printable(path)
    line = printable(f"{path}: {why}" if path else why, 400)
    return Missing(cause, line, (Evidence(subject, shown or "the tree", printable(why), whole=False),), ask)
