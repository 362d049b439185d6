"""SGLang on processors, over two hosts and on one: put into service, asked, looked at and taken away by canserve alone."""

from __future__ import annotations

import pytest

from real.conftest import Operator

pytestmark = [pytest.mark.slow, pytest.mark.network, pytest.mark.xdist_group("real engines")]
BUILD = "/mnt/sglang"
ARGS = (
    *("--context", "1024", "-e", "device=cpu", "-e", "attention_backend=torch_native", "-e", "host=0.0.0.0"),
    *(
        "-e",
        "sampling_backend=pytorch",
        "-e",
        "disable_overlap_schedule=true",
        "-e",
        "disable_cuda_graph=true",
    ),
    *("-e", "mem_fraction_static=0.2", "-e", "max_total_tokens=4096", "--wait", "800"),
    *("--env", "SGLANG_USE_CPU_ENGINE=1", "--env", "HF_HUB_OFFLINE=1", "--env", "OMP_NUM_THREADS=1"),
    *("--env", "SGLANG_CPU_OMP_THREADS_BIND=0|1"),
)


def test_over_two_hosts(ana: Operator) -> None:
    model = "/mnt/qwen3-moe"
    with ana.serving(model, BUILD, "--tp", "2", *ARGS) as run:
        ana.serves_over_both(run, 30000, model, "TP{}")


def test_one_host(ana: Operator) -> None:
    model = "/mnt/qwen3"
    with ana.serving(model, BUILD, "--tp", "1", *ARGS, on="spark-a") as run:
        assert ana.wrong(30000, model) == {}
        assert ana.seen_running(run) == [("spark-a", "0")]
