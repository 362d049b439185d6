"""Questions about small models on small machines, for tests of layouts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from canserve.facts import Evidence, Known
from canserve.layout import Fixed, Host, Question
from canserve.rules.machines import profile
from canserve.subjects.build import Build, Identity, ModelClass, Site, Transformers
from canserve.subjects.machine import Machine
from canserve.subjects.model import ONLY_CONFIG, Model, Quantization, Scheme
from canserve.units import Bytes

SEEN = (Evidence("test", "by hand", "seen"),)
LLAMA: Mapping[str, Any] = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 32, "hidden_size": 4096,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
}  # fmt: skip
MOE: Mapping[str, Any] = {
    "model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "num_hidden_layers": 94,
    "hidden_size": 4096, "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128,
    "intermediate_size": 12288, "moe_intermediate_size": 1536, "num_experts": 128, "num_experts_per_tok": 8,
    "vocab_size": 151936,
}  # fmt: skip
BLOCK_FP8 = Quantization(
    "fp8", "fp8", "config.json",
    (Scheme(8, "float", "block", None, (128, 128), 8, "float", True),), (), None, {},
)  # fmt: skip


def model(config: Mapping[str, Any], quantization: Quantization | None = None, **facts: Any) -> Model:
    names = tuple(config.get("architectures", ()))
    fields: dict[str, Any] = dict.fromkeys(
        ("files", "parameters", "tokenizer", "processor", "chat_template", "weight_format"), ONLY_CONFIG
    )
    fields |= {
        "revision": Known(None, SEEN), "config": Known(config, SEEN), "architectures": Known(names, SEEN),
        "model_type": Known(config.get("model_type"), SEEN), "nested": Known((), SEEN),
        "auto_map": Known({}, SEEN), "quantization": Known(quantization, SEEN), "mtp_layers": Known(0, SEEN),
        "gguf_architecture": Known(None, SEEN),
    }  # fmt: skip
    return Model("small", "config", **(fields | facts))


def machine(name: str = "h200") -> Machine:
    found = profile(name)
    assert found is not None
    return found


def host(name: str, gpus: int, gigabytes: int = 141) -> Host:
    return Host(name, replace(machine(), memory=Known(Bytes(gigabytes * 10**9), SEEN)), gpus)


def question(
    config: Mapping[str, Any] = LLAMA,
    gpus: tuple[int, ...] = (8,),
    engine: str = "vllm",
    version: str = "0.25.1",
    **fixed: int,
) -> Question:
    places = tuple(host(f"m{number}", count) for number, count in enumerate(gpus))
    return Question(model(config), places, engine, version, fixed=Fixed(**fixed))


def build(engine: str = "vllm", version: str = "0.25.1", **interfaces: bool | str | None) -> Build:
    """A build whose class of any architecture here says this of itself."""
    identity = Identity(
        f"{engine}=={version}", engine, Known(version, SEEN), "wheel", Known("sha256:0", SEEN),
        Known(("any",), SEEN), Known(None, SEEN), Known((), SEEN),
    )  # fmt: skip
    found = ModelClass("models.small", "Small", Site("models/small.py", 9), interfaces)
    names = ("LlamaForCausalLM", "Qwen3MoeForCausalLM")
    library = Transformers(Known("5.0.0", SEEN), Known(">=4", SEEN), ONLY_CONFIG)
    return Build(identity, library, Known({}, SEEN), classes={name: Known(found, SEEN) for name in names})
