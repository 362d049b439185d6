"""`canserve plan` as a whole: exit codes, formats, options, bad input; the real command."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import small_llama
from command import COMMAND, run

import canserve
from canserve.memory.quantity import GIB
from canserve.plan.file import read_plans
from canserve.render.schemas import schema_text
from made_images import docker_archive, layer
from terminal import on_terminal


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a build and a model."""
    folder = tmp_path_factory.mktemp("plan")
    small_llama.build(folder / "build")
    small_llama.model(folder / "model")
    return folder


def arguments(here: Path, *more: str, model: str = "model", on: str = "profile:h200") -> list[str]:
    return ["plan", str(here / model), "--on", on, "--build", str(here / "build"), "--offline", *more]


def planned(here: Path, *more: str, code: int = 0, **where: str) -> Mapping[str, Any]:
    done = run(*arguments(here, *more, "--format", "json", **where))
    assert done.returncode == code, done.stderr or done.stdout
    output: Mapping[str, Any] = json.loads(done.stdout)
    jsonschema.validate(output, json.loads(schema_text("plan")))
    return output


def test_the_contract(here: Path) -> None:
    output = planned(here, "--tp", "1", "--context", "32768")
    (plan, *_) = output["plans"]
    assert output["version"] == 1 and plan["layout"] == {"tp": 1, "pp": 1, "dp": 1, "ep": 1}
    (rank,) = plan["ranks"]
    assert rank["machine"] == "profile:h200"
    assert rank["weights_bytes"]["value"] / GIB == pytest.approx(14.96, abs=0.1)
    assert plan["kv_bytes_per_token"] == 131072 and plan["context"] == 32768
    assert plan["max_context"] == 131072
    assert plan["max_concurrency"]["low"] <= plan["max_concurrency"]["value"]
    assert plan["decode_tok_s"]["value"] < plan["decode_bound_tok_s"]
    assert {"weights-fit", "cache-fits-context", "architecture-registered"} <= {
        finding["check"] for finding in plan["findings"]
    }
    (command,) = plan["commands"]
    assert command["line"].startswith("vllm serve ") and "--max-model-len 32768" in command["line"]


def test_text_markdown_and_json_agree(here: Path) -> None:
    best = planned(here)["plans"][0]
    text = run(*arguments(here)).stdout
    page = run(*arguments(here, "--format", "md")).stdout
    for form in (text, page):
        assert best["commands"][0]["line"] in form
        assert best["verdict"] in form.splitlines()[0] + form.splitlines()[3]


def test_a_terminal_of_80_columns(here: Path) -> None:
    code, shown, said = on_terminal([*COMMAND, *arguments(here)], environment={"NO_COLOR": "1"})
    assert code == 0, said
    rows = shown.splitlines()
    assert max(map(len, rows)) <= 80 and "\x1b" not in shown
    assert any(set("WK.") <= set(row) for row in rows)


def test_the_same_from_python(here: Path) -> None:
    from canserve.plan.wishes import Wishes

    asked = canserve.Asked(on=("profile:h200",), builds=(str(here / "build"),), wishes=Wishes(context=4096))
    report = canserve.plan(str(here / "model"), asked, canserve.Options(offline=True))
    assert isinstance(report.verdict, canserve.Yes)
    serving = report.plans.plans[0].serving
    assert isinstance(serving, canserve.Known) and serving.value.context == 4096


def test_engine_options_change_memory_and_reach_the_command(here: Path) -> None:
    plain = planned(here, "--tp", "1")["plans"][0]
    some = planned(
        here, "--tp", "1", "-e", "gpu_memory_utilization=0.5", "-e", "kv-cache-dtype=fp8", "-e", "seed=7",
        "-e", "enforce_eager",
    )["plans"][0]  # fmt: skip
    assert some["kv_bytes_per_token"] * 2 == plain["kv_bytes_per_token"]
    assert some["ranks"][0]["kv_available_bytes"]["value"] < plain["ranks"][0]["kv_available_bytes"]["value"]
    line = some["commands"][0]["line"]
    for words in ("--gpu-memory-utilization 0.5", "--kv-cache-dtype fp8", "--seed 7", "--enforce-eager"):
        assert words in line
    assert {"flags-accepted", "kv-cache-dtype-supported"} <= {f["check"] for f in some["findings"]}


def test_degrees_under_the_engines_own_names_fix_the_layout(here: Path) -> None:
    output = planned(here, "-e", "tensor_parallel_size=2", "-e", "max_model_len=8192")
    assert {plan["layout"]["tp"] for plan in output["plans"]} == {2}
    assert output["plans"][0]["context"] == 8192


def test_an_option_that_no_build_has(here: Path) -> None:
    done = run(*arguments(here, "-e", "max_num_seq=3"))
    assert done.returncode == 2 and done.stdout == ""
    assert "there is no engine option max_num_seq" in done.stderr and "max_num_seqs" in done.stderr
    assert len([line for line in done.stderr.splitlines() if not line.startswith("reading")]) == 2


def test_a_card_alone_is_taken_as_often_as_asked_for_but_surely_there_only_if_that_is_said(
    here: Path,
) -> None:
    (plan, *_) = planned(here, "--tp", "2", on="profile:rtx-4090", code=3)["plans"]
    assert plan["layout"]["tp"] == 2 and "not stated" in plan["because"]
    assert planned(here, "--tp", "2", "--gpus", "2", on="profile:rtx-4090")["plans"][0]["verdict"] == "yes"
    assert planned(here, "--tp", "2", "--gpus", "1", on="profile:rtx-4090", code=1)["plans"] == []


def test_without_a_build_engine_options_are_judged_too(here: Path) -> None:
    words = (
        "plan",
        str(here / "model"),
        "--on",
        "profile:h200",
        "--tp",
        "1",
        "--offline",
        "--format",
        "json",
    )
    done = run(*words, "-e", "quantization=nonsense", "-e", "max_num_seqs=8")
    assert done.returncode == 1, done.stderr
    plans = json.loads(done.stdout)["plans"]
    assert {plan["verdict"] for plan in plans} == {"no"}
    refused = [f["because"] for f in plans[0]["findings"] if f["verdict"] == "no"]
    assert any("nonsense" in because for because in refused)
    others = [note for plan in plans for note in plan["notes"] if "max_num_seqs is no option of" in note]
    assert len(others) == len([plan for plan in plans if plan["engine"] != "vllm"])


def test_what_an_option_asks_of_a_build_is_read(here: Path) -> None:
    option = 'speculative_config={"method":"ngram","num_speculative_tokens":2}'
    output = planned(here, "--tp", "1", "-e", "quantization=fp8", "--what-if", option, code=1)
    because = [
        f["because"] for plan in (output["plans"][0], output["what_if"][0]["plan"]) for f in plan["findings"]
    ]
    assert not any("not asked for" in words for words in because)


def test_absurd_requests_get_the_rule_and_the_nearest_legal_value(here: Path) -> None:
    output = planned(here, "--tp", "7", code=1)
    assert output["plans"] == [] and output["verdict"] == "no"
    (first, *_) = output["illegal"]
    assert first["layout"]["tp"] == 7 and first["rule"].startswith("heads-divide: 32 attention heads")
    assert "4" in first["heals"] and "8" in first["heals"]
    wide = planned(here, "--tp", "1", "--context", "1000000000", code=1)["plans"][0]
    assert "131072" in wide["because"] + next(f["fix"] for f in wide["findings"] if f["verdict"] == "no")


def test_a_model_that_does_not_fit(here: Path) -> None:
    small_llama.model(here / "huge", num_hidden_layers=1000, hidden_size=8192)
    output = planned(here, "--tp", "1", model="huge", code=1)
    assert output["plans"][0]["verdict"] == "no"
    assert "weights-fit" in [f["check"] for f in output["plans"][0]["findings"] if f["verdict"] == "no"]


@pytest.mark.parametrize("field", ["num_hidden_layers", "num_attention_heads", "hidden_size", "vocab_size"])
def test_a_missing_number_is_unknown_and_named(here: Path, field: str) -> None:
    small_llama.model(here / f"lacks-{field}", **{field: None})
    output = planned(here, "--tp", "1", model=f"lacks-{field}", code=3)
    assert any(field in f["because"] for f in output["plans"][0]["findings"] if f["verdict"] == "unknown")
    assert field in run(*arguments(here, "--tp", "1", model=f"lacks-{field}")).stdout


def test_headers_that_contradict_the_config_win_and_that_is_said(here: Path) -> None:
    tensors = [
        {"name": f"model.layers.{{layer}}.mlp.{part}_proj.weight", "dtype": "BF16", "shape": shape,
         "over": {"layer": "0-31"}}
        for part, shape in (("gate", [28672, 4096]), ("up", [28672, 4096]), ("down", [4096, 28672]))
    ]  # fmt: skip
    small_llama.model(here / "contradicting")
    headers = {"format": "canserve-headers/1", "recorded_from": "this test", "tensors": tensors}
    (here / "contradicting" / "model.headers.json").write_text(json.dumps(headers))
    output = planned(here, "--tp", "1", model="contradicting")
    assert any("headers win" in note and "28672x4096" in note for note in output["notes"])
    stored = sum(32 * 2 * shape[0] * shape[1] for shape in ([28672, 4096],) * 3)
    assert output["plans"][0]["ranks"][0]["weights_bytes"]["value"] == pytest.approx(stored, rel=0.01)


def test_layers_that_no_number_tells_are_unknown(here: Path) -> None:
    small_llama.model(here / "odd", layer_types=["full_attention"] * 3)
    output = planned(here, "--tp", "1", model="odd", code=3)
    assert any("layer_types" in f["because"] for f in output["plans"][0]["findings"])


def test_the_longest_context_that_fits_is_chosen_and_said(here: Path) -> None:
    plan = planned(here, "--tp", "1", on="profile:rtx-4090")["plans"][0]
    assert 1024 <= plan["context"] < 131072 and plan["context"] % 1024 == 0
    assert f"--max-model-len {plan['context']}" in plan["commands"][0]["line"]
    assert any("max_model_len" in note for note in plan["notes"])
    assert plan["verdict"] == "yes"


def test_what_if_compares_with_the_best_plan(here: Path) -> None:
    more = (
        "--tp",
        "1",
        "--what-if",
        "kv_cache_dtype=fp8",
        "--what-if",
        "gpu_memory_utilization=0.5 enforce_eager",
    )
    output = planned(here, *more)
    first, second = output["what_if"]
    assert first["change"] == {"kv_cache_dtype": "fp8"}
    assert first["plan"]["kv_bytes_per_token"] * 2 == output["plans"][0]["kv_bytes_per_token"]
    assert second["change"] == {"gpu_memory_utilization": 0.5, "enforce_eager": True}
    text = run(*arguments(here, *more)).stdout
    assert "what if" in text and "gpu_memory_utilization=0.5 enforce_eager\n" in text and "+100%" in text


def test_a_plan_is_a_file(here: Path, tmp_path: Path) -> None:
    saved = tmp_path / "plan.json"
    printed = planned(here, "--save", str(saved))
    plans = read_plans(saved.read_text())
    assert [plan.build for plan in plans.plans] == [plan["build"] for plan in printed["plans"]]
    assert not plans.illegal and not plans.what_if
    jsonschema.validate(json.loads(saved.read_text()), json.loads(schema_text("plan")))
    bad = run(*arguments(here, "--save", str(tmp_path / "no" / "such" / "folder" / "x.json")))
    assert bad.returncode in {2, 4} and "Traceback" not in bad.stderr


def test_many_sequences_at_once_are_asked_for(here: Path) -> None:
    plan = planned(here, "--tp", "1", "--context", "1024", "--concurrency", "500")["plans"][0]
    assert "--max-num-seqs 500" in plan["commands"][0]["line"]
    assert plan["max_concurrency"]["low"] >= 500
    many = planned(
        here, "--tp", "1", "--context", "32", "--concurrency", "9000", "-e", "enforce_eager", code=0
    )
    assert "--max-num-seqs 9000 --max-num-batched-tokens 9000" in many["plans"][0]["commands"][0]["line"]
    few = planned(here, "--tp", "1", "--context", "131072", "--concurrency", "100000", code=1)["plans"][0]
    assert "cache-fits-context" in [f["check"] for f in few["findings"] if f["verdict"] == "no"]


def test_several_machines_and_fewer_accelerators(here: Path) -> None:
    output = planned(here, "--tp", "2", on="2xprofile:dgx-spark")
    machines = [rank["machine"] for rank in output["plans"][0]["ranks"]]
    assert machines == ["profile:dgx-spark", "profile:dgx-spark#2"]
    assert max(p["layout"]["tp"] for p in planned(here, "--gpus", "2")["plans"]) == 2
    assert run(*arguments(here, "--gpus", "9")).returncode == 2


def test_what_an_image_pins_is_judged_with_the_commands_that_start_it(here: Path, tmp_path: Path) -> None:
    files = (path for path in (here / "build").rglob("*") if path.is_file())
    packages = {
        f"usr/lib/python3/dist-packages/{p.relative_to(here / 'build')}": p.read_bytes() for p in files
    }
    archive = docker_archive(tmp_path / "a.tar", [layer(packages)], environment=["VLLM_HOST_IP=10.9.9.9"])
    cluster = tmp_path / "two.toml"
    network = '[nodes.{0}]\nprofile = "dgx-spark"\nip = "10.0.0.{1}"\ninterface = "eth0"\n'
    cluster.write_text(network.format("a", 1) + network.format("b", 2))
    words = ("--build", f"docker-archive:{archive}", "--on", str(cluster), "--offline", "--format", "json")
    plans = json.loads(run("plan", str(here / "model"), *words).stdout)["plans"]
    found = {
        plan["layout"]["tp"]: next(f for f in plan["findings"] if f["check"] == "environment-pins-no-address")
        for plan in plans
        if plan["layout"]["pp"] == plan["layout"]["dp"] == 1
    }
    assert found[2]["verdict"] == "yes" and "set anew" in found[2]["because"]
    assert found[1]["verdict"] != "yes"  # one machine is started without it


@pytest.mark.parametrize(
    "more",
    [("--context", "0"), ("--context", "many"), ("--tp", "0"), ("--ep", "x"), ("-e", "=1"), ("--goal", "fun"),
     ("--what-if", "'"), ("--what-if", ""), ("--concurrency", "-1")],
)  # fmt: skip
def test_usage_is_exit_2_and_short(here: Path, more: tuple[str, str]) -> None:
    done = run(*arguments(here, *more))
    assert done.returncode == 2 and done.stdout == ""
    assert "Traceback" not in done.stderr and len(done.stderr.splitlines()) <= 6


def test_unknown_machines_and_builds(here: Path) -> None:
    assert run(*arguments(here, on="profile:none")).returncode == 2
    assert run(*arguments(here, on="0xprofile:h200")).returncode == 2
    done = run("plan", str(here / "model"), "--on", "profile:h200", "--build", "/no/such", "--offline")
    assert done.returncode == 3 and "/no/such" in done.stdout
    assert run(*arguments(here, on="a-host")).returncode == 3


def test_accelerators_of_which_no_rule_tells_are_unknown(here: Path) -> None:
    output = planned(here, "--tp", "1", on="profile:gaudi-3", code=3)
    assert "memory of intel accelerators is not known" in json.dumps(output["plans"][0]["findings"])


def test_goals_order_plans(here: Path) -> None:
    for goal, figure in (("latency", "decode_tok_s"), ("throughput", "saturated_tok_s")):
        plans = planned(here, "--goal", goal)["plans"]
        figures = [plan[figure]["value"] for plan in plans if plan["verdict"] == "yes"]
        assert len(figures) > 3 and figures[0] == pytest.approx(max(figures), rel=0.01)
