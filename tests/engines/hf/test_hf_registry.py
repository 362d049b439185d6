"""The classes that generate text, where they are, and the library that a build of transformers is itself."""

from __future__ import annotations

import pytest
from hf_builds import DENIED, FILES, UNKNOWN, identity, read, sources

from canserve.engines.hf import itself
from canserve.engines.sources import Hole
from canserve.engines.transformers import read_table
from canserve.facts import Cause, Known, Missing
from canserve.subjects.build import ModelClass, Registered, Transformers, Want


def rows(files: dict[str, str]) -> dict[str, Registered]:
    found = read(files, Want()).registry
    assert isinstance(found, Known), found
    return dict(found.value)


def test_classes_of_the_tables_that_generate_text() -> None:
    assert {name: row.kind for name, row in rows(dict(FILES)).items()} == {
        "LlamaForCausalLM": "causal_lm",
        "OddForCausalLM": "causal_lm",
        "OddLMHeadModel": "causal_lm",
        "MovedForCausalLM": "causal_lm and image_text_to_text",
        "SeeForConditionalGeneration": "image_text_to_text",
    }


def test_a_model_type_stands_for_a_folder_by_its_own_name_or_a_special_one() -> None:
    found = rows(dict(FILES))
    assert found["OddForCausalLM"].module == "transformers.models.odd_type.modeling_odd_type"
    assert found["SeeForConditionalGeneration"].module == "transformers.models.eyes.modeling_eyes"


def resolved(name: str, files: dict[str, str] | None = None) -> ModelClass:
    found = read(files or dict(FILES)).classes[name]
    assert isinstance(found, Known), found
    assert found.value is not None
    return found.value


def test_a_class_is_found_in_its_module_and_asked_of_the_package() -> None:
    found = resolved("LlamaForCausalLM")
    assert (found.at.file, found.at.line) == ("transformers/models/llama/modeling_llama.py", 2)
    assert [(need.module, need.name) for need in found.imports] == [("transformers", "LlamaForCausalLM")]
    assert found.interfaces == {"supports_pp": False, "supports_multimodal": False}
    assert resolved("SeeForConditionalGeneration").interfaces["supports_multimodal"] is True
    assert resolved("OddLMHeadModel").at.line == 2  # an assignment


def test_a_class_that_stands_elsewhere_is_left_to_the_package_to_say() -> None:
    found = resolved("MovedForCausalLM")
    assert found.module == "transformers"
    assert [need.name for need in found.imports] == ["MovedForCausalLM"]


@pytest.mark.parametrize(
    "text",
    [
        "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES = OrderedDict([('a', 'A'), *more()])\n",
        "X = 1\n",
        "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES = (\n",
    ],
)
def test_an_unknown_form_is_no_empty_table(text: str) -> None:
    found = read({**FILES, "models/auto/modeling_auto.py": text}).registry
    assert isinstance(found, Missing)
    assert found.cause is Cause.UNREADABLE


def test_a_folder_that_could_not_be_listed_proves_nothing() -> None:
    files = {path: text for path, text in FILES.items() if not path.startswith("models/")}
    assert read(files, holes=[Hole("transformers/models", DENIED)]).registry == DENIED


def test_a_module_that_could_not_be_had_is_missing_not_absent() -> None:
    found = read({**FILES, "models/llama/modeling_llama.py": DENIED}).classes["LlamaForCausalLM"]
    assert isinstance(found, Missing)
    assert found.cause is Cause.UNAVAILABLE


def test_the_library_of_a_source_tree_is_read_from_its_own_files() -> None:
    own = itself(sources(FILES), identity(), Transformers(UNKNOWN, UNKNOWN, UNKNOWN))
    candidates = own.candidates()
    assert isinstance(candidates, Known)
    assert candidates.value == ("9.9.9",)
    assert isinstance(own.table, Known)
    assert own.table.value.config_types("9.9.9") == {"llama", "odd-type", "see"}


def test_a_release_is_told_by_the_table_that_has_it() -> None:
    table = read_table(sources({**FILES, "models/auto/configuration_auto.py": "CONFIG_MAPPING_NAMES = {'x': 'X'}\n"}),
                       "9.9.9")  # fmt: skip
    own = itself(sources(FILES), identity(Known("sha256:1")), Transformers(UNKNOWN, UNKNOWN, table))
    assert own.table == table
    folder = itself(sources(FILES), identity(), Transformers(UNKNOWN, UNKNOWN, table))
    assert isinstance(folder.table, Known)
    assert "llama" in folder.table.value.config_types("9.9.9")  # its files may be other than the release's


def test_an_environment_says_itself_what_is_installed() -> None:
    given = Transformers(Known("1.2.3"), UNKNOWN, UNKNOWN)
    assert itself(sources(FILES), identity(), given) is given


def test_weight_files_and_what_never_changes() -> None:
    build = read({**FILES, "modeling_gguf_pytorch_utils.py": "GGUF_SUPPORTED_ARCHITECTURES = ['llama']\n"})
    assert isinstance(build.load_formats, Known)
    assert build.load_formats.value == ("safetensors", "pt", "gguf")
    assert isinstance(read(FILES).load_formats, Known)
    assert isinstance(read({**FILES, "utils/__init__.py": ""}).load_formats, Missing)
    for fact in (
        build.reasoning_parsers,
        build.tool_parsers,
        build.speculative,
        build.config_shims,
        build.dropped,
    ):
        assert isinstance(fact, Known)
        assert not fact.value
