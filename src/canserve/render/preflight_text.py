"""What a preflight did, as text: the ranks, how they talk, how fast, and what was tried after a stall."""

from __future__ import annotations

from collections.abc import Iterable

from canserve.checks.preflight.transport import link_rate, share
from canserve.checks.reader import Reader
from canserve.render.page import Cell, Row
from canserve.subjects.cluster import Cluster, Node
from canserve.subjects.preflight import Measure, Preflight


def preflight_rows(flight: Preflight, cluster: Cluster) -> Iterable[Row]:
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
        titles = (Cell("what", 24), Cell("size", 10), Cell("time", 16), Cell("bus bandwidth"))
        yield Row("", titles, indent=2)
    for measure in flight.measures:
        yield _measured(measure, _link(measure, flight, cluster))
    for trial in flight.trials:
        yield Row(str(trial), indent=2)


def _link(measure: Measure, flight: Preflight, cluster: Cluster) -> str:
    """How much of the link between two ranks that is."""
    nodes = {node.name: node for node in cluster.nodes}
    ends = [nodes.get(flight.node(number)) for number in measure.pair or ()]
    match ends:
        case [Node() as a, Node() as b]:
            return share(measure, link_rate(Reader(), a, b))
        case _:
            return ""


def _measured(measure: Measure, link: str) -> Row:
    what = f"ranks {measure.pair[0]} and {measure.pair[1]}" if measure.pair else measure.op
    time = measure.seconds if measure.latency is None else measure.latency
    said = f"{time * 1e6:,.1f} us" if time < 0.1 else f"{time:.2f} s"
    said += "" if measure.latency is None else " (8 B)"
    wrong = "" if measure.right else " WRONG RESULT"
    cells = (Cell(what, 24), Cell(_size(measure.size.count), 10), Cell(said, 16))
    return Row(f"{measure.bus}{link}{wrong}", cells, indent=2)


def _size(count: int) -> str:
    """``8 B``, ``256 MiB``: these sizes are powers of two."""
    for unit, shift in (("MiB", 20), ("KiB", 10)):
        if count >= 1 << shift:
            return f"{count >> shift} {unit}"
    return f"{count} B"
