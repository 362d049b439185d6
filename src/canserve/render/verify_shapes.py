"""What ``canserve verify --format json`` prints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from canserve.render.shapes import FindingShape
from canserve.verdict import Skipped, Word


@dataclass(frozen=True, slots=True)
class SpreadShape:
    """Samples in short."""

    median: float
    low: float
    high: float
    samples: int


@dataclass(frozen=True, slots=True)
class SampleShape:
    """One answer that was timed, raw."""

    of: Annotated[str, "decode, short prompt, long prompt or ramp."]
    concurrency: Annotated[int, "Requests at once."]
    answered: bool
    seconds: Annotated[float, "From sending to the last byte."]
    prompt_tokens: int | None
    completion_tokens: int | None
    arrivals: Annotated[tuple[float, ...], "Seconds after sending at which each piece with text came."]


@dataclass(frozen=True, slots=True)
class StepShape:
    """One step of the ramp."""

    concurrency: int
    seconds: float
    tok_s: Annotated[float | None, "Tokens a second of all streams that were answered."]
    first_token_s: SpreadShape | None
    between_pieces_s: SpreadShape | None
    not_answered: int


@dataclass(frozen=True, slots=True)
class ExpectedShape:
    """What the plan promises."""

    decode_tok_s: Annotated[tuple[float, float, float], "Value, low, high."]
    decode_bound_tok_s: float
    prefill_tok_s: Annotated[tuple[float, float, float] | None, "Value, low, high."]
    limit: str


@dataclass(frozen=True, slots=True)
class SpeedsShape:
    """What was measured."""

    decode_tok_s: Annotated[SpreadShape | None, "One stream at a time."]
    first_token_s: Annotated[SpreadShape | None, "Of short prompts."]
    between_pieces_s: Annotated[SpreadShape | None, "One stream at a time; a piece may hold several tokens."]
    prefill_tok_s: SpreadShape | None
    ramp: tuple[StepShape, ...]
    ramp_ended: str
    generator_ceiling_tok_s: Annotated[float, "What the load generator itself can take."]
    expected: ExpectedShape | None
    samples: Annotated[tuple[SampleShape, ...], "Raw, all of them."]
    imported: Annotated[str | None, "The file they came from; null: measured now."]


@dataclass(frozen=True, slots=True)
class VerifyShape:
    """Output of `canserve verify --format json`."""

    version: Annotated[Literal[1], "Of this format."]
    url: str
    model: Annotated[str | None, "The name that requests carried; null: none was sent."]
    context: Annotated[int | None, "Tokens of the longest sequence, as the server claims it."]
    verdict: Annotated[Word, "The worst of its findings."]
    because: str
    findings: tuple[FindingShape, ...]
    skipped: Annotated[tuple[Skipped, ...], "Checks that do not apply here; neither passed nor failed."]
    notes: Annotated[tuple[str, ...], "What to know beside the findings."]
    speeds: SpeedsShape | None
