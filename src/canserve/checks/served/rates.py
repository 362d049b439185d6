"""Rates from raw samples: tokens a second, seconds to the first token; median and spread, never a mean alone."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from canserve.subjects.served import Answer, Reply, Speeds, Step

CEILING = 40_000.0
"""Tokens a second that the load generator itself takes, in one process (``bench/load.py``, bench/results/README.md)."""
_LEAST_PIECES = 3
"""Of a stream, below which it says nothing of a rate."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Samples in short."""

    median: float
    low: float
    high: float
    count: int


def spread(values: Iterable[float]) -> Spread | None:
    """Median, least and greatest; None of nothing."""
    found = sorted(values)
    return Spread(statistics.median(found), found[0], found[-1], len(found)) if found else None


def decode_rate(reply: Reply) -> float | None:
    """Tokens a second after the first piece: the tokens that came after it, by the time they took.

    A piece may hold several tokens (speculative decoding), so the server's own count is used where it gives one;
    the first piece is taken to hold as many as the others do.
    """
    if not isinstance(reply, Answer) or len(reply.arrivals) < _LEAST_PIECES:
        return None
    pieces, took = len(reply.arrivals), reply.arrivals[-1] - reply.arrivals[0]
    tokens = reply.completion_tokens if reply.completion_tokens is not None else pieces
    return tokens * (pieces - 1) / pieces / took if took > 0 else None


def first_token(reply: Reply) -> float | None:
    """Seconds from sending to the first piece with text."""
    return reply.arrivals[0] if isinstance(reply, Answer) and reply.arrivals else None


def between(replies: Iterable[Reply]) -> list[float]:
    """Seconds between neighbouring pieces, of all streams."""
    streams = [reply.arrivals for reply in replies if isinstance(reply, Answer)]
    return [later - sooner for times in streams for sooner, later in itertools.pairwise(times)]


def decode(speeds: Speeds) -> Spread | None:
    """Tokens a second of one stream."""
    return spread(rate for reply in speeds.alone if (rate := decode_rate(reply)) is not None)


def first(speeds: Speeds) -> Spread | None:
    """Seconds to the first token of a short prompt."""
    return spread(seconds for reply in speeds.short if (seconds := first_token(reply)) is not None)


def prefill(speeds: Speeds) -> Spread | None:
    """Tokens of prompts a second: what a long prompt has more than a short one, by the time it takes longer."""
    base = first(speeds)
    short = [
        reply.prompt_tokens for reply in speeds.short if isinstance(reply, Answer) and reply.prompt_tokens
    ]
    if base is None or not short:
        return None
    few = statistics.median(short)
    return spread(
        (reply.prompt_tokens - few) / (seconds - base.median)
        for reply in speeds.long
        if isinstance(reply, Answer)
        and reply.prompt_tokens is not None
        and reply.prompt_tokens > 2 * few
        and (seconds := first_token(reply) or 0.0) > base.median
    )


def throughput(step: Step) -> float | None:
    """Tokens a second of all streams of a step that were answered."""
    counts = [tokens(reply) for reply in step.replies]
    total = sum(count for count in counts if count is not None)
    return total / step.seconds if total and step.seconds > 0 else None


def tokens(reply: Reply) -> int | None:
    """Tokens of an answer, by the server's count or else by pieces."""
    if not isinstance(reply, Answer):
        return None
    return reply.completion_tokens if reply.completion_tokens is not None else len(reply.arrivals)


def failed(step: Step) -> int:
    """Requests of a step without an answer."""
    return sum(not isinstance(reply, Answer) for reply in step.replies)


def limited(steps: Sequence[Step]) -> bool:
    """Whether the most that was measured may be what the load generator can take, not the server."""
    best = top(steps)
    return best is not None and (throughput(best) or 0.0) > CEILING / 3


def top(steps: Sequence[Step]) -> Step | None:
    """The step with the most tokens a second."""
    good = [step for step in steps if throughput(step) is not None]
    return max(good, key=lambda step: throughput(step) or 0.0, default=None)
