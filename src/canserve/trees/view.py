"""From a tree to what an engine reader sees: files of one distribution under the paths it imports them by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from canserve.engines.sources import Hole, Sources
from canserve.facts import Missing
from canserve.trees.tree import Tree

Rename = Callable[[str], str | None]
"""From a path in the tree to the path shown; None: not shown."""


@dataclass(frozen=True, slots=True)
class Part:
    """A folder or file of a tree, shown elsewhere: ``opt/vllm/vllm`` as ``vllm``."""

    tree: Tree
    path: str
    """In the tree; empty: its root."""
    shown: str
    """In the view; empty: its root."""
    single: bool = False
    """A file, known to be there; nothing is listed for it."""


def sources_of(tree: Tree, subject: str, prefix: str = "", rename: Rename | None = None) -> Sources:
    """The files below ``prefix`` as sources, their paths relative to it and then renamed."""
    return joined(subject, [Part(tree, prefix, "")], rename)


def joined(subject: str, parts: Iterable[Part], rename: Rename | None = None) -> Sources:
    """Several parts of one or more trees as one set of sources. Where two show one path, the first wins."""
    places: dict[str, tuple[Tree, str]] = {}
    holes: list[Hole] = []
    for part in parts:
        if part.single:
            _show(places, part, part.path, rename)
            continue
        listing = part.tree.listing(part.path)
        for path in listing.entries:
            _show(places, part, path, rename)
        for hole in listing.holes:
            holes.extend(_shown_hole(part, hole, rename))
    return Sources(subject, places, lambda paths: _fetch(places, paths), holes)


def _show(places: dict[str, tuple[Tree, str]], part: Part, path: str, rename: Rename | None) -> None:
    shown = _moved(part, path)
    renamed = rename(shown) if rename else shown
    if renamed is not None:
        places.setdefault(renamed, (part.tree, path))


def _moved(part: Part, path: str) -> str:
    """The path under which a file of the tree is shown."""
    below = path[len(part.path) :].lstrip("/") if part.path else path
    return "/".join(piece for piece in (part.shown, below) if piece)


def _shown_hole(part: Part, hole: Hole, rename: Rename | None) -> list[Hole]:
    inside = not part.path or hole.prefix == part.path or hole.prefix.startswith(part.path + "/")
    shown = _moved(part, hole.prefix) if inside else part.shown  # a hole around the part covers all of it
    renamed = rename(shown) if rename and shown else shown
    return [] if renamed is None else [Hole(renamed, hole.missing)]


def _fetch(places: Mapping[str, tuple[Tree, str]], paths: Sequence[str]) -> Mapping[str, bytes | Missing]:
    """Group by tree, so that each tree is asked once."""
    asked: dict[int, tuple[Tree, dict[str, list[str]]]] = {}
    for path in paths:
        tree, real = places[path]
        asked.setdefault(id(tree), (tree, {}))[1].setdefault(real, []).append(path)
    got: dict[str, bytes | Missing] = {}
    for tree, wanted in asked.values():
        answers = tree.read_many(list(wanted))
        for real, shown in wanted.items():
            got.update(dict.fromkeys(shown, answers[real]))
    return got
