"""quantization-scheme-known where the build lists algorithms under the very names that checkpoints give."""

from __future__ import annotations

from quant_world import FP8_TENSOR, NVFP4, judged, listing, method, quantization, quantized

from canserve.checks.quantization.schemes import SCHEME_KNOWN
from canserve.verdict import Unknown, Yes

KNOWN = listing(method("modelopt", schemes=("FP8", "NVFP4")))


def test_an_algorithm_that_is_known_by_its_name() -> None:
    one = quantization("modelopt", FP8_TENSOR, algorithms=("FP8",))
    assert isinstance(judged(SCHEME_KNOWN, quantized(one, KNOWN)), Yes)


def test_one_that_is_not_proves_nothing_by_itself() -> None:
    for algorithms in (("W4A8_AWQ",), ("FP8", "MIXED_PRECISION"), ()):
        one = quantization("modelopt", NVFP4, algorithms=algorithms)
        assert isinstance(judged(SCHEME_KNOWN, quantized(one, KNOWN)), Unknown), algorithms
