"""Names and texts of strangers, made fit to be shown; and which names may be used as paths."""

from __future__ import annotations


def plain(text: str, limit: int = 80) -> str:
    """Printable and short: control characters and broken code points escaped, the rest cut at ``limit``."""
    cut = text if len(text) <= limit else text[: limit - 3] + "..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cut)


def inside(name: str) -> bool:
    """Whether a file name from an index or a listing is a plain relative path that stays in its tree."""
    return (
        bool(name)
        and len(name) <= 1024
        and "\\" not in name
        and ":" not in name.split("/", 1)[0]
        and name.isprintable()
        and all(part not in {"", ".", ".."} for part in name.split("/"))
    )
