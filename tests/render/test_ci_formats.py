"""JUnit and SARIF: against the published schema, and with the line of the recipe that is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import plan_reports
import pytest
import reports
from jsonschema import Draft7Validator
from test_verify_page import report as verified

from canserve.api.recipes_checked import RecipeReport, check_recipes, worst_of
from canserve.render.junit import check_junit, plans_junit, verify_junit
from canserve.render.page import Look
from canserve.render.recipes_reports import recipes_junit, recipes_markdown, recipes_sarif, recipes_text
from canserve.render.sarif import check_sarif
from published import schema

EVERY = reports.report(
    reports.no_report(), reports.yes_report(), reports.unknown_report(), reports.unread_report(),
    reports.hostile_report(),
)  # fmt: skip
WRONG = """\
#!/bin/sh
vllm serve nobody/tiny-model \\
  --max-model-len 4096 \\
  --reasoning-parserr qwen3
"""


@pytest.fixture(scope="module")
def sarif() -> Draft7Validator:
    found = schema("https://json.schemastore.org/sarif-2.1.0.json")
    assert found["$id"].endswith("sarif-schema-2.1.0.json")
    return Draft7Validator(found)


@pytest.fixture
def recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[RecipeReport, ...]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deploy").mkdir()
    for name, text in {
        "serve.sh": WRONG,
        "compose.yaml": "services: {db: {image: 'postgres:16'}}\n",
        "other.yml": "name: x\non: push\n",
        "bad.yaml": "a: 1\nb: *nothing\n",
        ".hidden.yaml": "b: *nothing\n",
        "notes.md": "vllm serve x\n",
    }.items():
        (tmp_path / "deploy" / name).write_text(text)
    (tmp_path / "deploy" / "link.sh").symlink_to(tmp_path / "deploy" / "serve.sh")
    from canserve.api import Options

    return check_recipes(["deploy"], None, Options(offline=True))


def results(text: str, sarif: Draft7Validator) -> list[dict[str, Any]]:
    log = json.loads(text)
    assert [error.message for error in sarif.iter_errors(log)] == []
    (run,) = log["runs"]
    rules = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert {result["ruleId"] for result in run["results"]} == rules
    found: list[dict[str, Any]] = run["results"]
    return found


def test_a_check_as_sarif(sarif: Draft7Validator) -> None:
    found = results(check_sarif(EVERY), sarif)
    kinds = {(one["ruleId"], one["kind"], one["level"]) for one in found}
    assert ("architecture-registered", "fail", "error") in kinds
    assert ("architecture-registered", "open", "none") in kinds
    assert ("build-readable", "open", "none") in kinds
    assert "use vllm 0.17.0 or newer" in found[0]["message"]["text"]
    assert results(check_sarif(reports.report(reports.yes_report())), sarif) == []


def test_recipes_are_told_by_file_and_line(recipes: tuple[RecipeReport, ...], sarif: Draft7Validator) -> None:
    found = results(recipes_sarif(recipes), sarif)
    places = {
        (one["ruleId"], where["artifactLocation"]["uri"], where["region"]["startLine"])
        for one in found
        if (where := one["locations"][0].get("physicalLocation"))
    }
    assert ("flags-accepted", "deploy/serve.sh", 4) in places
    assert ("recipe-readable", "deploy/bad.yaml", 2) in places
    assert {uri for _, uri, _ in places} == {"deploy/serve.sh", "deploy/bad.yaml"}


def test_recipes_as_text_and_markdown(recipes: tuple[RecipeReport, ...]) -> None:
    text = recipes_text(recipes, Look())
    words = {
        line.split(":")[0].split()[-1]: line.split()[0] for line in text.splitlines() if "deploy/" in line
    }
    assert words == {
        "deploy/bad.yaml": "no", "deploy/compose.yaml": "skipped", "deploy/other.yml": "skipped", "deploy/serve.sh": "no",
    }  # fmt: skip
    assert "fix: use --reasoning-parser" in text
    assert "| **no** | `deploy/serve.sh` |" in recipes_markdown(recipes)
    assert worst_of(recipes) == "no"
    assert worst_of([one for one in recipes if one.passed_over]) == "yes"
    assert "no recipe was found" in recipes_text((), Look())


def counted(text: str) -> dict[str, int]:
    root = ElementTree.fromstring(text)
    for suite in root:
        for key, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.get(key, "-1")) == len(suite.findall(f"testcase/{tag}"))
        assert int(suite.get("tests", "-1")) == len(suite.findall("testcase"))
    return {key: int(root.get(key, "-1")) for key in ("tests", "failures", "errors", "skipped")}


def test_junit_counts_a_no_as_failure_and_an_unknown_as_error(recipes: tuple[RecipeReport, ...]) -> None:
    one = counted(check_junit(EVERY))
    assert one["failures"] >= 3
    assert one["errors"] >= 2
    assert one["tests"] > one["failures"] + one["errors"] + one["skipped"]
    assert counted(plans_junit(plan_reports.report()))["tests"] >= 2
    assert counted(plans_junit(plan_reports.hostile()))["failures"] == 1
    assert counted(verify_junit(verified()))["failures"] == 1
    assert counted(recipes_junit(recipes))["failures"] >= 2


def test_hostile_names_stay_names() -> None:
    for text in (
        check_junit(reports.report(reports.hostile_report())),
        check_sarif(reports.report(reports.hostile_report())),
    ):
        assert "\x1b" not in text
        assert "\u202e" not in text
        text.encode("utf-8")
