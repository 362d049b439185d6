"""Plots as inline SVG: one series over named steps, with a band from least to most. No script, no other file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from canserve.checks.served.words import number
from canserve.render.escape import visible

_WIDTH, _HEIGHT = 640, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 16, 40
"""Room around the plot, in pixels of its view box."""
_TICKS = 4

STYLE = """
.plot { margin: 0; max-width: 44rem; }
.plot svg { display: block; width: 100%; height: auto; overflow: visible; }
.plot figcaption { color: var(--soft); margin: 0 0 .3rem; }
.plot text { fill: var(--soft); font-size: 12px; font-variant-numeric: tabular-nums; }
.plot .grid { stroke: var(--line); stroke-width: 1; }
.plot .line { fill: none; stroke: var(--bar); stroke-width: 2; stroke-linejoin: round; }
.plot .band { fill: var(--bar); opacity: .16; }
.plot .dot { fill: var(--bar); stroke: var(--card); stroke-width: 2; }
.plot .best { fill: var(--text); font-weight: 600; }
"""
"""Its rules; the colours are those of the page."""


@dataclass(frozen=True, slots=True)
class Point:
    """One step: its name below the axis, the value, and the least and most of it."""

    name: str
    value: float
    low: float
    high: float


def plot(caption: str, unit: str, points: Sequence[Point]) -> str:
    """The figure; nothing where there are fewer than two points."""
    if len(points) < 2:
        return ""
    top = _ceiling(max(point.high for point in points))
    places = [_place(at, len(points)) for at in range(len(points))]
    parts = [*_axes(top), *_names(points, places), *_series(points, places, top, unit)]
    title = escape(visible(f"{caption}, {unit}"))
    return (
        f'<figure class="plot"><figcaption>{title}</figcaption>'
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{title}">{"".join(parts)}</svg></figure>'
    )


def _ceiling(value: float) -> float:
    """The next round number: 1, 2, 2.5 or 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value * 0.999)


def _place(at: int, count: int) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * at / (count - 1)


def _height(value: float, top: float) -> float:
    return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * min(max(value / top, 0.0), 1.0)


def _axes(top: float) -> list[str]:
    out = []
    for tick in range(_TICKS + 1):
        value = top * tick / _TICKS
        y = _height(value, top)
        out.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        out.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{number(value)}</text>')
    return out


def _names(points: Sequence[Point], places: Sequence[float]) -> list[str]:
    every = max(1, len(points) // 12)
    return [
        f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 20}" text-anchor="middle">{escape(visible(point.name, 12))}</text>'
        for at, (point, x) in enumerate(zip(points, places, strict=True))
        if at % every == 0
    ]


def _series(points: Sequence[Point], places: Sequence[float], top: float, unit: str) -> list[str]:
    pairs = list(zip(points, places, strict=True))
    upper = [f"{x:.1f},{_height(point.high, top):.1f}" for point, x in pairs]
    lower = [f"{x:.1f},{_height(point.low, top):.1f}" for point, x in reversed(pairs)]
    line = " ".join(f"{x:.1f},{_height(point.value, top):.1f}" for point, x in pairs)
    best = max(pairs, key=lambda pair: pair[0].value)
    dots = [
        f'<circle class="dot" cx="{x:.1f}" cy="{_height(point.value, top):.1f}" r="4.5">'
        f"<title>{escape(visible(point.name))}: {number(point.value)} {escape(unit)}</title></circle>"
        for point, x in pairs
    ]
    anchor = "end" if best[1] > _WIDTH - 80 else "middle"
    label = (
        f'<text class="best" x="{best[1]:.1f}" y="{_height(best[0].value, top) - 10:.1f}" text-anchor="{anchor}">'
        f"{number(best[0].value)}</text>"
    )
    band = f'<polygon class="band" points="{" ".join([*upper, *lower])}"/>'
    return [band, f'<polyline class="line" points="{line}"/>', *dots, label]
