"""The parameters of a whole decoder: embedding, layers, final norm, head."""

from __future__ import annotations

from dataclasses import dataclass, replace

from canserve.memory.fields import Fields, Lacking
from canserve.memory.layers.kinds import (
    Attention,
    Compressed,
    Dense,
    Experts,
    Latent,
    Layer,
    Mixer,
    Recurrence,
    Recurrent,
)
from canserve.memory.layers.text import Decoder
from canserve.memory.weights.blocks import extras
from canserve.memory.weights.blocks.attention import attention, compressed, latent
from canserve.memory.weights.blocks.draft import Draft
from canserve.memory.weights.blocks.mlp import dense, experts
from canserve.memory.weights.blocks.recurrent import recurrent
from canserve.memory.weights.blocks.style import Style, holds

MODULES = {
    Recurrence.GDN: "linear_attn", Recurrence.KDA: "self_attn", Recurrence.MAMBA1: "mamba",
    Recurrence.MAMBA2: "mamba", Recurrence.SHORT_CONV: "conv", Recurrence.LIGHTNING: "self_attn",
}  # fmt: skip
"""Names of the module that mixes, where a family does not put every mixer under one name."""


@dataclass(frozen=True, slots=True)
class Text:
    """A decoder to be listed."""

    found: Decoder
    layers: tuple[Layer, ...]
    style: Style
    tied: bool
    head: str
    """Whole name of the head's module: ``lm_head``, ``language_model.lm_head``."""

    @property
    def fields(self) -> Fields:
        """Its config."""
        return self.found.fields

    @property
    def hidden(self) -> int:
        """Width of the residual stream."""
        return _positive(self.fields, "hidden_size", "n_embd", "d_model")

    @property
    def vocabulary(self) -> int:
        """Rows of the embedding."""
        return _positive(self.fields, "vocab_size")


def _positive(fields: Fields, *names: str) -> int:
    """A number that is not zero: a model of no bytes would fit everywhere. Raises Lacking."""
    value = fields.number(*names)
    if value == 0:
        raise Lacking(fields.name(next(name for name in names if fields.has(name))), value)
    return value


def text(draft: Draft, model: Text) -> None:
    """List a decoder. Raises Lacking."""
    style, hidden = model.style, model.hidden
    vocabulary = model.vocabulary
    with draft.under(style.root):
        draft.plain(f"{style.embedding}.weight", vocabulary, hidden)
        extras.before(draft, model.found, len(model.layers), hidden)
        with draft.under(style.layers):
            for layer in model.layers:
                with draft.under(str(layer.number)):
                    decoder_layer(draft, layer, model)
        if style.final_norm:
            draft.norm(style.final_norm, hidden, holds(style.norm_bias, model.fields))
        extras.after(draft, model.found, hidden)
    if not model.tied:
        draft.plain(f"{model.head}.weight", vocabulary, hidden)
        if holds(style.head_bias, model.fields):
            draft.plain(f"{model.head}.bias", vocabulary)


def decoder_layer(draft: Draft, layer: Layer, model: Text) -> None:
    """One layer. The caller stands in it."""
    style, hidden, fields = model.style, model.hidden, model.fields
    for name in _norms(layer, style):
        draft.norm(name, hidden, holds(style.norm_bias, fields))
    for mixer in layer.mixers:
        with draft.under(_module(mixer, style)):
            _mixer(draft, mixer, model)
    for mlp in layer.mlps:
        match mlp:
            case Dense() if not extras.shared_instead(model.found):
                with draft.under(style.mlp):
                    dense(draft, extras.widened(mlp, layer, model.found), hidden, style, fields)
            case Experts():
                experts(draft, mlp, hidden, extras.routed(style, layer, model.found), fields)
            case _:
                pass
    extras.layer(draft, layer, model.found, hidden)


def _norms(layer: Layer, style: Style) -> tuple[str, ...]:
    """A layer without MLP or without mixer (found by search) has the norm of what it has."""
    if len(style.norms) != 2 or (layer.mixers and layer.mlps):
        return style.norms
    return style.norms[:1] if layer.mixers else style.norms[1:] if layer.mlps else ()


def _module(mixer: Mixer, style: Style) -> str:
    if isinstance(mixer, Recurrent) and style.attention == "self_attn":
        return MODULES[mixer.kind]
    return style.attention


def _mixer(draft: Draft, mixer: Mixer, model: Text) -> None:
    fields, hidden = model.fields, model.hidden
    match mixer:
        case Attention():
            style = model.style
            if extras.without_values(mixer, model.found):
                style = replace(style, qkv=style.qkv[:2])
            own = replace(mixer, gated=False) if model.found.family in extras.GATES_APART else mixer
            attention(draft, own, hidden, style, fields)
        case Latent():
            latent(draft, mixer, hidden, fields)
        case Compressed():
            compressed(draft, mixer, hidden, fields)
        case Recurrent():
            recurrent(draft, mixer, hidden, fields, model.found.family)
