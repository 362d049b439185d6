"""What is kept of a source distribution that was read once: the list of its members, and its source files.

Getting at one file of a packed tar archive means passing over all of it, so this goes into the cache, under the
archive's digest; the archive itself need not stay.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

FORM = 1
"""Number of the form in which it is written; another one is not read."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Members and packed contents of an archive."""

    sizes: Mapping[str, int]
    """Of every listed member, in bytes."""
    holes: tuple[tuple[str, str], ...]
    """Members that are not listed: name, and why."""
    packed: Mapping[str, bytes]
    """Contents of those that are kept, as zlib packs them."""

    def content(self, name: str) -> bytes | None:
        """A kept member; None: it is not kept."""
        packed = self.packed.get(name)
        return None if packed is None else zlib.decompress(packed)

    def dump(self) -> bytes:
        """As one run of bytes."""
        places: dict[str, tuple[int, int]] = {}
        at = 0
        for name, data in self.packed.items():
            places[name] = (at, at + len(data))
            at += len(data)
        head = {"form": FORM, "sizes": dict(self.sizes), "holes": self.holes, "places": places}
        return b"\n".join((json.dumps(head).encode(), b"".join(self.packed.values())))


def load(data: bytes | None) -> Kept | None:
    """From what ``dump`` gave; None: it is of another form."""
    if data is None:
        return None
    head, _, body = data.partition(b"\n")
    try:
        values = json.loads(head)
        if values["form"] != FORM:
            return None
        packed = {name: body[start:end] for name, (start, end) in values["places"].items()}
        return Kept(values["sizes"], tuple((name, why) for name, why in values["holes"]), packed)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
