"""How tensors are cut, where they lie and in which precision they are held: ``weights.toml``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from canserve.rules.table import Row, covers, load

NAME = "weights.toml"
PLACES = frozenset({"ahead", "skip", "tower", "first", "embedding", "head", "last"})
CUTS = frozenset({"whole", "column", "row", "qkv", "kv", "groups"})


@dataclass(frozen=True, slots=True)
class Rule:
    """One row: names in which the pattern is found mean ``word``."""

    pattern: re.Pattern[str]
    word: str
    row: Row


@dataclass(frozen=True, slots=True)
class Margin:
    """How far a computed figure may lie from the printed one: shares of it, and bytes in both directions."""

    below: float
    above: float
    bytes: int


@cache
def places() -> tuple[Rule, ...]:
    """Where tensors outside the decoder's layers lie. Raises RuleError for a malformed table."""
    return _rules("place", PLACES)


@cache
def cuts() -> tuple[Rule, ...]:
    """How a tensor is cut."""
    return _rules("cut", CUTS)


@cache
def held() -> tuple[Rule, ...]:
    """In which dtype parameters are held whatever the model's dtype is."""
    return _rules("held", None, "dtype")


@cache
def margin() -> Margin:
    """The interval of a computed figure."""
    row = load(NAME).rows("margin")[0]
    below, above, size = (row.values.get(key) for key in ("below", "above", "bytes"))
    if not isinstance(below, float) or not isinstance(above, float) or type(size) is not int:
        raise row.wrong("needs below, above and bytes")
    return Margin(below, above, size)


@dataclass(frozen=True, slots=True)
class Allocator:
    """How torch's caching allocator rounds an allocation, in bytes."""

    large: int
    step: int
    rest: int
    small: int

    def taken(self, size: int) -> int:
        """What an allocation of that size counts as allocated."""
        if size < self.large:
            return -(-size // self.small) * self.small
        segment = -(-size // self.step) * self.step
        return segment if segment - size <= self.rest else size


@cache
def allocator() -> Allocator:
    """Its numbers."""
    row = load(NAME).rows("allocator")[0]
    numbers = [
        row.values[key] for key in ("large", "step", "rest", "small") if type(row.values.get(key)) is int
    ]
    if len(numbers) != 4 or min(numbers) < 1:
        raise row.wrong("needs large, step, rest and small, in bytes")
    return Allocator(*numbers)


@dataclass(frozen=True, slots=True)
class Padding:
    """Multiples to which experts are padded: their hidden size, and their width on one rank."""

    hidden: int
    width: int


@cache
def paddings(method: str) -> tuple[tuple[range, Padding], ...]:
    """Those of a quantization method, by compute capability times ten."""
    found = []
    for row in load(NAME).rows("padding"):
        numbers = [row.values.get("hidden"), row.values.get("width"), *row.values.get("capabilities", ())]
        hidden, width, first, last = (number if type(number) is int else 0 for number in (*numbers, 0, 0)[:4])
        if min(hidden, width) < 1 or last < first:
            raise row.wrong("needs hidden, width and capabilities from and to")
        if row.text("method") == method:
            found.append((range(first, last + 1), Padding(hidden, width)))
    return tuple(found)


def loads_first(engine: str, version: str) -> Row | None:
    """The row that says this release holds a checkpoint unquantized until all of it is loaded."""
    rows = load(NAME).rows("loads_first")
    mine = (row for row in rows if row.values.get("engine") == engine)
    return next((row for row in mine if covers(row.text("releases"), version)), None)


def scales_twice(engine: str, version: str, method: str, tenfold: int) -> bool:
    """Whether this release keeps a method's scales twice on accelerators of that compute capability."""
    for row in load(NAME).rows("scales_twice"):
        first_, last = row.values.get("capabilities", (0, 0))
        if (row.values.get("engine"), row.values.get("method")) == (
            engine,
            method,
        ) and first_ <= tenfold <= last:
            return covers(row.text("releases"), version) is True
    return False


@cache
def fused() -> tuple[Rule, ...]:
    """Tensors that are held as one: the part of the name that differs, and what takes its place."""
    return _rules("fused", None, "name")


def held_in(name: str) -> str:
    """The name of the allocation that holds a tensor: several tensors may share one."""
    for rule in fused():
        changed, found = rule.pattern.subn(rule.word, name)
        if found:
            return changed
    return name


def first(rules: tuple[Rule, ...], name: str) -> str | None:
    """The word of the first rule that fits a tensor's name."""
    return next((rule.word for rule in rules if rule.pattern.search(name)), None)


def _rules(section: str, words: frozenset[str] | None, key: str | None = None) -> tuple[Rule, ...]:
    found = []
    for row in load(NAME).rows(section):
        word = row.text(key or section)
        if words is not None and word not in words:
            raise row.wrong(f"{word} is none of {', '.join(sorted(words))}")
        try:
            found.append(Rule(re.compile(row.text("pattern")), word, row))
        except re.error as error:
            raise row.wrong(f"its pattern does not compile: {error}") from error
    return tuple(found)
