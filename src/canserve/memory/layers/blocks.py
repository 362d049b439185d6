"""Models found by architecture search (Nemotron-NAS): every layer states its own widths."""

from __future__ import annotations

from collections.abc import Mapping

from canserve.memory.fields import Fields, Lacking
from canserve.memory.layers.kinds import Attention, Dense, Layer


def nas_layers(fields: Fields) -> tuple[Layer, ...]:
    """The layers of ``block_configs``. Raises Lacking."""
    blocks = fields.sequence("block_configs") or ()
    if len(blocks) != fields.number("num_hidden_layers"):
        raise Lacking(fields.name("block_configs"), f"{len(blocks)} entries")
    return tuple(_layer(fields, number, block) for number, block in enumerate(blocks))


def _layer(fields: Fields, number: int, block: object) -> Layer:
    name = fields.name(f"block_configs.{number}")
    if not isinstance(block, Mapping):
        raise Lacking(name, block)
    inner = Fields(block, name)
    attention, ffn = inner.inner("attention"), inner.inner("ffn")
    if attention is None or ffn is None:
        raise Lacking(inner.name("ffn" if attention else "attention"))
    hidden, heads = fields.number("hidden_size"), fields.number("num_attention_heads")
    if attention.flag("replace_with_linear", False) or ffn.flag("replace_with_linear", False):
        raise Lacking(attention.name("replace_with_linear"), True)
    mixer = () if attention.flag("no_op", False) else (_attention(attention, hidden, heads),)
    mlp = () if ffn.flag("no_op", False) else (Dense(_width(ffn, hidden)),)
    return Layer(number, mixer, mlp)


def _attention(attention: Fields, hidden: int, heads: int) -> Attention:
    group = attention.number("n_heads_in_group")
    if not group or heads % group or hidden % heads:
        raise Lacking(attention.name("n_heads_in_group"), group)
    return Attention(heads, heads // group, hidden // heads, hidden // heads)


def _width(ffn: Fields, hidden: int) -> int:
    """Two thirds of the multiple, up to the next 256: the rule of the model's own code."""
    mult = ffn.values.get("ffn_mult")
    if not isinstance(mult, int | float) or isinstance(mult, bool) or not 0 < mult < 1000:
        raise Lacking(ffn.name("ffn_mult"), mult)
    return -(-int(2 * mult * hidden / 3) // 256) * 256
