"""YAML as a tree of text with lines: no types, no tags, no objects; aliases within bounds, keys once each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import yaml

from canserve.recipes.trouble import MAX_DEPTH, MAX_NODES, WEIGHT, RecipeError

MERGE = "<<"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml where PyYAML was built with it: the same events, ten times as fast."""
_CORE = "tag:yaml.org,2002:"
_PLAIN_TAGS = frozenset(_CORE + name for name in ("str", "int", "float", "bool", "null", "seq", "map"))
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})
_FALSE = frozenset({"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"})


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value as text."""

    text: str
    line: int
    """Where its text begins: of a block, the line below the sign."""
    style: str | None = None
    """None: plain; a quote, or the sign of a block."""
    at: str = ""
    """``base.yaml:3`` where it stands in a further file."""

    @property
    def null(self) -> bool:
        """Whether it is nothing."""
        return self.style is None and self.text in _NULLS

    @property
    def truth(self) -> bool | None:
        """What it says where a yes or no is asked; None: neither."""
        if self.text in _TRUE:
            return True
        return False if self.text in _FALSE else None

    @property
    def lined(self) -> bool:
        """Whether each line of its text is a line of the file."""
        return self.style == "|"


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    nodes: tuple[Node, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Mapping:
    """Keys and values, in their order."""

    entries: tuple[tuple[Scalar, Node], ...]
    line: int

    def get(self, *names: str) -> Node | None:
        """The value of the first of these keys that is there."""
        for name in names:
            for key, node in self.entries:
                if key.text == name:
                    return node
        return None


Node: TypeAlias = Scalar | Items | Mapping
Path: TypeAlias = tuple[str | int, ...]


def documents(text: str) -> tuple[Node, ...]:
    """Every document. Raises RecipeError with the line: no YAML, a tag, a key twice, too deep, too much."""
    try:
        return tuple(_Composer(yaml.parse(text, Loader=_LOADER)).documents())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise RecipeError(
            f"not YAML: {error.problem or error.context}", mark.line + 1 if mark else None
        ) from None
    except yaml.YAMLError as error:
        raise RecipeError(f"not YAML: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise RecipeError("nested too deeply") from None


class _Composer:
    """Events into nodes; what an alias stands for counts as often as it is used."""

    def __init__(self, events: Iterator[yaml.Event]) -> None:
        self._events = events
        self._left = MAX_NODES
        self._anchors: dict[str, tuple[Node, int]] = {}

    def documents(self) -> Iterator[Node]:
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors.clear()
                yield self._node(next(self._events), 0)[0]

    def _node(self, event: yaml.Event, depth: int) -> tuple[Node, int]:
        """A node, and of how many it consists."""
        line = _line(event)
        if depth > MAX_DEPTH:
            raise RecipeError(f"nested more than {MAX_DEPTH} deep", line)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, line)
        self._take(1, line)
        tag = getattr(event, "tag", None)
        if tag is not None and tag not in _PLAIN_TAGS:
            raise RecipeError(f"the tag {str(tag)[:80]} is not read", line)
        anchor = getattr(event, "anchor", None)
        node, size = self._made(event, depth, line)
        if anchor is not None:
            self._anchors[anchor] = node, size
        return node, size

    def _made(self, event: yaml.Event, depth: int, line: int) -> tuple[Node, int]:
        match event:
            case yaml.ScalarEvent():
                style = event.style or None  # libyaml says "" where the other says None
                return Scalar(event.value, line + (style in ("|", ">")), style), 1 + len(
                    event.value
                ) // WEIGHT
            case yaml.SequenceStartEvent():
                return self._items(depth, line)
            case yaml.MappingStartEvent():
                return self._mapping(depth, line)
            case _:
                raise RecipeError("a form of YAML that is not read", line)

    def _alias(self, event: yaml.AliasEvent, line: int) -> tuple[Node, int]:
        found = self._anchors.get(event.anchor or "")
        if found is None:
            raise RecipeError(f"*{event.anchor} stands for nothing, or for what holds it", line)
        self._take(found[1], line)
        return found

    def _take(self, count: int, line: int) -> None:
        self._left -= count
        if self._left < 0:
            raise RecipeError(f"more than {MAX_NODES} values, aliases included", line)

    def _items(self, depth: int, line: int) -> tuple[Node, int]:
        nodes, size = [], 1
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            node, count = self._node(event, depth + 1)
            nodes.append(node)
            size += count
        return Items(tuple(nodes), line), size

    def _mapping(self, depth: int, line: int) -> tuple[Node, int]:
        own: dict[str, tuple[Scalar, Node]] = {}
        merged: list[Mapping] = []
        size = 1
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key, _ = self._node(event, depth + 1)
            if not isinstance(key, Scalar):
                raise RecipeError("a key that is no text", _line(event))
            value, count = self._node(next(self._events), depth + 1)
            size += count + 1
            if key.text == MERGE and key.style is None:
                merged += _merged(value, key.line)
            elif key.text in own:
                raise RecipeError(
                    f"{key.text!r:.80} stands here again; first on line {own[key.text][0].line}", key.line
                )
            else:
                own[key.text] = key, value
        for each in merged:  # what stands here itself wins, then the first of those that are merged
            for key, value in each.entries:
                own.setdefault(key.text, (key, value))
        return Mapping(tuple(own.values()), line), size


def _merged(node: Node, line: int) -> list[Mapping]:
    nodes = node.nodes if isinstance(node, Items) else (node,)
    found = [each for each in nodes if isinstance(each, Mapping)]
    if len(found) != len(nodes):
        raise RecipeError("<< merges what is no mapping", line)
    return found


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


def leaves(node: Node, path: Path = ()) -> Iterator[tuple[Path, str, int]]:
    """Every value with its path and line; an empty list or mapping is one as well."""
    match node:
        case Scalar():
            yield path, node.text, node.line - (node.style in ("|", ">"))
        case Items(nodes=()) | Mapping(entries=()):
            yield path, "", node.line
        case Items():
            for number, each in enumerate(node.nodes):
                yield from leaves(each, (*path, number))
        case Mapping():
            for key, each in node.entries:
                yield from leaves(each, (*path, key.text))


def moved(node: Node, line: int, file: str) -> Node:
    """What stands in a further file, on the line where that is named."""
    match node:
        case Scalar():
            style = '"' if node.lined or node.style == ">" else node.style
            return Scalar(node.text, line, style, node.at or f"{file}:{node.line}")
        case Items():
            return Items(tuple(moved(each, line, file) for each in node.nodes), line)
        case Mapping():
            return Mapping(
                tuple((_key(key, line, file), moved(each, line, file)) for key, each in node.entries), line
            )


def shifted(node: Node, lines: int) -> Node:
    """A document that stands in a text of another, with the lines of that."""
    match node:
        case Scalar():
            return Scalar(node.text, node.line + lines, node.style, node.at)
        case Items():
            return Items(tuple(shifted(each, lines) for each in node.nodes), node.line + lines)
        case Mapping():
            entries = (
                (Scalar(key.text, key.line + lines, key.style, key.at), each) for key, each in node.entries
            )
            return Mapping(tuple((key, shifted(each, lines)) for key, each in entries), node.line + lines)


def _key(key: Scalar, line: int, file: str) -> Scalar:
    return Scalar(key.text, line, key.style, key.at or f"{file}:{key.line}")


def shown(path: Path) -> str:
    """``("args", 3)`` -> ``args[3]``."""
    words = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return words.removeprefix(".")
