"""What lies on machines and was not judged, for reports that judge something else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from canserve.plan.offers.held import on_machines
from canserve.subjects.cluster import Node


def unjudged(nodes: Sequence[Node]) -> Iterator[str]:
    """A line each: what lies there, which machines could not be looked at, and what of one could not be listed."""
    found = on_machines([node for node in nodes if node.looked_at and node.machine.reached])
    if found.offers:
        kinds = (("running", "running containers"), ("image", "images"), ("environment", "environments"))
        groups = ((what, [o.target for o in found.offers if o.source == source]) for source, what in kinds)
        said = "; ".join(f"{what}: {_first(names)}" for what, names in groups if names)
        yield f"on the machines, and not judged here: {said} (canserve candidates judges them)"
    yield from dict.fromkeys(why for node in nodes if (why := node.machine.unseen) is not None)
    yield from found.unheard


def _first(names: Sequence[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"
