"""Rates of computation: read and printed."""

from __future__ import annotations

import pytest

from canserve.units import Compute


def test_rates_are_read_by_the_width_of_the_numbers() -> None:
    found = Compute.parse("BF16 989 TFLOP/s, FP8 1.978 PFLOP/s")
    assert found == Compute(989 * 10**12, 1978 * 10**12)
    assert str(found) == "BF16 989 TFLOP/s, FP8 1.98 PFLOP/s"


@pytest.mark.parametrize(
    "text", ["", "989 TFLOP/s", "FP16 1 TFLOP/s", "FP8 1 TFLOP/s, FP8 2 TFLOP/s", "BF16 x TFLOP/s"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a rate of computation"):
        Compute.parse(text)
