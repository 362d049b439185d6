"""What `canserve candidates --format json` prints; see ``shapes``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from canserve.facts import Fact
from canserve.render.shapes import BuildVerdictShape, ModelShape
from canserve.trees.tree import Cost
from canserve.verdict import Word


@dataclass(frozen=True, slots=True)
class TravelShape:
    """Bytes that would have to be brought to one machine."""

    bytes: Annotated[int | None, "The figure; null: it is not known exactly."]
    at_least: int
    at_most: Annotated[int | None, "Null: no bound is known."]
    because: str


@dataclass(frozen=True, slots=True)
class CandidateShape:
    """One build, judged for all machines."""

    build: Annotated[str, "As `canserve check --build` takes it."]
    source: Annotated[
        Literal["named", "running", "image", "environment", "file", "tag", "search", "index"],
        "Where it was heard of.",
    ]
    also: Annotated[tuple[str, ...], "Other names of the very same."]
    note: str
    on: Annotated[tuple[str, ...], "The machines that hold it."]
    digests: Annotated[tuple[str, ...], "Of an image."]
    date: Annotated[str | None, "When it was made or released, ISO 8601."]
    engine: Annotated[str | None, "Null: it could not be told."]
    engine_version: Fact[str]
    verdict: Annotated[Word, "The worst of all machines."]
    blocking: Annotated[str | None, "The check that decides, for a no or an unknown."]
    because: str
    fix: Annotated[str | None, "For a no: the one change that would turn it into a yes."]
    ask: Annotated[str | None, "For an unknown: what would settle it."]
    needs: Annotated[tuple[str, ...], "For a yes: conditions that the user controls."]
    travel: Annotated[Mapping[str, TravelShape], "By machine: what of the build is not there yet."]
    reports: Annotated[
        tuple[BuildVerdictShape, ...],
        "All findings; one report for each CPU architecture among the machines.",
    ]


@dataclass(frozen=True, slots=True)
class CandidatesShape:
    """Output of `canserve candidates --format json`."""

    version: Annotated[Literal[1], "Of this format."]
    model: ModelShape
    verdict: Annotated[
        Word, "That of the best candidate; unknown where that is a no and not everything could be looked at."
    ]
    because: str
    weights: Annotated[Mapping[str, TravelShape], "By machine: what of the model is not there yet."]
    candidates: Annotated[tuple[CandidateShape, ...], "The best first."]
    without_engine: Annotated[tuple[str, ...], "Read whole, and no engine is in it."]
    left_out: Annotated[tuple[str, ...], "Heard of, and not read: there were too many."]
    unheard: Annotated[tuple[str, ...], "Places that may hold more, and why they could not be listed."]
    cost: Annotated[Cost, "What reading moved over the network."]
