"""Which names of strangers may be used as paths."""

from __future__ import annotations

from canserve.trees.names import refusal

MAX_NAME = 1024


def stays_inside(name: str) -> bool:
    """Whether a file name from an index or a list of files is a plain relative path that stays in its tree.

    On every system: a backslash or a drive letter makes it none.
    """
    if not name or len(name) > MAX_NAME or refusal(name) is not None:
        return False
    return "\\" not in name and ":" not in name.split("/", 1)[0]
