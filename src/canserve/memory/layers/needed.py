"""Fields without which a config of a family would be read as another family's: they must be there.

A mixture of experts without its number of experts looks dense, latent attention without its rank looks ordinary. A
class of transformers would put its own default there, which is some other model's number.
"""

from __future__ import annotations

from collections.abc import Mapping

from canserve.memory.fields import Lacking
from canserve.memory.layers.text import Decoder

ROUTED = "n_routed_experts|num_experts|num_local_experts"
LOCAL = "num_local_experts|num_experts|n_routed_experts"
EXPERTS = "num_experts|num_local_experts|n_routed_experts|moe_num_experts|num_routed_experts"
"""Alternatives: one of these names, the family's own first. A name that ends in ``?`` may hold null, but must
stand there."""
DENSE_FIRST = (
    "first_k_dense_replace|num_dense_layers|moe_first_k_dense|mlp_layer_types|moe_layer_freq|moe_layers_enum"
)
SHARED = "n_shared_experts?|num_shared_experts?|moe_num_shared_experts?|shared_expert_intermediate_size"
LATENT = ("kv_lora_rank", "q_lora_rank?")

_DEEPSEEK = (ROUTED, SHARED, "first_k_dense_replace|mlp_layer_types", *LATENT)
_GLM = (ROUTED, SHARED, "first_k_dense_replace|mlp_layer_types")
_QWEN = (EXPERTS, "shared_expert_intermediate_size")
_MIMO = (
    ROUTED,
    "v_head_dim",
    "swa_head_dim",
    "swa_v_head_dim",
    "hybrid_layer_pattern|layer_types",
    "moe_layer_freq|mlp_layer_types",
)
_STEP = (EXPERTS, DENSE_FIRST)

NEEDED: Mapping[str, tuple[str, ...]] = {
    "afmoe": (EXPERTS, "num_dense_layers", "num_shared_experts"),
    "arctic": (LOCAL,),
    "bailing_moe": (EXPERTS,),
    "bailing_moe_v2": (EXPERTS,),
    "dbrx": (EXPERTS,),
    "deepseek": (ROUTED, SHARED),
    "deepseek_ref": (ROUTED, SHARED),
    "deepseek_v2": _DEEPSEEK,
    "deepseek_v3": _DEEPSEEK,
    "deepseek_v32": _DEEPSEEK,
    "deepseek_v4": (ROUTED, SHARED),
    "dots1": _GLM,
    "ernie4_5_moe": (f"moe_num_experts|{EXPERTS}",),
    "exaone_moe": (EXPERTS, DENSE_FIRST, "num_shared_experts"),
    "flex_olmo": (EXPERTS,),
    "gemma4": ("global_head_dim", "num_global_key_value_heads?|attention_k_eq_v?"),
    "glm4_moe": _GLM,
    "glm4_moe_lite": _DEEPSEEK,
    "glm4v_moe": _GLM,
    "glm_moe_dsa": _DEEPSEEK,
    "gpt_oss": (LOCAL,),
    "granitemoe": (LOCAL,),
    "granitemoeshared": (LOCAL,),
    "hunyuan_v1_moe": (EXPERTS,),
    "kimi_k2": _DEEPSEEK,
    "kimi_linear": (
        EXPERTS,
        "linear_attn_config|layer_types",
        "first_k_dense_replace|mlp_layer_types",
        "kv_lora_rank",
    ),
    "lfm2_moe": (EXPERTS, "num_dense_layers"),
    "llama4": (LOCAL,),
    "longcat_flash": (ROUTED, *LATENT),
    "mimo_v2": _MIMO,
    "mimo_v2_flash": _MIMO,
    "minimax": (LOCAL,),
    "minimax_m2": (LOCAL,),
    "minimax_m3": (LOCAL, "dense_intermediate_size", "moe_layer_freq|mlp_layer_types"),
    "minimax_text_01": (LOCAL,),
    "mistral4": (ROUTED, SHARED, *LATENT),
    "mixtral": (LOCAL,),
    "nemotron_h": ("hybrid_override_pattern|layers_block_type|layer_types", "mamba_head_dim"),
    "olmoe": (EXPERTS,),
    "phimoe": (LOCAL,),
    "qwen2_moe": _QWEN,
    "qwen3_5_moe": _QWEN,
    "qwen3_moe": (EXPERTS,),
    "qwen3_next": _QWEN,
    "qwen3_omni_moe": (EXPERTS,),
    "qwen3_vl_moe": (EXPERTS,),
    "solar_open": (ROUTED, SHARED),
    "step3p5": _STEP,
    "step3p7": _STEP,
    "step3p7_flash": _STEP,
}
"""By model type without ``_text``."""


def demand(decoder: Decoder) -> None:
    """Raises Lacking for the first needed field that is not there, by the first of its names."""
    fields = decoder.fields
    for names in NEEDED.get(decoder.family, ()):
        alternatives = names.split("|")
        if not any(
            name[:-1] in fields.values if name.endswith("?") else fields.has(name) for name in alternatives
        ):
            raise Lacking(fields.name(alternatives[0].rstrip("?")))
    if decoder.family == "gemma4" and fields.has("num_experts") != fields.flag("enable_moe_block", False):
        raise Lacking(fields.name("enable_moe_block" if fields.has("num_experts") else "num_experts"))
