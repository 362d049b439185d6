"""Figures as people read them: GiB, tokens, speeds, layouts; with the interval where it says something."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from canserve.memory.quantity import GIB, Quantity
from canserve.subjects.parallel import Parallel


def gib(count: float) -> str:
    """Bytes as GiB with one decimal, the unit not said: ``57.8``."""
    return f"{count / GIB:.1f}"


def tokens(count: float) -> str:
    """A number of tokens, whole: ``262144``."""
    return f"{int(count)}"


def rounded(number: float) -> str:
    """Three significant digits: ``3.8``, ``31``, ``1,230``; next to nothing is ``0``."""
    if abs(number) < 0.005:
        return "0"
    if abs(number) >= 100:
        digits = len(str(int(abs(number))))
        return f"{round(number, 3 - digits):,.0f}"
    return f"{number:.3g}"


def around(quantity: Quantity, say: Callable[[float], str]) -> str:
    """``31 (27 to 35)``; the interval only where it differs from the value as it is written."""
    value, low, high = map(say, (quantity.value, quantity.low, quantity.high))
    return value if low == value == high else f"{value} ({low} to {high})"


def layout_name(parallel: Parallel) -> str:
    """``TP2``, ``TP4 PP2``, ``DP8 EP8``; ``TP1`` on a single accelerator."""
    degrees = (("TP", parallel.tp), ("PP", parallel.pp), ("DP", parallel.dp), ("EP", parallel.ep))
    return " ".join(f"{name}{degree}" for name, degree in degrees if degree > 1) or "TP1"


def change_name(change: Mapping[str, object]) -> str:
    """``kv_cache_dtype=fp8 enforce_eager``."""
    texts = (
        name if value is True else f"{name}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in change.items()
    )
    return " ".join(texts)
