"""Quantization methods: own tables, classes borrowed from vLLM, platforms, minima."""

from __future__ import annotations

from typing import Any

import pytest
from sglang_builds import read

from canserve.facts import Cause, Known, Missing
from canserve.subjects.build import NOT_ASKED, Want

FOLDER = "layers/quantization"
OWN = {
    f"{FOLDER}/fp8.py": """
        class Fp8Config:
            def __init__(self, use_mxfp8: bool = False, weight_block_size=None):
                self.use_mxfp8 = use_mxfp8
            def get_min_capability(self) -> int:
                if is_npu():
                    return 0
                return 100 if self.use_mxfp8 else 80
        class Fp8MoEMethod: ...
    """,
    f"{FOLDER}/slim.py": "class SlimConfig:\n    @classmethod\n    def get_min_capability(cls): return 0\n",
}
TABLE = """
    from sglang.srt.layers.quantization.fp8 import Fp8Config
    from sglang.srt.layers.quantization.slim import SlimConfig

    BASE_QUANTIZATION_METHODS = {"fp8": Fp8Config, "mxfp8": Fp8Config, "slim": SlimConfig}
    if is_cuda():
        BASE_QUANTIZATION_METHODS.update({"on_cuda": SlimConfig})
    if is_npu():
        BASE_QUANTIZATION_METHODS.update({"on_npu": SlimConfig})
    if _use_aiter:
        BASE_QUANTIZATION_METHODS["sometimes"] = SlimConfig
    QUANTIZATION_METHODS = {**BASE_QUANTIZATION_METHODS}
"""


def methods(files: dict[str, str], **options: Any) -> dict[str, Any]:
    fact = read(files, **options).quantization
    assert isinstance(fact, Known), fact
    return dict(fact.value)


def test_a_table_with_platforms_and_conditions() -> None:
    found = methods({**OWN, f"{FOLDER}/__init__.py": TABLE})
    assert sorted(found) == ["fp8", "mxfp8", "on_cuda", "slim", "sometimes"]
    assert found["sometimes"].guards == ("_use_aiter",)
    assert found["on_cuda"].guards == ()
    assert found["fp8"].at.line == 5


def test_minimum_capabilities_are_followed_through_the_class() -> None:
    found = methods({**OWN, f"{FOLDER}/__init__.py": TABLE})
    assert found["fp8"].min_capability.value == 80
    assert found["slim"].min_capability.value is None  # zero: no minimum
    assert found["mxfp8"].min_capability.value == 100  # the same class, told by a switch


def test_schemes_are_the_names_of_the_methods_module() -> None:
    found = methods({**OWN, f"{FOLDER}/__init__.py": TABLE})
    assert {"Fp8MoEMethod", "weight_block_size"} <= set(found["fp8"].schemes.value)


def test_only_wanted_methods_are_resolved() -> None:
    found = methods({**OWN, f"{FOLDER}/__init__.py": TABLE}, want=Want(quantization=frozenset({"fp8"})))
    assert isinstance(found["fp8"].min_capability, Known)
    assert found["slim"].min_capability == NOT_ASKED


BORROWED = """
    try:
        from vllm.model_executor.layers.quantization.aqlm import AQLMConfig
        VLLM_AVAILABLE = True
    except ImportError:
        VLLM_AVAILABLE = False
        class Dummy: ...
        AQLMConfig = Dummy
    from sglang.srt.layers.quantization.fp8 import Fp8Config

    BASE_QUANTIZATION_METHODS = {"fp8": Fp8Config}
    VLLM_QUANTIZATION_METHODS = {"aqlm": AQLMConfig}
    QUANTIZATION_METHODS = {**BASE_QUANTIZATION_METHODS, **VLLM_QUANTIZATION_METHODS}
"""


def test_methods_borrowed_from_vllm_need_vllm() -> None:
    found = methods({**OWN, f"{FOLDER}/__init__.py": BORROWED})
    assert found["aqlm"].guards == ("VLLM_AVAILABLE",)
    assert found["fp8"].guards == ()
    assert isinstance(found["aqlm"].min_capability, Missing)
    assert found["aqlm"].min_capability.cause is Cause.UNAVAILABLE


def test_a_build_that_requires_vllm_has_them_anyway() -> None:
    requires = ['vllm==0.6.4; extra == "srt"', 'sglang[srt]; extra == "all"']
    found = methods({**OWN, f"{FOLDER}/__init__.py": BORROWED}, requires=requires)
    assert found["aqlm"].guards == ()


def test_the_mapping_of_old_releases() -> None:
    text = """
        from vllm.model_executor.layers.quantization.gptq import GPTQConfig
        QUANTIZATION_CONFIG_MAPPING = {"gptq": GPTQConfig}
    """
    assert list(methods({"managers/router/model_runner.py": text})) == ["gptq"]


def test_the_oldest_releases_load_what_they_import() -> None:
    text = """
        from vllm.model_executor.layers.quantization.awq import AWQConfig
        quant_config = AWQConfig.from_config(hf_config.quantization_config)
    """
    assert list(methods({"managers/router/model_runner.py": text})) == ["awq"]


def test_where_vllms_table_decides_it_is_unavailable_here() -> None:
    text = "vllm_config = VllmModelConfig(quantization=self.server_args.quantization)\n"
    fact = read({"model_executor/model_runner.py": text}).quantization
    assert isinstance(fact, Missing)
    assert fact.cause is Cause.UNAVAILABLE
    assert fact.ask


@pytest.mark.parametrize(
    "text",
    ["QUANTIZATION_METHODS = load()\n", "QUANTIZATION_METHODS = {**load()}\n", "QUANTIZATION_METHODS = {}\n"],
)
def test_an_unknown_form_is_missing_never_empty(text: str) -> None:
    fact = read({f"{FOLDER}/__init__.py": text}).quantization
    assert isinstance(fact, Missing)
    assert fact.cause is Cause.UNREADABLE


def test_lists_for_other_vendors() -> None:
    text = """
        class ModelConfig:
            def _verify_quantization(self):
                rocm_supported_quantization = [
                    "awq",
                    "fp8",  # and more
                ]
    """
    fact = read({"configs/model_config.py": text}).vendor_quantization
    assert isinstance(fact, Known)
    assert fact.value == {"amd": ("awq", "fp8")}
