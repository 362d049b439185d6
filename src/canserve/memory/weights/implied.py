"""The exact parameter list that a config implies, under the names of published checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.memory.fields import Lacking
from canserve.memory.layers import read_layers
from canserve.memory.layers.text import Decoder, decoder
from canserve.memory.weights.blocks.ahead import ahead
from canserve.memory.weights.blocks.draft import Draft, Part, TooLong
from canserve.memory.weights.blocks.extras import HYPER
from canserve.memory.weights.blocks.style import ALIASES, STYLES, Style
from canserve.memory.weights.blocks.text import Text, text
from canserve.memory.weights.blocks.towers import TOWER_KEYS, WRAPPINGS, Wrapping
from canserve.memory.weights.loading import declared_dtype, is_tied
from canserve.memory.weights.quantized import stored_tensors
from canserve.subjects.model import ONLY_CONFIG, Model, Quantization
from canserve.subjects.tensor import Tensor


class UnknownFamily(Lacking):
    """The parameter list of this model type is not known."""

    def __init__(self, found: Decoder) -> None:
        super().__init__(found.fields.name("model_type"))
        self.args = (f"the parameter list of model type {found.family:.60} is not known",)


ASK = "point to the folder or Hub id with headers"


UNSAID = "declares no quantization; hf_quant_config.json, which could, was not given"


def implied(model: Model, towers: bool = True) -> Fact[tuple[Tensor, ...]]:
    """Every tensor of a checkpoint with this config: names, shapes, dtypes, quantized as it says.

    Missing names the number that the config lacks, or the model type whose parameter list is not known: such a
    model is never taken for another one. Without ``towers`` only the decoder is listed, and asked for.
    """
    if isinstance(model.config, Missing):
        return model.config
    config, evidence = model.config.value, model.config.evidence
    quantization = None
    match model.quantization:
        case Known(value, looks):
            quantization, evidence = value, tuple(dict.fromkeys((*evidence, *looks)))
        case missing if missing == ONLY_CONFIG:
            # The config itself declares none; the file beside it that older tools write was not given.
            evidence += (Evidence(model.subject, "config.json", UNSAID, whole=False),)
        case missing:
            return missing
    try:
        tensors = implied_tensors(config, quantization, towers)
    except Lacking as lack:
        look = Evidence(model.subject, "config.json", str(lack))
        ask = ASK if isinstance(lack, UnknownFamily) else f"a config that states {lack.field}, or {ASK}"
        return Missing(Cause.UNAVAILABLE, str(lack), (look,), ask)
    except TooLong:
        look = Evidence(model.subject, "config.json", "its numbers imply more parameters than any model has")
        return Missing(Cause.UNREADABLE, look.saw, (look,), ASK)
    return Known(tensors, evidence)


def implied_tensors(
    config: Mapping[str, Any], quantization: Quantization | None, towers: bool = True
) -> tuple[Tensor, ...]:
    """The same from a config. Raises Lacking and TooLong."""
    family = decoder(config).family
    scales = "F8_E8M0" if family in HYPER else "BF16" if family.startswith("qwen") else "F32"
    return stored_tensors(parts(config, towers), quantization, declared_dtype(config) or "BF16", scales)


def parts(config: Mapping[str, Any], towers: bool = True) -> list[Part]:
    """The parameters before quantization. Raises Lacking and TooLong."""
    found = decoder(config)
    style = style_of(found)
    wrapping = _wrapping(found)
    draft = Draft()
    head = style.head
    if wrapping is not None:
        style, head = replace(style, root=wrapping.root), wrapping.head
    model = Text(found, read_layers(config), style, is_tied(config), head)
    text(draft, model)
    ahead(draft, model)
    if wrapping is not None and towers:
        tower = found.whole.inner(wrapping.key)
        if tower is None:
            raise Lacking(wrapping.key)
        wrapping.tower(draft, tower, found.whole, model.hidden)
    return draft.parts


def _wrapping(found: Decoder) -> Wrapping | None:
    """How a tower is joined to the decoder; None: there is none. Raises UnknownFamily for an unknown one."""
    whole = found.whole
    kind = whole.text("model_type") or found.family
    named = whole.sequence("architectures") or ()
    if kind in WRAPPINGS and not any(str(name).endswith("ForCausalLM") for name in named):
        return WRAPPINGS[kind]
    if any(whole.inner(key) is not None for key in TOWER_KEYS):
        raise UnknownFamily(Decoder(whole, kind, whole))
    return None


def style_of(found: Decoder) -> Style:
    """How the family lays out its blocks. Raises Lacking for one that is not known."""
    style = STYLES.get(ALIASES.get(found.family, found.family))
    if style is None:
        raise UnknownFamily(found)
    return style
