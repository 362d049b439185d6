"""The tests before a class is served through its own transformers code."""

from __future__ import annotations

import pytest
from small_library import library, sources

from canserve.engines.transformers.backend import source_rule
from canserve.facts import Cause, Missing

HEURISTIC = """
    class PreTrainedModel(nn.Module):
        _supports_attention_backend = False
        _supports_flex_attn: bool = False
        @classmethod
        def is_backend_compatible(cls):
            return cls._supports_attention_backend
        @classmethod
        def _can_set_attn_implementation(cls) -> bool:
            with open(class_file) as f:
                code = f.read()
            {rule}
"""
RULES = {
    "both texts": 'return "eager_attention_forward" in code and "ALL[self.config]" in code',
    "only with an attention class": """if re.search(r"class \\w+Attention\\(nn.Module\\)", code):
                return "ALL_FUNCTIONS.get(" in code
            else:
                return True""",
    "remembered": """if isinstance(cached, bool):
                return cached
            if re.search(r"^class \\w*Attention\\w*\\(nn\\.Module\\):", code, re.MULTILINE):
                can_set = "ALL_FUNCTIONS.get(" in code
            else:
                can_set = True
            cls.cached = can_set
            return cls.cached""",
}
MOTH = """
    from ...modeling_utils import PreTrainedModel
    from ..owl.modeling_owl import OwlPreTrainedModel as Elder
    {head}
    class MothAttention(nn.Module): ...
    class MothPreTrainedModel(PreTrainedModel):
        _supports_attention_backend = True
    class MothMixin:
        _supports_flex_attn = True
    class MothForCausalLM(MothMixin, MothPreTrainedModel): ...
    class MothRefuses(MothForCausalLM):
        _supports_attention_backend = False
    class MothAtRunTime(MothForCausalLM):
        _supports_attention_backend = decide()
    class MothOfOwl(Elder): ...
    Renamed = MothForCausalLM
    class MothRenamed(Renamed): ...
    class Outside(torch.nn.Module): ...
    class MothLoop(MothLoop): ...
"""
OWL = """
    from ..moth.modeling_moth import MothMixin
    class OwlPreTrainedModel(MothMixin): ...
"""


def files(rule: str = "both texts", head: str = "") -> dict[str, str]:
    names = (
        "MothForCausalLM",
        "MothRefuses",
        "MothAtRunTime",
        "MothOfOwl",
        "MothRenamed",
        "Outside",
        "MothLoop",
    )
    return {
        "__init__.py": "\n".join(f"from .models.moth.modeling_moth import {name}" for name in names),
        "modeling_utils.py": HEURISTIC.format(rule=RULES[rule]),
        "models/moth/modeling_moth.py": MOTH.format(head=head),
        "models/moth/modeling_tf_moth.py": "class OnlyTensorFlow: ...\n",
        "models/owl/modeling_owl.py": OWL,
    }


@pytest.mark.parametrize(
    ("name", "passed"),
    [
        ("MothForCausalLM", {"supports_attention_backend", "supports_flex_attn"}),
        ("MothRefuses", {"supports_flex_attn"}),
        ("MothAtRunTime", {"supports_flex_attn"}),
        ("MothOfOwl", {"supports_flex_attn"}),
        ("MothRenamed", {"supports_attention_backend", "supports_flex_attn"}),
        ("Outside", set()),
        ("MothLoop", set()),
    ],
)
def test_flags_come_from_the_nearest_class_that_sets_them(name: str, passed: set[str]) -> None:
    assert library(files()).backend_tests(name) == frozenset(passed | {"exists"})


@pytest.mark.parametrize("name", ["NoSuchModel", "MothAttention", "OnlyTensorFlow"])
def test_what_transformers_does_not_offer_passes_nothing(name: str) -> None:
    assert library(files()).backend_tests(name) is None


@pytest.mark.parametrize(
    ("rule", "head", "can_set"),
    [
        ("both texts", "", False),
        ("both texts", "eager_attention_forward()", False),
        ("both texts", "eager_attention_forward(); ALL[self.config]", True),
        ("only with an attention class", "", False),
        ("only with an attention class", "ALL_FUNCTIONS.get()", True),
        ("remembered", "", False),
        ("remembered", "ALL_FUNCTIONS.get()", True),
    ],
)
def test_the_rule_about_a_files_text(rule: str, head: str, can_set: bool) -> None:
    passed = library(files(rule, head)).backend_tests("MothForCausalLM")
    assert passed is not None
    assert ("can_set_attn_implementation" in passed) is can_set


@pytest.mark.parametrize("rule", ["only with an attention class", "remembered"])
def test_a_file_without_an_attention_class_passes(rule: str) -> None:
    found = source_rule(sources(files(rule)))
    assert found is not None
    assert found.passes("class MothModel(PreTrainedModel): ...")
    assert not found.passes("class MothAttention(nn.Module):\n    pass\n")


@pytest.mark.parametrize(
    "rule",
    [
        "return True",
        "return ask_somebody(code)",
        'if re.search(r"(a+)+$", code):\n                return "x" in code',
    ],
)
def test_a_rule_of_unknown_form_is_never_run(rule: str) -> None:
    assert source_rule(sources({"modeling_utils.py": HEURISTIC.format(rule=rule)})) is None


def test_a_base_class_that_two_parents_share_comes_last() -> None:
    text = """
        class Base:
            _supports_attention_backend = False
        class Left(Base): ...
        class Right(Base):
            _supports_attention_backend = True
        class MothForCausalLM(Left, Right): ...
    """
    base = HEURISTIC.format(rule="return True")
    found = library({
        "models/moth/modeling_moth.py": text,
        "modeling_utils.py": base,
        "__init__.py": "MothForCausalLM = 1\n",
    })  # fmt: skip
    assert found.backend_tests("MothForCausalLM") == frozenset({"exists", "supports_attention_backend"})


def test_a_release_without_the_attributes_has_no_such_tests() -> None:
    old = files() | {"modeling_utils.py": "class PreTrainedModel(nn.Module): ...\n"}
    assert library(old).backend_tests("MothForCausalLM") == frozenset({"exists"})


def test_an_unreadable_model_file_is_not_a_class_that_fails() -> None:
    it = sources(files())
    gone = Missing(Cause.UNAVAILABLE, "permission denied")
    it._fetch = lambda paths: dict.fromkeys(paths, gone)
    from canserve.engines.transformers.reading import Library

    assert Library(it).backend_tests("MothForCausalLM") is None
