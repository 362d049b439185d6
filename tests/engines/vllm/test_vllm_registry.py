"""The model registry in every form it has had, and the classes behind it."""

from __future__ import annotations

import pytest
from vllm_builds import BUILD, DENIED, REGISTRY, TABLES, built, model_class, reading

from canserve.engines.sources import Hole
from canserve.engines.vllm.registry import DROPPED, ELSEWHERE, read_list, read_registry
from canserve.facts import Cause, Known, Missing
from canserve.subjects.build import Want

OLD = "vllm/model_executor/models/__init__.py"
OLDEST = "vllm/model_executor/model_loader.py"


def rows(files: dict[str, str]) -> dict[str, tuple[str, str, str]]:
    fact = read_registry(reading(files))
    assert isinstance(fact, Known), fact
    return {name: (row.module, row.name, row.kind) for name, row in fact.value.items()}


def test_names_that_are_star_imported() -> None:
    files = {
        OLDEST: """
            from vllm.model_executor.models import *
            _MODEL_REGISTRY = {"LlamaForCausalLM": LlamaForCausalLM, "BaiChuan": BaiChuan}
            if is_hip():
                for name in ["BaiChuan"]:
                    del _MODEL_REGISTRY[name]
            """,
        OLD: "from vllm.model_executor.models.llama import LlamaForCausalLM\nfrom .baichuan import BaiChuan",
        "vllm/model_executor/models/llama.py": "class LlamaForCausalLM: ...",
        "vllm/model_executor/models/baichuan.py": "class BaiChuan: ...",
    }
    package = "vllm.model_executor.models"
    assert rows(files) == {
        "LlamaForCausalLM": (package, "LlamaForCausalLM", "generation"),
        "BaiChuan": (package, "BaiChuan", "generation"),
    }


def test_a_table_in_the_package() -> None:
    files = {
        OLD: """
            _GENERATION_MODELS = {"A": ("a", "A")}
            _EMBEDDING_MODELS = {"B": ("b", "B")}
            _MODELS = {**_GENERATION_MODELS, **_EMBEDDING_MODELS}
            _ROCM_UNSUPPORTED_MODELS = ["A"]
            """
    }
    assert rows(files) == {
        "A": ("vllm.model_executor.models.a", "A", "generation"),
        "B": ("vllm.model_executor.models.b", "B", "embedding"),
    }


def test_tables_spread_into_one_with_a_comprehension_and_full_module_names() -> None:
    files = {
        REGISTRY: """
            _TEXT_GENERATION_MODELS = {"A": ("a", "A"), "C": ("vllm.models.c", "C")}
            _EMBEDDING_MODELS = {
                "B": ("b", "B"),
                **{k: (mod, arch) for k, (mod, arch) in _TEXT_GENERATION_MODELS.items() if arch == "A"},
            }
            _VLLM_MODELS = {**_TEXT_GENERATION_MODELS, **_EMBEDDING_MODELS}
            """
    }
    assert rows(files) == {
        "A": ("vllm.model_executor.models.a", "A", "text_generation"),
        "C": ("vllm.models.c", "C", "text_generation"),
        "B": ("vllm.model_executor.models.b", "B", "embedding"),
    }


def test_a_row_says_where_it_stands_and_under_which_condition() -> None:
    text = '_VLLM_MODELS = {\n    "A": ("a", "A"),\n}\nif HAS_B:\n    _VLLM_MODELS["B"] = ("b", "B")\n'
    fact = read_registry(reading({REGISTRY: text}))
    assert isinstance(fact, Known)
    assert [(str(row.at), row.guards) for row in fact.value.values()] == [
        (f"{REGISTRY}:2", ()),
        (f"{REGISTRY}:5", ("HAS_B",)),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "_OTHER_MODELS = {'A': ('a', 'A')}",
        "_VLLM_MODELS = {}",
        "_VLLM_MODELS = {**make_models()}",
        "_VLLM_MODELS = {'A': Lazy('a', 'A')}",
        "_VLLM_MODELS = make_models()",
        "_VLLM_MODELS = {'A': ('a', 'A', 'extra')}",
        "def (",
    ],
)
def test_an_unknown_form_is_missing_never_an_empty_table(text: str) -> None:
    fact = read_registry(reading({REGISTRY: text}))
    assert isinstance(fact, Missing) and fact.cause is Cause.UNREADABLE


def test_a_registry_that_could_not_be_looked_for_is_missing() -> None:
    fact = read_registry(reading({OLD: "_MODELS = {'A': ('a', 'A')}"}, [Hole("vllm/model_executor", DENIED)]))
    assert fact is DENIED
    gone = read_registry(reading({"vllm/__init__.py": ""}))
    assert isinstance(gone, Missing) and gone.cause is Cause.UNREADABLE


def test_dropped_and_out_of_tree_names() -> None:
    there = reading({REGISTRY: TABLES})
    assert read_list(there, DROPPED) == Known({"GoneModel": "0.9.1"}, read_list(there, DROPPED).evidence)
    elsewhere = read_list(there, ELSEWHERE)
    assert isinstance(elsewhere, Known) and elsewhere.value == {"FarModel": "https://example.org/plugin"}
    neither = read_list(reading({REGISTRY: "_VLLM_MODELS = {}"}), DROPPED)
    assert isinstance(neither, Known) and neither.value == {}


def test_a_class_with_what_it_can_do_and_needs() -> None:
    build = built()
    found = model_class(build, "LlamaForCausalLM")
    assert (found.module, found.name) == ("vllm.model_executor.models.llama", "LlamaForCausalLM")
    assert str(found.at) == "vllm/model_executor/models/llama.py:6"
    assert found.interfaces == {
        "architecture": "LlamaForCausalLM", "supports_pp": True, "is_pooling_model": True, "kinds": "",
    }  # fmt: skip
    assert [(i.module, i.name, str(i.at)) for i in found.imports] == [
        ("transformers", "LlamaConfig", "vllm/model_executor/models/llama.py:2")
    ]
    assert [i.module for i in found.outside] == ["torch"]
    assert found.broken == ()


def test_several_names_are_joined() -> None:
    assert model_class(built(), "SeeingModel").interfaces["kinds"] == "image,video"


def test_the_class_may_be_defined_elsewhere_and_per_platform() -> None:
    build = built(
        {
            "vllm/model_executor/models/llama.py": "from vllm.models.llama import LlamaForCausalLM",
            "vllm/models/llama/__init__.py": """
                if current_platform.is_rocm():
                    from .amd import LlamaForCausalLM
                else:
                    from .nvidia import LlamaForCausalLM
                """,
            "vllm/models/llama/amd.py": "import aiter\nclass LlamaForCausalLM: ...",
            "vllm/models/llama/nvidia.py": "class LlamaForCausalLM: ...",
        }
    )
    found = model_class(build, "LlamaForCausalLM")
    assert found.module == "vllm.models.llama.nvidia"
    assert found.outside == (), "what only the other platform imports is not needed"


def test_a_missing_module_or_class_is_known_to_be_missing() -> None:
    build = built({"vllm/model_executor/models/seeing.py": "class Other: ..."})
    assert build.classes["EagleModel"] == Known(None, build.classes["EagleModel"].evidence)
    assert build.classes["SeeingModel"] == Known(None, build.classes["SeeingModel"].evidence)


def test_what_could_not_be_seen_leaves_a_class_open() -> None:
    hidden = [Hole("vllm/model_executor/models/interfaces.py", DENIED)]
    files = {path: text for path, text in BUILD.items() if "interfaces" not in path}
    from canserve.engines.vllm.classes import ClassReader

    there = reading(files, hidden)
    registry = read_registry(there)
    assert isinstance(registry, Known)
    assert ClassReader(there).read(registry.value["LlamaForCausalLM"]) == DENIED


def test_an_import_inside_the_engine_that_cannot_succeed() -> None:
    build = built({"vllm/model_executor/models/seeing.py": "from .llama import Gone\nclass Seeing: ..."})
    assert model_class(build, "SeeingModel").broken == (
        "vllm.model_executor.models.llama.Gone (vllm/model_executor/models/seeing.py:1)",
    )


def test_builds_without_model_info_answer_with_their_predicates() -> None:
    build = built(
        {
            REGISTRY: "",
            OLD: """
                _MODELS = {"LlamaForCausalLM": ("llama", "LlamaForCausalLM"), "E": ("seeing", "Seeing")}
                _EMBEDDING_MODELS = {"E": ("seeing", "Seeing")}
                class ModelRegistry:
                    @staticmethod
                    def is_embedding_model(model_arch):
                        return model_arch in _EMBEDDING_MODELS
                """,
        }
    )
    assert model_class(build, "LlamaForCausalLM").interfaces == {
        "supports_pp": True, "is_embedding_model": False,
    }  # fmt: skip
    assert model_class(build, "E").interfaces["is_embedding_model"] is True


def test_only_wanted_classes_are_read() -> None:
    build = built(want=Want(frozenset({"LlamaForCausalLM", "Unregistered"})))
    assert list(build.classes) == ["LlamaForCausalLM"]
    assert isinstance(build.flags, Missing) and isinstance(build.attention_backends, Missing)
