"""What lines of a log mean: ``failures_*.toml``, ``phases.toml`` and ``stalls.toml``, checked on load.

Patterns are RE2 text, so a match takes time in proportion to the line and nothing else. They are compiled
where logs are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal, get_args

from canserve.rules.table import Row, load

Role = Literal["cause", "symptom", "consequence", "remark", "harmless"]

KINDS = (
    "architecture-not-in-registry",
    "config-model_type",
    "tokenizer-template-parser",
    "quantisation-vs-gpu",
    "parallel-layout",
    "memory",
    "gpu-code-arch",
    "driver-cuda-libc-cpu",
    "multi-node-and-collectives",
    "weights",
    "image-probing-and-logs",
    "served-but-wrong",
)
"""Kinds of failures; what output names, and so never renamed."""

TABLES = (
    *("failures_model.toml", "failures_weights.toml", "failures_hardware.toml", "failures_libraries.toml"),
    *("failures_nodes.toml", "failures_images.toml", "failures_general.toml"),
)
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Signature:
    """One row: which lines it recognises, and what they mean."""

    name: str
    kind: str
    role: Role
    find: tuple[str, ...]
    """Literals; a line without any of them is never asked."""
    match: tuple[str, ...]
    """Patterns of which one must be found in the line; none: the literal says it all."""
    near: tuple[str, ...]
    """Words of which one must stand in the line or in the traceback before it."""
    alone: bool
    """A line without anything before it needs no ``near``."""
    certain: bool
    """It ends a start although it is said as information or as a warning."""
    listed: bool
    """The name that the pattern captures must stand a second time in the line."""
    differ: tuple[str, ...]
    """Two captured groups that must differ."""
    unless: tuple[str, ...]
    """Words none of which may stand in the line: another row's business, also where that row is left out."""
    because: str
    fix: str
    look: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True)
class Marker:
    """Lines that say how far a process has come."""

    engine: str
    """Empty: any engine."""
    phase: str
    find: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Telling:
    """A pattern whose named groups are facts: version, world, rank, node, address."""

    engine: str
    find: tuple[str, ...]
    match: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Counter:
    """A progress bar: patterns with ``done`` and ``total``, and the phase that it counts."""

    phase: str
    find: tuple[str, ...]
    match: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rank stands, told from its stack."""

    name: str
    says: str
    frame: tuple[str, ...]
    group: bool
    parent: bool


@dataclass(frozen=True, slots=True)
class StallWords:
    """What a stall means; braces in its words are filled with what was seen."""

    name: str
    kind: str
    because: str
    fix: str
    look: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True)
class Area:
    """Files of an engine's source in which whatever is raised is of one kind."""

    engine: str
    files: tuple[str, ...]
    kind: str
    because: str
    fix: str
    source: str
    unless: tuple[str, ...] = ()
    """Words of messages that are raised there and are of another kind, or of none."""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Everything that logs are read with."""

    signatures: tuple[Signature, ...]
    areas: tuple[Area, ...]
    markers: tuple[Marker, ...]
    tellings: tuple[Telling, ...]
    processes: tuple[tuple[int, tuple[str, ...]], ...]
    """Depth, and patterns over names of processes; the innermost first."""
    places: tuple[Place, ...]
    stalls: Mapping[str, StallWords] = field(default_factory=dict)
    order: Mapping[str, int] = field(default_factory=dict)
    """Phases, in the order in which a start goes through them."""
    counters: tuple[Counter, ...] = ()
    waiting: tuple[str, ...] = ()
    """Literals of lines that are repeated while nothing moves."""
    lasting: tuple[str, ...] = ()
    """Patterns over titles of processes that live as long as their server."""

    def without(self, kind: str) -> Knowledge:
        """The same, as if nobody had ever seen this kind of failure."""
        return replace(
            self,
            signatures=tuple(row for row in self.signatures if row.kind != kind),
            areas=tuple(row for row in self.areas if row.kind != kind),
        )


@cache
def knowledge() -> Knowledge:
    """The shipped rows. Raises RuleError when one breaks its invariant."""
    phases, stalls = load("phases.toml"), load("stalls.toml")
    order = {name: number for number, name in enumerate(phases.data["order"])}
    markers = tuple(_marker(row, order) for row in phases.rows("marker"))
    signatures = [_signature(row) for name in TABLES for row in load(name).rows("failure")]
    return Knowledge(
        tuple(sorted(signatures, key=lambda row: row.role != "harmless")),
        tuple(_area(row) for row in load("failure_areas.toml").rows("area")),
        markers,
        tuple(_telling(row) for row in phases.rows("fact")),
        tuple((int(row.values["depth"]), row.texts("match")) for row in phases.rows("process")),
        tuple(_place(row) for row in stalls.rows("place")),
        {row.text("name"): _stall(row) for row in stalls.rows("stall")},
        order,
        tuple(_counter(row, order) for row in phases.rows("counter")),
        tuple(literal for row in phases.rows("waiting") for literal in _find(row)),
        tuple(text for row in phases.rows("lasting") for text in row.texts("title")),
    )


def _signature(row: Row) -> Signature:
    role = row.values.get("role", "cause")
    if role not in get_args(Role):
        raise row.wrong(f"no such role: {role}")
    harmless = role == "harmless"
    # What only follows from a failure need not tell its kind.
    kind = str(row.values.get("kind", "")) if harmless or role == "consequence" else row.text("kind")
    if kind not in KINDS and not (kind == "" and role in ("harmless", "consequence")):
        raise row.wrong(f"no such kind: {kind}")
    return Signature(
        row.text("name"),
        kind,
        role,
        _find(row),
        row.texts("match"),
        row.texts("near"),
        bool(row.values.get("alone")),
        bool(row.values.get("certain")),
        bool(row.values.get("listed")),
        row.texts("differ"),
        row.texts("unless"),
        "" if harmless else row.text("because"),
        "" if harmless else row.text("fix"),
        row.texts("look"),
        row.source,
    )


def _find(row: Row) -> tuple[str, ...]:
    found = row.texts("find")
    if not found:
        raise row.wrong("finds nothing")
    for literal in found:
        if not literal.isascii() or not literal.isprintable() or not 3 <= len(literal) <= _LONGEST:
            raise row.wrong(f"{literal!r} cannot be searched for")
        if set(literal) & set('"\\'):
            raise row.wrong(f"{literal!r} reads otherwise inside JSON")
    return found


def _marker(row: Row, order: Mapping[str, int]) -> Marker:
    if row.text("phase") not in order:
        raise row.wrong("no such phase")
    return Marker(str(row.values.get("engine", "")), row.text("phase"), _find(row))


def _counter(row: Row, order: Mapping[str, int]) -> Counter:
    if row.text("phase") not in order:
        raise row.wrong("no such phase")
    return Counter(row.text("phase"), _find(row), row.texts("match"))


def _telling(row: Row) -> Telling:
    return Telling(str(row.values.get("engine", "")), _find(row), row.texts("match"))


def _place(row: Row) -> Place:
    values = row.values
    return Place(
        row.text("name"),
        row.text("says"),
        row.texts("frame"),
        bool(values.get("group")),
        bool(values.get("parent")),
    )


def _stall(row: Row) -> StallWords:
    if row.text("kind") not in KINDS:
        raise row.wrong("no such kind")
    return StallWords(
        row.text("name"),
        row.text("kind"),
        row.text("because"),
        row.text("fix"),
        row.texts("look"),
        row.source,
    )


def _area(row: Row) -> Area:
    if row.text("kind") not in KINDS:
        raise row.wrong("no such kind")
    return Area(
        row.text("engine"),
        row.texts("files"),
        row.text("kind"),
        row.text("because"),
        row.text("fix"),
        row.source,
        row.texts("unless"),
    )
