"""Facts of a config, in folders and bare; odd values are Missing in their own field only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from model_making import LFS_POINTER, folder, known, missing

from canserve.facts import Cause
from canserve.probes.model import read_model
from canserve.subjects.model import ONLY_CONFIG, Model, Nested


def of(tmp_path: Path, config: object, **files: Any) -> Model:
    content = {"config.json": config, **{name.replace("__", "."): text for name, text in files.items()}}
    return read_model(str(folder(tmp_path, content)))


def test_names_types_and_sizes(tmp_path: Path) -> None:
    model = of(
        tmp_path,
        {
            "architectures": ["Qwen3_5MoeForConditionalGeneration"],
            "model_type": "qwen3_5_moe",
            "transformers_version": "4.57.0.dev0",
            "tie_word_embeddings": False,
            "text_config": {
                "model_type": "qwen3_5_moe_text",
                "dtype": "bfloat16",
                "max_position_embeddings": 262144,
                "mtp_num_hidden_layers": 1,
            },
            "vision_config": {"depth": 27, "model_type": ""},
            "audio": {"model_type": "whisper", "architectures": ["WhisperEncoder"]},
            "rope_parameters": {"rope_type": "default"},
            "quantization_config": {"quant_method": "fp8", "text_config": {"model_type": "not a model"}},
        },
    )
    assert known(model.architectures) == ("Qwen3_5MoeForConditionalGeneration",)
    assert known(model.model_type) == "qwen3_5_moe"
    assert known(model.nested) == (
        Nested("text_config", "qwen3_5_moe_text", ()),
        Nested("vision_config", None, ()),
        Nested("audio", "whisper", ("WhisperEncoder",)),
    )
    assert known(model.dtype) == "bfloat16"
    assert known(model.max_positions) == 262144
    assert known(model.tied_embeddings) is False
    assert known(model.transformers_version) == "4.57.0.dev0"
    assert known(model.mtp_layers) == 1
    assert known(model.config_format) == "hf"
    assert known(model.revision) is None
    assert model.architectures.evidence[-1].how == "config.json"


@pytest.mark.parametrize(("value", "said"), [(-1, "is -1"), (0, "is 0"), (10**18, "absurd")])
def test_a_context_that_is_none(tmp_path: Path, value: int, said: str) -> None:
    model = of(tmp_path, {"max_position_embeddings": value, "model_type": "llama"})
    assert said in missing(model.max_positions).why


def test_configs_inside_configs_are_found_at_any_depth(tmp_path: Path) -> None:
    inner = {
        "model_type": "omni_thinker",
        "text_config": {"model_type": "omni_text", "max_position_embeddings": 5},
    }
    model = of(tmp_path, {"thinker_config": inner})
    keys = [item.key for item in known(model.nested)]
    assert keys == ["thinker_config", "thinker_config.text_config"]
    assert known(model.max_positions) == 5


@pytest.mark.parametrize(("value", "names"), [(None, ()), ([], ()), (["A", "B"], ("A", "B"))])
def test_architectures_may_be_absent(tmp_path: Path, value: object, names: tuple[str, ...]) -> None:
    assert known(of(tmp_path, {"architectures": value}).architectures) == names
    assert known(of(tmp_path, {}).architectures) == ()


@pytest.mark.parametrize("value", ["LlamaForCausalLM", {"a": 1}, 7, [1], ["A", None], True])
def test_odd_architectures_are_missing_and_the_rest_is_read(tmp_path: Path, value: object) -> None:
    model = of(tmp_path, {"architectures": value, "model_type": "llama"})
    lost = missing(model.architectures)
    assert lost.cause is Cause.UNREADABLE
    assert "architectures is a" in lost.why
    assert known(model.model_type) == "llama"


def test_other_odd_values_break_their_own_field(tmp_path: Path) -> None:
    model = of(
        tmp_path,
        {
            "model_type": ["x"],
            "torch_dtype": {"a": 1},
            "max_position_embeddings": 1.5,
            "tie_word_embeddings": 1,
        },
    )
    for fact in (model.model_type, model.dtype, model.max_positions, model.tied_embeddings):
        assert missing(fact).cause is Cause.UNREADABLE
    assert known(model.architectures) == ()


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b"[]", Cause.UNREADABLE),
        (b'"text"', Cause.UNREADABLE),
        (b"", Cause.UNREADABLE),
        (b"{" * 100_000, Cause.UNREADABLE),
        (b"\xff\xfe{}", Cause.UNREADABLE),
        (LFS_POINTER, Cause.UNAVAILABLE),
    ],
)
def test_a_config_that_is_none_makes_its_facts_missing(tmp_path: Path, content: bytes, cause: Cause) -> None:
    model = of(tmp_path, content, tokenizer_config__json={"tokenizer_class": "X"})
    for fact in (model.config, model.architectures, model.model_type, model.nested, model.quantization):
        assert missing(fact).cause is cause
    assert known(model.tokenizer).class_name == "X"


def test_a_repeated_key_is_told_beside_the_value_that_counts(tmp_path: Path) -> None:
    model = of(tmp_path, '{"model_type": "a", "model_type": "b"}')
    assert known(model.model_type) == "b"
    assert any(
        "stands twice, the last one counts: model_type" in look.saw for look in model.model_type.evidence
    )


def test_remote_code_of_config_tokenizer_and_processor(tmp_path: Path) -> None:
    model = of(
        tmp_path,
        {
            "auto_map": {
                "AutoConfig": "configuration_x.XConfig",
                "AutoModel": ["modeling_x.X", None],
                "odd": 5,
            }
        },
        tokenizer_config__json={"auto_map": {"AutoTokenizer": [None, "tokenization_x.XTokenizerFast"]}},
        processor_config__json={"auto_map": {"AutoProcessor": "org/other--processing_x.XProcessor"}},
    )
    assert known(model.auto_map) == {
        "AutoConfig": "configuration_x.XConfig",
        "AutoModel": "modeling_x.X",
        "AutoTokenizer": "tokenization_x.XTokenizerFast",
        "AutoProcessor": "org/other--processing_x.XProcessor",
    }


@pytest.mark.parametrize(
    ("config", "layers"),
    [
        ({}, 0),
        ({"num_nextn_predict_layers": 1}, 1),
        ({"num_nextn_predict_layers": 1, "num_mtp_modules": 3}, 3),
        ({"num_nextn_predict_layers": -1}, 0),
        ({"num_nextn_predict_layers": "2"}, 0),
        ({"text_config": {"mtp_num_hidden_layers": 2}}, 2),
        ({"text_config": {"num_nextn_predict_layers": 0}}, 0),
    ],
)
def test_mtp_layers(tmp_path: Path, config: dict[str, Any], layers: int) -> None:
    assert known(of(tmp_path, config).mtp_layers) == layers


def test_a_bare_config_knows_what_it_says_and_nothing_else(tmp_path: Path) -> None:
    config = {"architectures": ["A"], "model_type": "a", "quantization_config": {"quant_method": "fp8"}}
    folder(tmp_path, {"some name.json": config, "hf_quant_config.json": "{}", "tokenizer.json": "{}"})
    model = read_model(str(tmp_path / "some name.json"))
    assert model.origin == "config"
    assert known(model.architectures) == ("A",)
    assert known(model.quantization).method == "fp8"
    assert model.architectures.evidence[0].how == "some name.json"
    for fact in (model.files, model.parameters, model.tokenizer, model.processor, model.chat_template):
        assert fact == ONLY_CONFIG


def test_a_bare_config_without_quantization_leaves_it_open(tmp_path: Path) -> None:
    """Older ModelOpt releases say it in a file beside the config, which was not given."""
    inner = {"quantization_config": {"quant_method": "compressed-tensors"}}
    path = folder(tmp_path, {"c.json": {"model_type": "a"}, "d.json": {"text_config": inner}})
    assert read_model(str(path / "c.json")).quantization == ONLY_CONFIG
    assert known(read_model(str(path / "d.json")).quantization).method == "compressed-tensors"


def test_a_model_in_mistrals_own_format(tmp_path: Path) -> None:
    params = {"dim": 4096, "n_layers": 32, "max_position_embeddings": 131072, "tied_embeddings": True,
              "quantization": {"qformat_weight": "fp8_e4m3", "qscheme_act": "TENSOR"}}  # fmt: skip
    model = read_model(str(folder(tmp_path, {"params.json": params, "tekken.json": "{}"})))
    assert known(model.config_format) == "mistral"
    assert known(model.config)["dim"] == 4096
    assert known(model.architectures) == ()
    assert known(model.tied_embeddings) is True
    assert known(model.tokenizer).kind == "mistral"
    quantization = known(model.quantization)
    assert (quantization.method, quantization.declared) == ("fp8", "fp8_e4m3")
    assert quantization.source == "params.json: quantization"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"readme.md": "x"}, "neither config.json nor params.json"),
        ({"model_index.json": {}}, "diffusers"),
        ({"adapter_config.json": {}}, "adapter"),
    ],
)
def test_a_folder_without_a_config_says_what_it_is(tmp_path: Path, files: dict[str, Any], said: str) -> None:
    model = read_model(str(folder(tmp_path, files)))
    lost = missing(model.config)
    assert said in lost.why
    assert lost.cause is Cause.UNAVAILABLE
    assert missing(model.architectures) == lost


def test_a_config_one_folder_deeper_is_pointed_at(tmp_path: Path) -> None:
    model = read_model(str(folder(tmp_path, {"snapshot/config.json": {}})))
    assert "snapshot/config.json" in str(missing(model.config).ask)
