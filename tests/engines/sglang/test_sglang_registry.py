"""The registry in every form it has had, and what becomes of forms nobody has seen."""

from __future__ import annotations

from typing import Any

import pytest
from sglang_builds import COLLECTOR, MODEL, read

from canserve.engines.sources import Hole
from canserve.facts import Cause, Known, Missing
from canserve.subjects.build import Want
from read_builds import model, row

ONE = Want(frozenset({"LlamaForCausalLM"}))
GONE = Missing(Cause.UNAVAILABLE, "permission denied")


def names(build: Any) -> list[str]:
    assert isinstance(build.registry, Known), build.registry
    return sorted(build.registry.value)


def test_entry_class_is_registered_under_the_name_of_its_class() -> None:
    build = read()
    assert names(build) == ["LlamaForCausalLM"]
    found = row(build, "LlamaForCausalLM")
    assert (found.module, found.name) == ("sglang.srt.models.llama", "LlamaForCausalLM")
    assert (found.at.file, found.at.line) == ("sglang/srt/models/llama.py", 5)


@pytest.mark.parametrize(
    "entry",
    [
        "EntryClass = [A, B]",
        "EntryClass = [\n    A,  # the first\n    B,\n]",
        "EntryClass = (A, B)",
        "EntryClass = [A] + [B]",
        "EntryClass: list = [A, B]",
        "EntryClass = [A]\nEntryClass += [B]",
        "EntryClass = [A]\nEntryClass.append(B)",
        "MORE = [B]\nEntryClass = [A, *[B]]",
        '__all__ = ["A", "EntryClass"]\nEntryClass = [A, B]',
    ],
)
def test_lists_of_classes(entry: str) -> None:
    build = read({"models/x.py": f"class A: ...\nclass B: ...\n\n\n{entry}\n"})
    assert names(build) == ["A", "B", "LlamaForCausalLM"]


def test_a_byte_order_mark_does_not_hide_a_module() -> None:
    build = read({"models/x.py": b"\xef\xbb\xbf# a comment\n" + MODEL.format("Marked").encode()})
    assert "Marked" in names(build)
    assert model(build, "Marked").name == "Marked"


def test_windows_line_ends() -> None:
    assert "Crlf" in names(read({"models/x.py": MODEL.format("Crlf").replace("\n", "\r\n").encode()}))


def test_a_class_may_come_from_another_module_under_another_name() -> None:
    build = read(
        {
            "models/x.py": "from sglang.srt.models.parts.real import Real as Mine\nEntryClass = Mine\n",
            "models/parts/__init__.py": "",
            "models/parts/real.py": "class Real: ...\nEntryClass = Real\n",
        }
    )
    assert names(build) == ["LlamaForCausalLM", "Real"]
    assert row(build, "Real").name == "Mine"
    assert model(build, "Real").module == "sglang.srt.models.parts.real"


def test_entry_class_itself_may_be_imported() -> None:
    build = read({"models/x.py": "from sglang.srt.models.llama import EntryClass\n"})
    assert names(build) == ["LlamaForCausalLM"]


def test_packages_are_passed_over_where_the_build_passes_them_over() -> None:
    package = {"models/common/__init__.py": MODEL.format("InPackage")}
    assert "InPackage" not in names(read(package))
    walked = COLLECTOR.replace("if not ispkg:", "if True:")
    assert "InPackage" in names(read({**package, "models/registry.py": walked}))


def test_conditional_entries_keep_their_condition() -> None:
    build = read(
        {
            "models/x.py": """
                class Always: ...
                class Sometimes: ...
                class OnAmd: ...
                EntryClass = [Always]
                if HAS_KERNELS:
                    EntryClass = [Always, Sometimes]
                if is_hip():
                    EntryClass = [OnAmd]
            """
        }
    )
    assert names(build) == ["Always", "LlamaForCausalLM", "Sometimes"]
    assert row(build, "Sometimes").guards == ("HAS_KERNELS",)
    assert row(build, "Always").guards == ()


def test_a_conditional_expression_offers_both() -> None:
    build = read({"models/x.py": "class A: ...\nclass B: ...\nEntryClass = A if NEW else B\n"})
    assert row(build, "B").guards == ("not (NEW)",)


def test_remapping_counts_only_where_the_build_looks_at_it() -> None:
    files = {
        "models/chatglm.py": MODEL.format("ChatGLMForCausalLM")
        + 'EntryClassRemapping = [("ChatGLMModel", ChatGLMForCausalLM)]\n'
    }
    assert "ChatGLMModel" not in names(read(files))
    looks = COLLECTOR.replace("return found", 'hasattr(module, "EntryClassRemapping")\n        return found')
    build = read({**files, "models/registry.py": looks})
    assert row(build, "ChatGLMModel").name == "ChatGLMForCausalLM"
    assert model(build, "ChatGLMModel").name == "ChatGLMForCausalLM"


TWICE = {"models/x.py": MODEL.format("Same"), "models/y.py": MODEL.format("Same")}


def test_a_name_registered_twice_stops_a_build_that_asserts() -> None:
    build = read(TWICE)
    assert "Same is registered twice" in model(build, "LlamaForCausalLM").broken[0]


def test_of_a_name_registered_twice_the_later_module_wins_elsewhere() -> None:
    lenient = "\n".join(line for line in COLLECTOR.splitlines() if "assert" not in line)
    build = read({**TWICE, "models/registry.py": lenient})
    assert row(build, "Same").module == "sglang.srt.models.y"
    assert model(build, "LlamaForCausalLM").broken == ()


def test_further_packages_that_the_registry_names() -> None:
    also = COLLECTOR.replace('"sglang.srt.models."', '"sglang.srt.new_models"')
    build = read({"models/registry.py": also, "new_models/x.py": MODEL.format("InSecond")})
    assert names(build) == ["InSecond", "LlamaForCausalLM"]


def test_the_collector_of_older_releases() -> None:
    older = COLLECTOR.replace("pkgutil.iter_modules", "Path(models).glob")
    build = read(
        {"managers/router/model_runner.py": older, "models/llama.py": MODEL.format("LlamaForCausalLM")},
        bare=True,
    )
    assert names(build) == ["LlamaForCausalLM"]


def test_the_chain_of_the_oldest_releases() -> None:
    build = read(
        {
            "managers/router/model_runner.py": """
                class ModelRunner:
                    def load_model(self):
                        from sglang.srt.models.llama2 import LlamaForCausalLM
                        for arch in architectures:
                            if arch == "LlamaForCausalLM":
                                model_class = LlamaForCausalLM
                                break
                            if arch == "MistralForCausalLM":
                                model_class = LlamaForCausalLM
                                break
                        if mode == "LlamaForCausalLM":
                            mode = None
            """,
            "models/llama2.py": "class LlamaForCausalLM: ...\n",
        },
        bare=True,
    )
    assert names(build) == ["LlamaForCausalLM", "MistralForCausalLM"]
    assert row(build, "MistralForCausalLM").module == "sglang.srt.models.llama2"
    assert model(build, "MistralForCausalLM").name == "LlamaForCausalLM"


@pytest.mark.parametrize(
    "files",
    [
        {"models/registry.py": "MODELS = load_models_from_yaml()\n"},
        {"models/registry.py": COLLECTOR.replace("iter_modules", "walk_somehow")},
        {"models/registry.py": 'NAMES = ["EntryClass"]\n'},
        {"models/llama.py": "EntryClass = make_class('Llama')\n"},
        {"models/llama.py": "class A: ...\n"},
        {"models/registry.py": "def broken(:\n"},
    ],
)
def test_an_unknown_form_is_missing_never_empty(files: dict[str, str]) -> None:
    build = read(files)
    assert isinstance(build.registry, Missing)
    assert build.registry.cause is Cause.UNREADABLE
    assert build.classes == {}


def test_nothing_at_all_is_missing() -> None:
    assert isinstance(read(bare=True).registry, Missing)


def test_a_folder_that_could_not_be_listed_makes_the_registry_missing() -> None:
    build = read(holes=[Hole("sglang/srt/models", GONE)])
    assert build.registry == GONE


def test_an_unreadable_module_matters_only_when_the_wanted_class_was_not_found() -> None:
    files = {"models/secret.py": GONE}
    assert read(files, Want(frozenset({"OtherForCausalLM"}))).registry == GONE
    found = read(files, ONE).registry
    assert isinstance(found, Known)
    assert not found.evidence[0].whole


def test_only_wanted_classes_are_resolved() -> None:
    build = read({"models/x.py": MODEL.format("Other")}, ONE)
    assert names(build) == ["LlamaForCausalLM", "Other"]
    assert list(build.classes) == ["LlamaForCausalLM"]


def test_a_registered_class_that_does_not_exist() -> None:
    build = read({"models/x.py": "EntryClass = Nowhere\n"})
    assert build.classes["Nowhere"] == Known(None, build.classes["Nowhere"].evidence)
