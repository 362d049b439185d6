"""How a family of models names and shapes its blocks, beyond the sizes that its config gives."""

from __future__ import annotations

from dataclasses import dataclass, replace

from canserve.memory.fields import Fields

Flag = bool | tuple[str, bool]
"""True, false, or a field of the config with the value that its class takes where it is absent."""


def holds(flag: Flag, fields: Fields) -> bool:
    """The truth of a flag in a config. Raises Lacking."""
    return flag if isinstance(flag, bool) else fields.flag(*flag)


@dataclass(frozen=True, slots=True)
class Moe:
    """Names of a mixture of experts inside its layer."""

    at: str = "mlp"
    router: str = "gate"
    router_bias: bool = False
    experts: str = "experts"
    names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj")
    stacked: str = ""
    """How all experts lie in one tensor: ``rows`` (outputs first), ``columns`` (inputs first), ``apart`` (three
    tensors, outputs first, with ``weight`` in their names), ``granite`` (as rows, other names); empty: each expert on its own."""
    stacked_bias: bool = False
    """Whether experts stacked by columns have biases."""
    correction: str = ""
    """Name of the bias that corrects the router's choice; empty: there is none."""
    table: str = ""
    """Name of a table that gives every token its experts; empty: there is none."""
    shared: str = "shared_experts"
    shared_gate: str = ""


@dataclass(frozen=True, slots=True)
class Style:
    """One family. The defaults are Llama's."""

    root: str = "model"
    layers: str = "layers"
    embedding: str = "embed_tokens"
    final_norm: str = "norm"
    head: str = "lm_head"
    head_bias: Flag = False
    norms: tuple[str, ...] = ("input_layernorm", "post_attention_layernorm")
    norm_bias: Flag = False
    attention: str = "self_attn"
    qkv: tuple[str, ...] = ("q_proj", "k_proj", "v_proj")
    """One name: a single matrix holds all three."""
    output: str = "o_proj"
    qkv_bias: Flag = ("attention_bias", False)
    output_bias: Flag = ("attention_bias", False)
    qk_norm: str = ""
    """``head``: one weight for each element of a head; ``full``: for each of all heads; ``heads``: as full, but
    laid out by head; empty: none."""
    qk_names: tuple[str, str] = ("q_norm", "k_norm")
    qk_flag: Flag = True
    mlp: str = "mlp"
    mlp_names: tuple[str, ...] = ("gate_proj", "up_proj", "down_proj")
    """Two names: gate and up lie in one matrix, or there is no gate (``gated`` tells)."""
    gated: bool = True
    mlp_bias: Flag = ("mlp_bias", False)
    moe: Moe = Moe()


LLAMA = Style()
FOUR_NORMS = (
    "input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm",
)  # fmt: skip
_PLAIN_MLP = replace(LLAMA, mlp_bias=False)
_HEAD_NORM = replace(_PLAIN_MLP, qk_norm="head")
_AFTER = replace(
    LLAMA, norms=("post_attention_layernorm", "post_feedforward_layernorm"), qk_norm="full", mlp_bias=False
)
_CORRECTED = Moe(correction="gate.e_score_correction_bias")
_W123 = Moe("block_sparse_moe", names=("w1", "w3", "w2"), shared="shared_experts")
_BIASED = replace(
    LLAMA,
    norm_bias=True,
    qkv_bias=True,
    output_bias=True,
    mlp_bias=True,
    mlp_names=("fc1", "fc2"),
    gated=False,
)
_GLM4_MOE = replace(_HEAD_NORM, qk_flag=("use_qk_norm", False), output_bias=False, moe=_CORRECTED)
_QWEN_MOE = Moe(shared="shared_expert", shared_gate="shared_expert_gate")
_GEMMA3 = replace(_HEAD_NORM, norms=FOUR_NORMS)

_GRANITE = Moe("block_sparse_moe", "router.layer", experts="", stacked="granite", shared="")
_HYBRID = replace(
    LLAMA, norms=("input_layernorm", "pre_ff_layernorm"), final_norm="final_layernorm", mlp="feed_forward"
)
_STATE = replace(
    LLAMA, root="backbone", embedding="embeddings", final_norm="norm_f", norms=("norm",), attention="mixer"
)

STYLES: dict[str, Style] = {
    "llama": LLAMA,
    "mistral": replace(_PLAIN_MLP, qkv_bias=False, output_bias=False),
    "ministral": replace(_PLAIN_MLP, qkv_bias=False, output_bias=False),
    "ministral3": replace(_PLAIN_MLP, qkv_bias=False, output_bias=False),
    "yi": LLAMA,
    "qwen2": replace(_PLAIN_MLP, qkv_bias=True, output_bias=False),
    "mimo": replace(_PLAIN_MLP, qkv_bias=("attention_bias", True), output_bias=False),
    "qwen3": _HEAD_NORM,
    "gemma": _PLAIN_MLP,
    "gemma2": replace(_PLAIN_MLP, norms=FOUR_NORMS),
    "gemma3": _GEMMA3,
    "gemma4": replace(
        _GEMMA3, moe=Moe("", "router.proj", stacked="rows", shared="")
    ),
    "phi3": replace(
        _PLAIN_MLP, qkv=("qkv_proj",), qkv_bias=False, output_bias=False, mlp_names=("gate_up_proj", "down_proj")
    ),
    "phi": replace(
        _BIASED, norms=("input_layernorm",), output="dense", final_norm="final_layernorm", head_bias=True,
        qk_norm="head", qk_names=("q_layernorm", "k_layernorm"), qk_flag=("qk_layernorm", False),
    ),
    "olmo": replace(_PLAIN_MLP, norms=(), final_norm=""),
    "olmo2": _AFTER,
    "olmo3": _AFTER,
    "granite": LLAMA,
    "cohere": replace(
        _PLAIN_MLP, norms=("input_layernorm",), qk_norm="heads", qk_flag=("use_qk_norm", False)
    ),
    "cohere2": replace(_PLAIN_MLP, norms=("input_layernorm",)),
    "starcoder2": replace(
        LLAMA, norm_bias=True, qkv_bias=("use_bias", True), output_bias=("use_bias", True),
        mlp_names=("c_fc", "c_proj"), gated=False, mlp_bias=("use_bias", True),
    ),
    "stablelm": replace(
        _PLAIN_MLP, norm_bias=True, qkv_bias=("use_qkv_bias", False), output_bias=False
    ),
    "smollm3": LLAMA,
    "seed_oss": replace(LLAMA, qkv_bias=("attention_bias", True), output_bias=("attention_out_bias", False)),
    "exaone4": replace(_AFTER, qk_norm="head", qkv_bias=False, output_bias=False),
    "arcee": replace(LLAMA, mlp_names=("up_proj", "down_proj"), gated=False),
    "nemotron": replace(LLAMA, norm_bias=True, mlp_names=("up_proj", "down_proj"), gated=False),
    "apertus": replace(
        LLAMA, norms=("attention_layernorm", "feedforward_layernorm"), qk_norm="head",
        mlp_names=("up_proj", "down_proj"), gated=False, mlp_bias=False,
    ),
    "glm": replace(_PLAIN_MLP, output_bias=False, mlp_names=("gate_up_proj", "down_proj")),
    "glm4": replace(
        _PLAIN_MLP, output_bias=False, mlp_names=("gate_up_proj", "down_proj"),
        norms=(*LLAMA.norms, "post_self_attn_layernorm", "post_mlp_layernorm"),
    ),
    "ernie4_5": replace(LLAMA, qkv_bias=("use_bias", False), output_bias=("use_bias", False),
                        mlp_bias=("use_bias", False)),
    "hunyuan_v1_dense": replace(
        _HEAD_NORM, qk_names=("query_layernorm", "key_layernorm")
    ),
    "nemotron-nas": LLAMA,
    "decilm": LLAMA,
    "helium": LLAMA,
    "jais2": replace(
        LLAMA, norm_bias=True, qkv_bias=("attention_bias", True), output_bias=("attention_bias", True),
        mlp_names=("up_proj", "down_proj"), gated=False, mlp_bias=("mlp_bias", True),
    ),
    "gpt_neox": replace(
        LLAMA, root="gpt_neox", embedding="embed_in", final_norm="final_layer_norm", head="embed_out",
        norm_bias=True, attention="attention", qkv=("query_key_value",), output="dense",
        qkv_bias=("attention_bias", True), output_bias=("attention_bias", True),
        mlp_names=("dense_h_to_4h", "dense_4h_to_h"), gated=False, mlp_bias=True,
    ),
    "glm4v": replace(
        _PLAIN_MLP, qkv_bias=("attention_bias", True), output_bias=False, mlp_names=("gate_up_proj", "down_proj"),
        norms=(*LLAMA.norms, "post_self_attn_layernorm", "post_mlp_layernorm"),
    ),
    "mixtral": replace(_PLAIN_MLP, qkv_bias=False, output_bias=False, moe=_W123),
    "qwen2_moe": replace(_PLAIN_MLP, qkv_bias=("qkv_bias", True), output_bias=False, moe=_QWEN_MOE),
    "qwen3_moe": _HEAD_NORM,
    "qwen3_next": replace(_HEAD_NORM, moe=_QWEN_MOE),
    "qwen3_5": _HEAD_NORM,
    "qwen3_5_moe": replace(_HEAD_NORM, moe=_QWEN_MOE),
    "qwen3_vl": _HEAD_NORM,
    "qwen3_vl_moe": replace(_HEAD_NORM, moe=Moe(stacked="rows")),
    "qwen2_vl": replace(_PLAIN_MLP, qkv_bias=True, output_bias=False),
    "qwen2_5_vl": replace(_PLAIN_MLP, qkv_bias=True, output_bias=False),
    "olmoe": replace(_PLAIN_MLP, qk_norm="full"),
    "flex_olmo": replace(_AFTER),
    "phimoe": replace(
        _PLAIN_MLP, norm_bias=True, head_bias=("lm_head_bias", False), qkv_bias=("attention_bias", True),
        output_bias=("attention_bias", True), moe=_W123,
    ),
    "deepseek_v2": _PLAIN_MLP,
    "deepseek_v3": replace(_PLAIN_MLP, moe=_CORRECTED),
    "deepseek_v32": replace(_PLAIN_MLP, moe=_CORRECTED),
    "kimi_k2": replace(_PLAIN_MLP, moe=_CORRECTED),
    "glm_moe_dsa": replace(_PLAIN_MLP, moe=_CORRECTED),
    "glm4_moe_lite": replace(_PLAIN_MLP, moe=_CORRECTED),
    "glm4_moe": _GLM4_MOE,
    "glm4v_moe": replace(_GLM4_MOE, qkv_bias=("attention_bias", True)),
    "solar_open": replace(_PLAIN_MLP, moe=_CORRECTED),
    "exaone_moe": replace(
        _HEAD_NORM, qkv_bias=False, output_bias=False, moe=Moe(correction="e_score_correction_bias")
    ),
    "mistral4": replace(_PLAIN_MLP, moe=Moe(stacked="rows")),
    "minimax": replace(_PLAIN_MLP, qkv_bias=False, output_bias=False, moe=_W123),
    "mamba": _STATE,
    "mamba2": _STATE,
    "falcon_mamba": _STATE,
    "dots1": replace(_HEAD_NORM, moe=_CORRECTED),
    "minimax_m2": replace(
        _PLAIN_MLP, qkv_bias=False, output_bias=False, qk_norm="full",
        moe=replace(_W123, correction="e_score_correction_bias"),
    ),
    "minimax_m3": replace(
        _PLAIN_MLP, qkv_bias=False, output_bias=False, qk_norm="head", qk_flag=("use_qk_norm", False),
        moe=replace(_W123, correction="e_score_correction_bias"),
    ),
    "gpt_oss": replace(
        _PLAIN_MLP, qkv_bias=("attention_bias", True), output_bias=("attention_bias", True),
        moe=Moe(router="router", router_bias=True, stacked="columns", stacked_bias=True),
    ),
    "llama4": replace(
        _PLAIN_MLP, mlp="feed_forward",
        moe=Moe("feed_forward", "router", stacked="columns", shared="shared_expert"),
    ),
    "ernie4_5_moe": replace(
        LLAMA, qkv_bias=("use_bias", False), output_bias=("use_bias", False), mlp_bias=("use_bias", False),
        moe=Moe(correction="moe_statics.e_score_correction_bias"),
    ),
    "step3p5": replace(
        _HEAD_NORM, qkv_bias=False, output_bias=False,
        moe=Moe("moe", stacked="apart", experts="", correction="router_bias", shared="share_expert"),
    ),
    "mimo_v2_flash": replace(_PLAIN_MLP, output_bias=False, moe=_CORRECTED),
    "granitemoe": replace(
        _PLAIN_MLP, moe=_GRANITE
    ),
    "granitemoehybrid": replace(_PLAIN_MLP, moe=_GRANITE),
    "granitemoeshared": replace(_PLAIN_MLP, moe=_GRANITE),
    "jamba": replace(
        _HYBRID, qkv_bias=False, output_bias=False, moe=Moe("feed_forward", "router"),
    ),
    "bamba": _HYBRID,
    "falcon_h1": _HYBRID,
    "deepseek_v4": replace(
        LLAMA, root="", embedding="embed", head="head", norms=("attn_norm", "ffn_norm"), attention="attn",
        mlp="ffn", mlp_names=("w1", "w3", "w2"), mlp_bias=False,
        moe=Moe("ffn", names=("w1", "w3", "w2"), correction="gate.bias"),
    ),
    "hunyuan_v1_moe": replace(
        _HEAD_NORM, qk_names=("query_layernorm", "key_layernorm"), moe=Moe(router="gate.wg", shared="shared_mlp")
    ),
    "afmoe": replace(
        _HEAD_NORM, norms=("input_layernorm", "post_attention_layernorm", "pre_mlp_layernorm", "post_mlp_layernorm"),
        moe=Moe(router="router.gate", correction="expert_bias"),
    ),
    "lfm2": replace(
        _PLAIN_MLP, final_norm="embedding_norm", norms=("operator_norm", "ffn_norm"), output="out_proj",
        qkv_bias=False, output_bias=False, qk_norm="head", qk_names=("q_layernorm", "k_layernorm"),
        mlp="feed_forward", mlp_names=("w1", "w3", "w2"),
        moe=Moe("feed_forward", names=("w1", "w3", "w2"), correction="expert_bias"),
    ),
    "nemotron_h": replace(
        _STATE, mlp="mixer", mlp_names=("up_proj", "down_proj"), gated=False,
        moe=Moe("mixer", names=("", "up_proj", "down_proj"), correction="gate.e_score_correction_bias"),
    ),
    "kimi_linear": replace(
        _PLAIN_MLP, mlp="mlp",
        moe=Moe("block_sparse_moe", names=("w1", "w3", "w2"), correction="gate.e_score_correction_bias"),
    ),
}  # fmt: skip
"""Families by model type without ``_text``. One that is not here is unknown."""

ALIASES = {
    "lfm2_moe": "lfm2", "deepseek_ref": "deepseek_v4", "minimax_text_01": "minimax", "minimax_m1": "minimax", "kimi_k3": "kimi_linear", "step3p7": "step3p5", "step3p7_flash": "step3p5", "mimo_v2": "mimo_v2_flash",
    "deepseek_llm": "llama", "deci_lm": "nemotron-nas", "mi_mo": "mimo", "mini_max_m2": "minimax_m2",
    "mini_max_m3": "minimax_m3", "kimi_k25": "kimi_k2", "qwen3_omni_moe": "qwen3_moe", "mi_mo_v2_flash":
    "mimo_v2_flash", "olmo_2": "olmo2", "deepseek_v3_2": "deepseek_v32",
}  # fmt: skip
"""Model types that share another's blocks."""
