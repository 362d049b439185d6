"""Every dialect in which a checkpoint says that it is quantized, as its own tool writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from model_making import LFS_POINTER, folder, known, missing

from canserve.facts import Cause
from canserve.probes.model import read_model
from canserve.subjects.model import Quantization

Config = dict[str, Any]


def of(tmp_path: Path, config: Config, **files: Any) -> Quantization:
    content = {"config.json": config, **{name.replace("__", "."): text for name, text in files.items()}}
    found = known(read_model(str(folder(tmp_path, content))).quantization)
    assert isinstance(found, Quantization)
    return found


def declared(tmp_path: Path, **raw: Any) -> Quantization:
    return of(tmp_path, {"quantization_config": raw})


def scheme(found: Quantization) -> tuple[Any, ...]:
    """Bits, type, strategy, group size or block, activation bits of the only scheme."""
    (one,) = found.schemes
    return one.weight_bits, one.weight_type, one.strategy, one.group_size or one.block, one.activation_bits


def test_no_declaration_is_known_to_be_none(tmp_path: Path) -> None:
    model = read_model(str(folder(tmp_path, {"config.json": {"quantization_config": None}})))
    assert known(model.quantization) is None
    looked_at = {look.how for look in model.quantization.evidence}
    assert {"config.json", "hf_quant_config.json", "quantize_config.json"} <= looked_at


def test_block_fp8(tmp_path: Path) -> None:
    found = declared(
        tmp_path,
        quant_method="fp8",
        fmt="e4m3",
        activation_scheme="dynamic",
        weight_block_size=[128, 128],
        modules_to_not_convert=["lm_head", "model.layers.0.mlp.gate"],
    )
    assert (found.method, found.declared, found.source) == ("fp8", "fp8", "config.json: quantization_config")
    assert scheme(found) == (8, "float", "block", (128, 128), 8)
    assert found.schemes[0].dynamic is True
    assert found.ignored == ("lm_head", "model.layers.0.mlp.gate")
    assert found.kv_cache is None


def test_tensor_fp8(tmp_path: Path) -> None:
    found = declared(tmp_path, quant_method="FP8", activation_scheme="static", ignored_layers=None)
    assert (found.method, found.declared) == ("fp8", "FP8")
    assert scheme(found) == (8, "float", "tensor", None, 8)
    assert found.schemes[0].dynamic is False


def compressed(**weights: Any) -> Config:
    return {"weights": {"num_bits": 4, "type": "int", "dynamic": False, **weights}, "targets": ["Linear"]}


def test_compressed_tensors_groups(tmp_path: Path) -> None:
    found = declared(
        tmp_path,
        quant_method="compressed-tensors",
        format="mixed-precision",
        config_groups={
            "group_0": {
                **compressed(strategy="group", group_size=128, symmetric=True),
                "format": "pack-quantized",
            },
            "group_1": {
                **compressed(num_bits=4, type="float", strategy="tensor_group", group_size=16),
                "input_activations": {"num_bits": 4, "type": "float", "dynamic": "local"},
                "format": "nvfp4-pack-quantized",
            },
            "group_2": compressed(num_bits=8, type="float", strategy="block", block_structure=[128, 128]),
            "group_3": {
                **compressed(num_bits=8, strategy="channel"),
                "input_activations": {"num_bits": 8, "type": "int", "dynamic": True},
            },
            "W4A16": ["re:.*mlp.*"],
        },
        ignore=["lm_head", "re:.*gate$"],
        kv_cache_scheme={"num_bits": 8, "type": "float", "dynamic": False},
    )
    assert found.method == "compressed-tensors"
    assert [(s.weight_bits, s.weight_type, s.strategy, s.group_size or s.block) for s in found.schemes] == [
        (4, "int", "group", 128), (4, "float", "tensor_group", 16), (8, "float", "block", (128, 128)),
        (8, "int", "channel", None), (4, None, None, None),
    ]  # fmt: skip
    assert [s.format for s in found.schemes][:3] == [
        "pack-quantized",
        "nvfp4-pack-quantized",
        "mixed-precision",
    ]
    assert found.schemes[0].symmetric is True
    assert found.schemes[3].activation_type == "int"
    assert found.schemes[4].targets == ("re:.*mlp.*",)
    assert found.ignored == ("lm_head", "re:.*gate$")
    assert found.kv_cache == "fp8"


@pytest.mark.parametrize("key", ["compression_config", "quantization_config"])
def test_older_spellings_of_compressed_tensors(tmp_path: Path, key: str) -> None:
    found = of(tmp_path, {key: {"quant_method": "compressed_tensors", "config_groups": {"g": compressed()}}})
    assert (found.method, found.declared) == ("compressed-tensors", "compressed_tensors")
    assert scheme(found) == (4, "int", "tensor", None, None)


def test_sparseml_named_no_method_at_all(tmp_path: Path) -> None:
    assert of(tmp_path, {"compression_config": {"format": "dense"}}).method == "compressed-tensors"


def test_a_declaration_inside_the_text_config(tmp_path: Path) -> None:
    inner = {"quant_method": "compressed-tensors", "config_groups": {"g": compressed(group_size=32)}}
    found = of(tmp_path, {"text_config": {"quantization_config": inner}})
    assert found.source == "config.json: text_config.quantization_config"
    assert scheme(found) == (4, "int", "group", 32, None)


def test_gptq(tmp_path: Path) -> None:
    found = declared(
        tmp_path,
        quant_method="gptq",
        bits=4,
        group_size=128,
        desc_act=True,
        sym=True,
        checkpoint_format="marlin",
        dynamic={"+:.*down": {"bits": 8, "group_size": -1}, "-:.*gate": {}},
    )
    assert found.method == "gptq"
    assert "gptq_marlin" in found.aliases
    assert [(s.weight_bits, s.strategy, s.group_size, s.symmetric, s.format) for s in found.schemes] == [
        (4, "group", 128, True, "marlin"), (8, "channel", None, True, "marlin")]  # fmt: skip
    assert found.raw["desc_act"] is True


def test_awq(tmp_path: Path) -> None:
    found = declared(
        tmp_path, quant_method="awq", bits=4, group_size=64, zero_point=True, version="gemm",
        modules_to_not_convert=["visual"],
    )  # fmt: skip
    assert (found.method, scheme(found)) == ("awq", (4, "int", "group", 64, None))
    assert found.schemes[0].symmetric is False
    assert "awq_marlin" in found.aliases
    assert found.ignored == ("visual",)


def test_files_of_old_gptq_and_awq_tools(tmp_path: Path) -> None:
    old: dict[str, Any] = {"bits": 4, "group_size": 128, "desc_act": False, "sym": True}
    found = of(tmp_path / "gptq", {"model_type": "llama"}, quantize_config__json=old)
    assert (found.method, found.declared, found.source) == ("gptq", "gptq", "quantize_config.json")
    assert scheme(found) == (4, "int", "group", 128, None)
    old = {"zero_point": True, "q_group_size": 128, "w_bit": 4, "version": "GEMM"}
    found = of(tmp_path / "awq", {"model_type": "llama"}, quant_config__json=old)
    assert (found.method, scheme(found)) == ("awq", (4, "int", "group", 128, None))


@pytest.mark.parametrize("name", ["auto-round", "auto_round", "intel/auto-round"])
def test_autoround(tmp_path: Path, name: str) -> None:
    found = declared(
        tmp_path, quant_method=name, bits=4, group_size=128, sym=True, data_type="int",
        packing_format="auto_round:auto_gptq",
    )  # fmt: skip
    assert (found.method, found.declared) == ("auto-round", name)
    assert "inc" in found.aliases
    assert found.schemes[0].format == "auto_round:auto_gptq"


@pytest.mark.parametrize(
    ("raw", "bits", "form"),
    [
        ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, 4, "nf4"),
        ({"quant_method": "bitsandbytes", "_load_in_8bit": True}, 8, None),
        ({"load_in_4bit": True, "bnb_4bit_quant_type": "fp4"}, 4, "fp4"),
        ({"quant_method": "bitsandbytes_4bit", "load_in_4bit": True}, 4, None),
    ],
)
def test_bitsandbytes(tmp_path: Path, raw: Config, bits: int, form: str | None) -> None:
    found = of(tmp_path, {"quantization_config": {**raw, "llm_int8_skip_modules": ["lm_head"]}})
    assert found.method == "bitsandbytes"
    assert (found.schemes[0].weight_bits, found.schemes[0].format) == (bits, form)
    assert found.ignored == ("lm_head",)


def test_mxfp4(tmp_path: Path) -> None:
    raw = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    found = of(tmp_path, {"model_type": "gpt_oss", "quantization_config": raw})
    assert (found.method, scheme(found)) == ("mxfp4", (4, "float", "group", 32, None))
    assert found.aliases == ("gpt_oss_mxfp4",)
    assert declared(tmp_path, **raw).aliases == ()


MODELOPT: list[tuple[str, str, tuple[Any, ...], str | None]] = [
    ("FP8", "modelopt", (8, "float", "tensor", None, 8), "modelopt_fp8"),
    ("FP8_PER_CHANNEL_PER_TOKEN", "modelopt", (8, "float", "channel", None, 8), "modelopt_fp8"),
    ("fp8_pb_wo", "modelopt", (8, "float", "block", (128, 128), None), "modelopt_fp8"),
    ("NVFP4", "modelopt_fp4", (4, "float", "group", 16, 4), "nvfp4"),
    ("W4A16_NVFP4", "modelopt_fp4", (4, "float", "group", 16, None), "nvfp4"),
    ("MXFP8", "modelopt_mxfp8", (8, "float", "group", 32, 8), "mxfp8"),
    ("W4A8_AWQ", "modelopt", (4, "int", "group", 128, 8), "modelopt_fp8"),
    ("SOMETHING_NEW", "modelopt", (None, None, None, None, None), "modelopt_fp8"),
]


@pytest.mark.parametrize(("algorithm", "method", "expected", "alias"), MODELOPT)
def test_modelopt_in_its_own_file(
    tmp_path: Path, algorithm: str, method: str, expected: tuple[Any, ...], alias: str
) -> None:
    found = of(
        tmp_path,
        {"model_type": "llama"},
        hf_quant_config__json={
            "producer": {"name": "modelopt", "version": "0.29.0"},
            "quantization": {
                "quant_algo": algorithm, "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]},
        },
    )  # fmt: skip
    assert (found.method, found.declared, found.algorithms) == (method, algorithm, (algorithm,))
    assert (found.source, found.kv_cache, found.ignored) == ("hf_quant_config.json", "fp8", ("lm_head",))
    assert scheme(found) == expected
    assert alias in found.aliases


def test_modelopt_in_the_config(tmp_path: Path) -> None:
    found = declared(
        tmp_path,
        quant_method="modelopt",
        quant_algo="NVFP4",
        config_groups={"group_0": compressed(num_bits=4, type="float", group_size=16)},
        ignore=["lm_head"],
        kv_cache_scheme={"dynamic": False, "num_bits": 8, "type": "float"},
    )
    assert (found.method, found.declared, found.algorithms) == ("modelopt_fp4", "modelopt", ("NVFP4",))
    assert found.kv_cache == "fp8"


def test_modelopt_in_the_config_without_a_method(tmp_path: Path) -> None:
    """ModelOpt 0.31 wrote no ``quant_method`` (Qwen3-32B-FP8-Static-PerTensor)."""
    producer = {"name": "modelopt", "version": "0.31.0"}
    found = declared(tmp_path, quant_algo="FP8", kv_cache_scheme="FP8", producer=producer, ignore=["lm_head"])
    assert (found.method, found.declared, found.kv_cache) == ("modelopt", "FP8", "fp8")
    assert "quant_method" not in found.raw


def test_modelopt_mixed_precision(tmp_path: Path) -> None:
    layers = {
        "layers.0.q": {"quant_algo": "FP8"},
        "layers.0.k": {"quant_algo": "FP8"},
        "layers.0.up": {"quant_algo": "NVFP4", "group_size": 16},
    }
    quantization = {"quant_algo": "MIXED_PRECISION", "kv_cache_quant_algo": None, "quantized_layers": layers}
    found = of(tmp_path / "a", {}, hf_quant_config__json={"quantization": quantization})
    assert (found.method, found.algorithms) == ("modelopt_mixed", ("MIXED_PRECISION", "FP8", "NVFP4"))
    assert [s.format for s in found.schemes] == ["FP8", "NVFP4"]
    assert (found.kv_cache, found.aliases) == (None, ())
    layers["layers.0.up"] = {"quant_algo": "W4A8_AWQ"}
    found = of(tmp_path / "b", {}, hf_quant_config__json={"quantization": quantization})
    assert found.aliases == ("w4afp8",)


def test_nvfp4_experts_beside_block_fp8(tmp_path: Path) -> None:
    """A ModelOpt export that keeps ``quant_method: fp8`` (DeepSeek-V4-Flash-NVFP4)."""
    raw = {"quant_method": "fp8", "weight_block_size": [128, 128], "quant_algo": "MIXED_PRECISION",
           "moe_quant_algo": "NVFP4", "group_size": 16, "ignore": ["mtp.*"]}  # fmt: skip
    found = of(tmp_path, {"model_type": "deepseek_v4", "expert_dtype": "fp4", "quantization_config": raw})
    assert (found.method, found.aliases) == ("fp8", ("deepseek_v4_fp8",))
    assert [(s.weight_bits, s.group_size or s.block) for s in found.schemes] == [
        (8, (128, 128)), (4, 16), (4, 32)]  # fmt: skip


def test_quark(tmp_path: Path) -> None:
    fp8 = {"dtype": "fp8_e4m3", "qscheme": "per_tensor", "symmetric": None}
    fp4 = {"dtype": "fp4", "qscheme": "per_group", "group_size": 32}
    found = declared(
        tmp_path,
        quant_method="quark",
        global_quant_config={"weight": fp4, "input_tensors": {**fp4, "is_dynamic": True}},
        layer_quant_config={"*.k_proj": {"weight": fp8, "input_tensors": None}, "*.v_proj": {"weight": fp8}},
        kv_cache_quant_config={"*.k_proj": {"output_tensors": fp8}},
        exclude=["lm_head"],
    )
    assert found.method == "quark"
    one, two = found.schemes
    assert (one.weight_bits, one.strategy, one.group_size, one.activation_bits) == (4, "group", 32, 4)
    assert (two.weight_bits, two.strategy, two.activation_bits, two.format) == (8, "tensor", None, "fp8_e4m3")
    assert (found.kv_cache, found.ignored) == ("fp8", ("lm_head",))


OTHERS: list[tuple[Config, tuple[Any, ...] | None]] = [
    ({"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0}, (8, "float", "channel", None, 8)),
    ({"quant_method": "torchao", "quant_type": {"default": {"_type": "Int4WeightOnlyConfig"}}},
     (4, "int", None, None, None)),
    ({"quant_method": "torchao", "quant_type": "int8_weight_only"}, (8, "int", None, None, None)),
    ({"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4, "group_size": 64}}},
     (4, "int", "group", 64, None)),
    ({"quant_method": "aqlm", "nbits_per_codebook": 16, "linear_weights_not_to_quantize": ["lm_head"]}, None),
    ({"quant_method": "eetq", "weights": "int8"}, (8, "int", "channel", None, None)),
    ({"quant_method": "higgs", "bits": 4, "group_size": 256}, (4, None, "group", 256, None)),
    ({"quant_method": "vptq", "config_for_layers": {}}, None),
    ({"quant_method": "bitnet"}, (2, "int", "tensor", None, 8)),
    ({"quant_method": "mxfp8", "ignored_layers": ["lm_head"]}, (8, "float", "group", 32, 8)),
    ({"quant_method": "experts_int8"}, None),
    ({"bits": 4, "group_size": 64}, (4, None, "group", 64, None)),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "expected"), OTHERS)
def test_other_methods_keep_their_names(
    tmp_path: Path, raw: Config, expected: tuple[Any, ...] | None
) -> None:
    found = declared(tmp_path, **raw)
    assert found.method == raw.get("quant_method", "mlx")
    assert (scheme(found) if found.schemes else None) == expected


def test_modelslim_by_its_file(tmp_path: Path) -> None:
    found = of(tmp_path, {}, quant_model_description__json={"model.layers.0.q.weight": "W8A8"})
    assert (found.method, found.source) == ("modelslim", "quant_model_description.json")


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"quantization_config": "fp8"}, "is a str, not a table"),
        ({"quantization_config": [1]}, "is a list"),
        ({"quantization_config": {"quant_method": ["fp8"]}}, "quant_method is a list"),
        ({"quantization_config": {"weights": 8}}, "names no quant_method"),
    ],
)
def test_odd_declarations_are_missing(tmp_path: Path, config: Config, reason: str) -> None:
    model = read_model(str(folder(tmp_path, {"config.json": config})))
    lost = missing(model.quantization)
    assert lost.cause is Cause.UNREADABLE
    assert reason in lost.why
    assert known(model.architectures) == ()


def test_a_broken_file_beside_the_config_is_not_no_quantization(tmp_path: Path) -> None:
    files: dict[str, Any] = {"config.json": {}, "hf_quant_config.json": LFS_POINTER}
    assert missing(read_model(str(folder(tmp_path, files))).quantization).cause is Cause.UNAVAILABLE


def test_odd_values_inside_a_declaration_do_not_break_it(tmp_path: Path) -> None:
    hostile: list[Any] = [None, 0, -1, "x", [], {}, [[]], {"a": {}}, True, 1e308, [None, 5, {"weight": []}]]
    keys = [
        "config_groups",
        "weight_block_size",
        "bits",
        "group_size",
        "dynamic",
        "ignore",
        "kv_cache_scheme",
        "quantized_layers",
        "format",
        "global_quant_config",
        "layer_quant_config",
        "quant_type",
        "quant_config",
        "quantization",
        "producer",
        "quant_algo",
        "sym",
        "kv_cache_quant_config",
    ]
    methods = [
        "compressed-tensors",
        "fp8",
        "gptq",
        "awq",
        "quark",
        "modelopt",
        "torchao",
        "hqq",
        "bitsandbytes",
    ]
    for method in methods:
        for key in keys:
            for value in hostile:
                found = declared(tmp_path, quant_method=method, **{key: value})
                assert found.declared == method
    for group in hostile:
        for part in ("weights", "input_activations", "targets", "format"):
            raw = {"g": {part: group}, "h": group}
            assert len(declared(tmp_path, quant_method="compressed-tensors", config_groups=raw).schemes) == 2


def test_a_huge_declaration_takes_linear_time(tmp_path: Path) -> None:
    rules = {f"+:layer.{n}": {"bits": 4 + 4 * (n % 2)} for n in range(50_000)}
    found = declared(tmp_path, quant_method="gptq", bits=4, group_size=128, dynamic=rules)
    assert len(found.schemes) == 2
