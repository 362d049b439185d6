"""`--recipe` of check, plan and up; the real command."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import jsonschema
import pytest
import small_llama
from command import COMMAND, environment, run

from canserve.render.schemas import schema_text

COMPOSE = """\
services:
  vllm:
    image: vllm/vllm-openai:v0.17.1
    shm_sise: 16g
    volumes: [./:/models]
    command: >
      --model /models/model --max-model-len ${LEN:-32768}
      --tensor-parallel-size 2 --enforce-eagre
"""


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recipe")
    small_llama.build(folder / "build")
    small_llama.model(folder / "model")
    (folder / "compose.yaml").write_text(COMPOSE)
    (folder / "good.yaml").write_text(
        COMPOSE.replace(" --enforce-eagre", "").replace("    shm_sise: 16g\n", "")
    )
    (folder / "site.env").write_text("LEN=16384\n")
    return folder


def test_the_recipe_gives_model_and_flags_and_says_what_is_wrong_by_line(here: Path) -> None:
    done = run("check", "--recipe", str(here / "compose.yaml"), "--build", str(here / "build"))
    assert done.returncode == 1
    assert done.stdout.startswith(f"{here}/model\n")
    assert (
        "flags-accepted: line 8: --enforce-eagre does not exist in this build; nearest: --enforce-eager"
        in done.stdout
    )
    assert "compose.yaml, line 4: unknown key services.vllm.shm_sise = 16g: kept, not judged" in done.stdout
    assert "docker compose, starts vllm, image vllm/vllm-openai:v0.17.1 (line 3), 3 flags" in done.stdout


def test_json_has_every_key_and_meets_its_schema(here: Path) -> None:
    done = run("check", "--recipe", str(here / "compose.yaml"), "-b", str(here / "build"), "--format", "json")
    report = json.loads(done.stdout)
    jsonschema.validate(report, json.loads(schema_text("check")))
    assert {key["path"] for key in report["recipe"]["keys"] if key["role"] == "unknown"} == {
        "services.vllm.shm_sise"
    }
    page = run(
        "check", "--recipe", str(here / "compose.yaml"), "-b", str(here / "build"), "--format", "md"
    ).stdout
    assert "recipe " in page and "shm" in page


def test_a_second_file_sets_variables_and_flags_after_dashes_win(here: Path) -> None:
    files = ("--recipe", str(here / "good.yaml"), "--recipe", str(here / "site.env"))
    done = run("check", *files, "-b", str(here / "build"), "--format", "json", "--", "--max-num-seqs", "4")
    recipe = json.loads(done.stdout)["recipe"]
    assert [word["value"] for word in recipe["args"]][:2] == ["--max-model-len", "16384"]
    (flags,) = [f for f in json.loads(done.stdout)["builds"][0]["findings"] if f["check"] == "flags-accepted"]
    assert flags["verdict"] == "yes" and "all 3 flags" in flags["because"]


def test_standard_input(here: Path) -> None:
    text = f"vllm serve {here}/model \\\n  --tensor-parallel-size 1 # one\n"
    done = subprocess.run(
        [*COMMAND, "check", "--recipe", "-", "-b", str(here / "build")],
        input=text, capture_output=True, text=True, check=False, env=environment(), timeout=300,
    )  # fmt: skip
    assert "recipe -: command line, starts vllm, 1 flag" in done.stdout, done.stderr


def test_a_degree_that_is_left_open_is_unknown_and_a_stray_word_no_error(here: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "serve.sh"
    recipe.write_text(f"vllm serve {here}/model stray --tensor-parallel-size $TP --max-model-len 4096\n")
    done = run("check", "--recipe", str(recipe), "-b", str(here / "build"), "--format", "json")
    findings = {f["check"]: f for f in json.loads(done.stdout)["builds"][0]["findings"]}
    assert done.returncode == 3 and findings["recipe-resolved"]["verdict"] == "unknown"
    assert findings["recipe-resolved"]["because"].startswith("line 1: $TP in --tensor-parallel-size")
    assert findings["flags-accepted"]["because"] == "the flag is accepted"


def test_plan_takes_layout_and_options(here: Path) -> None:
    done = run(
        "plan", "--recipe", str(here / "good.yaml"), "--build", str(here / "build"), "--on", "2xprofile:h200",
        "--offline", "--format", "json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    best = json.loads(done.stdout)["plans"][0]
    assert best["layout"] == {"tp": 2, "pp": 1, "dp": 1, "ep": 1} and best["context"] == 32768
    assert {"recipe-resolved", "flags-accepted"} <= {finding["check"] for finding in best["findings"]}


@pytest.mark.parametrize("form", ["compose", "sparkrun", "leaderworkerset"])
def test_an_exported_plan_is_planned_again_alike(here: Path, tmp_path: Path, form: str) -> None:
    first, again = tmp_path / "first.json", tmp_path / "again.json"
    on = ("--on", "profile:h200", "--offline")
    run("plan", str(here / "model"), "--build", str(here / "build"), "--tp", "2", *on, "--save", str(first))
    out = tmp_path / "out"
    done = run(
        "export",
        str(first),
        "--to",
        form,
        "--in",
        "docker-daemon:a/b:1",
        "--accelerators",
        "nvidia",
        "--out",
        str(out),
    )
    assert done.returncode == 0, done.stderr
    (file,) = [path for path in out.rglob("*") if path.is_file()]
    done = run("plan", "--recipe", str(file), *on, "--save", str(again))
    assert done.returncode == 0, done.stderr
    plans = [json.loads(path.read_text())["plans"][0] for path in (first, again)]
    for key in ("build", "layout", "ranks", "options", "context", "commands", "verdict"):
        assert plans[0][key] == plans[1][key], key


def test_an_option_that_no_build_has_is_told_by_line(here: Path) -> None:
    on = ("--on", "profile:h200", "--offline")
    done = run("plan", "--recipe", str(here / "compose.yaml"), "--build", str(here / "build"), *on)
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        f"{here}/compose.yaml, line 8: {here}/build: there is no engine option enforce_eagre" in done.stderr
    )
    assert "near ones: enforce_eager" in done.stderr


def test_up_starts_what_it_says(here: Path, tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.toml"
    cluster.write_text('[nodes.one]\nprofile = "h200"\naddress = "host.invalid"\nlook = false\n')
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        "model: m\nruntime: vllm\ncontainer: a/b:1\nenv: {NCCL_DEBUG: INFO, HF_TOKEN: hf_1}\n"
        "defaults: {tensor_parallel: 2, max_model_len: 4096}\n"
    )
    done = run(
        "up", str(here / "model"), "--recipe", str(recipe), "--build", str(here / "build"), "--in", "docker-daemon:a/b:1",
        "--on", str(cluster), "--accelerators", "nvidia", "--no-distribute", "--dry-run",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (started,) = [line for line in done.stdout.splitlines() if "docker run" in line]
    assert "--tensor-parallel-size 2 --max-model-len 4096" in started
    assert "NCCL_DEBUG=INFO" in started and "hf_1" not in done.stdout and "HF_TOKEN" in started


WRONG = [
    (("check",), "", "Missing argument 'MODEL'"),
    (("check", "m", "--part", "x"), "", "--part names something of a recipe"),
    (("check", "--recipe", "R"), "hello: [world]\n", "no form of recipe that is known; its keys: hello"),
    (
        ("check", "--recipe", "R"),
        "model: a\nmodel: b\n",
        "line 2: 'model' stands here again; first on line 1",
    ),
    (("check", "--recipe", "R"), "services: {}\n", "no model is named in it"),
    (
        ("check", "--recipe", "R"),
        "runtime: vllm\nmodel: 'x; reboot'\n",
        "line 2: the model is x; reboot: the model's name",
    ),
    (
        ("check", "--recipe", "R", "--part", "no"),
        "services: {a: {image: i, command: vllm serve m}}\n",
        "no server 'no'",
    ),
    (("plan", "--recipe", "R"), "runtime: vllm\nmodel: a/b\n", "Missing option '--on'"),
    (("check", "--recipe", "/no/such"), "", "/no/such: No such file"),
]


@pytest.mark.parametrize(("arguments", "text", "why"), WRONG)
def test_what_cannot_be_asked_is_usage(
    arguments: tuple[str, ...], text: str, why: str, tmp_path: Path
) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(text)
    done = run(*(str(path) if word == "R" else word for word in arguments))
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert why in done.stderr
