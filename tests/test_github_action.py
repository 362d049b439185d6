"""The GitHub action and the pre-commit hook: of the published form, without secrets, and their commands run."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator
from pre_commit.clientlib import load_manifest  # type: ignore[import-untyped]

from published import schema

ROOT = Path(__file__).parent.parent
WRONG = "#!/bin/sh\nvllm serve nobody/tiny-model --reasoning-parserr qwen3\n"


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text())


def test_they_are_of_the_published_form() -> None:
    form = Draft7Validator(schema("https://json.schemastore.org/github-action.json"))
    assert [error.message for error in form.iter_errors(read("action.yml"))] == []
    (hook,) = load_manifest(ROOT / ".pre-commit-hooks.yaml")  # raises where pre-commit would
    assert hook["id"] == "canserve-recipes"


def test_inputs_reach_the_shell_as_variables_only() -> None:
    action = read("action.yml")
    assert "secrets" not in (ROOT / "action.yml").read_text()
    for step in action["runs"]["steps"]:
        assert "${{" not in step.get("run", "")


@pytest.mark.parametrize("allow", ["true", "false"])
def test_the_steps_of_the_action_write_a_report_and_fail_for_a_no(tmp_path: Path, allow: str) -> None:
    (step,) = (one for one in read("action.yml")["runs"]["steps"] if one.get("id") == "check")
    folder = tmp_path / "re cipes"
    folder.mkdir()
    (folder / "serve.sh").write_text(WRONG)
    (tmp_path / "fine.yaml").write_text("services: {db: {image: 'postgres:16'}}\n")

    def done(paths: str) -> subprocess.CompletedProcess[str]:
        inputs = {"PATHS": paths, "MACHINE": "profile:h200", "ALLOW_UNKNOWN": allow, "FORMAT": "sarif", "OUTPUT": "out.sarif"}  # fmt: skip
        assert inputs.keys() == step["env"].keys()
        made = {
            "GITHUB_OUTPUT": "output",
            "GITHUB_STEP_SUMMARY": "summary.md",
            "HF_ENDPOINT": "http://127.0.0.1:9",
        }
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", step["run"]],
            cwd=tmp_path, env={**os.environ, **inputs, **made, "PATH": path}, capture_output=True, text=True, check=False,
        )  # fmt: skip

    assert done("fine.yaml").returncode == 0
    (tmp_path / "serve.sh").write_text(WRONG)
    failed = done("fine.yaml\n$(touch owned) serve.sh")
    assert failed.returncode == 2, "a path that is none"
    assert not (tmp_path / "owned").exists()
    failed = done("fine.yaml\nserve.sh")
    assert failed.returncode == 1, failed.stderr
    log = json.loads((tmp_path / "out.sarif").read_text())
    assert "flags-accepted" in {result["ruleId"] for result in log["runs"][0]["results"]}
    assert "**no**" in (tmp_path / "summary.md").read_text()
    assert "report=out.sarif" in (tmp_path / "output").read_text()


def test_the_hook_checks_the_files_that_it_is_given(tmp_path: Path) -> None:
    (hook,) = read(".pre-commit-hooks.yaml")
    (tmp_path / "serve.sh").write_text(WRONG)
    (tmp_path / "fine.yaml").write_text("services: {db: {image: 'postgres:16'}}\n")
    words = shlex.split(hook["entry"])
    words[0] = str(Path(sys.executable).with_name(words[0]))
    both = subprocess.run(
        [*words, "--offline", "fine.yaml", "serve.sh"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert both.returncode == 1
    assert "line 2: --reasoning-parserr does not exist" in both.stdout
    fine = subprocess.run([*words, "fine.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert fine.returncode == 0
