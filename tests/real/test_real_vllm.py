"""vLLM's build for processors, over two hosts: put into service, asked, looked at and taken away by canserve alone."""

from __future__ import annotations

import pytest

from real.conftest import Operator

pytestmark = [pytest.mark.slow, pytest.mark.network, pytest.mark.xdist_group("real engines")]
BUILD = "/mnt/vllm"
VARIABLES = (
    *("VLLM_CPU_CI_ENV=1", "VLLM_CPU_OMP_THREADS_BIND=nobind", "OMP_NUM_THREADS=1", "HF_HUB_OFFLINE=1"),
    *("VLLM_NO_USAGE_STATS=1", "RAY_USAGE_STATS_ENABLED=0"),
    "TORCHDYNAMO_DISABLE=1",  # else small functions are compiled by g++ with the first request: a minute and more
)
ARGS = (
    *("--context", "1024", "-e", "dtype=bfloat16", "-e", "enforce_eager=true"),
    *("-e", "kv_cache_memory_bytes=134217728", "--wait", "800"),
    *(word for each in VARIABLES for word in ("--env", each)),
)


def test_its_own_launcher_over_two_hosts(ana: Operator) -> None:
    """The founding case's class, cut over both."""
    model = "/mnt/qwen35-moe"
    with ana.serving(model, BUILD, "--tp", "2", *ARGS) as run:
        ana.serves_over_both(run, 8000, model, "rank={}")


def test_over_a_ray_cluster(ana: Operator) -> None:
    model = "/mnt/qwen3-moe"
    with ana.serving(model, BUILD, "--tp", "2", "-e", "distributed_executor_backend=ray", *ARGS) as run:
        assert ana.wrong(8000, model) == {}
        assert ana.seen_running(run) == [("head", ""), ("second", ""), ("head", "0,1")]


def test_one_host(ana: Operator) -> None:
    model = "/mnt/qwen3"
    with ana.serving(model, BUILD, "--tp", "1", *ARGS, on="spark-a") as run:
        assert ana.wrong(8000, model) == {}
        assert ana.seen_running(run) == [("spark-a", "0")]
