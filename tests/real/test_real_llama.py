"""llama.cpp with a real small model, alone and with a worker on the other host, by canserve alone."""

from __future__ import annotations

import pytest

from real.conftest import TAUGHT_LITTLE, Operator
from real.models import sources

pytestmark = [pytest.mark.slow, pytest.mark.network, pytest.mark.xdist_group("real engines")]
MODEL = "/mnt/small/model.gguf"
ARGS = ("--context", "1024", "-e", "host=0.0.0.0", "--in", "/mnt/llama", "--wait", "600")


def answered(ana: Operator) -> None:
    said = ana.answers(8080, MODEL, ["What is the capital of France? Answer in one word."])
    assert ["Paris" in answer for answer in said.values()] == [True], said


def test_one_host(ana: Operator) -> None:
    build = f"/mnt/sources/{sources().name}"
    with ana.serving(MODEL, build, *ARGS, on="spark-a") as run:
        answered(ana)
        assert ana.seen_running(run) == [("spark-a", "0")]


def test_a_worker_on_the_other_host(ana: Operator) -> None:
    build = f"/mnt/sources/{sources().name}"
    with ana.serving(MODEL, build, "--pp", "2", *ARGS) as run:
        answered(ana)
        assert ana.seen_running(run) == [("second", ""), ("head", "0,1")]
        logs = ana.run("logs", run, "-n", "2000")[0]
        assert "second process 0 | Accepted client connection" in logs, logs[-3000:]
        assert ana.refused(8080) <= TAUGHT_LITTLE
