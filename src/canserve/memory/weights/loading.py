"""What an engine loads of a checkpoint and how, as far as tensor names and shapes do not say it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from canserve.facts import Known
from canserve.memory.fields import Fields, Lacking
from canserve.memory.layers import read_layers
from canserve.memory.layers.kinds import Layer
from canserve.memory.layers.text import DECODERS, decoder
from canserve.memory.remembered import per_model
from canserve.rules.weights import Padding
from canserve.subjects.model import Model

DTYPES = {"bfloat16": "BF16", "float16": "F16", "half": "F16", "float32": "F32", "float": "F32"}
"""Names of computation dtypes in configs and options -> of safetensors headers."""

TIED = frozenset(
    {
        "gemma", "gemma2", "gemma3", "gemma3n", "gemma4", "cohere", "cohere2", "gpt2", "bloom", "opt",
        "granite", "smollm3", "starcoder2", "lfm2", "lfm2_moe", "mpt", "mamba",
    }
)  # fmt: skip
"""Families whose config class ties the output head to the embedding where the config does not say."""


@dataclass(frozen=True, slots=True)
class Loading:
    """How one engine loads one model. Hashable: results are remembered by it."""

    depth: int | None
    """Decoder layers by the config; None: not known."""
    layers: tuple[Layer, ...] = ()
    """What they consist of; empty: not known, and what is replicated is then an interval."""
    tied: bool = False
    """Whether the output head is the embedding: stored once, on the last stage too."""
    dtype: str | None = None
    """Of safetensors headers, in which unquantized parameters are held; None: as stored."""
    towers: bool = True
    """Whether vision and audio towers are loaded."""
    whole_towers: bool = False
    """Whether every tensor parallel rank holds a whole tower (data-parallel encoder)."""
    ahead: bool = False
    """Whether the layers that predict ahead are loaded, on the last stage."""
    across_replicas: bool = False
    """Whether experts are cut over the ranks of all data-parallel replicas together."""
    vocabulary: int = 64
    """The vocabulary is padded to a multiple of this."""
    online: str | None = None
    """Dtype into which linear layers of an unquantized checkpoint are quantized while loading."""
    padding: Padding | None = None
    """To which multiples the kernels pad packed experts."""
    most_padding: Padding | None = None
    """The same of the kernels that pad most, where it is not certain which run."""
    scales_twice: bool = False
    """Whether the scales of packed experts stay beside the copy that kernels read."""
    absorbs: bool = False
    """Whether latent attention keeps a second, unquantized copy of its up-projection."""
    buffers: int = 0
    """Bytes on every rank of what is no parameter: rotary tables."""


@per_model
def loading(model: Model) -> Loading:
    """What the model alone decides; an engine replaces the rest (``dataclasses.replace``)."""
    if not isinstance(model.config, Known):
        return Loading(None)
    config = model.config.value
    try:
        layers = read_layers(config)
    except Lacking:
        layers = ()
    return Loading(
        depth=len(layers) or _depth(config),
        layers=layers,
        tied=is_tied(config),
        dtype=_computed(config),
    )


def is_tied(config: Mapping[str, Any]) -> bool:
    """Whether the output head is the embedding, by the config or else by its class's default."""
    try:
        found = decoder(config)
        default = found.fields.flag("tie_word_embeddings", found.family in TIED)
        return found.whole.flag("tie_word_embeddings", default)
    except Lacking:
        return False


def _depth(config: Mapping[str, Any]) -> int | None:
    try:
        return decoder(config).fields.number("num_hidden_layers", "n_layer", "num_layers", "n_layers") or None
    except Lacking:
        return None


def declared_dtype(config: Mapping[str, Any]) -> str | None:
    """The dtype that the config or its decoder's names, as of safetensors headers."""
    fields: Fields | None = Fields(config)
    while fields is not None:
        name = next((v for k in ("dtype", "torch_dtype") if isinstance(v := fields.values.get(k), str)), None)
        if name is not None:
            return DTYPES.get(name.removeprefix("torch."))
        fields = fields.inner(*DECODERS)
    return None


def _computed(config: Mapping[str, Any]) -> str | None:
    """The dtype an engine computes in when none is asked for: F32 becomes BF16 there."""
    found = declared_dtype(config)
    return "BF16" if found == "F32" else found
