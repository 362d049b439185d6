"""A deployment that no journal here knows, by what its machines say of it, under the names that they have here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from canserve.api.sites import kept
from canserve.subjects.cluster import Node
from canserve.subjects.deployment import Described, Seen

if TYPE_CHECKING:
    from canserve.api.running import Found


def described(run: str, state: str, nodes: Sequence[Node], seen: Sequence[Seen]) -> Mapping[str, Any]:
    """What is known of it, as the journal keeps it; empty: its machines say nothing."""
    said = [(each.machine, one) for each in seen for one in each.described if one.run == run]
    if not said:
        return {}
    names = {one.machine: machine for machine, one in said}
    most = max((one for _, one in said), key=lambda one: len(one.processes))
    processes = _processes([one for _, one in said])
    endpoint = next(
        ([names[host], api] for _, host, _, api in processes.values() if api is not None and host in names),
        None,
    )
    promise = next((one.promise for _, one in said if one.promise is not None), None)
    count = max(processes, default=-1) + 1
    whole = set(processes) == set(range(count)) and len(most.processes) == count
    return {
        "model": most.model, "build": most.build, "engine": most.engine, "program": most.program, "state": state,
        "operator": most.operator, "machines": kept(nodes), "endpoint": endpoint, "promise": promise, "story": run,
        "held": [names.get(name, name) for name in most.held],
        # Only the head knows all of them: without it no list is better than one with holes.
        "processes": [
            {"host": names.get(processes[n][1], processes[n][1]), "ranks": list(processes[n][2])} for n in range(count)
        ] if whole else [],
    }  # fmt: skip


def _processes(said: Sequence[Described]) -> dict[int, tuple[int, str, tuple[int, ...], int | None]]:
    return {each[0]: each for one in said for each in one.processes if 0 <= each[0] < 100_000}


def as_told(it: Found) -> dict[str, Any]:
    """What the journal keeps of it, whoever knows it."""
    nothing: dict[str, Any] = {
        "model": "", "build": "", "engine": "", "program": it.program or "docker", "operator": it.operator,
        "endpoint": None, "processes": [], "story": it.run, "promise": None,
    }  # fmt: skip
    here = {"state": it.state, "machines": kept(it.nodes), "held": list(it.held)}
    return {**nothing, **it.told, **here}
