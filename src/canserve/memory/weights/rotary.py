"""Tables of rotary embeddings: no parameters, but held on every rank beside them."""

from __future__ import annotations

from canserve.memory.fields import Fields
from canserve.memory.layers.kinds import Attention, Compressed, Latent, Layer, Span
from canserve.memory.layers.text import Decoder

WITHOUT = frozenset(
    {"nemotron_h", "jamba", "bamba", "gpt2", "opt", "bloom", "mamba", "mamba2", "falcon_mamba"}
)
"""Families whose attention knows no rotary positions."""
TWO_BASES = frozenset({"gemma3", "gemma4", "mimo_v2_flash", "mimo_v2"})
"""Families whose layers with a window turn at another base, which no scaling stretches."""
STRETCHED = frozenset({"yarn", "deepseek_yarn", "linear", "dynamic"})
"""Scalings whose table is as long as the stretched context."""


def rotary_bytes(found: Decoder, layers: tuple[Layer, ...], element: int, sections: int) -> int:
    """Bytes of all tables: one for each width and base.

    ``element``: bytes of one number; ``sections``: how many times as long the table is where positions have
    several sections (multimodal rotary embedding). Zero where the config does not say how long it is.
    """
    fields = found.fields
    positions = fields.values.get("max_position_embeddings")
    if found.family in WITHOUT or type(positions) is not int or positions < 0:
        return 0
    several = _parameters(fields).values.get("mrope_section") is not None
    stretched = _rows(fields, positions) * (sections if several else 1)
    local = found.family in TWO_BASES
    return sum(
        (positions if local and kind == Span.SLIDING else stretched) * width * element
        for width, kind in _tables(found, layers)
    )


def _parameters(fields: Fields) -> Fields:
    return fields.inner("rope_parameters", "rope_scaling") or Fields({})


def _rows(fields: Fields, positions: int) -> int:
    scaling = _parameters(fields)
    kind = scaling.values.get("rope_type") or scaling.values.get("type")
    factor, original = scaling.values.get("factor"), scaling.values.get("original_max_position_embeddings")
    if kind not in STRETCHED or not isinstance(factor, int | float) or not 1 <= factor <= 1000:
        return positions
    return int((original if type(original) is int and original > 0 else positions) * factor)


def _tables(found: Decoder, layers: tuple[Layer, ...]) -> set[tuple[int, str]]:
    """Width of every table, and which layers use it where those that see a window have one of their own."""
    fields = found.fields
    share = fields.values.get(
        "partial_rotary_factor", _parameters(fields).values.get("partial_rotary_factor")
    )
    part = share if isinstance(share, int | float) and 0 < share <= 1 else 1
    two = found.family in TWO_BASES or fields.has("rope_local_base_freq") or _by_layer(fields)
    tables: set[tuple[int, str]] = set()
    for layer in layers:
        for mixer in layer.mixers:
            match mixer:
                case Attention():
                    width = fields.values.get("rotary_dim")
                    width = width if type(width) is int else int(mixer.head_dim * part)
                    tables.add((width, mixer.span if two else ""))
                case Latent() | Compressed():
                    tables.add((mixer.rope_dim, ""))
                case _:
                    pass
    return tables


def _by_layer(fields: Fields) -> bool:
    """Whether rotary parameters are given for each kind of layer."""
    return any(name.endswith("_attention") for name in map(str, _parameters(fields).values))
