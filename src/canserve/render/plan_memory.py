"""Where memory goes, as a bar for each rank; and how many sequences fit, as a curve.

Bars are letters, so that they read the same without colour, in a pipe and to a screen reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from canserve.memory.quantity import Quantity
from canserve.memory.request import RankMemory
from canserve.render.figures import around, gib, rounded
from canserve.render.page import Cell, Look, Row
from canserve.subjects.parallel import Rank

PARTS = (
    ("W", "weights", "weights", "white on blue"),
    ("A", "activation", "activation", "black on cyan"),
    ("G", "graphs", "graphs", "white on magenta"),
    ("N", "non-torch", "non_torch", "black on white"),
    ("K", "KV cache", "kv_available", "black on green"),
)
LEFT = "."
"""What the engine leaves to others."""
WIDTH = 60
"""Columns of a bar where the width of the page does not matter."""


CURVE = 40
"""Columns of the longest bar of the curve."""
MACHINES = 4
"""Names of machines that are shown."""


def memory_rows(ranks: Sequence[Rank], memory: Sequence[RankMemory], look: Look) -> Iterable[Row]:
    """A bar and its figures for each rank; ranks that are alike share one."""
    groups: dict[RankMemory, list[Rank]] = {}
    for rank, part in zip(ranks, memory, strict=True):
        groups.setdefault(part, []).append(rank)
    for part, alike in groups.items():
        total, budget = gib(part.total.value), gib(part.budget.value)
        each = "each " if len(alike) > 1 else ""
        of = f"{each}{total} GiB, of which the engine takes {budget}"
        yield Row(of, indent=2, label=f"{ranks_name(alike)} ")
        width = min(WIDTH, look.width - 4 if look.width else WIDTH)
        yield Row(indent=4, pieces=bar(part, width))
        yield Row(", ".join(_figures(part)), indent=4)


def ranks_name(alike: Sequence[Rank]) -> str:
    """``ranks 0 and 1 (spark-1, spark-2)``."""
    machines = list(dict.fromkeys(rank.machine for rank in alike))
    where = (
        ", ".join(machines) if len(machines) <= MACHINES else f"{machines[0]} and {len(machines) - 1} more"
    )
    numbers = [rank.number for rank in alike]
    match numbers:
        case [one]:
            return f"rank {one} ({where})"
        case [one, other]:
            text = f"{one} and {other}"
        case _ if numbers == list(range(numbers[0], numbers[-1] + 1)):
            text = f"{numbers[0]} to {numbers[-1]}"
        case _:
            text = ", ".join(map(str, numbers))
    return f"ranks {text} ({where})"


def bar(part: RankMemory, width: int) -> tuple[tuple[str, str], ...]:
    """Letters in proportion to bytes; what is there at all has one letter at least."""
    sizes = [max(getattr(part, field).value, 0.0) for _, _, field, _ in PARTS]
    left = max(part.total.value - sum(sizes), 0.0)
    columns = shared_out([*sizes, left], width)
    pieces = [(letter * n, style) for (letter, _, _, style), n in zip(PARTS, columns, strict=False)]
    return tuple(piece for piece in (*pieces, (LEFT * columns[-1], "dim")) if piece[0])


def shared_out(sizes: Sequence[float], width: int) -> list[int]:
    """So many columns for each size that they fill the width, and none that is there is lost."""
    whole = sum(sizes) or 1.0
    exact = [size / whole * width for size in sizes]
    columns = [max(int(share), 1) if size > 0 else 0 for share, size in zip(exact, sizes, strict=True)]
    while sum(columns) != width and any(columns):
        gap = [share - count for share, count in zip(exact, columns, strict=True)]
        if sum(columns) < width:
            columns[gap.index(max(gap))] += 1
        else:
            spare = [g if count > 1 else float("inf") for g, count in zip(gap, columns, strict=True)]
            columns[spare.index(min(spare))] -= 1
    return columns


def _figures(part: RankMemory) -> Iterable[str]:
    for letter, name, field, _ in PARTS:
        figure: Quantity = getattr(part, field)
        if figure.high > 0 or field == "kv_available":
            yield f"{letter} {name} {around(figure, gib)}"
    used = sum(max(getattr(part, field).value, 0.0) for _, _, field, _ in PARTS)
    yield f"{LEFT} left {gib(max(part.total.value - used, 0.0))}"


def curve_rows(curve: Sequence[tuple[int, Quantity]]) -> Iterable[Row]:
    """Sequences at once, by length: a line each, with a bar."""
    if len(curve) < 2:
        return
    most = max(sequences.value for _, sequences in curve)
    yield Row("by their length in tokens", indent=2, label="sequences at once ")
    for length, sequences in curve:
        bars = max(round(sequences.value / most * CURVE), 1) if most > 0 and sequences.value >= 1 else 0
        cells = (Cell(f"{length:>9}", 11), Cell(f"{rounded(sequences.value):>8}", 10))
        yield Row("#" * bars, cells, indent=2, cut=True)
