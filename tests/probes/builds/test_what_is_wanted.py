"""What of a build is read for a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from canserve.api import read_model, wanted
from canserve.checks.case import Wish

CONFIGS = [
    ({"architectures": ["LlamaForCausalLM"], "model_type": "mistral"}, {"LlamaForCausalLM"}, {"MistralForCausalLM"}),
    ({"model_type": "mistral"}, {"MistralForCausalLM"}, {"LlamaForCausalLM"}),
    ({"model_type": "never-heard-of"}, set(), {"LlamaForCausalLM"}),
]  # fmt: skip


@pytest.mark.parametrize(("config", "there", "absent"), CONFIGS)
def test_classes_that_are_named_or_else_those_of_the_model_type(
    config: dict[str, object], there: set[str], absent: set[str], tmp_path: Path
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    asked = wanted(read_model(str(path)), Wish()).architectures
    assert asked is not None and there <= asked and not absent & asked
