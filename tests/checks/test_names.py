"""Names in an answer."""

from __future__ import annotations

from canserve.checks.names import near, some


def test_names_that_look_alike_best_first() -> None:
    assert near("qwen", ["hermes", "qwen3", "qwen25"]) == ["qwen3", "qwen25"]
    assert near("qwen", {"qwen3": 1}, cutoff=0.99) == []


def test_a_few_of_many() -> None:
    assert some(["b", "A", "c"]) == "A, b, c"
    assert some(["c", "b", "a"], 2) == "a, b and 1 more"
    assert some([]) == ""
