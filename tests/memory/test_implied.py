"""Parameter lists that configs imply: equal to the model classes', and nothing where a number is missing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from canserve.facts import Cause, Known, Missing
from canserve.memory.fields import Lacking
from canserve.memory.weights.blocks.draft import TooLong
from canserve.memory.weights.blocks.style import ALIASES, STYLES
from canserve.memory.weights.cuts import Place, layers_ahead, spot
from canserve.memory.weights.implied import UnknownFamily, implied, implied_tensors
from canserve.memory.weights.stored import contradictions, tensors_of
from canserve.probes.model.reading import read_model
from canserve.subjects.tensor import Tensor

HERE = Path(__file__).parent
META = json.loads((HERE / "meta_device.json").read_text())["models"]
FAMILIES = json.loads((HERE / "meta_families.json").read_text())["families"]

LLAMA = {
    "model_type": "llama", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 16, "vocab_size": 10, "tie_word_embeddings": False,
}  # fmt: skip


def names(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Names and shapes."""
    return {tensor.name: tensor.shape for tensor in implied_tensors(config, None)}


def total(config: Mapping[str, Any]) -> int:
    """All elements."""
    return sum(tensor.elements for tensor in implied_tensors(config, None))


def without_ahead(tensors: tuple[Tensor, ...]) -> list[Tensor]:
    """As model classes hold them: layers that predict ahead are none of theirs."""
    ahead = layers_ahead(tensor.name for tensor in tensors)
    return [tensor for tensor in tensors if spot(tensor.name, ahead).place is not Place.AHEAD]


def fingerprint(tensors: list[Tensor]) -> str:
    """Of names, shapes and copies."""
    lines = sorted(f"{each.name} {'x'.join(map(str, each.shape))} {each.copies}" for each in tensors)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


@pytest.mark.parametrize("folder", sorted(META))
def test_equals_what_the_model_class_builds(shared: Path, folder: str) -> None:
    elements, digest = META[folder]
    config = json.loads((shared / "models" / folder / "config.json").read_text())
    tensors = without_ahead(implied_tensors(config, None))
    assert sum(tensor.elements for tensor in tensors) == elements
    if digest is not None:  # names too, where that release of transformers writes them as published
        assert fingerprint(tensors) == digest


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_families_equal_their_classes(family: str) -> None:
    config, elements, digest = (FAMILIES[family][key] for key in ("config", "elements", "digest"))
    tensors = without_ahead(implied_tensors(config, None))
    assert sum(tensor.elements for tensor in tensors) == elements
    assert fingerprint(tensors) == digest


def test_the_founding_model_equals_its_headers(root: Path) -> None:
    model = read_model(str(root / "examples" / "founding" / "model"))
    meant = implied(model)
    assert isinstance(meant, Known) and isinstance(model.tensors, Known)
    assert set(meant.value) == set(model.tensors.value)
    kept = [tensor for tensor in meant.value if tensor.dtype == "F8_E4M3"]
    assert sum(tensor.elements for tensor in kept) == 123_035_713_536
    assert contradictions(model) == ()


@pytest.mark.parametrize(
    ("folder", "elements"),
    [
        ("nvidia__Llama-3_3-Nemotron-Super-49B-v1", 49_867_145_216),
        ("XiaomiMiMo__MiMo-7B-Base", 7_833_409_536),
    ],
)
def test_totals(shared: Path, folder: str, elements: int) -> None:
    config = json.loads((shared / "models" / folder / "config.json").read_text())
    assert total(config) == elements


def test_llama_by_hand() -> None:
    assert names(LLAMA) == {
        "model.embed_tokens.weight": (10, 8),
        **{
            f"model.layers.{n}.{name}.weight": shape
            for n in range(2)
            for name, shape in {
                "input_layernorm": (8,),
                "post_attention_layernorm": (8,),
                "self_attn.q_proj": (8, 8),
                "self_attn.k_proj": (4, 8),
                "self_attn.v_proj": (4, 8),
                "self_attn.o_proj": (8, 8),
                "mlp.gate_proj": (16, 8),
                "mlp.up_proj": (16, 8),
                "mlp.down_proj": (8, 16),
            }.items()
        },
        "model.norm.weight": (8,),
        "lm_head.weight": (10, 8),
    }


def test_a_tied_head_is_not_stored() -> None:
    assert "lm_head.weight" not in names(LLAMA | {"tie_word_embeddings": True})
    assert "lm_head.weight" in names({key: LLAMA[key] for key in LLAMA if key != "tie_word_embeddings"})


def test_biases_are_the_familys_own() -> None:
    qwen = names(LLAMA | {"model_type": "qwen2"})
    assert qwen["model.layers.0.self_attn.q_proj.bias"] == (8,)
    assert "model.layers.0.self_attn.o_proj.bias" not in qwen
    assert "model.layers.1.mlp.up_proj.bias" in names(LLAMA | {"mlp_bias": True})


@pytest.mark.parametrize(
    "field", ["hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size"]
)
def test_a_missing_number_is_named(field: str) -> None:
    with pytest.raises(Lacking) as lack:
        implied_tensors({key: LLAMA[key] for key in LLAMA if key != field}, None)
    assert lack.value.field == field


@pytest.mark.parametrize("family", ["llamaish", "gpt_unheard_of", "deepseek_v9"])
def test_an_unknown_family_is_not_taken_for_llama(tmp_path: Path, family: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA | {"model_type": family}))
    found = implied(read_model(str(tmp_path)))
    assert isinstance(found, Missing)
    assert family in found.why
    assert tensors_of(read_model(str(tmp_path))) == found


def test_layers_that_are_known_make_no_list_by_themselves(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA | {"model_type": "plamo3"}))
    found = implied(read_model(str(tmp_path)))
    assert isinstance(found, Missing) and found.why == "the parameter list of model type plamo3 is not known"
    assert found.ask == "point to the folder or Hub id with headers"


@pytest.mark.parametrize("tied", [True, False])
def test_the_outer_config_says_whether_the_head_is_tied(shared: Path, tied: bool) -> None:
    config = json.loads((shared / "models" / "Qwen__Qwen3-VL-4B-Instruct" / "config.json").read_text())
    config["text_config"].pop("tie_word_embeddings", None)
    assert ("lm_head.weight" in names(config | {"tie_word_embeddings": tied})) is not tied


def test_a_known_decoder_with_an_unknown_tower_is_unknown() -> None:
    with pytest.raises(UnknownFamily):
        implied_tensors({"model_type": "newvl", "text_config": LLAMA, "vision_config": {"depth": 3}}, None)


def test_a_tower_without_numbers_is_missing_unless_only_text_is_loaded(shared: Path) -> None:
    folder = shared / "models" / "meta-llama__Llama-4-Scout-17B-16E-Instruct"
    model = read_model(str(folder))
    found = implied(model)
    assert isinstance(found, Missing) and "vision_config" in found.why
    assert isinstance(implied(model, towers=False), Known)


def test_absurd_numbers_end_soon() -> None:
    with pytest.raises((TooLong, Lacking)):
        implied_tensors(LLAMA | {"num_hidden_layers": 10**9}, None)
    huge = implied_tensors(LLAMA | {"hidden_size": 10**12}, None)
    assert huge[0].bytes == 10 * 10**12 * 2


def test_a_config_alone_says_that_quantization_could_stand_beside_it(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    found = implied(read_model(str(tmp_path / "config.json")))
    assert isinstance(found, Known)
    assert any("hf_quant_config.json" in look.saw and not look.whole for look in found.evidence)


def test_aliases_lead_to_styles() -> None:
    assert set(ALIASES.values()) <= set(STYLES)


def test_headers_win_and_contradictions_are_told(root: Path) -> None:
    model = read_model(str(root / "examples" / "founding" / "model"))
    assert isinstance(model.config, Known) and isinstance(model.tensors, Known)
    config = dict(model.config.value)
    config["text_config"] = config["text_config"] | {"moe_intermediate_size": 512}
    wrong = replace(model, config=Known(config))
    notes = contradictions(wrong)
    assert len(notes) == 1 and "1024x3072 in the headers, 512x3072 by the config" in notes[0]
    found = tensors_of(wrong)
    assert isinstance(found, Known) and found.value == model.tensors.value
    assert notes[0] in [look.saw for look in found.evidence]


def test_headers_of_more_layers_than_the_config_says_are_a_contradiction(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    model = read_model(str(tmp_path))
    longer = implied_tensors(LLAMA | {"num_hidden_layers": 3}, None)
    assert contradictions(replace(model, tensors=Known(longer))) == (
        "layers: 3 in the headers, 2 by the config",
    )


def test_no_headers_is_missing_not_empty(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    model = read_model(str(tmp_path))
    assert isinstance(model.tensors, Missing) and model.tensors.cause is not Cause.UNREADABLE
    found = tensors_of(replace(model, tensors=Known(())))
    assert isinstance(found, Known) and len(found.value) == 21
    assert "list no tensors" in found.evidence[-1].saw and not found.evidence[-1].whole


def test_what_published_gemma3_configs_leave_to_the_class() -> None:
    tower = {
        "hidden_size": 1152, "image_size": 896, "intermediate_size": 4304, "num_attention_heads": 16,
        "num_hidden_layers": 27, "patch_size": 14, "vision_use_head": False,
    }  # fmt: skip
    text = {
        "hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34,
        "sliding_window": 1024,
    }  # fmt: skip
    published = {"model_type": "gemma3", "text_config": text, "vision_config": tower}
    assert total(published) == 4_300_079_472
    with pytest.raises(Lacking):
        implied_tensors(published | {"text_config": {k: text[k] for k in text if k != "hidden_size"}}, None)
    with pytest.raises(Lacking):  # a text model's own config says them
        implied_tensors(text | {"model_type": "gemma3_text"}, None)


@pytest.mark.parametrize("name", [None, 7, [], {}, "", "x" * 1000])
def test_a_class_that_is_no_name_is_missing(tmp_path: Path, name: object) -> None:
    config = {key: LLAMA[key] for key in LLAMA if key != "model_type"} | {"architectures": [name]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert isinstance(implied(read_model(str(tmp_path))), Missing)


@pytest.mark.parametrize(
    "field", ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "torch_dtype"]
)
@pytest.mark.parametrize("value", [0, -1, 1.5, "8", [], {}, True, 10**30])
def test_numbers_that_are_none_do_not_get_through(tmp_path: Path, field: str, value: object) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA | {field: value}))
    found = implied(read_model(str(tmp_path)))
    if isinstance(found, Known):
        assert all(size > 0 for tensor in found.value for size in tensor.shape)
    else:
        assert found.why.isprintable()


@pytest.mark.parametrize(
    ("folder", "joined", "parts"),
    [
        (
            "deepseek-ai__DeepSeek-V3",
            "model.layers.61.eh_proj.weight",
            {"model.layers.61.shared_head.head.weight"},
        ),
        (
            "Qwen__Qwen3.5-35B-A3B",
            "mtp.fc.weight",
            {"mtp.layers.0.mlp.experts.*.up_proj.weight", "mtp.norm.weight"},
        ),
        (
            "XiaomiMiMo__MiMo-7B-Base",
            "model.mtp_layers.0.input_proj.weight",
            {"model.mtp_layers.0.mlp.up_proj.weight"},
        ),
        (
            "nvidia__NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4",
            "mtp.layers.0.eh_proj.weight",
            {"mtp.layers.0.mixer.q_proj.weight", "mtp.layers.1.mixer.experts.*.up_proj.weight"},
        ),
        ("deepseek-ai__DeepSeek-V4-Flash", "mtp.0.e_proj.weight", {"mtp.0.ffn.experts.*.w1.weight"}),
    ],
)
def test_layers_that_predict_ahead(shared: Path, folder: str, joined: str, parts: set[str]) -> None:
    config = json.loads((shared / "models" / folder / "config.json").read_text())
    tensors = implied_tensors(config, None)
    ahead = {each.name for each in tensors} - {each.name for each in without_ahead(tensors)}
    assert {joined} | parts <= ahead


def test_the_order_of_dimensions_is_no_contradiction(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    turned = tuple(replace(each, shape=(1, *reversed(each.shape))) for each in implied_tensors(LLAMA, None))
    assert contradictions(replace(read_model(str(tmp_path)), tensors=Known(turned))) == ()
    wrong = tuple(replace(each, dtype="F8_E4M3") for each in turned)
    assert (
        "dtype F8_E4M3 in the headers"
        in contradictions(replace(read_model(str(tmp_path)), tensors=Known(wrong)))[0]
    )
