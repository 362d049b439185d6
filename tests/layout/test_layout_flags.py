"""Degrees of parallelism from engine flags, and the layout that ``check`` judges for them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from spread import LLAMA, build, machine, model

from canserve.api import Options, SpecError, check
from canserve.api.deployed import layout_findings
from canserve.checks.asked_degrees import degrees, no_towers, whole_encoder
from canserve.checks.wish import parse_wish
from canserve.facts import Known
from canserve.subjects.parallel import Parallel
from canserve.verdict import Finding, No, Unknown, word


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("", None),
        ("--max-model-len 8192", None),
        ("--tensor-parallel-size 8", Parallel(8)),
        ("-tp 4 -pp 2", Parallel(4, 2)),
        ("--tensor_parallel_size=2 --data_parallel_size=4", Parallel(2, 1, 4)),
        ("--tp 8 --enable-expert-parallel", Parallel(8, 1, 1, 8)),
        ("--tp 2 --dp 4 --enable-expert-parallel", Parallel(2, 1, 4, 8)),
        ("--tp 8 --ep-size 4", Parallel(8, 1, 1, 4)),
        ("--tp 8 --dp 8 --enable-dp-attention --ep 8", Parallel(1, 1, 8, 8)),
        ("--tp 8 --dp 2 --enable-dp-attention", None),
        ("--tp 8 --enable-dp-attention", Parallel(8)),
        ("--tp 8 --dp 2 --enable-dp-attention --enable-deepep-moe", Parallel(4, 1, 2, 8)),
        ("--tp 4 --dp 2 --enable-ep-moe", Parallel(4, 1, 2, 4)),
        ("--tp 1000000000", Parallel(10**9)),
    ],
)
def test_degrees(flags: str, expected: Parallel | None) -> None:
    assert degrees(parse_wish(flags.split())) == expected


@pytest.mark.parametrize("flags", ["--tp x", "--tp 0", "-tp", "--dp -1", "--tp 99999999999"])
def test_a_size_that_is_none_is_a_slip_of_the_pen(flags: str) -> None:
    with pytest.raises(SpecError, match="takes a number from 1"):
        check("anything", ["vllm==0.25.1"], options=Options(offline=True, flags=tuple(flags.split())))


def test_encoders_and_towers() -> None:
    assert whole_encoder(parse_wish(["--mm-encoder-tp-mode", "data"]))
    assert not whole_encoder(parse_wish(["--mm-encoder-tp-mode", "weights"]))
    assert whole_encoder(parse_wish(["--mm-enable-dp-encoder"]))
    assert no_towers(parse_wish(["--language-model-only"]))
    assert not no_towers(parse_wish([]))


def found(flags: str) -> dict[str, Finding]:
    findings, _ = layout_findings(model(LLAMA), build(), (machine(),), parse_wish(flags.split()))
    return {finding.check: finding for finding in findings}


def test_no_flag_no_layout_and_no_machine_no_layout() -> None:
    assert not found("--enforce-eager")
    assert layout_findings(model(LLAMA), build(), (), parse_wish(["-tp", "2"])) == ((), ())


def test_the_layout_of_the_flags_is_judged_with_its_memory() -> None:
    yes = found("--tensor-parallel-size 2 --max-model-len 8192")
    assert {word(yes[name].verdict) for name in ("heads-divide", "weights-fit", "cache-fits-context")} == {
        "yes"
    }
    assert yes["weights-fit"].about == "small with vllm==0.25.1 at TP2 on profile:h200"
    assert isinstance(found("--tensor-parallel-size 7")["heads-divide"].verdict, No)
    long = found("--tensor-parallel-size 1 --max-model-len 100000000")["cache-fits-context"].verdict
    assert isinstance(long, No)


def test_a_version_that_is_not_known_leaves_the_memory_open() -> None:
    unread = build()
    identity = replace(unread.identity, version=Known("nightly", ()))
    findings, _ = layout_findings(
        model(LLAMA), replace(unread, identity=identity), (machine(),), parse_wish(["-tp", "2"])
    )
    verdicts = {finding.check: finding.verdict for finding in findings}
    assert isinstance(verdicts["weights-fit"], Unknown)
    assert word(verdicts["heads-divide"]) == "yes"


def test_a_card_alone_is_taken_to_be_there_as_often_as_asked_for() -> None:
    findings, _ = layout_findings(
        model(LLAMA), build(), (machine("rtx-4090"),), parse_wish(["-tp", "2", "--max-model-len", "4096"])
    )
    verdicts = {finding.check: word(finding.verdict) for finding in findings}
    assert verdicts["machines-have-room"] == "unknown"
    assert verdicts["weights-fit"] == "yes"
