"""What memory rules need of a model beside its layers: widths, context, dtype, drafted layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from canserve.facts import Known
from canserve.memory.fields import Fields, Lacking
from canserve.memory.layers import read_layers
from canserve.memory.layers.kinds import Attention, Compressed, Experts, Latent, Layer, Recurrent, Span
from canserve.memory.layers.text import decoder
from canserve.memory.remembered import per_model
from canserve.subjects.model import Model

DRAFTED = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", "num_nextn_layers")
UNSCALED = {"llama3", "longrope", "su", "default", "mrope", "proportional"}
"""Kinds of rotary scaling that leave the stated context as it is."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """One model's numbers, read once a request."""

    layers: tuple[Layer, ...]
    family: str
    hidden: int
    vocabulary: int
    context: int | None
    """Tokens the model allows; None: its config does not say."""
    dtype: str
    experts: bool
    encoder: bool
    """Whether it has an image or audio encoder."""
    scaled_cache: str | None
    """The checkpoint's quantization method, where it brings fp8 scales for the cache."""
    quantized: bool
    text: Fields
    """The decoder's own config."""
    whole: Fields
    architectures: tuple[str, ...]

    @property
    def compressed(self) -> bool:
        """Whether any layer's cache is compressed along the sequence."""
        return any(isinstance(mixer, Compressed) for layer in self.layers for mixer in layer.mixers)

    @property
    def recurrent(self) -> bool:
        """Whether any layer keeps recurrent state."""
        return any(isinstance(mixer, Recurrent) for layer in self.layers for mixer in layer.mixers)

    def drafted(self) -> tuple[Layer, ...]:
        """The layers that predict ahead (MTP), as far as they keep a cache: like the last attention layer."""
        text = self.text.text("mtp_hybrid_override_pattern")
        listed = self.text.sequence("mtp_layers_block_type")
        if text or listed:
            count = text.count("*") if text else sum(kind == "attention" for kind in listed or ())
        else:
            count = min(self.text.number(*DRAFTED, default=0), 1)  # engines load one and run it again
        like = [layer for layer in self.layers if any(_looks_back(mixer) for mixer in layer.mixers)]
        if not like:
            return ()
        first = self.layers[-1].number + 1
        return tuple(replace(_drafting(like[-1]), number=first + at) for at in range(count))


def _drafting(layer: Layer) -> Layer:
    """A layer that predicts, like this one; of compressed ones, they keep the window alone."""
    return replace(
        layer,
        mixers=tuple(
            replace(each, ratio=0, index_heads=0, index_dim=0) if isinstance(each, Compressed) else each
            for each in layer.mixers
        ),
    )


def _looks_back(mixer: object) -> bool:
    match mixer:
        case Attention(span=Span.FULL, shares=None) | Latent() | Compressed():
            return True
        case _:
            return False


def model_facts(model: Model, config: Mapping[str, Any]) -> ModelFacts:
    """The numbers of a model. Raises Lacking."""
    if isinstance(model.config, Known) and model.config.value is config:
        return _own(model)
    return _facts(model, config)


@per_model
def _own(model: Model) -> ModelFacts:
    """By its own config, which it is known to have."""
    assert isinstance(model.config, Known)
    return _facts(model, model.config.value)


def _facts(model: Model, config: Mapping[str, Any]) -> ModelFacts:
    found = decoder(config)
    fields = found.fields
    layers = read_layers(config)
    quantization = model.quantization.value if isinstance(model.quantization, Known) else None
    return ModelFacts(
        layers=layers,
        family=found.family,
        hidden=fields.number("hidden_size", "n_embd", "d_model"),
        vocabulary=fields.number("vocab_size"),
        context=_context(fields, model),
        dtype=_dtype(fields, found.whole),
        experts=any(isinstance(mlp, Experts) for layer in layers for mlp in layer.mlps),
        encoder=any(found.whole.has(key) for key in ("vision_config", "audio_config", "vit_config")),
        scaled_cache=quantization.method if quantization and quantization.kv_cache else None,
        quantized=quantization is not None,
        text=fields,
        whole=found.whole,
        architectures=model.architectures.value if isinstance(model.architectures, Known) else (),
    )


def _dtype(fields: Fields, whole: Fields) -> str:
    """The dtype it computes in; engines compute in half precision where the config says float32."""
    for place in (fields, whole):
        for name in ("dtype", "torch_dtype"):
            if text := place.text(name):
                return "bfloat16" if text.removeprefix("torch.") == "float32" else text.removeprefix("torch.")
    return "bfloat16"


def _context(fields: Fields, model: Model) -> int | None:
    stated = model.max_positions.value if isinstance(model.max_positions, Known) else None
    if stated is None:
        return None
    scaling = fields.inner("rope_scaling", "rope_parameters")
    if scaling is None or not scaling.has("factor"):
        return stated
    kind = scaling.text("rope_type") or scaling.text("type")
    factor = scaling.values["factor"]
    if (
        kind in UNSCALED
        or not isinstance(factor, int | float)
        or isinstance(factor, bool)
        or not 1 <= factor <= 1e4
    ):
        return stated
    original = scaling.number("original_max_position_embeddings", default=stated)
    if kind == "yarn":
        return max(stated, int(original * factor)) if original * factor >= stated else stated
    return int(stated * factor)


def need(value: int | None, field: str) -> int:
    """The value, where there is one. Raises Lacking."""
    if value is None:
        raise Lacking(field)
    return value
