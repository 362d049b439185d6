"""What each layer of a model is made of, from its config: mixers, MLPs and their numbers.

``text`` finds the decoder's config, ``pattern`` says of which kind each layer is, ``mixers``, ``recurrent`` and
``mlps`` read the numbers. A number that is missing, or a model type nobody listed, ends in ``Missing`` with the
field's name: a layer is never assumed to be like another model's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.memory.fields import Lacking
from canserve.memory.layers.blocks import nas_layers
from canserve.memory.layers.families import COMPRESSED, LATENT, STANDARD
from canserve.memory.layers.gguf import gguf_layers
from canserve.memory.layers.kinds import Layer
from canserve.memory.layers.mixers import mixers
from canserve.memory.layers.mlps import mlps
from canserve.memory.layers.needed import demand
from canserve.memory.layers.pattern import pattern
from canserve.memory.layers.text import Decoder, decoder
from canserve.memory.remembered import per_model
from canserve.subjects.model import Model

MAX_LAYERS = 2000
DEPTH = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")


@per_model
def layers(model: Model) -> Fact[tuple[Layer, ...]]:
    """The decoder's layers, first to last, without the extra ones that predict ahead (MTP)."""
    header = model.gguf_metadata
    if isinstance(header, Known) and header.value is not None:
        return _of_header(model, header.value, header.evidence)
    match model.config:
        case Missing():
            return model.config
        case Known(config, evidence):
            try:
                return Known(read_layers(config), evidence)
            except Lacking as lack:
                return _lacking(model, "config.json", lack)


def _of_header(
    model: Model, header: Mapping[str, Any], evidence: tuple[Evidence, ...]
) -> Fact[tuple[Layer, ...]]:
    if not isinstance(model.gguf_architecture, Known) or model.gguf_architecture.value is None:
        return _lacking(model, "GGUF header", Lacking("general.architecture"))
    try:
        return Known(gguf_layers(model.gguf_architecture.value, header), evidence)
    except Lacking as lack:
        return _lacking(model, "GGUF header", lack)


def _lacking(model: Model, place: str, lack: Lacking) -> Missing:
    why = str(lack).replace("config.json", place)
    look = Evidence(model.subject, place, why)
    return Missing(Cause.UNAVAILABLE, why, (look,), ask=f"a model that states {lack.field}")


def read_layers(config: Mapping[str, Any]) -> tuple[Layer, ...]:
    """The layers a config describes. Raises Lacking."""
    found = decoder(config)
    if found.family in {"nemotron-nas", "decilm", "deci_lm"} and found.fields.has("block_configs"):
        return nas_layers(found.fields)
    if found.family not in STANDARD | LATENT | COMPRESSED or found.whole.flag("is_encoder_decoder", False):
        raise Lacking(found.fields.name("model_type"), f"{found.family} (its layers are not known here)")
    demand(found)
    if found.family == "mistral" and found.fields.has("kv_lora_rank"):
        found = replace(found, family="mistral_large_3")
    count = found.fields.number(*DEPTH, default=len(found.fields.sequence("layers_block_type") or ()) or None)
    if not 0 < count <= MAX_LAYERS:
        raise Lacking(found.fields.name(DEPTH[0]), count)
    words = _words(found, count)
    return tuple(
        Layer(number, mixers(found, number, word), mlps(found, number, word))
        for number, word in enumerate(words)
    )


def _words(found: Decoder, count: int) -> tuple[str, ...]:
    if found.family in {"mamba", "mamba2", "falcon_mamba"}:
        return ("mamba",) * count
    if found.family in COMPRESSED | LATENT and found.fields.inner("linear_attn_config") is None:
        return ("full",) * count  # their kinds differ by numbers that ``mixers`` reads
    return pattern(found, count)
