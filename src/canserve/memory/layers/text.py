"""Where in a config the decoder lies, and of which family it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from canserve.memory.fields import Fields, Lacking

DECODERS = ("text_config", "llm_config", "language_config", "thinker_config")
"""Keys under which multimodal configs hold their decoder's, as engines look them up."""


LEFT_TO_THE_CLASS: Mapping[str, Mapping[str, int]] = {
    "gemma3": {
        "vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
        "max_position_embeddings": 131072,
    },
}  # fmt: skip
"""Numbers that a family's published multimodal configs leave out (Gemma3TextConfig of transformers has them)."""


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
    named = fields.text("model_type") or whole.text("model_type") or _by_architecture(whole)
    family = re.sub(r"_text$", "", named)
    if fields is not whole and family in LEFT_TO_THE_CLASS:
        fields = Fields({**LEFT_TO_THE_CLASS[family], **fields.values}, fields.path)
    return Decoder(fields, family, whole)


def _by_architecture(whole: Fields) -> str:
    """``Qwen3MoeForCausalLM`` -> ``qwen3_moe``: transformers forms one name from the other."""
    names = whole.sequence("architectures") or ()
    match = (
        re.fullmatch(r"(\w+?)(?:For\w+|LMHeadModel|Model)", names[0])
        if names and isinstance(names[0], str)
        else None
    )
    if match is None:
        raise Lacking("model_type")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", match[1]).lower()
