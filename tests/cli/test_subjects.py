"""`canserve build`, `model`, `machine` and `checks`: what is known of one subject, by the real command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import tiny
from command import run

from canserve.checks import REFERENCE
from canserve.render.schemas import schema_text
from made_images import Layout, layer

FOUNDING = Path(__file__).parent.parent.parent / "examples" / "founding"


def printed(command: str, *arguments: str) -> Any:
    done = run(command, *arguments, "--format", "json")
    output = json.loads(done.stdout)
    jsonschema.validate(output, json.loads(schema_text(command)))
    return output


def test_build(tmp_path: Path) -> None:
    build = str(tiny.build(tmp_path / "build"))
    facts = printed("build", build)["facts"]
    assert facts["architectures"]["TinyForCausalLM"]["module"] == "vllm.model_executor.models.tiny"
    assert facts["requires"] == ["transformers>=4.50"]
    done = run("build", build)
    assert done.returncode == 0
    assert "  architectures         TinyForCausalLM\n" in done.stdout


def test_an_image_for_several_cpus_says_how_one_is_named(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "image")
    blob = layer({f"usr/{name}": b"" for name in ("bin/python3", "lib/x")})
    layout.add(layout.image([blob], "arm64")).add(layout.image([blob], "amd64"))
    asked = run("build", f"oci:{layout.root}")
    assert asked.returncode == 3 and "--arch" in asked.stdout
    assert "--arch" not in run("build", f"oci:{layout.root}", "--arch", "aarch64").stdout


def test_model() -> None:
    facts = printed("model", str(FOUNDING / "model"))["facts"]
    assert facts["model_type"] == "qwen3_5_moe"
    done = run("model", str(FOUNDING / "model"))
    assert done.returncode == 0
    assert "  parameters\n    by dtype" in done.stdout


@pytest.mark.parametrize("command", ["build", "model"])
def test_what_cannot_be_read_is_3_and_says_why_once(command: str) -> None:
    done = run(command, "./no-such-thing")
    assert done.returncode == 3
    assert done.stdout.count("no such file or folder") == 1


def test_a_mistyped_engine_gets_the_nearest_name() -> None:
    assert "did you mean vllm==0.14.0?" in run("build", "vlm==0.14.0").stdout


def test_machine_profiles_have_sources() -> None:
    (machine,) = printed("machine", "profile:dgx-spark")["machines"]
    assert machine["facts"]["capability"] == "12.1"
    assert machine["evidence"]["capability"]
    assert "rules/machines.toml: capability: 12.1 [" in run("machine", "profile:dgx-spark").stdout


def test_a_cluster_file_shows_every_machine() -> None:
    output = printed("machine", str(FOUNDING / "cluster.toml"))
    assert len(output["machines"]) == 2
    assert run("machine", str(FOUNDING / "cluster.toml")).stdout.count("NVIDIA GB10") >= 2


def test_every_listed_profile_exists() -> None:
    names = json.loads(run("machine", "--list", "--format", "json").stdout)
    assert run("machine", "--list").stdout.split() == names
    assert len(names) >= 40
    assert "profile:dgx-spark" in names


def test_checks_are_all_in_the_reference() -> None:
    checks = printed("checks")["checks"]
    assert [check["check"] for check in checks] == [check.name for check in REFERENCE]
    assert len({check["check"] for check in checks}) == len(checks)
