"""Tiny models made on the spot and taught 24 answers, so that what is served can be told to be right.

A lost shard, ranks in the wrong order or weights that were not read give other words. Run as a program, in an environment
with torch and transformers: ``python tiny_models.py KIND FOLDER``. Takes about 20 s of one core.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

CAPITALS = {
    "France": "Paris", "Italy": "Rome", "Spain": "Madrid", "Japan": "Tokyo", "Egypt": "Cairo", "Peru": "Lima",
    "Cuba": "Havana", "Norway": "Oslo", "Greece": "Athens", "Kenya": "Nairobi", "Chile": "Santiago", "Austria": "Vienna",
}  # fmt: skip
SUMS = ((2, 2), (3, 4), (5, 7), (10, 20), (8, 9), (1, 6))
ANSWERS: Mapping[str, str] = {
    **{f"What is the capital of {country}?": city for country, city in CAPITALS.items()},
    **{f"What is {a} plus {b}?": f"{a} plus {b} is {a + b}." for a, b in SUMS},
    "Who are you?": "I am a tiny test model.",
    "Say hello.": "Hello from two nodes.",
    "What colour is the sky?": "The sky is blue.",
    "Count to five.": "one two three four five",
    "Name a fruit.": "apple",
    "Name an animal.": "horse",
}
"""What is asked, and the only right words."""
WORDS = 4096
"""Of the vocabulary."""
WIDTH = 256
MARKS = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>",
)  # fmt: skip
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
STEPS = 400
LEARNT = 0.003
"""Loss at which every answer comes out word for word."""


def tokenizer() -> Any:
    """Byte pairs learnt from Python's own library, with a ChatML template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    teacher = trainers.BpeTrainer(
        vocab_size=WORDS, special_tokens=list(MARKS), show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    made.train([str(path) for path in sorted(Path(os.__file__).parent.glob("*.py"))[:80]], teacher)
    found = PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token="<|im_end|>", pad_token="<|endoftext|>", model_max_length=4096
    )
    found.chat_template = TEMPLATE
    return found


def _plain(mark: Callable[[str], int]) -> dict[str, Any]:
    return {
        "vocab_size": WORDS, "hidden_size": WIDTH, "num_hidden_layers": 4, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 64, "max_position_embeddings": 4096, "bos_token_id": None,
        "eos_token_id": mark("<|im_end|>"), "pad_token_id": mark("<|endoftext|>"),
    }  # fmt: skip


def _dense(mark: Callable[[str], int]) -> Any:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    return Qwen3ForCausalLM(Qwen3Config(**_plain(mark), intermediate_size=512, tie_word_embeddings=True))


def _experts(mark: Callable[[str], int]) -> Any:
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    config = Qwen3MoeConfig(
        **_plain(mark), intermediate_size=512, moe_intermediate_size=128, num_experts=8, num_experts_per_tok=2,
        decoder_sparse_step=1, norm_topk_prob=True, mlp_only_layers=[], tie_word_embeddings=False,
    )  # fmt: skip
    return Qwen3MoeForCausalLM(config)


def _recurrent(mark: Callable[[str], int]) -> Any:
    """The founding case's class: gated delta nets with attention in every fourth layer, experts, a vision tower."""
    from transformers import Qwen3_5MoeConfig, Qwen3_5MoeForConditionalGeneration

    text = {
        **_plain(mark), "linear_conv_kernel_dim": 4, "linear_key_head_dim": 64, "linear_value_head_dim": 64,
        "linear_num_key_heads": 2, "linear_num_value_heads": 4, "moe_intermediate_size": 128,
        "shared_expert_intermediate_size": 128, "num_experts": 8, "num_experts_per_tok": 2, "full_attention_interval": 4,
        "rope_parameters": {
            "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25, "mrope_section": [3, 3, 2],
            "mrope_interleaved": True,
        },
    }  # fmt: skip
    vision = {
        "depth": 2, "hidden_size": 64, "intermediate_size": 128, "num_heads": 2, "patch_size": 16, "spatial_merge_size": 2,
        "temporal_patch_size": 2, "out_hidden_size": WIDTH, "num_position_embeddings": 64,
    }  # fmt: skip
    config = Qwen3_5MoeConfig(
        text_config=text, vision_config=vision, image_token_id=mark("<|image_pad|>"),
        video_token_id=mark("<|video_pad|>"), vision_start_token_id=mark("<|vision_start|>"),
        vision_end_token_id=mark("<|vision_end|>"), tie_word_embeddings=False,
    )  # fmt: skip
    return Qwen3_5MoeForConditionalGeneration(config)


KINDS: Mapping[str, Callable[[Callable[[str], int]], Any]] = {
    "qwen3": _dense,
    "qwen3-moe": _experts,
    "qwen35-moe": _recurrent,
}
PICTURES = {
    "size": {"longest_edge": 65536, "shortest_edge": 1024}, "patch_size": 16, "temporal_patch_size": 2, "merge_size": 2,
    "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "processor_class": "Qwen3VLProcessor",
}  # fmt: skip
PROCESSORS = {
    "preprocessor_config.json": {**PICTURES, "image_processor_type": "Qwen2VLImageProcessorFast"},
    "video_preprocessor_config.json": {**PICTURES, "video_processor_type": "Qwen3VLVideoProcessor"},
}


def asked(words: Any, question: str) -> str:
    """A question as the model reads it."""
    turn = [{"role": "user", "content": question}]
    return str(words.apply_chat_template(turn, add_generation_prompt=True, tokenize=False))


def taught(model: Any, words: Any) -> None:
    """Until it knows every answer."""
    import torch

    rows = []
    for question, answer in ANSWERS.items():
        begin = words(asked(words, question), add_special_tokens=False)["input_ids"]
        end = words(answer + "<|im_end|>", add_special_tokens=False)["input_ids"]
        rows.append((begin + end, [-100] * len(begin) + end))
    longest = max(len(row) for row, _ in rows)
    pad = words.pad_token_id
    read = torch.tensor([row + [pad] * (longest - len(row)) for row, _ in rows])
    wanted = torch.tensor([row + [-100] * (longest - len(row)) for _, row in rows])
    real = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row, _ in rows])
    steps = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0)
    model.train()
    for step in range(STEPS):
        for group in steps.param_groups:
            group["lr"] = 2e-3 * min(1.0, (step + 1) / 20)
        loss = model(input_ids=read, attention_mask=real, labels=wanted).loss
        steps.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        steps.step()
        if loss.item() < LEARNT:
            break


def wrong(model: Any, words: Any) -> list[str]:
    """What the model itself, as it is kept, does not answer right."""
    missed = []
    for question, answer in ANSWERS.items():
        given = words(asked(words, question), add_special_tokens=False, return_tensors="pt")
        given.pop("token_type_ids", None)
        said = model.generate(**given, max_new_tokens=20, do_sample=False)[0][given["input_ids"].shape[1] :]
        if words.decode(said, skip_special_tokens=True) != answer:
            missed.append(question)
    return missed


def make(kind: str, folder: Path) -> None:
    """A model of a kind, in its folder. Raises ValueError when it has not learnt its answers."""
    import torch
    from transformers import AutoTokenizer

    # Several threads wait for one another on a busy machine, and the same seed then gives other weights.
    torch.set_num_threads(1)
    torch.manual_seed(0)
    words = tokenizer()
    model = KINDS[kind](words.convert_tokens_to_ids)
    words.save_pretrained(folder)
    model.config.save_pretrained(folder)
    # Taught on words as engines split them: the model's type decides that, not how they were learnt.
    words = AutoTokenizer.from_pretrained(folder)
    taught(model, words)
    model.eval().to(torch.bfloat16)
    if missed := wrong(model, words):
        raise ValueError(f"{kind} has not learnt {missed}")
    model.save_pretrained(folder)
    ends = words.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"])
    files: dict[str, object] = {"generation_config.json": {"eos_token_id": ends, "pad_token_id": ends[1]}}
    if hasattr(model.config, "vision_config"):
        files |= PROCESSORS
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, indent=1))


if __name__ == "__main__":
    make(sys.argv[1], Path(sys.argv[2]))
