"""What a deployment held is free again, or is said not to be."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from canserve.api.sites import bare
from canserve.run.freed import Held, Still, Waiting, compared, in_use, still_held
from canserve.subjects.cluster import Node
from canserve.subjects.deployment import Deployment, Folder, Site
from loopback import free_port
from made_plans import server

HERE = (bare("here", "local", None),)


@pytest.fixture
def it(tmp_path: Path) -> Deployment:
    process = server("here", free_port())
    return Deployment(
        "r1", "/m", "/b", "vllm", Folder("/b"), (Site("here", (0,)),), (process,), "ana@desk now",
        state=str(tmp_path / "state"),
    )  # fmt: skip


def port(it: Deployment) -> int:
    return int(it.processes[0].argv[-1])


def stuck(it: Deployment, nodes: Sequence[Node], before: Mapping[str, Held], patience: float) -> list[Still]:
    """Without what lies in shared memory: other tests run at the same time."""
    return [one for one in still_held(it, nodes, before, Waiting(patience=patience)) if one.passes]


def test_nothing_is_held_where_nothing_ran(it: Deployment) -> None:
    before = in_use(it, HERE)
    assert stuck(it, HERE, before, 5) == []


def test_a_port_on_which_something_still_listens(it: Deployment) -> None:
    before = in_use(it, HERE)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port(it)))
        taken.listen()
        (still,) = stuck(it, HERE, before, 0)
        assert (still.machine, still.blocks) == ("here", True) and f"port {port(it)}" in still.what
        assert stuck(it, HERE, in_use(it, HERE), 0) == []  # it was so before
    assert stuck(it, HERE, before, 5) == []


def test_a_machine_that_was_not_reached_is_said_to_be_unseen_and_not_waited_for(it: Deployment) -> None:
    """By waiting nothing becomes free where nobody could take it away."""
    waited: list[str] = []
    how = Waiting(tell=waited.append, lost={"here": "no route to host"})
    (still,) = still_held(it, HERE, {}, how)
    assert (still.machine, still.what) == ("here", "it cannot be seen: no route to host")
    assert (still.blocks, still.passes, waited) == (True, False, [])


def test_a_claim_and_a_process_that_are_left(it: Deployment) -> None:
    state = Path(it.state)
    (state / "r1" / "0").mkdir(parents=True)
    (state / "accelerator-0.lock").symlink_to("r1 process ana@desk now")
    found = stuck(it, HERE, in_use(it, HERE), 0)
    assert {one.what.split(" is ")[0].split(" /")[0] for one in found} == {"process", "accelerator-0"}
    assert all(one.blocks for one in found)


def test_memory_of_accelerators_and_what_lies_in_shared_memory(it: Deployment) -> None:
    now = in_use(it, HERE)["here"]
    full = replace(now, memory={0: 40 << 30}, shared=frozenset())
    nothing = {"here": replace(now, memory={0: 1 << 30})}
    assert [one.what for one in compared(it, nothing, {"here": full})] == [
        "accelerator 0 still has 42.9 GB in use, 1.07 GB before"
    ]
    left = replace(now, shared=now.shared | {"psm_1", "psm_2"})
    (one,) = compared(it, {"here": now}, {"here": left})
    assert one.what == "psm_1 and 1 more in shared memory, and was not before" and not one.passes
    assert compared(it, {"here": Held(trouble="not reached")}, {"here": left}) == []


def test_a_machine_that_cannot_be_asked_is_not_free(it: Deployment) -> None:
    unreachable = (bare("here", "nobody.invalid", None),)
    (still,) = stuck(it, unreachable, {"here": Held()}, 0)
    assert still.blocks and still.what.startswith("it cannot be seen: ")
