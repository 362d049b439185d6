"""Quantizers by name, and the compute capability that their own checks ask for."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest
from hf_builds import FILES, read

from canserve.engines.hf.capability import accepted
from canserve.facts import Cause, Known, Missing
from canserve.subjects.build import CAPABILITIES, QuantMethod, Want

AUTO = """
    from ..utils.quantization_config import AwqConfig, FineGrainedFP8Config
    from .quantizer_awq import AwqQuantizer
    from .quantizer_bnb import Bnb4, Bnb8
    from .quantizer_fp8 import Fp8Quantizer

    AUTO_QUANTIZER_MAPPING = {
        "awq": AwqQuantizer,
        "bitsandbytes_4bit": Bnb4,
        "bitsandbytes_8bit": Bnb8,
        "fp8": Fp8Quantizer,
    }
    AUTO_QUANTIZATION_CONFIG_MAPPING = {"awq": AwqConfig, "fp8": FineGrainedFP8Config}
"""
QUANTIZED = {
    **FILES,
    "quantizers/auto.py": AUTO,
    "quantizers/quantizer_awq.py": "class AwqQuantizer: ...\n",
    "quantizers/quantizer_bnb.py": "class Bnb4: ...\nclass Bnb8: ...\n",
    "quantizers/quantizer_fp8.py": """
        class Fp8Quantizer:
            def validate_environment(self, *args, **kwargs):
                if not torch.cuda.is_available():
                    raise RuntimeError("no GPU")
                compute_capability = torch.cuda.get_device_capability()
                major, minor = compute_capability
                if (major < 8) or (major == 8 and minor < 9):
                    raise ValueError("too old")
    """,
    "utils/quantization_config.py": """
        class AwqConfig: ...
        class FineGrainedFP8Config:
            def __init__(self, weight_block_size=(128, 128), **kwargs): ...
    """,
    "cli/serve.py": "class Serve:\n    def f(self):\n        if self.quantization == 'bnb-4bit': ...\n",
}


def methods(files: dict[str, str], want: Want | None = None) -> dict[str, QuantMethod]:
    found = read(files, want).quantization
    assert isinstance(found, Known), found
    return dict(found.value)


def test_names_of_checkpoints_and_of_the_server() -> None:
    assert set(methods(QUANTIZED)) == {
        "awq", "bitsandbytes_4bit", "bitsandbytes_8bit", "fp8", "bitsandbytes", "bnb-4bit",
    }  # fmt: skip


def test_the_minimum_is_what_the_quantizer_raises_below() -> None:
    found = methods(QUANTIZED)
    assert isinstance(found["fp8"].min_capability, Known)
    assert found["fp8"].min_capability.value == 89
    assert isinstance(found["awq"].min_capability, Known)
    assert found["awq"].min_capability.value is None


def test_the_config_class_tells_ways_of_storing_apart() -> None:
    schemes = methods(QUANTIZED)["fp8"].schemes
    assert isinstance(schemes, Known)
    assert schemes.value == ("FineGrainedFP8Config", "weight_block_size")


def test_only_wanted_quantizers_are_read() -> None:
    found = methods(QUANTIZED, Want(quantization=frozenset({"bitsandbytes"})))
    assert isinstance(found["fp8"].min_capability, Missing)
    assert isinstance(found["bitsandbytes"].min_capability, Known)


def test_gguf_files_need_no_quantizer() -> None:
    with_loader = {**QUANTIZED, "modeling_gguf_pytorch_utils.py": "X = 1\n"}
    assert "gguf" in methods(with_loader)
    assert "gguf" not in methods(QUANTIZED)


def test_before_there_was_a_table_nothing_is_said() -> None:
    found = read({**FILES, "utils/quantization_config.py": "class GPTQConfig: ...\n"}).quantization
    assert isinstance(found, Missing)
    assert found.cause is Cause.UNAVAILABLE
    oldest = read(FILES).quantization
    assert isinstance(oldest, Known)
    assert oldest.value == {}


@pytest.mark.parametrize(
    "text", ["AUTO_QUANTIZER_MAPPING = make()\n", "AUTO_QUANTIZER_MAPPING = {'awq': 'text'}\n", "X = 1\n"]
)
def test_an_unknown_form_is_no_empty_table(text: str) -> None:
    assert isinstance(read({**QUANTIZED, "quantizers/auto.py": text}).quantization, Missing)


def test_a_quantizer_that_is_not_where_it_should_be_leaves_the_minimum_open() -> None:
    found = methods({**QUANTIZED, "quantizers/quantizer_fp8.py": "class Other: ...\n"})
    assert isinstance(found["fp8"].min_capability, Missing)


def runs(body: str) -> tuple[int, ...]:
    function = ast.parse(f"def validate_environment(self, device_map=None):\n{body}").body[0]
    assert isinstance(function, ast.FunctionDef)
    return accepted(function)


def indented(body: str) -> str:
    return "\n".join(f"    {line}" for line in dedent(body).strip().splitlines()) + "\n"


@pytest.mark.parametrize(
    "body, least",
    [
        ("if torch.cuda.get_device_capability()[0] < 9:\n    raise ValueError", 90),
        ("ok = torch.cuda.get_device_capability() >= (7, 5)\nif not ok:\n    raise ValueError", 75),
        ("major, _ = torch.cuda.get_device_capability(0)\nif major < 10: raise RuntimeError", 100),
        # It falls back on plain weights instead of raising.
        ("if torch.cuda.get_device_capability()[0] < 9:\n    self.dequantize = True\n    return", 60),
        ("if self.pre_quantized:\n    return\nraise ValueError", 60),
        ("if not is_accelerate_available():\n    raise ImportError", 60),
        ("if device_map is None:\n    raise ValueError", 60),
        ("if torch.xpu.is_available():\n    raise ValueError\nelif torch.cuda.is_available():\n    pass", 60),
        ("if x and torch.cuda.get_device_capability()[0] < 9:\n    raise ValueError", 60),
    ],
)
def test_what_is_followed(body: str, least: int) -> None:
    assert runs(indented(body)) == tuple(one for one in CAPABILITIES if one >= least)


def test_one_that_refuses_what_was_quantized_before() -> None:
    assert runs(indented("if self.pre_quantized:\n    raise ValueError")) == ()
    refusing = "class Fp8Quantizer:\n    def validate_environment(self):\n        raise ValueError\n"
    assert methods({**QUANTIZED, "quantizers/quantizer_fp8.py": refusing})["fp8"].guards


def test_an_endless_method_ends() -> None:
    assert runs(indented("x = 1\n" * 50_000 + "raise ValueError")) == CAPABILITIES


def test_words_of_the_layers_tell_ways_of_storing_apart() -> None:
    layers = "def f(config):\n    is_fp4 = config.expert_dtype == 'fp4'\n    if block_size is None: ...\n"
    found = methods({**QUANTIZED, "integrations/finegrained_fp8.py": layers})["fp8"].schemes
    assert isinstance(found, Known)
    assert found.value == ("FineGrainedFP8Config", "block_size is None", "is_fp4", "weight_block_size")
