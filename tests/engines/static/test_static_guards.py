"""Conditions about the platform are decided; all others are open."""

from __future__ import annotations

import pytest

from canserve.engines.static.guards import guard_truth, holds


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("current_platform.is_cuda()", True),
        ("current_platform.is_rocm()", False),
        ("not is_hip()", True),
        ("_is_cuda", True),
        ("_is_npu", False),
        ("is_cuda_alike()", True),
        ("TYPE_CHECKING", False),
        ("typing.TYPE_CHECKING", False),
        ("__name__ == '__main__'", False),
        ("platform.device_type == 'cuda'", True),
        ("is_hip() or HAS_TRITON", None),
        ("is_hip() and HAS_TRITON", False),
        ("is_cuda() or HAS_TRITON", True),
        ("is_cuda() and HAS_TRITON", None),
        ("is_cuda(device)", None),
        ("HAS_TRITON", None),
        ("try", None),
        ("except ImportError", None),
        ("not " * 5000 + "x", None),
    ],
)
def test_truth_on_cuda(text: str, truth: bool | None) -> None:
    assert guard_truth(text) is truth


def test_other_platforms() -> None:
    assert guard_truth("is_hip()", "rocm") is True
    assert guard_truth("is_cuda_alike()", "rocm") is True
    assert guard_truth("is_cuda()", "rocm") is False


def test_several_guards() -> None:
    assert holds(["is_cuda()", "not is_xpu()"]) is True
    assert holds(["is_cuda()", "HAS_X"]) is None
    assert holds(["HAS_X", "is_xpu()"]) is False
    assert holds([]) is True
