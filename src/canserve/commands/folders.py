"""argv that reads folders of a machine."""

from __future__ import annotations


def archive(path: str) -> tuple[str, ...]:
    """Writes a file or folder to stdout as a tar archive, with names from the root; links are not followed."""
    return ("tar", "-c", "-f", "-", "-C", "/", "--", path.lstrip("/"))
