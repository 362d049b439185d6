"""What a start that stands waits for: one scene for each thing that it can be, and for what it is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from canserve.checks.diagnosis.judge import filled
from canserve.checks.diagnosis.log import Socket
from canserve.checks.diagnosis.standing import STANDS, Scene, merged, standing
from canserve.rules.failures import knowledge
from canserve.subjects.progress import Stage

MASTER = {"address": ("10.0.0.1:29501",), "world": ("2",)}


def stages(*phases: str) -> tuple[Stage, ...]:
    return tuple(Stage(rank, "ab"[rank % 2], rank, phase, 0.0, 0.0) for rank, phase in enumerate(phases))


def scene(
    *phases: str, sockets: tuple[Socket, ...] = (), looked: str = "", **facts: tuple[str, ...]
) -> Scene:
    order = knowledge().order
    least = min(phases, key=lambda phase: order.get(phase, -1))
    return Scene(stages(*phases), least, MASTER | facts, sockets, frozenset(looked))


def syn(peer: str, host: str = "b") -> Socket:
    return Socket(host, "SYN-SENT", "10.0.0.2:40000", peer)


def meets(host: str, peer: str = "10.0.0.1:29501") -> Socket:
    return Socket(host, "ESTAB", f"10.0.0.{'ab'.index(host) + 1}:40000", peer)


@pytest.mark.parametrize(
    ("seen", "name", "said"),
    [
        (scene("connecting", "connecting", sockets=(syn("10.0.0.1:29501"),)), "store-unreachable", "10.0.0.1:29501"),
        (scene("connecting", "connecting", sockets=(syn("[::ffff:10.0.0.1]:29501"),)), "store-unreachable", "node b"),
        (scene("connecting", "connecting", sockets=(syn("10.0.0.1:44099"),)), "ranks-cannot-connect", "10.0.0.1:44099"),
        (scene("met", "met", sockets=(syn("192.0.2.7:5555"),), advertised=("192.0.2.7",)), "queue-address-unreachable", "192.0.2.7"),
        (scene("met", "met", sockets=(syn("10.0.0.1:5555"),), advertised=("10.0.0.1",)), "ranks-cannot-connect", "10.0.0.1:5555"),
        (scene("met", "met", advertised=("127.0.0.1",)), "queue-address-unreachable", "127.0.0.1"),
        (scene("met", "met", advertised=("192.0.2.7",), sockets=(meets("b"),)), "queue-address-unreachable", "192.0.2.7"),
        (scene("met", "met", advertised=("10.0.0.1",), sockets=(meets("b"),)), "collective-stands", "2 ranks"),
        (scene("connecting", "connecting", advertised=("127.0.0.1",)), "store-waits", "10.0.0.1:29501"),
        (scene("connecting", "connecting", sockets=(meets("a"), meets("b")), looked="ab"), "collective-stands", "2 ranks"),
        (scene("connecting", "connecting", sockets=(meets("a"),), looked="ab"), "store-waits", "10.0.0.1"),
        (scene("connecting", world=("2",)), "rank-missing", "rank 1 of 2"),
        (scene("connecting", "engine"), "rank-missing", "rank 1"),
        (scene("met", "met", begun=("0", "1"), ended=("0",)), "collective-stands", "set-up on rank 1"),
        (scene("loading", "loaded"), "weights-stand", "rank 0 on a"),
        (scene("capturing", "capturing"), "graphs-stand", "rank 0 on a, rank 1 on b"),
        (scene("cache", "cache"), STANDS, "rank 0 on a"),
        (scene("launched", "launched"), STANDS, "rank 1 on b"),
    ],
)  # fmt: skip
def test_what_it_waits_for(seen: Scene, name: str, said: str) -> None:
    found = standing(seen)
    assert found.name == name, found
    row = knowledge().stalls.get(name)
    text = " ".join(found.seen.values()) if row is None else filled(row.because, found.seen)
    assert said in text and "{" not in text, text
    assert name == STANDS or (row is not None and row.fix and row.kind)


def test_where_ray_has_not_placed_the_ranks() -> None:
    placing = replace(scene("connecting", "connecting"), facts={"placing": ("Waiting",)})
    assert standing(placing).name == "ray-lacks-gpus"
    placed = scene("connecting", "connecting", placing=("Waiting",))
    assert standing(placed).name == "store-waits", "they were placed since: they name the store"


def test_one_machine_has_no_address_that_others_cannot_reach() -> None:
    alone = Scene(
        (Stage(0, "a", 0, "met", 0.0, 0.0), Stage(0, "a", 1, "met", 0.0, 0.0)), "met",
        MASTER | {"advertised": ("127.0.0.1",)},
    )  # fmt: skip
    assert standing(alone).name == "collective-stands"


def test_facts_of_several_logs_are_each_told_once() -> None:
    assert merged([{"world": ("2",)}, {"world": ("2", "4"), "address": ("a:1",)}]) == {
        "world": ("2", "4"),
        "address": ("a:1",),
    }
