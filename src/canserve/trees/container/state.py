"""What was read of an image that an engine holds, as one run of bytes for the cache."""

from __future__ import annotations

import json
from dataclasses import dataclass

from canserve.trees.image.layer import Layer
from canserve.trees.image.layer import load as load_layer


@dataclass(frozen=True, slots=True)
class Kept:
    """Folders of which nothing is missing, and what is in them."""

    read: frozenset[str]
    layer: Layer


def dump(kept: Kept) -> bytes:
    """For the cache."""
    return json.dumps(sorted(kept.read)).encode() + b"\n" + kept.layer.dump()


def load(data: bytes | None) -> Kept | None:
    """From what ``dump`` gave; None: nothing, or of another form."""
    if data is None:
        return None
    head, _, body = data.partition(b"\n")
    try:
        read = json.loads(head)
    except ValueError:
        return None
    layer = load_layer(body)
    if layer is None or not isinstance(read, list) or not all(isinstance(path, str) for path in read):
        return None
    return Kept(frozenset(read), layer)
