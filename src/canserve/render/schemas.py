"""The JSON Schemas of the output, generated from its types. They are shipped in the folder ``schema``."""

from __future__ import annotations

import json

from canserve.api.tool_state import ToolState
from canserve.render.candidates_shapes import CandidatesShape
from canserve.render.diagnosis_shapes import DiagnoseShape
from canserve.render.export_shapes import ExportShape
from canserve.render.history import HistoryShape
from canserve.render.plain import schema
from canserve.render.plan_shapes import PlansShape
from canserve.render.released_shapes import MatrixShape, SinceShape
from canserve.render.run_shapes import DownShape, StatusShape, UpShape
from canserve.render.shapes import CheckListShape, CheckShape
from canserve.render.subject_shapes import BuildShape, MachineOutputShape, ModelOutputShape
from canserve.render.transfer_shapes import DistributeShape
from canserve.render.verify_shapes import VerifyShape

SHAPES: dict[str, type] = {
    "check": CheckShape,
    "candidates": CandidatesShape,
    "plan": PlansShape,
    "up": UpShape,
    "status": StatusShape,
    "down": DownShape,
    "history": HistoryShape,
    "distribute": DistributeShape,
    "export": ExportShape,
    "build": BuildShape,
    "model": ModelOutputShape,
    "machine": MachineOutputShape,
    "diagnose": DiagnoseShape,
    "checks": CheckListShape,
    "since": SinceShape,
    "matrix": MatrixShape,
    "verify": VerifyShape,
    "doctor": ToolState,
}
"""By command: what its ``--format json`` prints."""


def schema_text(command: str) -> str:
    """The schema of one command's output, as shipped."""
    return json.dumps(schema(SHAPES[command]), indent=2) + "\n"
