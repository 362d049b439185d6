"""The tables of both back ends in every form, and the classes behind their rows."""

from __future__ import annotations

import pytest
from lmdeploy_builds import DENIED, LAYERS, MODERN, read

from canserve.engines.sources import Hole
from canserve.facts import Cause, Known, Missing
from canserve.subjects.build import Want
from read_builds import model, row


def test_rows_say_which_back_ends_serve_them_the_default_one_first() -> None:
    build = read(MODERN)
    assert isinstance(build.registry, Known)
    assert {name: found.backends for name, found in build.registry.value.items()} == {
        "LlamaForCausalLM": ("turbomind", "pytorch"),
        "SeeForConditionalGeneration": ("turbomind",),
        "TalkForCausalLM": ("pytorch",),
    }
    assert row(build, "LlamaForCausalLM").kind == "turbomind and pytorch"


def test_a_row_stands_on_a_line_of_its_own() -> None:
    build = read(MODERN)
    lines = {name: row(build, name).at.line for name in ("LlamaForCausalLM", "SeeForConditionalGeneration")}
    assert lines == {"LlamaForCausalLM": 3, "SeeForConditionalGeneration": 4}


def test_tables_of_other_devices_and_removed_models_are_no_rows() -> None:
    build = read(MODERN)
    assert isinstance(build.registry, Known)
    assert not {"FarForCausalLM", "GoneForCausalLM"} & build.registry.value.keys()
    assert isinstance(build.dropped, Known)
    assert build.dropped.value == {"GoneForCausalLM": ""}


def test_a_condition_matters_only_where_no_other_back_end_takes_over() -> None:
    build = read(MODERN)
    assert row(build, "LlamaForCausalLM").guards == ()
    assert row(build, "SeeForConditionalGeneration").guards == (
        "not (getattr(cfg, 'wide', None) is not None)",
    )


def test_converters_are_found_by_the_name_they_register() -> None:
    found = model(read(MODERN), "SeeForConditionalGeneration")
    assert (found.module, found.name) == ("lmdeploy.turbomind.models.see", "SeeModel")


def test_classes_of_pytorch_say_what_they_take_from_transformers() -> None:
    found = model(read(MODERN), "TalkForCausalLM")
    assert [(need.module, need.name) for need in found.imports] == [
        ("transformers.models.llama", "LlamaConfig")
    ]
    assert [need.module for need in found.outside] == ["torch"]
    assert found.at.file == "lmdeploy/pytorch/models/llama.py"


def test_which_models_see_is_read_from_the_function_that_decides() -> None:
    build = read(MODERN)
    assert model(build, "SeeForConditionalGeneration").interfaces["supports_multimodal"] is True
    assert model(build, "LlamaForCausalLM").interfaces["supports_multimodal"] is False
    assert model(build, "TalkForCausalLM").interfaces["supports_multimodal"] is None  # its config decides


def test_a_class_or_module_that_is_not_there_is_known_to_be_absent() -> None:
    lacking = read({**MODERN, "pytorch/models/llama.py": "class Other: ...\n"})
    assert isinstance(lacking.classes["TalkForCausalLM"], Known)
    assert lacking.classes["TalkForCausalLM"].value is None
    without = {path: text for path, text in MODERN.items() if path != "pytorch/models/llama.py"}
    assert isinstance(read(without).classes["TalkForCausalLM"], Known)


def test_a_broken_import_of_the_engine_itself_is_named() -> None:
    text = "from lmdeploy.pytorch.nothing import X\nclass LlamaForCausalLM: ...\n"
    found = model(read({**MODERN, "pytorch/models/llama.py": text}), "TalkForCausalLM")
    assert found.broken == ("lmdeploy.pytorch.nothing.X (lmdeploy/pytorch/models/llama.py:1)",)


def test_layers_are_no_architectures() -> None:
    build = read(LAYERS)
    assert row(build, "LlamaForCausalLM").backends == ("pytorch",)
    assert row(build, "OldForCausalLM").backends == ("turbomind",)
    assert model(build, "LlamaForCausalLM").at.file == "lmdeploy/pytorch/models/patch.py"
    assert model(build, "OldForCausalLM").name == "TurboMind"
    assert isinstance(build.fallback, Missing)  # what is not listed is tried all the same
    assert isinstance(build.quantization, Missing)


def test_newer_releases_refuse_what_is_not_listed() -> None:
    fallback = read(MODERN).fallback
    assert isinstance(fallback, Known)
    assert fallback.value is None


def test_a_build_without_any_list_says_so() -> None:
    build = read({"turbomind/turbomind.py": "class TurboMind: ...\n"})
    assert isinstance(build.registry, Missing)
    assert build.registry.cause is Cause.UNAVAILABLE
    assert build.classes == {}


@pytest.mark.parametrize(
    "path, text",
    [
        ("pytorch/models/module_map.py", "MODULE_MAP = make()\n"),
        ("pytorch/models/module_map.py", "MODULE_MAP = {'A': 'lmdeploy.a.A', 'x.B': 'lmdeploy.b.B'}\n"),
        ("pytorch/models/module_map.py", "MODULE_MAP = {'A': ('lmdeploy.a', 'A')}\n"),
        ("pytorch/models/module_map.py", "MODULE_MAP = {'A': 'lmdeploy.a.A'}\nMODULE_MAP.update(more())\n"),
        ("turbomind/supported_models.py", "SUPPORTED_ARCHS = set_of('A')\n"),
        ("turbomind/supported_models.py", "SUPPORTED_ARCHS = dict(A=1.5)\n"),
        ("turbomind/supported_models.py", "OTHER = dict(A='a')\n"),
        ("pytorch/models/module_map.py", "MODULE_MAP = {'A':\n"),
    ],
)
def test_an_unknown_form_is_no_empty_table(path: str, text: str) -> None:
    registry = read({**MODERN, path: text}).registry
    assert isinstance(registry, Missing)
    assert registry.cause is Cause.UNREADABLE


def test_a_folder_that_could_not_be_listed_proves_nothing() -> None:
    files = {path: text for path, text in MODERN.items() if not path.startswith("turbomind/")}
    registry = read(files, holes=[Hole("lmdeploy/turbomind", DENIED)]).registry
    assert registry == DENIED


def test_a_file_that_could_not_be_had_is_not_an_unknown_form() -> None:
    registry = read({**MODERN, "turbomind/supported_models.py": DENIED}).registry
    assert isinstance(registry, Missing)
    assert registry.cause is Cause.UNAVAILABLE


def test_only_wanted_classes_are_resolved() -> None:
    build = read(MODERN, Want(frozenset({"TalkForCausalLM", "OtherForCausalLM"})))
    assert set(build.classes) == {"TalkForCausalLM"}
    assert isinstance(build.flags, Missing)


def test_models_with_eyes_need_what_prepares_images_for_any_of_them() -> None:
    build = read(
        {
            **MODERN,
            "vl/model/builder.py": "from .big import Big\nfrom lmdeploy.utils import anything\n",
            "vl/model/big.py": "from transformers.processing_utils import ImagesKwargs\n",
        }
    )
    needs = {name: {need.name for need in model(build, name).imports} for name in EYED}
    assert needs["SeeForConditionalGeneration"] >= {"ImagesKwargs"}
    assert not needs["LlamaForCausalLM"] & {"ImagesKwargs"}
    assert not {need.name for need in model(read(MODERN), EYED[0]).imports} & {"ImagesKwargs"}


EYED = ("SeeForConditionalGeneration", "LlamaForCausalLM")
