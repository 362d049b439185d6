"""A build that serves LlamaForCausalLM, and models of that class: written for these tests, not copied."""

from __future__ import annotations

import json
from pathlib import Path

import tiny

ARGUMENTS = """\
class EngineArgs:
    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--tensor-parallel-size", "-tp", type=int, default=1)
        parser.add_argument("--pipeline-parallel-size", "-pp", type=int, default=1)
        parser.add_argument("--data-parallel-size", type=int, default=1)
        parser.add_argument("--max-model-len", type=int)
        parser.add_argument("--gpu-memory-utilization", type=float)
        parser.add_argument("--max-num-seqs", type=int)
        parser.add_argument("--max-num-batched-tokens", type=int)
        parser.add_argument("--kv-cache-dtype", choices=["auto", "fp8"])
        parser.add_argument("--enforce-eager", action="store_true")
        parser.add_argument("--quantization", type=str)
        parser.add_argument("--speculative-config", type=json.loads)
        parser.add_argument("--seed", type=int)
        parser.add_argument("--nnodes", type=int)
        parser.add_argument("--distributed-executor-backend", choices=["ray", "mp"])
        return parser
"""
REGISTRY = """\
_TEXT_GENERATION_MODELS = {
    "LlamaForCausalLM": ("llama", "LlamaForCausalLM"),
}
_VLLM_MODELS = {**_TEXT_GENERATION_MODELS}
"""
CONFIG: dict[str, object] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}
"""The shape of an 8B model: 15.0 GiB of weights, 131,072 bytes of cache a token."""


def build(root: Path) -> Path:
    """A folder that holds the engine as an installer would have left it."""
    tiny.build(root)
    for path, text in (
        ("vllm/engine/arg_utils.py", ARGUMENTS),
        ("vllm/model_executor/models/registry.py", REGISTRY),
        ("vllm/model_executor/models/llama.py", "class LlamaForCausalLM:\n    supports_pp = True\n"),
        ("vllm-0.99.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: vllm\nVersion: 0.25.1\n"
                                           "Requires-Dist: transformers>=4.50\n"),
    ):  # fmt: skip
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def model(root: Path, **changes: object) -> Path:
    """A folder with such a config; a change to None takes a field out."""
    root.mkdir(parents=True, exist_ok=True)
    config = {name: value for name, value in (CONFIG | changes).items() if value is not None}
    (root / "config.json").write_text(json.dumps(config))
    return root
