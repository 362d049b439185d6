"""Candidates on the two hosts: the founding case's images, found where they lie, judged and ranked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lab.conftest import COMMUNITY_TAG, RUNNING_TAG
from lab.two_hosts import Lab

MODEL = str(Path(__file__).parent.parent.parent / "examples" / "founding" / "model")

pytestmark = [pytest.mark.slow, pytest.mark.network]


def candidates(lab: Lab, *words: str) -> tuple[int, dict[str, Any]]:
    done = lab.canserve("candidates", MODEL, *words, "--format", "json", "--quiet")
    assert done.returncode in {0, 1, 3}, done.stderr
    return done.returncode, json.loads(done.stdout)


def by_build(told: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["build"]: one for one in told["candidates"]}


def test_the_community_image_comes_first_and_the_running_container_is_a_no(
    founding: Lab, cluster: str
) -> None:
    heard = [host.heard() for host in founding.hosts]
    code, told = candidates(founding, "--on", cluster)
    assert code == 0 and told["verdict"] == "yes"
    best = told["candidates"][0]
    assert COMMUNITY_TAG in best["build"] and best["verdict"] == "yes" and best["source"] == "image"
    here, there = best["on"][0], next(name for name in best["travel"] if name not in best["on"])
    assert best["travel"][here]["bytes"] == 0
    size = int(founding.a.docker("image", "inspect", "--format", "{{.Size}}", COMMUNITY_TAG))
    assert best["travel"][there]["at_most"] == size, "nothing of it lies on the other host"
    running = next(one for one in told["candidates"] if one["source"] == "running")
    assert running["verdict"] == "no" and "vllm-head" in running["build"] and RUNNING_TAG in running["note"]
    assert running["engine_version"].startswith("0.14") and running["blocking"] == "architecture-registered"
    assert "Qwen3_5MoeForConditionalGeneration" in running["because"] and "0.17" in running["fix"]
    assert told["unheard"] == []
    logins = [host.logins(since) for host, since in zip(founding.hosts, heard, strict=True)]
    assert logins[1] == 1, "one session carries all looks at a host"


def test_an_image_that_both_hosts_hold_is_one_candidate(founding: Lab, cluster: str) -> None:
    founding.a.run("sh", "-c", f"docker save {COMMUNITY_TAG} -o /lab/both.tar")
    founding.b.copy(founding.a.share / "both.tar", "/srv/both.tar")
    founding.b.docker("load", "-q", "-i", "/srv/both.tar")
    try:
        _, told = candidates(founding, "--on", cluster, "--no-index")
        (both,) = [one for one in told["candidates"] if COMMUNITY_TAG in one["build"]]
        assert len(both["on"]) == 2 and {each["bytes"] for each in both["travel"].values()} == {0}
        assert told["candidates"][0] == both
    finally:
        founding.b.docker("image", "rm", COMMUNITY_TAG)
        (founding.a.share / "both.tar").unlink()


def test_a_host_that_is_down_is_said_and_the_rest_is_judged(founding: Lab, lab: Lab, cluster: str) -> None:
    lab.b.power_off()
    code, told = candidates(founding, "--on", cluster, "--no-index")
    first, *rest = told["candidates"]
    assert code == 3 and COMMUNITY_TAG in first["build"], "what only the other host could say is unknown"
    assert first["verdict"] == "unknown" and {one["verdict"] for one in rest} == {"no"}
    assert first["travel"]["second"]["bytes"] is None and first["travel"]["second"]["at_most"] > 0
    (line,) = told["unheard"]
    assert line.startswith("second: containers, images and environments could not be listed: ")


def test_an_environment_on_the_second_host_is_read_there(
    founding: Lab, lab: Lab, cluster: str, tmp_path: Path
) -> None:
    site = tmp_path / "lib" / "python3.12" / "site-packages"
    registry = site / "vllm" / "model_executor" / "models" / "registry.py"
    registry.parent.mkdir(parents=True)
    (site / "vllm" / "__init__.py").write_text("")
    registry.write_text('_VLLM_MODELS = {"OtherForCausalLM": ("other", "OtherForCausalLM")}\n')
    info = site / "vllm-0.99.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.99.0\n")
    lab.b.copy(tmp_path / "lib", "/opt/serving/lib")
    try:
        _, told = candidates(founding, "--on", cluster, "--no-index")
    finally:
        lab.b.run("rm", "-r", "/opt/serving")
    (found,) = (one for one in told["candidates"] if one["source"] == "environment")
    assert found["build"] == "spark-b:/opt/serving" and found["on"] == ["second"]
    assert found["engine_version"] == "0.99.0" and found["verdict"] != "yes"
    assert found["travel"]["second"]["bytes"] == 0 and found["travel"]["head"]["bytes"] is None
