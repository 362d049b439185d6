"""Recipes of sparkrun: its keys, and the command without what it adds itself."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
import yaml

from canserve.plan.export.exported import ExportError
from canserve.plan.export.forms import written
from canserve.subjects.launch import Process
from exported_cases import CASES, DOCKER, PAIR, exported

KEYS = {
    "recipe_version", "description", "model", "runtime", "min_nodes", "max_nodes", "container", "defaults",
    "env", "command", "executor_config",
}  # fmt: skip
"""Of those that sparkrun 0.4.2 knows (core/recipe.py, _KNOWN_KEYS), the ones that are written."""


def recipe(name: str) -> dict[str, Any]:
    (text,) = written(CASES[name], "sparkrun").files.values()
    found: dict[str, Any] = yaml.safe_load(text)
    assert set(found) <= KEYS
    assert {type(value) for value in found.get("env", {}).values()} <= {str}
    return found


@pytest.mark.parametrize(
    ("name", "runtime", "nodes"),
    [("one", "vllm-distributed", 1), ("ray", "vllm-ray", 2), ("own", "vllm-distributed", 2), ("sglang", "sglang", 2), ("rpc", "llama-cpp", 3)],
)  # fmt: skip
def test_each_launcher_has_its_runtime(name: str, runtime: str, nodes: int) -> None:
    found = recipe(name)
    assert (found["runtime"], found["min_nodes"], found["max_nodes"]) == (runtime, nodes, nodes)
    assert found["container"] == "engine/serve:1" and found["recipe_version"] == "2"
    assert found["model"] == CASES[name].model


@pytest.mark.parametrize("name", ["ray", "own", "sglang", "rpc"])
def test_addresses_and_ranks_are_sparkruns(name: str) -> None:
    found = recipe(name)
    words = shlex.split(found["command"])
    assert not any("10.0.0." in word for word in (*words, *found.get("env", {}).values()))
    for flag in ("--node-rank", "--nnodes", "--master-addr", "--dist-init-addr", "--rpc"):
        assert flag not in words
    assert any(
        "VLLM_HOST_IP" in note or "SGLANG_HOST_IP" in note for note in written(CASES[name], "sparkrun").notes
    ) == (name != "rpc")


def test_everything_else_of_the_command_stays() -> None:
    server = next(one for one in CASES["ray"].start.processes if one.ranks)
    model = CASES["ray"].model
    assert shlex.split(recipe("ray")["command"].replace("{model}", model)) == list(server.argv)
    assert recipe("own")["command"] == "vllm serve {model} --tensor-parallel-size 2"
    assert "HF_HOME" not in recipe("ray").get("env", {})
    assert any("HF_HOME" in note for note in written(CASES["ray"], "sparkrun").notes)


def test_braces_that_sparkrun_would_fill_in_are_refused() -> None:
    for word in ("{port}", '{{"a"}}'):
        it = exported(DOCKER, PAIR[:1], Process("a", (0,), ("vllm", "serve", "m", word)))
        with pytest.raises(ExportError, match="placeholder"):
            written(it, "sparkrun")
    json = '{"a":{"b":1}}'
    it = exported(DOCKER, PAIR[:1], Process("a", (0,), ("vllm", "serve", "m", "--x", json)))
    assert json in next(iter(written(it, "sparkrun").files.values())).replace('\\"', '"')


def test_an_engine_without_a_runtime() -> None:
    it = exported(
        DOCKER, PAIR[:1], Process("a", (0,), ("lmdeploy", "serve", "api_server", "m")), engine="lmdeploy"
    )
    with pytest.raises(ExportError, match="no runtime for lmdeploy"):
        written(it, "sparkrun")
