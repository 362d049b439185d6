"""Numbers of a config: what is none is named."""

from __future__ import annotations

import pytest

from canserve.memory.fields import MOST, Fields, Lacking


@pytest.mark.parametrize("value", [-1, 1.5, "8", True, [], {}, MOST + 1, 1e308, float("nan")])
def test_a_value_that_is_no_number_of_a_model_is_lacking_and_named(value: object) -> None:
    with pytest.raises(Lacking, match=r"text_config\.head_dim is .*not what it should be") as caught:
        Fields({"head_dim": value}, "text_config").number("head_dim", default=64)
    assert caught.value.field == "text_config.head_dim" and len(str(caught.value)) < 150


def test_a_number_of_more_digits_than_can_be_written_is_named_too() -> None:
    with pytest.raises(Lacking, match="head_dim is"):
        Fields({"head_dim": 10**5000}).number("head_dim")


@pytest.mark.parametrize(("value", "number"), [(0, 0), (8.0, 8), (MOST, MOST), (1e12, 10**12)])
def test_a_whole_number_is_taken(value: object, number: int) -> None:
    assert Fields({"n": value}).number("n") == number


def test_the_first_name_that_is_there_counts() -> None:
    assert Fields({"a": None, "b": 3}).number("a", "b", default=7) == 3
    assert Fields({}).number("a", default=7) == 7
