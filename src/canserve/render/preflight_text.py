"""What a preflight did, as text: the ranks, how they talk, how fast, and what was tried after a stall."""

from __future__ import annotations

from collections.abc import Iterable

from canserve.render.page import Cell, Row
from canserve.subjects.preflight import Measure, Preflight


def preflight_rows(flight: Preflight) -> Iterable[Row]:
    """The table that stands before the findings."""
    places = ", ".join(dict.fromkeys(flight.inside))
    yield Row(f"{flight.backend} over {flight.master}, in {places}", label="preflight ")
    for rank in flight.ranks:
        yield Row(str(rank), indent=2)
        where = [f"at {rank.address} (by {rank.interface})"] if rank.address else []
        told = [
            f"{name} {rank.told[name]}" for name in ("torch", "cuda", "nccl", "name") if name in rank.told
        ]
        if where or told:
            yield Row(", ".join([*where, *told]), indent=4)
    if flight.channels:
        ways = dict.fromkeys(f"ranks {c.source} to {c.target} via {c.via}" for c in flight.channels)
        yield Row(", ".join(ways), indent=2)
    if flight.measures:
        titles = (Cell("what", 24), Cell("size", 10), Cell("time", 12), Cell("bus bandwidth"))
        yield Row("", titles, indent=2)
    for measure in flight.measures:
        yield _measured(measure)
    for trial in flight.trials:
        yield Row(str(trial), indent=2)


def _measured(measure: Measure) -> Row:
    what = f"ranks {measure.pair[0]} and {measure.pair[1]}" if measure.pair else measure.op
    time = measure.seconds if measure.latency is None else measure.latency
    said = f"{time * 1e6:,.1f} us" if time < 0.1 else f"{time:.2f} s"
    wrong = "" if measure.right else " WRONG RESULT"
    cells = (Cell(what, 24), Cell(_size(measure.size.count), 10), Cell(said, 12))
    return Row(f"{measure.bus}{wrong}", cells, indent=2)


def _size(count: int) -> str:
    """``8 B``, ``256 MiB``: these sizes are powers of two."""
    for unit, shift in (("MiB", 20), ("KiB", 10)):
        if count >= 1 << shift:
            return f"{count >> shift} {unit}"
    return f"{count} B"
