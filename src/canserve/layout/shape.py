"""What of a model decides how it can be cut: head counts, widths, vocabulary, layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from canserve.facts import Cause, Evidence, Fact, Known, Missing, derive
from canserve.memory.fields import Fields, Lacking
from canserve.memory.layers import layers
from canserve.memory.layers.kinds import Attention, Compressed, Dense, Experts, Latent, Layer, Recurrent
from canserve.memory.layers.text import decoder
from canserve.subjects.model import Model

VISION = ("vision_config", "vision_tower_config", "vit_config", "visual", "vision_model")
VISION_HEADS = ("num_heads", "num_attention_heads", "vt_num_attention_heads", "n_heads", "encoder_num_heads")


@dataclass(frozen=True, slots=True)
class Shape:
    """The numbers of one model that parallelism has to divide. Sets, where layers differ."""

    layers: tuple[Layer, ...]
    heads: frozenset[int]
    """Query heads, of whatever kind of attention."""
    kv_heads: frozenset[int]
    """Of layers that keep keys and values by head; empty: none does (latent attention, state only)."""
    recurrent: frozenset[Recurrent]
    """Layers with a state that does not grow with the sequence."""
    dense: frozenset[int]
    """Widths of dense MLPs and of shared experts."""
    experts: frozenset[Experts]

    @property
    def moe(self) -> bool:
        """Whether it has experts to spread."""
        return bool(self.experts)


def shape(model: Model) -> Fact[Shape]:
    """The shape of a model's decoder. Missing names the number that the config lacks."""
    return derive(layers(model), _shape)


def _shape(each: tuple[Layer, ...]) -> Shape:
    mixers = {mixer for layer in each for mixer in layer.mixers}
    mlps = {mlp for layer in each for mlp in layer.mlps}
    experts = frozenset(mlp for mlp in mlps if isinstance(mlp, Experts))
    shared = {mlp.shared_width for mlp in experts if mlp.shared_width}
    return Shape(
        layers=each,
        heads=frozenset(m.heads for m in mixers if isinstance(m, Attention | Latent | Compressed)),
        kv_heads=frozenset(m.kv_heads for m in mixers if isinstance(m, Attention)),
        recurrent=frozenset(m for m in mixers if isinstance(m, Recurrent)),
        dense=frozenset(mlp.width for mlp in mlps if isinstance(mlp, Dense)) | shared,
        experts=experts,
    )


def vocabulary(model: Model) -> Fact[int]:
    """Rows of the embedding, as the config states them."""
    return _number(model, lambda config: decoder(config).fields.number("vocab_size", "padded_vocab_size"))


def hidden(model: Model) -> Fact[int]:
    """Width of the residual stream."""
    return _number(
        model, lambda config: decoder(config).fields.number("hidden_size", "n_embd", "d_model", "dim")
    )


def vision_heads(model: Model) -> Fact[int | None]:
    """Attention heads of the vision encoder; ``Known(None)``: the model has none."""

    def read(config: Mapping[str, Any]) -> int | None:
        inner = Fields(config).inner(*VISION)
        return None if inner is None else inner.number(*VISION_HEADS)

    return _number(model, read)


def _number(model: Model, read: Any) -> Fact[Any]:
    match model.config:
        case Missing():
            return model.config
        case Known(config, evidence):
            try:
                return Known(read(config), evidence)
            except Lacking as lack:
                look = Evidence(model.subject, "config.json", str(lack))
                why = f"a config that states {lack.field}"
                return Missing(Cause.UNAVAILABLE, str(lack), (look,), ask=why)
