"""Metrics as Prometheus writes them in text: https://prometheus.io/docs/instrumenting/exposition_formats/."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from canserve.rules.served import Counters, counters

_LINE = re.compile(
    r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[^"{}]|"(?:[^"\\]|\\.)*")*)\})?\s+([-+0-9.eEinfaINFNA]+)(?:\s+-?\d+)?\s*$'
)
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"')
_MOST = 20_000
"""Lines that are read."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One line."""

    name: str
    labels: Mapping[str, str]
    value: float


def samples(text: str) -> Iterator[Sample]:
    """Every line that is a sample."""
    for line in text.split("\n", _MOST)[:_MOST]:
        if len(line) > 4096 or (found := _LINE.match(line)) is None:
            continue
        try:
            value = float(found[3])
        except ValueError:
            continue
        yield Sample(found[1], dict(_LABEL.findall(found[2] or "")), value)


def family(text: str) -> Counters | None:
    """Which known names a page of metrics uses; None: none of them."""
    names = {sample.name for sample in samples(text)}
    return next((each for each in counters() if names & {*each.running, *each.made}), None)


def running(text: str) -> float | None:
    """Requests in execution, over all replicas; None: the page does not say."""
    if (known := family(text)) is None:
        return None
    found = [sample.value for sample in samples(text) if sample.name in known.running]
    return sum(found) if found else None


def total(text: str) -> float | None:
    """Tokens made so far, by all replicas; None: the page does not say."""
    if (known := family(text)) is None:
        return None
    found = [sample.value for sample in samples(text) if sample.name in known.made]
    return sum(found) if found else None


def made(text: str) -> dict[str, float]:
    """By replica: tokens made so far. Empty where they are not counted or not told apart."""
    known = family(text)
    if known is None or not known.replica:
        return {}
    out: dict[str, float] = {}
    for sample in samples(text):
        if sample.name in known.made and known.replica in sample.labels:
            label = sample.labels[known.replica]
            out[label] = out.get(label, 0.0) + sample.value
    return out
