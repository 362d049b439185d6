"""What an expression of someone else's source can come out as, beside plain Python data."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Value: TypeAlias = object
"""None, bool, int, float, str, bytes, tuple, list, set, ``Table`` or one of the classes below.

Narrow with ``isinstance``; anything that is not plain data is symbolic and hashable.
"""


@dataclass(frozen=True, slots=True)
class Ref:
    """A name whose value is not plain data (a class, a function, a module), or not evaluated."""

    name: str
    """Dotted, as written: ``torch.float16``, ``LlamaForCausalLM``."""
    module: str | None = field(default=None, compare=False)
    """Absolute module it was imported from, where the import was seen."""
    origin: str | None = field(default=None, compare=False)
    """Its name in that module, where it was renamed or imported."""


@dataclass(frozen=True, slots=True)
class Opaque:
    """An expression that could not be evaluated. ``source`` is its text, perhaps shortened."""

    source: str


@dataclass(frozen=True, slots=True)
class Choices:
    """``typing.Literal[...]``: the allowed values."""

    values: tuple[Value, ...]

    def strings(self) -> tuple[str, ...]:
        """The values that are strings."""
        return tuple(value for value in self.values if isinstance(value, str))


@dataclass(frozen=True, slots=True, eq=False)
class CallValue:
    """A call that was not carried out: ``LazyConfigDict(qwen3_5="Qwen3_5Config")``."""

    func: str
    args: tuple[Value, ...]
    kwargs: Mapping[str, Value]


class Table(dict[Hashable, Value]):
    """A dict that remembers, for every key, where it was set and under which conditions."""

    __slots__ = ("guards", "lines", "opaque", "removed")

    def __init__(self, items: Mapping[Hashable, Value] | Iterable[tuple[Hashable, Value]] = ()) -> None:
        super().__init__(items)
        self.guards: dict[Hashable, tuple[str, ...]] = {}
        """Source text of the conditions under which the key is there; no entry: always."""
        self.lines: dict[Hashable, int] = {}
        """Line of the file that was evaluated where the key was written."""
        self.removed: dict[Hashable, tuple[str, ...]] = {}
        """Conditions under which the key is taken out again."""
        self.opaque: list[str] = []
        """Source text of parts that may add keys but could not be evaluated."""
        if isinstance(items, Table):
            self.absorb(items)

    def absorb(self, other: Table) -> None:
        """Take over what another table remembers of its keys, not the values."""
        self.guards.update(other.guards)
        self.lines.update(other.lines)
        self.removed.update(other.removed)
        self.opaque.extend(other.opaque)

    def put(self, key: Hashable, value: Value, line: int, guards: tuple[str, ...] = ()) -> None:
        """Set one key, with its line and conditions. An unconditional key stays unconditional."""
        known = key in self and key not in self.guards
        self[key] = value
        self.lines[key] = line
        if guards and not known:
            self.guards[key] = guards
        elif not guards:
            self.guards.pop(key, None)
            self.removed.pop(key, None)

    def drop(self, key: Hashable, guards: tuple[str, ...] = ()) -> None:
        """Take one key out; under a condition that is not decided it stays and is marked."""
        if guards:
            if key in self:
                self.removed[key] = guards
            return
        self.pop(key, None)
        for memory in (self.guards, self.lines, self.removed):
            memory.pop(key, None)


class Record(tuple[Value, ...]):
    """An instance of a named tuple class; compares as the tuple it is."""

    site: object
    """The class, as the class graph knows it."""
    names: tuple[str, ...]

    def __new__(cls, names: tuple[str, ...], items: Iterable[Value], site: object) -> Record:
        """Build it from its field names and values."""
        record = super().__new__(cls, items)
        record.names, record.site = names, site
        return record


def brief(value: Value) -> str:
    """A few words for a value; never walks into containers, whose parts may be shared a billion times."""
    match value:
        case str() | bytes():
            return repr(value[:80])
        case int():
            return str(value) if value.bit_length() < 256 else "a large integer"
        case Ref(name=text) | Opaque(source=text) | CallValue(func=text):
            return text
        case float() | None:
            return str(value)
        case _:
            return f"<{type(value).__name__}>"


def symbolic(value: Value) -> bool:
    """Whether the value is unknown to plain computation."""
    return isinstance(value, Ref | Opaque | CallValue)


def strings(value: Value) -> tuple[str, ...] | None:
    """The strings of a list, tuple, set, table (its keys) or Literal; None for anything else."""
    if isinstance(value, Choices):
        return value.strings()
    if isinstance(value, list | tuple | dict):
        return tuple(item for item in value if isinstance(item, str))
    if isinstance(value, set | frozenset):
        return tuple(sorted(item for item in value if isinstance(item, str)))
    return None
