"""Candidates and diagnoses made by hand: good, bad, hostile, and none."""

from __future__ import annotations

from dataclasses import replace

from reports import HOSTILE, hostile_report, model, no_report, unknown_report, unread_report, yes_report

from canserve.api import BuildReport
from canserve.api.candidates import Candidate, CandidatesReport
from canserve.plan.offers.offer import Offer, Source
from canserve.plan.offers.travel import Travel, exactly
from canserve.subjects.diagnosis import Diagnosis, Said, Standing
from canserve.trees.tree import Cost
from canserve.units import Bytes

HERE, GOES = exactly(Bytes(0), "it is there"), exactly(Bytes(19_800_000_000), "14 of 31 layers are there")
NOBODY_KNOWS = Travel(Bytes(0), None, "a release, with all that it requires")


def candidate(source: Source, travel: Travel, *reports: BuildReport, note: str = "") -> Candidate:
    offer = Offer(
        reports[0].target, source, also=("community:latest",) if source == "image" else (), note=note
    )
    return Candidate(offer, reports, (("head", HERE), ("second", travel)), "2026-03-11T10:00:00Z")


def candidates() -> CandidatesReport:
    """A yes before an unknown before noes, one of them on two kinds of processor."""
    both = (yes_report("docker-daemon:old"), replace(no_report("docker-daemon:old"), machine="second"))
    found = (
        candidate("image", GOES, yes_report("docker-daemon:community@head", needs=("transformers>=5",))),
        candidate("running", HERE, unknown_report("container://serve@head")),
        candidate("image", HERE, *both),
        candidate("index", NOBODY_KNOWS, unread_report("vllm==9.9.9")),
    )
    return CandidatesReport(
        model(), ("cluster.toml",), (("head", HERE), ("second", GOES)), found,
        ("docker-daemon:busybox@head", "docker-daemon:registry:2@head"), ("docker://registry.example/a:1",),
        ("second: docker gave no list: permission denied",), Cost(1_234_567, 12, 0),
    )  # fmt: skip


def hostile_candidates() -> CandidatesReport:
    """Names that try to break out."""
    one = candidate("tag", Travel(Bytes(0), None, HOSTILE), hostile_report(), note=HOSTILE)
    lists = ((HOSTILE,) * 3, (f"{HOSTILE}{'x' * 300}",), (HOSTILE,))
    return CandidatesReport(
        model(HOSTILE), (HOSTILE,), ((HOSTILE, NOBODY_KNOWS),), (one,), *lists, Cost(0, 0, 0)
    )


def no_candidates() -> CandidatesReport:
    """Nothing was found."""
    return CandidatesReport(model(), ("local",), (), (), (), (), (), Cost(0, 0, 0))


def stalled() -> Diagnosis:
    """Two ranks that wait for each other."""
    return Diagnosis(
        "stalled", "sglang", "0.5.9", "joined", "network", "nccl-connect",
        Said("head.log", 214, "CustomAllreduce is disabled because it is not supported on multi-node", "TP0"),
        "the ranks made a communicator and stand in its first collective: the addresses that they advertise do not reach each "
        "other",
        "set NCCL_SOCKET_IFNAME to the interface between the machines", ("canserve machine CLUSTER --links --check",),
        (
            Standing("head.log", "TP0", 0, "joined", "ncclAllReduce", Said("head.log", 219, "init engine", "TP0")),
            Standing("second.log", "TP1", 1, "joined", None, None),
        ),
        (Said("second.log", 90, "Watchdog caught collective operation timeout " + "x" * 300, "TP1"),),
        (Said("head.log", 31, "UserWarning: this GPU is not listed"),), "rules/stalls.toml", 4021, ("third.log: too large",),
    )  # fmt: skip


def hostile_diagnosis() -> Diagnosis:
    """A log that tries to break out."""
    line = Said(HOSTILE, 1, f"{HOSTILE} {'y' * 900}", HOSTILE)
    standing = Standing(HOSTILE, HOSTILE, 0, HOSTILE, HOSTILE, line)
    return Diagnosis(
        "failed", "vllm", HOSTILE, HOSTILE, HOSTILE, HOSTILE, line, HOSTILE, HOSTILE, (HOSTILE,), (standing,) * 3,
        (line,) * 3, (line,), HOSTILE, 1, (HOSTILE,),
    )  # fmt: skip


def nothing_told() -> Diagnosis:
    """A log that says nothing."""
    return Diagnosis(
        "unknown",
        None,
        None,
        None,
        None,
        None,
        None,
        "no line marks a phase of a start",
        "",
        ("look at more of it",),
    )
