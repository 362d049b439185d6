"""Which files are the weights, and what their headers count: shards, copies, packed formats, broken files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from model_making import LFS_POINTER, folder, header_of, known, missing, safetensors

from canserve.facts import Cause
from canserve.probes.model import read_model
from canserve.probes.model.documents import Unreadable
from canserve.probes.model.weights import read_index
from canserve.subjects.model import Model

A: dict[str, tuple[str, tuple[int, ...]]] = {"model.a": ("BF16", (2, 3))}
B: dict[str, tuple[str, tuple[int, ...]]] = {"model.b": ("F32", (5,)), "mtp.fc.weight": ("BF16", (1,))}
ONE, TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
INDEX = "model.safetensors.index.json"


def of(tmp_path: Path, files: dict[str, Any], config: dict[str, Any] | None = None) -> Model:
    return read_model(str(folder(tmp_path, {"config.json": config or {}, **files})))


def index(**places: str) -> dict[str, Any]:
    return {"metadata": {"total_size": 5}, "weight_map": places}


def test_one_file(tmp_path: Path) -> None:
    model = of(tmp_path, {"model.safetensors": safetensors(A | B, {"format": "pt"})})
    parameters = known(model.parameters)
    assert parameters.by_dtype == {"BF16": 7, "F32": 5}
    assert (parameters.total, parameters.bytes, parameters.tensors, parameters.files) == (12, 34, 3, 1)
    assert known(model.weight_format) == "safetensors"
    assert known(model.mtp_layers) == 1  # no count in the config, but stored
    assert "7 BF16" in model.parameters.evidence[0].saw


def test_shards_named_by_an_index(tmp_path: Path) -> None:
    shards = index(**{"model.a": ONE, "model.b": TWO, "mtp.fc.weight": TWO})
    model = of(
        tmp_path, {ONE: safetensors(A), TWO: safetensors(B), INDEX: shards, "extra.safetensors": b"junk"}
    )
    assert known(model.parameters).total == 12
    assert known(model.parameters).files == 2


def test_shards_without_an_index_are_known_by_their_numbers(tmp_path: Path) -> None:
    assert known(of(tmp_path / "a", {ONE: safetensors(A), TWO: safetensors(B)}).parameters).total == 12
    lost = missing(of(tmp_path / "b", {ONE: safetensors(A)}).parameters)
    assert TWO in lost.why
    assert "(1 of 2 files)" in lost.why
    assert lost.cause is Cause.UNAVAILABLE


def test_an_index_that_names_a_missing_shard(tmp_path: Path) -> None:
    model = of(tmp_path, {ONE: safetensors(A), INDEX: index(**{"model.a": ONE, "model.b": TWO})})
    lost = missing(model.parameters)
    assert lost.cause is Cause.UNAVAILABLE
    assert lost.why.startswith(f"{INDEX}: names {TWO}, which is not there")
    assert missing(model.weight_format) == lost
    assert known(model.mtp_layers) == 0


def test_an_index_without_any_weights(tmp_path: Path) -> None:
    assert "is not there" in missing(of(tmp_path, {INDEX: index(a=ONE)}).parameters).why


def test_a_shard_that_holds_fewer_tensors_than_promised_is_told(tmp_path: Path) -> None:
    """The headers are what will be loaded; an index may have been left behind by a conversion."""
    shards = index(**{"model.a": ONE, "model.b": ONE})
    parameters = of(tmp_path, {ONE: safetensors(A), INDEX: shards}).parameters
    assert known(parameters).total == 6
    assert "index promises 2" in parameters.evidence[1].saw
    assert not parameters.evidence[1].whole


def test_thousands_of_numbered_files_are_refused(tmp_path: Path) -> None:
    names = [f"m{n}-00001-of-02000.safetensors" for n in range(1500)]
    assert "more than 2000 files" in missing(of(tmp_path, dict.fromkeys(names, b"")).parameters).why


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (index(a="../../etc/passwd"), "outside the model"),
        (index(a="/etc/passwd"), "outside the model"),
        (index(a="a\\b.safetensors"), "outside the model"),
        (index(a=""), "outside the model"),
        (index(), "names no file"),
        ({"weight_map": {"a": 5}}, "not JSON"),
        ({"weight_map": [1]}, "not JSON"),
        ({"metadata": {"a": {"b": 1}}, "weight_map": {}}, "not JSON"),
        ([], "not JSON"),
        (b"\xff", "not UTF-8"),
        (b"", "not JSON"),
        (LFS_POINTER, "Git LFS"),
    ],
)
def test_broken_indexes_say_why(tmp_path: Path, content: Any, reason: str) -> None:
    model = of(tmp_path, {ONE: safetensors(A), INDEX: content})
    assert reason in missing(model.parameters).why
    assert "etc/passwd" not in str(model.parameters.evidence) or "outside" in str(model.parameters.evidence)


def test_an_index_may_not_name_thousands_of_files() -> None:
    shards = {f"t{n}": f"s{n}.safetensors" for n in range(2001)}
    with pytest.raises(Unreadable, match="more than 2000 files"):
        read_index(json.dumps({"weight_map": shards}).encode())


BROKEN: list[tuple[bytes, Cause, str]] = [
    (LFS_POINTER, Cause.UNAVAILABLE, "Git LFS"),
    (b"", Cause.UNREADABLE, "too short"),
    (b"\x80\x02}q\x00.", Cause.UNREADABLE, "too short"),
    ((1 << 63).to_bytes(8, "little") + b"{}", Cause.UNREADABLE, "truncated"),
    (safetensors(A)[:-1], Cause.UNREADABLE, "truncated"),
    (safetensors(A)[:20], Cause.UNREADABLE, "truncated"),
    (safetensors(A) + b"x", Cause.UNREADABLE, "longer than its header says"),
    (b"<html>not found</html>", Cause.UNREADABLE, "truncated or not safetensors"),
]


@pytest.mark.parametrize(("content", "cause", "reason"), BROKEN)
def test_broken_shards(tmp_path: Path, content: bytes, cause: Cause, reason: str) -> None:
    model = of(tmp_path, {ONE: safetensors(B), TWO: content}, {"model_type": "llama"})
    lost = missing(model.parameters)
    assert (lost.cause, reason in lost.why) == (cause, True), lost.why
    assert lost.why.startswith(TWO)
    assert known(model.model_type) == "llama"
    assert known(model.weight_format) == "safetensors"


def test_a_header_longer_than_the_first_read(tmp_path: Path) -> None:
    many = {f"model.layers.{n}.weight": ("F32", (1,)) for n in range(5000)}
    assert len(header_of(many)) > 200_000
    assert known(of(tmp_path, {"model.safetensors": safetensors(many)}).parameters).total == 5000


def test_the_same_weights_in_mistrals_format_are_not_counted_twice(tmp_path: Path) -> None:
    copy = {"consolidated.safetensors": safetensors(A)}
    model = of(tmp_path / "both", {**copy, "model.safetensors": safetensors(B), "params.json": {}})
    assert known(model.parameters).total == 6
    assert known(model.weight_format) == "safetensors"
    model = of(tmp_path / "own", {**copy, "params.json": {}})
    assert known(model.parameters).total == 6
    assert known(model.weight_format) == "mistral"


def test_nested_originals_and_adapters_are_no_weights(tmp_path: Path) -> None:
    other = {"original/consolidated.00.pth": b"x", "adapter_model.safetensors": b"x", "optimizer.pt": b"x",
             "training_args.bin": b"x", "onnx/model.safetensors": b"x"}  # fmt: skip
    assert known(of(tmp_path / "a", {**other, "model.safetensors": safetensors(A)}).parameters).total == 6
    model = of(tmp_path / "b", other)
    assert known(model.weight_format) is None
    assert "no weight files" in missing(model.parameters).why


@pytest.mark.parametrize("name", ["pytorch_model-00001-of-00002.bin", "consolidated.00.pth", "model.pt"])
def test_pickles_are_named_and_never_opened(tmp_path: Path, name: str) -> None:
    model = of(tmp_path, {name: b"cos\nsystem\n(S'false'\ntR."})
    assert known(model.weight_format) == "pt"
    lost = missing(model.parameters)
    assert "pickle" in lost.why
    assert lost.ask is not None


PACKED: list[tuple[dict[str, Any], dict[str, tuple[str, tuple[int, ...]]], int]] = [
    ({"quant_method": "gptq", "bits": 4, "group_size": 128},
     {"q.qweight": ("I32", (16, 128)), "q.qzeros": ("I32", (1, 16)), "q.scales": ("F16", (1, 128)),
      "q.g_idx": ("I32", (128,)), "embed.weight": ("F16", (10,))}, 16 * 128 * 8 + 10),
    ({"quant_method": "awq", "bits": 4, "group_size": 128},
     {"q.qweight": ("I32", (128, 16)), "q.qzeros": ("I32", (1, 16)), "q.scales": ("F16", (1, 128))}, 16384),
    ({"quant_method": "modelopt", "quant_algo": "NVFP4"},
     {"q.weight": ("U8", (4, 8)), "q.weight_scale": ("F8_E4M3", (4, 1)), "q.weight_scale_2": ("F32", ()),
      "q.input_scale": ("F32", ()), "k_proj.k_scale": ("F32", ()), "norm.weight": ("BF16", (4,))}, 68),
    ({"quant_method": "mxfp4"},
     {"mlp.experts.gate_up_proj_blocks": ("U8", (2, 4, 3, 16)),
      "mlp.experts.gate_up_proj_scales": ("U8", (2, 4, 3)), "router.weight": ("BF16", (5,))}, 773),
    ({"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 8}}}},
     {"q.weight_packed": ("I32", (4, 4)), "q.weight_scale": ("BF16", (4, 1)), "q.weight_shape": ("I64", (2,)),
      "q.weight_g_idx": ("I32", (16,)), "q.weight_zero_point": ("I32", (1, 1))}, 64),
    ({"quant_method": "bitsandbytes", "load_in_4bit": True},
     {"q.weight": ("U8", (50, 1)), "q.weight.absmax": ("U8", (2,)), "q.weight.quant_map": ("F32", (16,)),
      "q.weight.nested_absmax": ("F32", (1,)), "q.weight.quant_state.bitsandbytes__nf4": ("U8", (90,))}, 100),
    ({"quant_method": "bitsandbytes", "load_in_8bit": True},
     {"q.weight": ("I8", (50, 2)), "q.SCB": ("F32", (50,)), "q.weight_format": ("U8", ())}, 100),
    ({"quant_method": "fp8", "weight_block_size": [128, 128]},
     {"q.weight": ("F8_E4M3", (128, 256)), "q.weight_scale_inv": ("F32", (1, 2))}, 32768),
    ({"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": {"+:a": {"bits": 8}}},
     {"q.qweight": ("I32", (16, 128))}, 2048),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "tensors", "total"), PACKED)
def test_packed_weights_are_counted_unpacked(
    tmp_path: Path, raw: dict[str, Any], tensors: dict[str, tuple[str, tuple[int, ...]]], total: int
) -> None:
    model = of(tmp_path, {"model.safetensors": safetensors(tensors)}, {"quantization_config": raw})
    parameters = known(model.parameters)
    assert parameters.total == total
    assert sum(parameters.by_dtype.values()) != total or raw["quant_method"] in {"gptq", "bitsandbytes"}


def test_without_quantization_a_scale_is_a_parameter(tmp_path: Path) -> None:
    tensors = {"ls1.scale": ("BF16", (7,)), "packed": ("U8", (4,))}
    assert known(of(tmp_path, {"model.safetensors": safetensors(tensors)}).parameters).total == 11


RECORDED: dict[str, Any] = {
    "format": "canserve-headers/1",
    "recorded_from": "a test",
    "tensors": [
        {
            "name": "layers.{l}.e.{e}.w",
            "dtype": "F8_E4M3",
            "shape": [2, 3],
            "over": {"l": "0-1,4,7-9", "e": "0-4"},
        },
        {"name": "mtp.norm", "dtype": "BF16", "shape": [4]},
    ],
}


def test_recorded_headers_stand_for_weights(tmp_path: Path) -> None:
    model = of(tmp_path, {"model.headers.json": RECORDED})
    parameters = known(model.parameters)
    assert parameters.by_dtype == {"F8_E4M3": 180, "BF16": 4}
    assert (parameters.tensors, parameters.files, parameters.bytes) == (31, 0, 188)
    assert "a test" in model.parameters.evidence[0].saw
    assert known(model.weight_format) == "safetensors"
    assert known(model.mtp_layers) == 1


def test_real_weights_win_over_recorded_ones(tmp_path: Path) -> None:
    files = {"model.headers.json": RECORDED, "model.safetensors": safetensors(A)}
    assert known(of(tmp_path, files).parameters).total == 6


def entry(**change: Any) -> dict[str, Any]:
    return {**RECORDED, "tensors": [{**RECORDED["tensors"][0], **change}]}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({}, "format is None"),
        ({**RECORDED, "format": "other/1"}, "format is"),
        ({**RECORDED, "tensors": {}}, "needs"),
        ({**RECORDED, "tensors": [5]}, "without a name"),
        (entry(dtype="F9"), "known dtype"),
        (entry(shape=[-1]), "no shape"),
        (entry(over={"l": "0-1"}), "differ"),
        (entry(over={"l": "0-1", "e": 5}), "not a list of numbers"),
        (entry(over={"l": "0-999999", "e": "0-999999"}), "more than"),
        ([], "holds a list"),
    ],
)
def test_broken_recordings_say_why(tmp_path: Path, content: Any, reason: str) -> None:
    assert reason in missing(of(tmp_path, {"model.headers.json": content}).parameters).why
