"""What is made of a preflight's records: real ones of two H200s, and of stalls in each phase."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from canserve.checks.preflight import judge
from canserve.checks.preflight.suspects import changes, suspects
from canserve.facts import Evidence, Known
from canserve.probes.machine import read_machine
from canserve.probes.preflight.reading import Heard, preflight
from canserve.render.page import Look, Page
from canserve.render.preflight_text import preflight_rows
from canserve.subjects.cluster import Cluster, Node
from canserve.subjects.preflight import Preflight, Trial
from canserve.verdict import Finding, No, word

RECORDED = Path(__file__).parent / "recorded"
STEPS = ("import", "device", "store", "meet", "bootstrap", "connect", "first")


def cluster(*names: str, flight: Preflight) -> Cluster:
    base = read_machine("profile:h200")
    nodes = tuple(Node(name, replace(base, subject=name), name, None, None) for name in names)
    return Cluster("two", nodes, preflight=Known(flight, (Evidence("two", "a preflight", "records"),)))


def findings(of: Cluster) -> dict[str, Finding]:
    return {each.check: each for each in judge(of)[0]}


def lines(*records: Mapping[str, Any]) -> str:
    return "\n".join(json.dumps(record) for record in records) + "\n"


def up_to(rank: int, step: str, state: str, **more: object) -> str:
    """Everything before ``step`` passed."""
    told: list[dict[str, Any]] = []
    for name in STEPS[: STEPS.index(step)]:
        extra: dict[str, Any] = {"torch": "2.13.0"} if name == "import" else {}
        if name == "bootstrap":
            extra = {
                "address": f"10.0.0.{rank + 1}",
                "interface": "the host's name",
                "reached": {str(1 - rank): "ok"},
            }
        told += [
            {"rank": rank, "step": name, "state": "begin"},
            {"rank": rank, "step": name, "state": "done", "s": 1.0, **extra},
        ]
    told.append({"rank": rank, "step": step, "state": "begin"})
    if state != "cut":
        told.append({"t": 5.0 + rank, "rank": rank, "step": step, "state": state, "said": "no end", **more})
    return lines(*told)


def two(first: str, second: str, backend: str = "gloo") -> Preflight:
    heard = [Heard("head", (0,), first), Heard("second", (1,), second)]
    return preflight(heard, ("/env", "/env"), backend, "10.0.0.1:29500")


def h200() -> Preflight:
    heard = [Heard("box", (0, 1), (RECORDED / "two_h200.jsonl").read_text())]
    return preflight(heard, ("/opt/env",), "nccl", "127.0.0.1:24430")


def test_two_h200_as_they_were_recorded() -> None:
    flight = h200()
    assert [rank.whole for rank in flight.ranks] == [True, True]
    assert flight.ranks[1].told["name"] == "NVIDIA H200" and flight.ranks[0].told["nccl"] == "2.28.9"
    assert {(c.source, c.target, c.via) for c in flight.channels} == {(0, 1, "P2P"), (1, 0, "P2P")}
    assert (flight.ranks[0].interface, flight.ranks[0].address) == ("eth0", "192.0.2.2")
    largest = max((m for m in flight.measures if m.op == "all_reduce"), key=lambda m: m.size)
    assert largest.size.count == 1 << 28 and 250e9 < largest.bus.per_second < 450e9
    (pair,) = [m for m in flight.measures if m.pair]
    assert pair.pair == (0, 1) and pair.latency is not None and 5e-6 < pair.latency < 2e-4
    said = findings(cluster("box", flight=flight))
    assert {each.check for each in said.values() if word(each.verdict) != "yes"} == set()
    assert "product-in-fp8-blocks" in said and "product-in-fp4-blocks" not in said
    assert "60% of 450 GB/s" in str(said["pairs-at-link-rate"].verdict) or "450" in str(
        said["pairs-at-link-rate"].verdict
    )
    assert suspects(flight) is None


@pytest.mark.parametrize("cut", range(0, 103, 3))
def test_records_that_end_anywhere_are_never_a_no(cut: int) -> None:
    text = "\n".join((RECORDED / "two_h200.jsonl").read_text().splitlines()[:cut])
    flight = preflight(
        [Heard("box", (0, 1), text, "the connection was cut", lost=True)], ("/e",), "nccl", "a:1"
    )
    said = findings(cluster("box", flight=flight))
    assert not [each for each in said.values() if isinstance(each.verdict, No)], cut


def test_a_rank_that_does_not_start() -> None:
    flight = two(up_to(0, "meet", "stalled"), lines({"rank": 1, "step": "import", "state": "begin"}, {"rank": 1, "step": "import", "state": "failed", "said": "exit status 1", "raised": ["ModuleNotFoundError: No module named 'torch'"], "last": ["x"]}))  # fmt: skip
    said = findings(cluster("head", "second", flight=flight))
    verdict = said["ranks-start"].verdict
    assert (
        isinstance(verdict, No)
        and "rank 1 on second" in verdict.because
        and "No module named 'torch'" in verdict.because
    )
    assert "rank 0" not in verdict.because and "ranks-meet" not in said and suspects(flight) is None


def test_a_store_that_is_not_reached() -> None:
    flight = two(up_to(0, "meet", "stalled"), up_to(1, "store", "stalled"))
    flight = replace(
        flight, trials=(Trial((0, 1), "nothing", False, "x"), Trial((0, 1), "the port", True, ""))
    )
    verdict = findings(cluster("head", "second", flight=flight))["ranks-meet"].verdict
    assert (
        isinstance(verdict, No)
        and "rank 1 (second) cannot reach the store at 10.0.0.1:29500" in verdict.because
    )
    assert "the port" in verdict.fix
    pair = suspects(flight)
    assert pair is not None and {rank.number for rank in pair} == {0, 1}
    names = [change.name for change in changes(flight, cluster("head", "second", flight=flight), pair)]
    assert names[:2] == ["nothing", "the port"]


def test_a_bootstrap_that_names_an_address_nobody_reaches() -> None:
    second = up_to(1, "connect", "stalled", last=['  File "/x/torch/distributed/distributed_c10d.py", line 2105 in _new_process_group_helper'])  # fmt: skip
    second = second.replace('"reached": {"0": "ok"}', '"reached": {"0": "refused"}')
    flight = two(up_to(0, "connect", "stalled"), second)
    verdict = findings(cluster("head", "second", flight=flight))["ranks-connect"].verdict
    assert isinstance(verdict, No) and "second cannot reach rank 0 on head at 10.0.0.1" in verdict.because
    assert "_new_process_group_helper (distributed_c10d.py:2105)" in verdict.because
    pair = suspects(flight)
    assert pair is not None and [rank.number for rank in pair] == [1, 0]


def test_a_first_collective_that_stands() -> None:
    flight = two(up_to(0, "first", "stalled"), up_to(1, "first", "stalled"))
    verdict = findings(cluster("head", "second", flight=flight))["ranks-connect"].verdict
    assert isinstance(verdict, No) and "the first collective" in verdict.because


@pytest.mark.parametrize(
    ("notes", "phase"),
    [
        ((), "bootstrap"),
        (("NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>",), "bootstrap"),
        (("NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0",), "connect"),
    ],
)
def test_nccl_says_itself_how_far_its_one_call_came(notes: tuple[str, ...], phase: str) -> None:
    said = up_to(0, "connect", "stalled").replace('"torch": "2.13.0"', '"torch": "2.13.0", "nccl": "2.28.9"')
    flight = two(
        lines(*({"rank": 0, "note": note} for note in notes)) + said, up_to(1, "connect", "cut"), "nccl"
    )
    assert flight.ranks[0].phase == phase


def test_a_wrong_result_is_a_no() -> None:
    text = (RECORDED / "two_h200.jsonl").read_text()
    wrong = text.replace('"bytes": 16777216, "each"', '"bytes": 16777216, "x": 1, "each"', 1)
    assert wrong != text
    spoilt = "\n".join(line.replace('"right": true', '"right": false') if '"x": 1' in line else line for line in wrong.splitlines())  # fmt: skip
    flight = preflight([Heard("box", (0, 1), spoilt)], ("/e",), "nccl", "a:1")
    verdict = findings(cluster("box", flight=flight))["collectives-right"].verdict
    assert isinstance(verdict, No) and "wrong results" in verdict.because


def test_ranks_of_one_machine_that_talk_over_the_network() -> None:
    text = (RECORDED / "two_h200.jsonl").read_text().replace("via P2P/CUMEM", "via NET/Socket/0")
    flight = preflight([Heard("box", (0, 1), text)], ("/e",), "nccl", "a:1")
    verdict = findings(cluster("box", flight=flight))["transport-fits"].verdict
    assert isinstance(verdict, No) and "NET/Socket" in verdict.because


def test_a_kernel_that_fails_and_one_that_crashes() -> None:
    text = (RECORDED / "two_h200.jsonl").read_text()
    kept = [line for line in text.splitlines() if "kernel triton" not in line and "kernel fp8" not in line]
    failed = lines(
        {"rank": 0, "step": "kernel triton", "state": "begin"},
        {"rank": 0, "step": "kernel triton", "state": "failed", "said": "exit status 1", "raised": ["RuntimeError: Triton cannot be imported"], "last": []},
        {"rank": 0, "step": "kernel fp8", "state": "begin"},
        {"rank": 0, "step": "kernel fp8", "state": "failed", "said": "signal 11", "last": []},
    )  # fmt: skip
    flight = preflight([Heard("box", (0, 1), "\n".join(kept) + "\n" + failed)], ("/e",), "nccl", "a:1")
    said = findings(cluster("box", flight=flight))
    triton, fp8 = said["triton-compiles-here"].verdict, said["product-in-fp8-blocks"].verdict
    assert isinstance(triton, No) and "Triton cannot be imported" in triton.because
    assert isinstance(fp8, No) and "signal 11" in fp8.because
    assert word(said["product-in-bfloat16"].verdict) == "yes" and all(rank.whole for rank in flight.ranks)


@pytest.mark.parametrize(
    "junk",
    ["[1,2]", '{"rank": "0"}', '{"rank": 0, "step": 5, "state": []}', "[" * 5000, '{"rank": 0, "note": "' + "x" * 9000 + '"}',
     '{"rank": 0, "step": "bootstrap", "state": "done", "reached": [1], "address": {}}',
     '{"rank": 0, "state": "done", "step": "pair 0 1", "bytes": 8, "each": 0.0, "from": 0, "to": "1"}',
     '{"rank": 0, "step": "pair x", "state": "stalled", "last": {"a": 1}}'],
)  # fmt: skip
def test_hostile_records_are_passed_over(junk: str) -> None:
    flight = two(junk + "\n" + up_to(0, "meet", "cut"), junk)
    said = judge(cluster("head", "second", flight=flight))
    assert said[0] or said[1]
    suspects(flight)


def test_the_one_that_failed_first_is_named_first() -> None:
    late = up_to(0, "connect", "failed", raised=["DistBackendError: consequence"])
    early = up_to(1, "connect", "failed", raised=["x NCCL WARN Bootstrap : no socket interface found", "DistBackendError: NCCL error"])  # fmt: skip
    flight = two(late.replace('"t": 5.0', '"t": 9.0'), early)
    verdict = findings(cluster("head", "second", flight=flight))["ranks-connect"].verdict
    assert isinstance(verdict, No)
    assert verdict.because.index("no socket interface found") < verdict.because.index("consequence")


def test_a_rank_that_waits_for_a_head_which_fails_is_not_called_unable_to_reach_it() -> None:
    head = lines({"rank": 0, "step": "import", "state": "begin"}, {"rank": 0, "step": "import", "state": "failed", "said": "exit status 1", "raised": ["ImportError: libcudart.so.13"], "last": []})  # fmt: skip
    second = up_to(1, "store", "cut").replace('"store"', '"head"') + lines({"rank": 1, "step": "head", "state": "stalled", "said": "", "last": []})  # fmt: skip
    flight = two(head, second)
    said = findings(cluster("head", "second", flight=flight))
    verdict = said["ranks-start"].verdict
    assert isinstance(verdict, No) and "libcudart" in verdict.because and "rank 1" not in verdict.because
    assert "ranks-meet" not in said and flight.ranks[1].phase == "store" and suspects(flight) is None


def test_the_page_tells_pairs_against_their_link_in_eighty_columns() -> None:
    flight = h200()
    page = Page(Look(width=80))
    page.add(*preflight_rows(flight, cluster("box", flight=flight)))
    text = page.render()
    assert "265 GB/s, 59% of 450 GB/s" in text and "43.8 us (8 B)" in text and "via P2P" in text
    assert max(map(len, text.splitlines())) <= 80
