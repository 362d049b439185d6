"""`canserve since`, `canserve matrix` and `canserve check` without a build: the real commands, the shipped index."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import jsonschema
import pytest
import tiny
from command import COMMAND, run

import canserve
from canserve.index import projects
from canserve.render.schemas import schema_text
from terminal import on_terminal

OFFLINE = {"HF_HUB_OFFLINE": "1", "https_proxy": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"}


def test_since_says_listed_and_usable() -> None:
    """GLM-4.7-Flash: listed months before any transformers that the release allows could parse its config."""
    done = run("since", "Glm4MoeLiteForCausalLM", **OFFLINE)
    assert done.returncode == 0
    assert "vllm: since 0.19.1 (2026-04-18)\n" in done.stdout
    assert "  lists     from 0.15.0 (2026-01-29) on\n" in done.stdout
    assert "0.19.1 to 0.23.0 (2026-04-18 to 2026-06-15) with transformers>=5.5.1\n" in done.stdout
    assert "cannot    0.15.0 to 0.19.0 (2026-01-29 to 2026-04-03): model type glm4_moe_lite" in done.stdout


def test_since_in_json_keeps_its_schema() -> None:
    for name in ("Qwen3_5MoeForConditionalGeneration", "qwen3"):
        answer = json.loads(run("since", name, "--format", "json").stdout)
        jsonschema.validate(answer, json.loads(schema_text("since")))
        for one in (engine for each in answer["answers"] for engine in each["engines"]):
            releases = next(i["releases"] for i in answer["index"] if i["engine"] == one["engine"])
            assert sum(stretch["run"]["releases"] for stretch in one["stretches"]) == len(releases)


def test_support_is_not_monotonic() -> None:
    answer = json.loads(run("since", "Llama4ForCausalLM", "--format", "json").stdout)
    vllm = next(e for e in answer["answers"][0]["engines"] if e["engine"] == "vllm")
    assert (vllm["lists"][0]["first"], vllm["lists"][0]["last"]) == ("0.8.3", "0.8.3")
    assert vllm["lists"][1]["first"] == "0.10.1"


def test_what_the_build_says_of_removed_names() -> None:
    page = run("since", "MotifForCausalLM")
    assert "name 0.10.2 as the last that served MotifForCausalLM" in page.stdout


def test_an_unknown_name_gets_the_nearest_and_exit_1() -> None:
    done = run("since", "Qwen3_5MoeForConditionalGeneratio")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "Did you mean Qwen3_5MoeForConditionalGeneration" in done.stderr


@pytest.mark.parametrize("name", ["", "\x1b[2J", "../../etc/passwd", "a" * 5000, "Ünïcode\u202e", "-x"])
def test_hostile_names(name: str) -> None:
    done = run("since", "--offline", "--", name) if "\0" not in name else run("since", "x")
    assert done.returncode in {1, 2, 3}
    assert "canserve failed" not in done.stderr
    assert "\x1b[2J" not in done.stderr + done.stdout


def test_since_of_a_model_folder(tmp_path: Path) -> None:
    model = tiny.model(tmp_path / "model", "qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration")
    by_name = json.loads(run("since", "Qwen3_5MoeForConditionalGeneration", "--format", "json").stdout)
    for place in (model, model / "config.json"):
        of_model = json.loads(run("since", str(place), "--format", "json", **OFFLINE).stdout)
        assert of_model["answers"][0]["kind"] == "model"
        assert of_model["answers"][0]["engines"] == by_name["answers"][0]["engines"]


def test_a_model_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    for name in (str(tmp_path), "no/such-model"):
        done = run("since", name, "--offline", "--quiet")
        assert done.returncode == 3
        assert done.stdout == ""
        assert done.stderr.startswith("unknown: ")
        assert "\nhint: " in done.stderr


def test_a_model_that_no_release_serves(tmp_path: Path) -> None:
    done = run("since", str(tiny.model(tmp_path / "model", "tiny", "TinyForCausalLM")))
    assert done.returncode == 3  # of some old releases it cannot be told
    assert "vllm: no release serves it\n" in done.stdout
    assert "lmdeploy: no release that could be read serves it\n" in done.stdout


def test_since_is_read_on_80_columns_without_colour() -> None:
    _, shown, _ = on_terminal([*COMMAND, "since", "Glm4MoeLiteForCausalLM"], environment={"NO_COLOR": "1"})
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert "  serves    " in shown


def test_matrix_rows_are_the_indexes() -> None:
    from canserve.index import release_history

    table = json.loads(run("matrix", "--format", "json").stdout)
    jsonschema.validate(table, json.loads(schema_text("matrix")))
    engines = [one["engine"] for one in table["index"]]
    assert {*engines, *table["not_indexed"]} >= set(projects())
    rows = table["tables"]["architectures"]["rows"]
    for engine in engines:
        shelf = release_history().shelf(engine)
        assert shelf is not None
        named = {
            *shelf.tables.get("architectures", ()),
            *(key.partition(" ")[0] for key in shelf.tables.get("converted", ())),
        }
        assert {name for name, row in rows.items() if engine in row} == named


def test_matrix_of_one_name_and_one_engine() -> None:
    done = run("matrix", "--engine", "vllm", "--arch", "qwen3moe")
    assert done.stdout.splitlines()[1].split() == ["Qwen3MoeForCausalLM", "0.8.4+"]
    assert "sglang" not in done.stdout
    assert run("matrix", "--arch", "no-such-name").returncode == 1
    wrong = run("matrix", "--engine", "no-such-engine")
    assert wrong.returncode == 2
    assert "it holds" in wrong.stderr


def test_matrix_of_quantization_methods() -> None:
    done = run("matrix", "--quantization", "fp8", "--engine", "vllm")
    assert done.returncode == 0
    assert done.stdout.splitlines()[0].split()[0] == "method"
    every = run("matrix", "--quantization", "--format", "md")
    assert "| `gguf` |" in every.stdout
    assert run("matrix", "--quantization", "fp8", "--arch", "x").returncode == 2


def test_matrix_page_is_small() -> None:
    page = run("matrix", "--format", "html").stdout
    assert page.startswith("<!doctype html>")
    assert len(page.encode()) < 1_000_000


def test_check_without_a_build_takes_the_newest_suitable(tmp_path: Path) -> None:
    model = str(tiny.model(tmp_path / "model", "qwen3", "Qwen3ForCausalLM"))
    done = run("check", model, "--offline", "--format", "json", **OFFLINE)
    report = json.loads(done.stdout)
    jsonschema.validate(report, json.loads(schema_text("check")))
    assert done.returncode == 0
    assert report["chosen"] is True
    assert report["cost"]["requests"] == 0
    assert {one["build"].partition("==")[0] for one in report["builds"]} == set(projects())
    said = [one["verdict"] for one in report["builds"]]
    assert said == sorted(said, key=["yes", "unknown", "no"].index)
    for one in report["builds"]:
        assert one["index_date"] is not None
        if one["unread"] is None:
            assert one["build"] == f"{one['engine']}=={one['engine_version']}"


def test_it_says_that_the_index_answers_and_of_which_date(tmp_path: Path) -> None:
    model = str(tiny.model(tmp_path / "model", "qwen3", "Qwen3ForCausalLM"))
    report = canserve.check(model)
    dates = {one.indexed for one in report.builds}
    for form in ("text", "md"):
        page = run("check", model, "--format", form).stdout
        assert "the release index of" in page
        assert any(str(day) in page for day in dates)


def test_flags_lead_to_an_older_release(tmp_path: Path) -> None:
    """--swap-space is gone after vllm 0.17.1."""
    model = str(tiny.model(tmp_path / "model", "qwen3", "Qwen3ForCausalLM"))
    report = json.loads(
        run("check", model, "--offline", "--format", "json", "--", "--swap-space", "4").stdout
    )
    vllm = next(one for one in report["builds"] if one["engine"] == "vllm")
    assert (vllm["build"], vllm["verdict"]) == ("vllm==0.17.1", "yes")
    assert any("passed over for it: vllm==0.33.0 and " in note for note in vllm["notes"])


def test_what_nobody_serves_is_a_no_with_a_reason(tmp_path: Path) -> None:
    model = str(tiny.model(tmp_path / "model", "tiny", "TinyForCausalLM"))
    done = run("check", model, "--offline", "--format", "json")
    report = json.loads(done.stdout)
    said = {one["verdict"] for one in report["builds"]}
    assert said <= {"no", "unknown"}
    assert "no" in said
    assert done.returncode == (
        3 if "unknown" in said else 1
    )  # an engine of which nothing is known may serve it
    for one in report["builds"]:
        assert one["because"]


def test_a_build_without_its_option_is_named() -> None:
    done = run("check", "some/model", "vllm==0.17.1")
    assert done.returncode == 2
    assert "Did you mean --build vllm==0.17.1?" in done.stderr


def test_nothing_asks_the_network(tmp_path: Path) -> None:
    model = str(tiny.model(tmp_path / "model", "qwen3", "Qwen3ForCausalLM"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.5)
        proxy = f"http://127.0.0.1:{server.getsockname()[1]}"
        for arguments in (("since", "qwen3"), ("matrix",), ("check", model)):
            run(*arguments, https_proxy=proxy, http_proxy=proxy, PIP_INDEX_URL=f"{proxy}/simple")
        with pytest.raises(TimeoutError):
            server.accept()


def test_the_same_answers_from_python() -> None:
    report = canserve.since("Qwen3NextForCausalLM")
    printed = json.loads(run("since", "Qwen3NextForCausalLM", "--format", "json").stdout)
    first = [one.own[0].first.version for one in report.answers[0].engines if one.own]
    assert first == [one["first"] for one in printed["answers"][0]["engines"] if one["first"]]
    (table,) = canserve.matrix(names=["qwen3nextforcausallm"])
    assert "Qwen3NextForCausalLM" in table.rows
    with pytest.raises(canserve.UnknownNameError) as error:
        canserve.since("Qwen3NextForCausalL")
    assert error.value.nearest[0] == "Qwen3NextForCausalLM"
