"""Where in a config the decoder lies, and of which family it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from canserve.memory.fields import Fields, Lacking

DECODERS = ("text_config", "llm_config", "language_config", "thinker_config")
"""Keys under which multimodal configs hold their decoder's, as engines look them up."""


@dataclass(frozen=True, slots=True)
class Decoder:
    """The decoder's own config and the model type that says how to read it."""

    fields: Fields
    family: str
    """The model type without ``_text``: ``qwen3_5_moe``."""
    whole: Fields
    """The whole config."""


def decoder(config: Mapping[str, Any]) -> Decoder:
    """The decoder of a config. Raises Lacking: no model type and no architecture to tell it by."""
    whole = fields = Fields(config)
    while (inner := fields.inner(*DECODERS)) is not None:
        fields = inner
    family = fields.text("model_type") or whole.text("model_type") or _by_architecture(whole)
    return Decoder(fields, re.sub(r"_text$", "", family), whole)


def _by_architecture(whole: Fields) -> str:
    """``Qwen3MoeForCausalLM`` -> ``qwen3_moe``: transformers forms one name from the other."""
    names = whole.sequence("architectures") or ()
    match = re.fullmatch(r"(\w+?)(?:For\w+|LMHeadModel|Model)", names[0]) if names else None
    if match is None:
        raise Lacking("model_type")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", match[1]).lower()
