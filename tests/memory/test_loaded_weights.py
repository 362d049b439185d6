"""What engines' options make of a checkpoint, and the tables that lie beside the weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from canserve.engines import engine_named
from canserve.facts import Known, Missing
from canserve.memory.device import one_device
from canserve.memory.layers import read_layers
from canserve.memory.layers.text import decoder
from canserve.memory.quantity import GIB
from canserve.memory.request import Request
from canserve.memory.weights.rotary import rotary_bytes
from canserve.probes.model.reading import read_model
from canserve.rules.machines import profile
from canserve.subjects.model import Model
from canserve.subjects.parallel import Parallel, Placement, Rank

MIB = 1 << 20


def asked(model: Model, tp: int = 1, layers: int = 0, **options: Any) -> Request:
    """A request on so many ranks of one machine."""
    assert isinstance(model.config, Known)
    ranks = tuple(Rank(number, number, 0, 0, "host", number) for number in range(tp))
    depth = layers or len(read_layers(model.config.value))
    return Request(model, "0.25.1", Placement(Parallel(tp), ranks, (depth,)), (), options)


def held(model: Model, engine: str = "vllm", tp: int = 1, **options: Any) -> float:
    """GiB on the first rank."""
    rules = engine_named(engine)
    assert rules is not None
    found = rules.weights(asked(model, tp, **options))
    assert isinstance(found, Known), found
    return found.value[0].value / GIB


@pytest.fixture(scope="module")
def founding(root: Path) -> Model:
    """The founding model, from its recorded headers."""
    return read_model(str(root / "examples" / "founding" / "model"))


@pytest.fixture(scope="module")
def plain(shared: Path) -> Model:
    """Qwen3-8B, from its config."""
    return read_model(str(shared / "models" / "Qwen__Qwen3-8B"))


def test_what_engines_printed(shared: Path, founding: Model, plain: Model) -> None:
    assert abs(held(founding, tp=2, language_model_only=True) - 57.8) < 0.1
    assert abs(held(plain) - 15.27) < 0.01


@pytest.mark.parametrize(
    "options", [{"language_model_only": True}, {"limit_mm_per_prompt": {"image": 0, "video": 0}}]
)
def test_towers_are_left_out_when_asked(founding: Model, options: dict[str, Any]) -> None:
    assert 0.3 < held(founding, tp=2) - held(founding, tp=2, mm_encoder_tp_mode="weights", **options) < 0.6


def test_a_limit_on_images_alone_keeps_the_tower_for_video(founding: Model) -> None:
    assert held(founding, limit_mm_per_prompt={"image": 0}) == held(founding)


def test_a_data_parallel_encoder_is_whole_on_every_rank(founding: Model) -> None:
    assert 0.3 < held(founding, tp=2, mm_encoder_tp_mode="data") - held(founding, tp=2) < 0.6


@pytest.mark.parametrize(
    ("value", "loaded"),
    [
        ({"method": "mtp", "num_speculative_tokens": 2}, True),
        ('{"method": "qwen3_next_mtp"}', True),
        ({"method": "ngram"}, False),
        ({"method": "eagle3", "model": "some/draft"}, False),
    ],
)
def test_layers_ahead_are_loaded_for_speculation(founding: Model, value: object, loaded: bool) -> None:
    more = held(founding, speculative_config=value) - held(founding)
    assert (more > 2) is loaded


def test_the_dtype_option_decides(plain: Model) -> None:
    assert held(plain, dtype="float16") == held(plain, dtype="auto") == held(plain, dtype="half")
    assert held(plain, dtype="float32") > 1.99 * held(plain)
    rules = engine_named("vllm")
    assert rules is not None
    assert isinstance(rules.weights(asked(plain, dtype="bf61")), Missing)


def test_online_quantization_needs_a_plain_checkpoint(plain: Model, founding: Model) -> None:
    assert 0.5 < held(plain, quantization="fp8") / held(plain) < 0.62  # embedding and head stay
    assert held(founding, quantization="fp8") == held(founding)


@pytest.mark.parametrize(("release", "peaks"), [("0.11.0", True), ("0.14.0", True), ("0.25.1", False)])
def test_releases_that_quantize_late_peak_while_loading(plain: Model, release: str, peaks: bool) -> None:
    rules, machine = engine_named("vllm"), profile("h200")
    assert rules is not None and machine is not None
    device = one_device(machine)
    assert not isinstance(device, Missing)
    request = replace(asked(plain, quantization="fp8"), version=release, devices=(device,))
    weights = rules.weights(request)
    assert isinstance(weights, Known)
    found = rules.memory(request, weights.value)
    assert isinstance(found, Known), found
    rank = found.value.ranks[0]
    assert (rank.load_peak is not None) is peaks
    if rank.load_peak is not None:
        assert abs(rank.load_peak.value / GIB - held(plain)) < 0.01 and rank.weights.value < 10 * GIB


@pytest.mark.parametrize(
    ("machine", "release", "printed"),
    [("h100", "0.19.0", 13.64), ("a100", "0.19.0", 13.72), ("h200", "0.25.1", 13.02)],
)
def test_packed_experts_as_kernels_hold_them(
    shared: Path, machine: str, release: str, printed: float
) -> None:
    """Padded for Marlin; for Triton's kernels scales are swizzled, and once stayed beside the copy."""
    model, rules, found = (
        read_model(str(shared / "models" / "openai__gpt-oss-20b")),
        engine_named("vllm"),
        profile(machine),
    )
    assert rules is not None and found is not None
    device = one_device(found)
    assert not isinstance(device, Missing)
    weights = rules.weights(replace(asked(model), version=release, devices=(device,)))
    assert isinstance(weights, Known)
    assert abs(weights.value[0].value / GIB / printed - 1) < 0.02


def test_every_engine_answers(plain: Model) -> None:
    for name in ("sglang", "lmdeploy"):
        assert abs(held(plain, name) - 15.27) < 0.02


def test_an_unknown_family_is_missing(plain: Model) -> None:
    assert isinstance(plain.config, Known)
    strange = replace(plain, config=Known(dict(plain.config.value) | {"model_type": "unheard_of"}))
    rules = engine_named("vllm")
    assert rules is not None
    found = rules.weights(asked(strange, layers=36))
    assert isinstance(found, Missing) and "unheard_of" in found.why


def tables(folder: Path, **changes: Any) -> float:
    """MiB of rotary tables of a published config with changes in its decoder's part."""
    model = read_model(str(folder))
    assert isinstance(model.config, Known)
    config = dict(model.config.value)
    if "text_config" in config:
        config["text_config"] = config["text_config"] | changes
    else:
        config |= changes
    found = decoder(config)
    return rotary_bytes(found, read_layers(config), 2, 4) / MIB


def test_rotary_tables(shared: Path) -> None:
    models = shared / "models"
    assert tables(models / "meta-llama__Meta-Llama-3.1-8B") == 32  # 131072 positions, 128 wide
    assert tables(models / "Qwen__Qwen3-8B") == 10
    assert tables(models / "Qwen__Qwen3.5-27B") == 4 * 32  # sections: four times as long; a quarter turns
    assert tables(models / "nvidia__NVIDIA-Nemotron-3-Nano-30B-A3B-BF16") == 0
    scaled = {"rope_scaling": {"rope_type": "linear", "factor": 8.0}}
    assert tables(models / "google__gemma-3-12b-it", **scaled) == 8 * 64 + 64  # one table for each base
    assert tables(models / "deepseek-ai__DeepSeek-V3") == 20  # 4096 positions stretched by 40, 64 wide
    assert tables(models / "Qwen__Qwen3-8B", max_position_embeddings=None) == 0
