"""What a name stands for, and the whole table, over small indexes written by hand."""

from __future__ import annotations

import pytest
from past import shelf

from canserve.facts import Known
from canserve.index.history import ReleaseHistory
from canserve.index.matrix import matrix, select
from canserve.index.names import Names
from canserve.index.transformers_releases import PROJECT

ENGINE = shelf(
    "eng",
    [
        {"architectures": ("SmallForCausalLM", "OldForCausalLM"), "quantization": ("awq",),
         "method_capabilities": ("awq 75",)},
        {"architectures": ("SmallForCausalLM",), "quantization": ("awq", "fp8"),
         "method_capabilities": ("awq 80", "fp8 ?")},
        {"architectures": ("OwnTypeForCausalLM",), "config_types": ("own_type",), "quantization": ("fp8",),
         "method_capabilities": ("fp8 ",)},
        {"architectures": ("SmallForCausalLM", "OwnTypeForCausalLM"), "gguf_architectures": ("smally",)},
    ],
    quantization="3",
)  # fmt: skip
OTHER = shelf("other", [{"architectures": ("SmallForCausalLM",)}])
LIBRARY = shelf(
    PROJECT,
    [
        {"config_types": ("small",), "classes": ("small SmallForCausalLM", "small SmallModel"), "gguf": ("small",)},
        {"config_types": ("small", "lonely"), "classes": ("small SmallForCausalLM", "small SmallModel",
         "lonely LonelyForCausalLM", "lonely LonelyModel", "other_small SmallForCausalLM")},
    ],
)  # fmt: skip


@pytest.fixture
def history() -> ReleaseHistory:
    return ReleaseHistory({"eng": ENGINE, "other": OTHER, PROJECT: LIBRARY, "none": None})


@pytest.fixture
def names(history: ReleaseHistory) -> Names:
    return Names(history, ("eng", "other", "none"))


def said(names: Names, name: str) -> list[tuple[str, str]]:
    return [(subject.kind, subject.says) for subject in names.subjects(name)]


def test_an_architecture_has_the_type_that_transformers_maps(names: Names) -> None:
    assert said(names, "SmallForCausalLM") == [
        ("architecture", "SmallForCausalLM, model type small (or other_small)")
    ]
    model = names.subjects("SmallForCausalLM")[0].model
    assert model.model_type == Known("small", model.model_type.evidence)


def test_a_type_that_only_its_spelling_tells_is_said_to_be_assumed(names: Names) -> None:
    assert said(names, "OwnTypeForCausalLM") == [
        ("architecture", "OwnTypeForCausalLM, model type taken to be own_type, by its spelling")
    ]
    assert said(names, "OldForCausalLM") == [("architecture", "OldForCausalLM, model type not known")]


def test_a_model_type_stands_for_the_classes_that_engines_list(names: Names) -> None:
    assert said(names, "other_small") == [("architecture", "SmallForCausalLM, model type other_small")]
    assert said(names, "own_type") == [("architecture", "OwnTypeForCausalLM, model type own_type")]
    assert said(names, "lonely") == [("architecture", "LonelyForCausalLM, model type lonely")]


def test_one_name_may_stand_for_several_things(names: Names) -> None:
    assert [kind for kind, _ in said(names, "small")] == ["architecture", "GGUF architecture"]
    assert [kind for kind, _ in said(names, "smally")] == ["GGUF architecture"]


def test_an_unknown_name_stands_for_nothing(names: Names) -> None:
    for name in ("", "nothing", "smallforcausallm", "SmallForCausalLM\n", "*", "small SmallModel"):
        assert said(names, name) == []
    assert names.nearest("smallforcausallm")[0] == "SmallForCausalLM"
    assert names.nearest("zzzzzzzz") == []


def test_the_matrix_fills_nothing_in(history: ReleaseHistory) -> None:
    whole = matrix(history, ("eng", "none", "other"))
    assert [column.engine for column in whole.columns] == ["eng", "other"]
    runs = whole.rows["SmallForCausalLM"]["eng"]
    assert [(run.first.version, run.last.version, run.count) for run in runs] == [
        ("1.0", "1.1", 2),
        ("1.3", "1.3", 1),
    ]
    assert whole.current("eng", runs)
    assert not whole.current("eng", whole.rows["OldForCausalLM"]["eng"])
    assert "other" not in whole.rows["OldForCausalLM"]
    assert list(whole.rows) == ["OldForCausalLM", "OwnTypeForCausalLM", "SmallForCausalLM"]


def test_methods_have_their_least_capability_by_release(history: ReleaseHistory) -> None:
    methods = matrix(history, ("eng",), "quantization")
    awq = methods.capabilities["awq"]["eng"]
    assert {text: runs[0].first.version for text, runs in awq.items()} == {"7.5": "1.0", "8.0": "1.1"}
    assert methods.capability("awq", "eng") == "8.0"
    assert methods.capability("fp8", "eng") == "none"
    assert [run.first.version for run in methods.unread["eng"]] == ["1.3"]


@pytest.mark.parametrize(
    ("patterns", "rows"),
    [
        ((), 3),
        (("small",), 1),
        (("OWN", "old"), 2),
        (("*ForCausalLM",), 3),
        (("o*lm",), 2),
        (("x",), 0),
        (("[",), 0),
    ],
)
def test_rows_by_part_or_pattern(history: ReleaseHistory, patterns: tuple[str, ...], rows: int) -> None:
    assert len(select(matrix(history, ("eng",)), patterns).rows) == rows
