"""Tables of rotary embeddings: no parameters, but held on every rank beside them."""

from __future__ import annotations

from canserve.memory.fields import Fields
from canserve.memory.layers.kinds import Attention, Compressed, Latent, Layer
from canserve.memory.layers.text import Decoder

WITHOUT = frozenset(
    {"nemotron_h", "jamba", "bamba", "gpt2", "opt", "bloom", "mamba", "mamba2", "falcon_mamba"}
)
"""Families whose attention knows no rotary positions."""
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
    rows = _rows(fields, positions)
    if _parameters(fields).values.get("mrope_section") is not None:
        rows *= sections
    return sum(rows * width * element for width in _widths(found, layers))


def _parameters(fields: Fields) -> Fields:
    return fields.inner("rope_parameters", "rope_scaling") or Fields({})


def _rows(fields: Fields, positions: int) -> int:
    scaling = _parameters(fields)
    kind = scaling.values.get("rope_type") or scaling.values.get("type")
    factor, original = scaling.values.get("factor"), scaling.values.get("original_max_position_embeddings")
    if kind not in STRETCHED or not isinstance(factor, int | float) or not 1 <= factor <= 1000:
        return positions
    return int((original if type(original) is int and original > 0 else positions) * factor)


def _widths(found: Decoder, layers: tuple[Layer, ...]) -> list[int]:
    """Width of every table. Layers that see a window may turn at another base: a table of their own."""
    fields = found.fields
    share = fields.values.get(
        "partial_rotary_factor", _parameters(fields).values.get("partial_rotary_factor")
    )
    part = share if isinstance(share, int | float) and 0 < share <= 1 else 1
    two = any(fields.has(name) for name in ("rope_local_base_freq", "swa_rope_theta")) or _by_layer(fields)
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
    return [width for width, _ in tables]


def _by_layer(fields: Fields) -> bool:
    """Whether rotary parameters are given for each kind of layer."""
    return any(name.endswith("_attention") for name in map(str, _parameters(fields).values))
