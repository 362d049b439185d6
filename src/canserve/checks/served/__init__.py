"""Checks of a served endpoint, by the same findings as before launch."""

from __future__ import annotations

from canserve.checks.served import form, formats, load, ready, right, speed
from canserve.checks.served.check import ServedCheck

CHECKS: tuple[ServedCheck, ...] = (
    ready.READY,
    ready.RIGHT_MODEL,
    ready.ANSWERS,
    form.STREAMS,
    right.CORRECT,
    form.REPEATS,
    right.BATCH,
    right.REPETITION,
    right.LANGUAGE,
    form.ENDS,
    form.STOP,
    formats.REASONING,
    formats.CLOSED,
    formats.TOOL,
    formats.TOOL_STREAMED,
    formats.SCHEMA_KEPT,
    form.LOGPROBS,
    load.LONG,
    load.TOO_LONG,
    load.RANKS,
    load.CANCEL,
    load.OVERLOAD,
    ready.METRICS,
    speed.CHECK,
)
"""In the order in which a reader wants to see them: whether it answers, what it says, in which form, under load."""
