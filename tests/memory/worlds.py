"""Models, devices and requests for tests of memory, made from a few numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from canserve.facts import Known
from canserve.memory.quantity import GIB, Quantity
from canserve.memory.request import Request
from canserve.rules.machines import profile
from canserve.subjects.model import ONLY_CONFIG, Model
from canserve.subjects.parallel import Device, Parallel, Placement, Rank

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}
"""Llama-3.1-8B."""

HYBRID = {
    "architectures": ["Qwen3_5ForConditionalGeneration"],
    "model_type": "qwen3_5",
    "hidden_size": 5120,
    "num_hidden_layers": 64,
    "num_attention_heads": 24,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "intermediate_size": 17408,
    "vocab_size": 248320,
    "max_position_embeddings": 262144,
    "full_attention_interval": 4,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 48,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "mamba_ssm_dtype": "float32",
    "mtp_num_hidden_layers": 1,
}
"""The text part of Qwen3.5-27B."""

NEMOTRON = {
    "architectures": ["NemotronHForCausalLM"],
    "model_type": "nemotron_h",
    "hidden_size": 2688,
    "vocab_size": 131072,
    "num_hidden_layers": 52,
    "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
    "mamba_num_heads": 64,
    "mamba_head_dim": 64,
    "ssm_state_size": 128,
    "n_groups": 8,
    "conv_kernel": 4,
    "chunk_size": 128,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "n_routed_experts": 128,
    "num_experts_per_tok": 6,
    "moe_intermediate_size": 1856,
    "moe_shared_expert_intermediate_size": 3712,
    "n_shared_experts": 1,
    "intermediate_size": 1856,
    "max_position_embeddings": 262144,
    "expand": 2,
    "torch_dtype": "bfloat16",
}
"""Nemotron-3-Nano-30B-A3B."""

V4 = {
    "architectures": ["DeepseekV4ForCausalLM"],
    "model_type": "deepseek_v4",
    "hidden_size": 4096,
    "vocab_size": 129280,
    "num_hidden_layers": 43,
    "num_attention_heads": 64,
    "num_key_value_heads": 1,
    "head_dim": 512,
    "qk_rope_head_dim": 64,
    "q_lora_rank": 1024,
    "o_lora_rank": 1024,
    "o_groups": 8,
    "index_n_heads": 64,
    "index_head_dim": 128,
    "index_topk": 512,
    "sliding_window": 128,
    "compress_ratios": [0, 0, *([4, 128] * 20), 4, 0],
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 6,
    "moe_intermediate_size": 2048,
    "num_nextn_predict_layers": 1,
    "max_position_embeddings": 1048576,
    "torch_dtype": "bfloat16",
}
"""DeepSeek-V4-Flash."""

GEMMA = {
    "architectures": ["Gemma4ForConditionalGeneration"],
    "model_type": "gemma4",
    "hidden_size": 2816,
    "num_hidden_layers": 30,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "num_global_key_value_heads": 2,
    "attention_k_eq_v": True,
    "head_dim": 256,
    "global_head_dim": 512,
    "intermediate_size": 2112,
    "vocab_size": 262144,
    "max_position_embeddings": 262144,
    "sliding_window": 1024,
    "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 5,
}
"""The text part of Gemma-4-26B-A4B, without its experts."""


LATENT = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "num_hidden_layers": 9,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "num_experts_per_tok": 8,
    "n_shared_experts": 1,
    "first_k_dense_replace": 3,
    "vocab_size": 129280,
    "max_position_embeddings": 163840,
    "torch_dtype": "bfloat16",
}
"""DeepSeek-V3, cut to 9 layers."""


def model(config: Mapping[str, Any], **facts: Any) -> Model:
    """A model of which only a config is known."""
    stated = {
        "config": Known(dict(config)),
        "architectures": Known(tuple(config.get("architectures", ()))),
        "model_type": Known(config.get("model_type")),
        "max_positions": Known(config.get("max_position_embeddings")),
        "quantization": Known(None),
    }
    names = (
        "revision", "files", "config", "architectures", "model_type", "nested", "auto_map", "parameters",
        "quantization", "tokenizer", "processor", "chat_template", "mtp_layers", "weight_format",
        "gguf_architecture",
    )  # fmt: skip
    return Model("model", "config", **(dict.fromkeys(names, ONLY_CONFIG) | stated | facts))  # type: ignore[arg-type]


def device(name: str = "h100", free: int | None = None) -> Device:
    """One accelerator of a profile, its total taken as read."""
    machine = profile(name)
    assert machine is not None
    assert isinstance(machine.visible_memory, Known)
    total = machine.visible_memory.value.count
    unified = isinstance(machine.unified_memory, Known) and machine.unified_memory.value
    return Device(machine, total, total, total, free, unified, "read")


def placement(parallel: Parallel, layers: int) -> Placement:
    """A layout on one machine with even stages."""
    ranks = [
        Rank((dp * parallel.pp + pp) * parallel.tp + tp, tp, pp, dp, "host", pp * parallel.tp + tp)
        for dp in range(parallel.dp)
        for pp in range(parallel.pp)
        for tp in range(parallel.tp)
    ]
    return Placement(parallel, tuple(ranks), (layers // parallel.pp,) * parallel.pp)


def request(
    config: Mapping[str, Any],
    version: str,
    options: Mapping[str, Any] | None = None,
    parallel: Parallel | None = None,
    on: str = "h100",
) -> Request:
    """A request for one model on one kind of machine."""
    parallel = parallel or Parallel()
    spread = placement(parallel, int(config["num_hidden_layers"]))
    return Request(model(config), version, spread, (device(on),) * parallel.ranks, options or {})


def gib(*sizes: float) -> Sequence[Quantity]:
    """Weights of every rank."""
    return [Quantity.exact(size * GIB, "given") for size in sizes]
