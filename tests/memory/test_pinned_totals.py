"""Totals of models whose classes could not be built to compare with: pinned, so that a change is seen.

The numbers in the configs are those of published models; the totals were not compared with their headers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from canserve.memory.fields import Lacking
from canserve.memory.weights.implied import implied_tensors


def total(config: Mapping[str, Any]) -> int:
    """All elements."""
    return sum(tensor.elements for tensor in implied_tensors(config, None))


def test_llama_4_scout(shared: Path) -> None:
    config = json.loads(
        (shared / "models" / "meta-llama__Llama-4-Scout-17B-16E-Instruct" / "config.json").read_text()
    )
    config["vision_config"] = {
        "hidden_size": 1408, "intermediate_size": 5632, "num_hidden_layers": 34, "num_attention_heads": 16,
        "image_size": 336, "patch_size": 14, "num_channels": 3, "projector_input_dim": 4096,
        "projector_output_dim": 4096, "vision_output_dim": 4096,
    }  # fmt: skip
    assert total(config) == 108_641_793_536


def test_internvl() -> None:
    config = {
        "model_type": "internvl_chat", "architectures": ["InternVLChatModel"], "downsample_ratio": 0.5,
        "llm_config": {
            "model_type": "qwen2", "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28,
            "num_key_value_heads": 4, "intermediate_size": 18944, "vocab_size": 151674, "tie_word_embeddings": False,
        },
        "vision_config": {
            "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16,
            "patch_size": 14, "image_size": 448, "qkv_bias": True, "qk_normalization": False,
            "norm_type": "layer_norm",
        },
    }  # fmt: skip
    assert total(config) == 7_944_373_760
    found = {tensor.name: tensor.shape for tensor in implied_tensors(config, None)}
    assert found["mlp1.1.weight"] == (3584, 4096)
    assert "language_model.model.layers.27.mlp.up_proj.weight" in found
    with pytest.raises(Lacking):
        implied_tensors({key: config[key] for key in config if key != "downsample_ratio"}, None)


QWEN_7B = {
    "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
    "intermediate_size": 18944, "vocab_size": 152064, "tie_word_embeddings": False,
}  # fmt: skip
QWEN_TOWER = {
    "depth": 32, "num_heads": 16, "in_chans": 3, "patch_size": 14, "spatial_merge_size": 2,
    "spatial_patch_size": 14, "temporal_patch_size": 2,
}  # fmt: skip
COUNTS = {
    "Qwen/Qwen2.5-VL-7B-Instruct": (
        {
            "model_type": "qwen2_5_vl", **QWEN_7B,
            "vision_config": QWEN_TOWER | {"hidden_size": 1280, "intermediate_size": 3420, "out_hidden_size": 3584},
        },
        8_292_166_656,
    ),
    "Qwen/Qwen2-VL-7B-Instruct": (
        {
            "model_type": "qwen2_vl", **QWEN_7B,
            "vision_config": QWEN_TOWER | {"embed_dim": 1280, "mlp_ratio": 4, "hidden_size": 3584},
        },
        8_291_375_616,
    ),
    "mistralai/Mistral-Small-3.1-24B-Instruct-2503": (
        {
            "model_type": "mistral3", "multimodal_projector_bias": False, "spatial_merge_size": 2,
            "text_config": {
                "model_type": "mistral", "hidden_size": 5120, "num_hidden_layers": 40, "num_attention_heads": 32,
                "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 32768, "vocab_size": 131072,
            },
            "vision_config": {
                "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "patch_size": 14,
                "num_attention_heads": 16, "image_size": 1540, "num_channels": 3,
            },
        },
        24_011_361_280,
    ),
    "Qwen/Qwen3-Next-80B-A3B-Instruct": (
        {
            "model_type": "qwen3_next", "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 16,
            "num_key_value_heads": 2, "head_dim": 256, "full_attention_interval": 4, "linear_num_key_heads": 16,
            "linear_num_value_heads": 32, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
            "linear_conv_kernel_dim": 4, "num_experts": 512, "num_experts_per_tok": 10, "vocab_size": 151936,
            "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "intermediate_size": 5120,
            "decoder_sparse_step": 1, "mlp_only_layers": [], "tie_word_embeddings": False,
        },
        81_324_862_720,
    ),
    "deepseek-ai/DeepSeek-V2-Lite": (
        {
            "model_type": "deepseek_v2", "hidden_size": 2048, "intermediate_size": 10944, "n_routed_experts": 64,
            "moe_intermediate_size": 1408, "num_hidden_layers": 27, "num_attention_heads": 16,
            "num_key_value_heads": 16, "n_shared_experts": 2, "num_experts_per_tok": 6, "moe_layer_freq": 1,
            "first_k_dense_replace": 1, "kv_lora_rank": 512, "q_lora_rank": None, "qk_nope_head_dim": 128,
            "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 102400, "tie_word_embeddings": False,
        },
        15_706_484_224,
    ),
    "zai-org/GLM-4.5-Air": (
        {
            "model_type": "glm4_moe", "attention_bias": True, "head_dim": 128, "hidden_size": 4096,
            "intermediate_size": 10944, "moe_intermediate_size": 1408, "n_routed_experts": 128,
            "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 1,
            "num_attention_heads": 96, "num_key_value_heads": 8, "num_hidden_layers": 46,
            "num_nextn_predict_layers": 1, "use_qk_norm": False, "vocab_size": 151552, "tie_word_embeddings": False,
        },
        110_468_824_832,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTS)
def test_counts_as_the_hub_shows_them(name: str) -> None:
    config, elements = COUNTS[name]
    assert total(config) == elements
