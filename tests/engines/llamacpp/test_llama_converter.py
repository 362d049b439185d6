"""Which checkpoints the converter takes: decorators, comparisons, a script for each model."""

from __future__ import annotations

import pytest
from llama_trees import CONSTANTS, CONVERTER, TREE, known, read, without

from canserve.facts import Missing
from canserve.subjects.build import Converter

ONE = """
class Model:
    @staticmethod
    def from_model_architecture(model_architecture):
        if model_architecture == "GPTNeoXForCausalLM":
            return GPTNeoXModel
        if model_architecture in ("BaichuanForCausalLM", "BaiChuanForCausalLM"):
            return BaichuanModel
        return Model

    def _get_model_architecture(self):
        arch = self.hparams["architectures"][0]
        if arch == "GPTNeoXForCausalLM":
            return gguf.MODEL_ARCH.LLAMA
        raise NotImplementedError(arch)
"""
SCRIPT = """
if hparams["architectures"][0] != "RWForCausalLM":
    sys.exit()
"""
TABLE = """
TEXT_MODEL_MAP: dict[str, str] = {"LlamaForCausalLM": "llama", "Qwen3ForCausalLM": "elsewhere",
                                  "Qwen3VLForConditionalGeneration": "llama", "GoneForCausalLM": "llama"}
MMPROJ_MODEL_MAP: dict[str, str] = {"Qwen3VLForConditionalGeneration": "llama"}
"""


def converter(files: dict[str, str]) -> Converter:
    found = known(read(files).converter)
    assert found is not None
    return found


def test_registered_classes_and_what_they_write() -> None:
    found = converter(dict(TREE))
    assert {name: row.gguf for name, row in found.classes.items()} == {
        "LlamaForCausalLM": "llama",
        "MistralForCausalLM": "llama",
        "Qwen3ForCausalLM": "qwen3",
        "Qwen3VLForConditionalGeneration": "qwen3",
    }
    assert found.classes["Qwen3ForCausalLM"].name == "Qwen3Model"
    assert set(found.projectors) == {"Qwen3VLForConditionalGeneration"}
    assert found.projectors["Qwen3VLForConditionalGeneration"].gguf is None
    assert found.unnamed == ()
    assert set(found.quantizations) == {"fp8", "gptq"}
    assert str(found.script).endswith("convert_hf_to_gguf.py:1")


def test_a_package_is_asked_through_its_table() -> None:
    found = converter(without("convert_hf_to_gguf.py") | {
        "convert_hf_to_gguf.py": "from conversion import get_model_class\n",
        "conversion/__init__.py": TABLE,
        "conversion/llama.py": CONVERTER,
    })  # fmt: skip
    assert set(found.classes) == {"LlamaForCausalLM", "Qwen3VLForConditionalGeneration"}
    assert set(found.projectors) == {"Qwen3VLForConditionalGeneration"}


def test_a_base_in_another_file_of_the_package() -> None:
    base, rest = CONVERTER.split("@ModelBase.register", 1)
    found = converter(without("convert_hf_to_gguf.py") | {
        "convert_hf_to_gguf.py": "",
        "conversion/__init__.py": TABLE,
        "conversion/base.py": base,
        "conversion/llama.py": "@ModelBase.register" + rest,
    })  # fmt: skip
    assert set(found.projectors) == {"Qwen3VLForConditionalGeneration"}


def test_one_function_that_compares_names() -> None:
    found = converter({
        "llama.cpp": "", "convert-hf-to-gguf.py": ONE, "convert.py": "", "gguf-py/gguf/constants.py": CONSTANTS,
    })  # fmt: skip
    assert {name: (row.name, row.gguf) for name, row in found.classes.items()} == {
        "GPTNeoXForCausalLM": ("GPTNeoXModel", "llama"),
        "BaichuanForCausalLM": ("BaichuanModel", None),
        "BaiChuanForCausalLM": ("BaichuanModel", None),
    }
    assert [at.file.rpartition("/")[2] for at in found.unnamed] == ["convert.py"]


def test_a_script_for_each_model() -> None:
    found = converter({"llama.cpp": "", "convert-falcon-hf-to-gguf.py": SCRIPT, "convert.py": ""})
    assert set(found.classes) == {"RWForCausalLM"}
    assert found.script is None


def test_no_converter_is_known_to_be_none() -> None:
    assert known(read({"llama.cpp": ""}).converter) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"convert_hf_to_gguf.py": "print('another way')\n"},
        {"convert_hf_to_gguf.py": "def broken(:\n"},
        {"convert_hf_to_gguf.py": "", "conversion/__init__.py": "", "conversion/a.py": CONVERTER},
    ],
)
def test_another_form_is_unknown(changed: dict[str, str]) -> None:
    assert isinstance(read(TREE | changed).converter, Missing)


def test_bases_in_a_circle_end() -> None:
    circle = '@A.register("X")\nclass A(B):\n    pass\nclass B(A):\n    pass\n'
    found = converter(dict(TREE) | {"convert_hf_to_gguf.py": circle})
    assert found.classes["X"].gguf is None
