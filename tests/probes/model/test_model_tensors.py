"""The tensors of a model, from the headers of its weights."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

from model_making import folder, gguf, header_of, known, missing, safetensors, string, tensor

from canserve.facts import Cause
from canserve.probes.model.reading import read_model
from canserve.probes.model.safetensors import MAX_KINDS, tally
from canserve.subjects.tensor import Tensor, size

LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}


def test_tensors_of_several_files_are_listed_together(tmp_path: Path) -> None:
    first = {
        "model.embed_tokens.weight": ("BF16", (10, 4)),
        "model.layers.0.mlp.up_proj.weight": ("F8_E4M3", (8, 4)),
    }
    second = {"lm_head.weight": ("F32", (10, 4))}
    folder(
        tmp_path,
        {
            "config.json": LLAMA,
            "model-00001-of-00002.safetensors": safetensors(first),
            "model-00002-of-00002.safetensors": safetensors(second),
        },
    )
    found = known(read_model(str(tmp_path)).tensors)
    assert found == (
        Tensor("model.embed_tokens.weight", (10, 4), "BF16"),
        Tensor("model.layers.0.mlp.up_proj.weight", (8, 4), "F8_E4M3"),
        Tensor("lm_head.weight", (10, 4), "F32"),
    )
    assert [each.bytes for each in found] == [80, 32, 160]


def test_experts_of_a_layer_that_are_alike_are_one_entry(tmp_path: Path) -> None:
    tensors = {
        f"model.layers.{layer}.mlp.experts.{expert}.up_proj.weight": ("BF16", (8, 4 if expert < 6 else 2))
        for layer in range(2)
        for expert in range(7)
    }
    folder(tmp_path, {"config.json": LLAMA, "model.safetensors": safetensors(tensors)})
    name = "model.layers.{}.mlp.experts.*.up_proj.weight"
    assert set(known(read_model(str(tmp_path)).tensors)) == {
        Tensor(name.format(layer), (8, width), "BF16", copies)
        for layer in range(2)
        for width, copies in ((4, 6), (2, 1))
    }


def test_too_many_kinds_are_missing_and_still_counted(tmp_path: Path) -> None:
    tensors = {f"t{number}": ("U8", (1,)) for number in range(MAX_KINDS + 5)}
    folder(tmp_path, {"config.json": LLAMA, "model.safetensors": safetensors(tensors)})
    model = read_model(str(tmp_path))
    assert missing(model.tensors).cause is Cause.UNREADABLE
    assert known(model.parameters).tensors == MAX_KINDS + 5


def test_thousands_of_tensors_take_little_memory() -> None:
    tensors = {
        f"model.layers.{layer}.mlp.experts.{expert}.{name}_proj.weight": ("F8_E4M3", (2, 2))
        for layer in range(60)
        for expert in range(100)
        for name in ("gate", "up", "down")
    }
    data = header_of(tensors)
    del tensors
    tracemalloc.start()
    found = tally(data, None, lambda _name, _dtype, elements: elements).listed()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found is not None and len(found) == 180 and found[0].copies == 100
    assert peak < 5 * len(data)


def test_without_weights_nothing_is_listed(tmp_path: Path) -> None:
    folder(tmp_path, {"config.json": LLAMA})
    assert missing(read_model(str(tmp_path)).tensors).cause is not Cause.UNREADABLE


def test_a_broken_header_lists_nothing(tmp_path: Path) -> None:
    folder(tmp_path, {"config.json": LLAMA, "model.safetensors": b"\x10\0\0\0\0\0\0\0{nonsense}"})
    assert missing(read_model(str(tmp_path)).tensors).cause is Cause.UNREADABLE


def test_recorded_headers_stand_for_all_their_tensors(root: Path) -> None:
    model = read_model(str(root / "examples" / "founding" / "model"))
    tensors = known(model.tensors)
    assert sum(each.copies for each in tensors) == known(model.parameters).tensors == 76_656
    assert sum(each.bytes for each in tensors) == known(model.parameters).bytes
    expert = next(each for each in tensors if ".layers.7.mlp.experts.*.up_proj.weight" in each.name)
    assert (expert.shape, expert.dtype, expert.copies) == ((1024, 3072), "F8_E4M3", 256)


def test_gguf_tensors_are_listed_outermost_first(tmp_path: Path) -> None:
    listed = [tensor("blk.0.attn_q.weight", (256, 512), 12, 0)]
    file = gguf([string("general.architecture", "llama")], listed, 512 * 144)
    (tmp_path / "model.gguf").write_bytes(file)
    found = known(read_model(str(tmp_path / "model.gguf")).tensors)
    assert found == (Tensor("blk.0.attn_q.weight", (512, 256), "Q4_K"),)
    assert found[0].bytes == 512 * 144


def test_sizes() -> None:
    assert size((), "F32") == 4 and size((3, 5), "F4") == 7 and size((2, 32), "Q8_0") == 68
