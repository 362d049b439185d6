"""The MLP of one layer: dense, a mixture of experts, both, or none. All raise Lacking."""

from __future__ import annotations

from canserve.memory.fields import Fields, Lacking
from canserve.memory.layers.families import COMPRESSED, EXPERTS_BY_NAME
from canserve.memory.layers.kinds import Dense, Experts, Mlp
from canserve.memory.layers.text import Decoder

NUMBER = ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts", "num_routed_experts")
PER_TOKEN = (
    "num_experts_per_tok", "num_experts_per_token", "top_k_experts", "experts_per_token", "moe_k", "moe_topk",
    "moe_top_k",
)  # fmt: skip
WIDTH = ("moe_intermediate_size", "expert_ffn_hidden_size", "expert_hidden_dim")
DENSE = ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size")


def mlps(decoder: Decoder, number: int, word: str) -> tuple[Mlp, ...]:
    """The MLPs of a layer whose mixer is of that kind."""
    fields = decoder.fields
    if decoder.family == "nemotron_h":
        return _nemotron(fields, word)
    if decoder.family in {"mamba", "mamba2", "falcon_mamba"}:
        return ()
    if not _count(fields):
        return (_dense(decoder),)
    if decoder.family == "gemma4":
        return (
            (_dense(decoder), _experts(decoder))
            if fields.flag("enable_moe_block", False)
            else (_dense(decoder),)
        )
    return (_experts(decoder),) if _sparse(decoder, number) else (_dense(decoder),)


def _count(fields: Fields) -> int:
    value = fields.values.get(next((name for name in NUMBER if fields.has(name)), NUMBER[0]))
    if isinstance(value, list):  # Ernie 4.5 VL: text experts, then image experts
        return sum(each for each in value if type(each) is int)
    return fields.number(*NUMBER, default=0)


def _nemotron(fields: Fields, word: str) -> tuple[Mlp, ...]:
    if word == "mlp":
        return (Dense(fields.number("intermediate_size")),)
    if word != "moe":
        return ()
    count = fields.number("n_shared_experts", default=1)
    shared = count * fields.number("moe_shared_expert_intermediate_size") if count else 0
    width = fields.number("moe_intermediate_size")
    return (Experts(fields.number("n_routed_experts"), fields.number("num_experts_per_tok"), width, shared),)


def _dense(decoder: Decoder) -> Dense:
    fields = decoder.fields
    if decoder.family == "llama4":
        return Dense(fields.number("intermediate_size_mlp"))
    if fields.has("dense_intermediate_size"):  # MiniMax-M3, whose ``intermediate_size`` is an expert's
        return Dense(fields.number("dense_intermediate_size"))
    return Dense(fields.number(*DENSE))


def _experts(decoder: Decoder) -> Experts:
    fields = decoder.fields
    by_name = decoder.family in EXPERTS_BY_NAME and not fields.has(WIDTH[0])
    width = fields.number("intermediate_size") if by_name else fields.number(*WIDTH)
    return Experts(_count(fields), fields.number(*PER_TOKEN), width, _shared(decoder, width))


def _shared(decoder: Decoder, width: int) -> int:
    """Width of the experts that every token takes, all together."""
    fields = decoder.fields
    if fields.has("shared_expert_intermediate_size"):
        return fields.number("shared_expert_intermediate_size")
    if decoder.family == "llama4":
        return width
    if fields.has("share_expert_dim"):
        return fields.number("share_expert_dim")
    if fields.has("shared_intermediate_size"):
        each = fields.number("shared_intermediate_size")
        return each * fields.number("n_shared_experts", default=1)
    return width * fields.number(
        "n_shared_experts", "num_shared_experts", "moe_num_shared_experts", default=0
    )


def _sparse(decoder: Decoder, number: int) -> bool:
    """Whether the layer's MLP is a mixture."""
    fields = decoder.fields
    if decoder.family in COMPRESSED:
        return True
    if (kinds := fields.sequence("mlp_layer_types")) is not None:
        if number >= len(kinds) or kinds[number] not in {"dense", "sparse"}:
            raise Lacking(fields.name("mlp_layer_types"), kinds)
        return bool(kinds[number] == "sparse")
    if number in (fields.sequence("mlp_only_layers") or ()):
        return False
    if isinstance(marks := fields.values.get("moe_layer_freq"), list):
        if number >= len(marks):
            raise Lacking(fields.name("moe_layer_freq"), f"{len(marks)} entries")
        return bool(marks[number])
    if isinstance(listed := fields.values.get("moe_layers_enum"), str):
        return str(number) in listed.split(",")
    return _periodic(fields, number)


def _periodic(fields: Fields, number: int) -> bool:
    if fields.has("expert_layer_period"):
        return number % fields.number("expert_layer_period") == fields.number("expert_layer_offset")
    if fields.has("moe_layer_start_index"):
        first = fields.values["moe_layer_start_index"]
        last = fields.values.get("moe_layer_end_index")
        first = min(first) if isinstance(first, list) else first
        last = max(last) if isinstance(last, list) else last
        if type(first) is not int or type(last) is not int:
            raise Lacking(fields.name("moe_layer_end_index"), last)
        step = fields.number("moe_layer_interval", default=1)
        return first <= number <= (last if last >= 0 else number) and (number + 1) % step == 0
    dense = fields.number("first_k_dense_replace", "num_dense_layers", "moe_first_k_dense", default=0)
    if number < dense:
        return False
    step = fields.number("decoder_sparse_step", "interleave_moe_layer_step", default=1)
    if step == 0:
        return False
    if step > 1:
        return (number + 1) % step == 0
    return number % max(fields.number("moe_layer_freq", default=1), 1) == 0
