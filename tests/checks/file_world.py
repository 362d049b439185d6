"""A model whose files are all there; tests take one of them away."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from small_world import SmallTable, model, seen

from canserve.facts import Known
from canserve.subjects.model import Model, Parameters, Processor, Tokenizer

FAST = Tokenizer(("tokenizer.json", "tokenizer_config.json"), "SmallTokenizerFast", {}, "fast")
IMAGES = Processor(("preprocessor_config.json", "processor_config.json"), "SmallProcessor", {})
PARAMETERS = Parameters({"BF16": 1000}, 1000, 2000, 10, 2)


def stored(origin: str = "folder", **facts: Any) -> Model:
    """A model in a folder, or wherever ``origin`` says."""
    fields: dict[str, Any] = {
        "files": Known(("config.json", "model.safetensors", "tokenizer.json"), seen("3 files")),
        "tokenizer": Known(FAST, seen("tokenizer files")),
        "processor": Known(None, seen("no processor files")),
        "weight_format": Known("safetensors", seen("weights")),
        "parameters": Known(PARAMETERS, seen("headers")),
        "chat_template": Known(None, seen("no template")),
    }
    return replace(model(**(fields | facts)), origin=origin)


@dataclass(frozen=True)
class TokenizerTable(SmallTable):
    """Transformers releases that also know which tokenizer classes they have."""

    tokenizers: dict[str, frozenset[str] | None] = field(default_factory=dict)

    def tokenizer_classes(self, version: str) -> frozenset[str] | None:
        return self.tokenizers.get(version)
