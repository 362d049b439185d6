"""What the JSON output of ``since`` and ``matrix`` looks like; the same promise as in ``shapes``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from canserve.index.runs import Release
from canserve.verdict import Word

Day = Annotated[str, "ISO 8601; empty: not stated."]


@dataclass(frozen=True, slots=True)
class RunShape:
    """Neighbouring releases; first and last may be the same one. Nothing is filled in between two runs."""

    first: str
    first_date: Day
    last: str
    last_date: Day
    releases: Annotated[int, "How many releases are in it."]
    current: Annotated[bool, "Whether it ends with the newest release in the index."]


@dataclass(frozen=True, slots=True)
class IndexedShape:
    """One engine, as far as the index knows it."""

    engine: str
    index_date: Annotated[str, "When the index was last changed, ISO 8601."]
    releases: Annotated[tuple[Release, ...], "Oldest first."]


@dataclass(frozen=True, slots=True)
class ServedShape:
    """Releases that list a name, or serve it in one and the same way."""

    run: RunShape
    way: Annotated[
        str,
        "native; converted, by a suffix; fallback, through transformers' own class; remote, through the model "
        "repository's; gguf, by its file; converter, once made a GGUF file; none; unknown.",
    ]
    served_by: Annotated[str | None, "The registered class or the wrapper that does the work."]
    usable: Annotated[Word, "Whether some transformers that these releases allow opens every gate."]
    because: Annotated[str, "Why not, in the newest of them; empty for a yes."]
    check: Annotated[str | None, "The check that decided it; null for a yes."]
    needs: Annotated[tuple[str, ...], "Conditions that the user controls; empty: any transformers will do."]
    ahead: Annotated[bool, "Whether every such transformers came out after the release that followed."]
    transformers: Annotated[
        tuple[str, str] | None, "Oldest and newest transformers release that some of them can be used with."
    ]


@dataclass(frozen=True, slots=True)
class DroppedShape:
    """What builds themselves say of a name they no longer serve."""

    run: RunShape
    name: str
    last: Annotated[str, "The last version that served it, in their own words."]


@dataclass(frozen=True, slots=True)
class EngineSinceShape:
    """One engine's answer."""

    engine: str
    verdict: Annotated[Word, "Whether any release serves it."]
    first: Annotated[
        str | None,
        "First release that serves it with a class of its own and a transformers of its time; where none does, the "
        "first through transformers' own class.",
    ]
    last: Annotated[str | None, "The last one of these."]
    lists: Annotated[tuple[RunShape, ...], "Releases that register the architecture, usable or not."]
    stretches: Annotated[tuple[ServedShape, ...], "Every indexed release is in exactly one of them."]
    dropped: tuple[DroppedShape, ...]


@dataclass(frozen=True, slots=True)
class AnswerShape:
    """One thing that a name stands for."""

    name: Annotated[str, "As the user gave it."]
    kind: Annotated[str, "architecture, GGUF architecture or model."]
    says: Annotated[str, "What it is, and what was assumed of it."]
    engines: tuple[EngineSinceShape, ...]


@dataclass(frozen=True, slots=True)
class SinceShape:
    """Output of `canserve since --format json`."""

    version: Annotated[Literal[1], "Of this format."]
    names: Annotated[tuple[str, ...], "As the user gave them."]
    answers: Annotated[tuple[AnswerShape, ...], "A name may stand for several things."]
    index: Annotated[tuple[IndexedShape, ...], "The engines that were asked."]
    not_indexed: Annotated[tuple[str, ...], "Engines of which there is no index."]


@dataclass(frozen=True, slots=True)
class ListedShape:
    """One engine's releases with a name in their table."""

    first: str
    last: str
    current: Annotated[bool, "Whether the newest release in the index lists it."]
    runs: tuple[RunShape, ...]
    min_capability: Annotated[
        Mapping[str, tuple[RunShape, ...]],
        "For a quantization method: CUDA compute capability, or `none` or `unread`, and the releases that ask for it.",
    ]


@dataclass(frozen=True, slots=True)
class TableShape:
    """One table: names, and what lists them."""

    rows: Annotated[Mapping[str, Mapping[str, ListedShape]], "Name -> engine -> releases."]
    unread: Annotated[Mapping[str, tuple[RunShape, ...]], "Engine -> releases whose table could not be read."]


@dataclass(frozen=True, slots=True)
class MatrixShape:
    """Output of `canserve matrix --format json`."""

    version: Annotated[Literal[1], "Of this format."]
    tables: Annotated[Mapping[str, TableShape], "`architectures`, `quantization` or `gguf_architectures`."]
    index: Annotated[tuple[IndexedShape, ...], "The engines, as far as the index knows them."]
    not_indexed: Annotated[tuple[str, ...], "Engines of which there is no index."]
