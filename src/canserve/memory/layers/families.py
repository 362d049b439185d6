"""Model types whose decoder is built from the standard keys, as engines' own classes for them read these.

A type that is not listed here or in ``mixers`` is unknown: nothing is said about its layers.
"""

from __future__ import annotations

STANDARD = frozenset(
    {
        "afmoe", "apertus", "aquila", "arcee", "arctic", "baichuan", "bailing_moe", "bailing_moe_v2", "bamba",
        "cohere", "cohere2", "commandr", "deepseek", "deepseek_llm", "dots1", "ernie4_5", "ernie4_5_moe",
        "ernie4_5_vl_moe", "exaone", "exaone4", "exaone_moe", "falcon_h1", "flex_olmo", "fuyu", "gemma",
        "gemma2", "gemma3", "gemma3n", "gemma4", "glm", "glm4", "glm4_moe", "glm4v", "glm4v_moe", "glm_ocr",
        "gpt_oss", "granite", "granitemoe", "granitemoehybrid", "granitemoeshared", "grok-1", "grok1",
        "helium", "hunyuan_v1_dense", "hunyuan_v1_moe", "hunyuan", "hunyuan_vl", "internlm", "internlm2",
        "internlm3", "intern_vl", "jais2", "jamba", "lfm2", "lfm2_moe", "llama", "llama4", "mimo",
        "mimo_v2_flash", "mimo_v2", "minicpm", "minimax_m1", "minimax_m2", "minimax_m3", "minimax_text_01",
        "minimax", "ministral", "ministral3", "mistral", "mistral3", "mixtral", "nemotron",
        "nemotron_h", "olmo", "olmo2", "olmo3", "olmo_hybrid", "olmoe", "orion", "persimmon", "phi", "phi3",
        "phi3small", "phi3_v", "phi4mm", "phimoe", "plamo3", "qwen", "qwen2", "qwen2_5_vl", "qwen2_moe",
        "qwen2_vl", "qwen2_5_omni", "qwen3", "qwen3_5", "qwen3_5_moe", "qwen3_moe", "qwen3_next", "qwen3_vl",
        "qwen3_vl_moe", "qwen3_omni_moe", "seed_oss", "skywork", "smollm3", "solar", "solar_open",
        "stablelm", "stablelm_epoch", "starcoder2", "step3p5", "step3p7", "step3p7_flash", "teleflm", "xverse",
        "yi", "zamba2", "mamba", "mamba2", "falcon_mamba", "gpt2", "gpt_neox", "gptj", "opt", "bloom",
        "mi_mo", "mi_mo_v2_flash", "mini_max_m2", "mini_max_m3", "olmo_2", "gpt_neo_x", "gptoss",
        "idefics3", "smolvlm", "llava", "pixtral", "kimi_linear", "nemotron-nas", "decilm", "deci_lm",
    }
)  # fmt: skip

LATENT = frozenset(
    {
        "deepseek_v2", "deepseek_v3", "deepseek_v32", "deepseek_vl_v2", "kimi_k2", "kimi_k25", "kimi_vl",
        "glm_moe_dsa", "glm4_moe_lite", "kimi_linear", "kimi_k3", "longcat_flash", "pangu_ultra_moe",
        "bailing_hybrid", "openpangu", "mistral_large_3", "mistral4", "ax_k1", "deepseek_ocr",
    }
)  # fmt: skip
"""Those with multi-head latent attention, where the config gives ``kv_lora_rank``."""

COMPRESSED = frozenset({"deepseek_v4", "deepseek_ref"})

OWN_HEAD_DIM = frozenset(
    {
        "gemma", "gemma2", "gemma3", "gemma3n", "gemma4", "qwen3", "qwen3_moe", "qwen3_vl", "qwen3_vl_moe",
        "qwen3_next", "qwen3_5", "qwen3_5_moe", "qwen3_omni_moe", "gpt_oss", "glm4_moe", "seed_oss",
        "mimo_v2_flash", "mimo_v2", "minimax_m2", "minimax_m3", "lfm2_moe", "step3p5", "step3p7", "afmoe",
    }
)  # fmt: skip
"""Types whose head size is a number of its own: where it is absent the class's default would decide."""

NO_GROUPS = frozenset(
    {
        "llama", "qwen2", "phi", "phi3", "stablelm", "olmo", "olmo2", "gemma", "gpt2", "gpt_neox", "gptj",
        "opt", "bloom", "baichuan", "qwen", "internlm", "starcoder2", "persimmon", "granite", "minicpm",
        "helium", "cohere", "xverse", "aquila", "orion", "yi", "deepseek", "gpt_neo_x",
    }
)  # fmt: skip
"""Types for which an absent ``num_key_value_heads`` means as many as heads."""

EXPERTS_BY_NAME = frozenset(
    {
        "mixtral", "gpt_oss", "minimax_m2", "minimax_text_01", "minimax_m1", "minimax", "phimoe", "olmoe",
        "granitemoe", "granitemoeshared", "granitemoehybrid", "jamba", "grok-1", "grok1", "flex_olmo", "arctic",
        "llama4", "minimax_m3", "hunyuan_v1_moe", "hunyuan", "dbrx",
    }
)  # fmt: skip
"""Types whose experts are as wide as ``intermediate_size``."""
