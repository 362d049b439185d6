"""A module in outline: what it imports and which names it binds; small enough to be kept for the next time.

Following imports needs no more than that of most modules, and half of a verdict's time went into parsing them.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from canserve.engines.static.scan import Module
from canserve.engines.static.sites import ImportSite

FORM = 1
"""Changes with whatever ``scan`` gives for the same text; outlines kept under another form are not found."""


@dataclass(frozen=True, slots=True)
class Outline:
    """What a module's top level imports and binds."""

    imports: tuple[ImportSite, ...]
    names: frozenset[str]


def outline_of(module: Module) -> Outline:
    """The outline of a module that was scanned."""
    return Outline(tuple(module.imports), frozenset(module.bindings))


def key_of(path: str, platform: str, data: bytes) -> str:
    """Under which an outline is kept: all that it depends on."""
    head = json.dumps([FORM, path, platform]).encode()
    return hashlib.sha256(head + b"\n" + data).hexdigest()


def pack(outline: Outline) -> bytes:
    """An outline's bytes."""
    imports = [[site.module, site.name, site.line, site.guards] for site in outline.imports]
    return json.dumps([imports, sorted(outline.names)], separators=(",", ":")).encode()


def unpack(data: bytes) -> Outline | None:
    """An outline from its bytes; None: they are none."""
    try:
        imports, names = json.loads(data)
        sites = tuple(ImportSite(module, name, line, tuple(guards)) for module, name, line, guards in imports)
        return Outline(sites, frozenset(names))
    except (ValueError, TypeError):
        return None
