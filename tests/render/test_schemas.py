"""The shipped schemas are those that the types generate, and real output keeps them."""

from __future__ import annotations

import json
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from reports import build, hostile_report, model, no_report, report, unknown_report, unread_report, yes_report

from canserve.api import Options
from canserve.api.machines import machines
from canserve.facts import Cause, Missing
from canserve.render import structure, subject_structure
from canserve.render.schemas import SHAPES, schema_text
from canserve.render.subject_shapes import BuildFactsShape
from canserve.subjects.build import Build

SHIPPED = Path(structure.__file__).parent / "schema"
RENAMED = {"identity", "registry", "classes", "config_shims", "config_fixups"}
"""Fields of a build that stand in the output under other names."""


def strict(schema: Any) -> Any:
    """The schema with every property that it does not name forbidden."""
    if isinstance(schema, dict):
        walked = {key: strict(value) for key, value in schema.items()}
        return {**walked, "additionalProperties": False} if "properties" in schema else walked
    return [strict(item) for item in schema] if isinstance(schema, list) else schema


def validate(command: str, output: object) -> None:
    schema = json.loads((SHIPPED / f"{command}.json").read_text())
    jsonschema.validate(json.loads(structure.to_json(output)), strict(schema))


@pytest.mark.parametrize("command", SHAPES)
def test_shipped_schema_is_the_generated_one(command: str) -> None:
    path = SHIPPED / f"{command}.json"
    if os.environ.get("CANSERVE_WRITE"):
        path.write_text(schema_text(command))
    assert path.read_text() == schema_text(command), "run ./dev docs and look at the difference"
    jsonschema.Draft202012Validator.check_schema(json.loads(path.read_text()))


def test_every_kind_of_report_keeps_the_schema() -> None:
    builds = (no_report(), yes_report(), unknown_report(), unread_report(), hostile_report())
    validate("check", structure.check_output(report(*builds)))


def test_builds_models_and_machines_keep_the_schema() -> None:
    gone = Missing(Cause.UNREACHED, "offline")
    validate("build", subject_structure.build_output("vllm==0.14.0", build()))
    validate("build", subject_structure.build_output("vllm==0.14.0", gone))
    validate("model", subject_structure.model_output(model()))
    for spec in ("profile:dgx-spark", "a-host"):
        validate("machine", subject_structure.machine_output(machines(spec, Options(offline=True))))


def test_every_fact_of_a_build_is_printed() -> None:
    printed = {field.name for field in fields(BuildFactsShape)}
    assert {field.name for field in fields(Build)} - RENAMED <= printed
