"""Which compiled code runs on which GPU."""

from __future__ import annotations

import doctest

import pytest

from canserve.rules import gpu_code
from canserve.rules.gpu_code import cuda_library, is_near, on_amd, on_nvidia, packages
from canserve.rules.table import load
from canserve.units import Capability


@pytest.mark.parametrize(
    ("target", "capability", "expected"),
    [
        ("sm_80", "8.0", "machine code"),
        ("sm_80", "8.6", "machine code"),
        ("sm_86", "8.9", "machine code"),
        ("sm_89", "8.6", "no"),
        ("sm_80", "9.0", "no"),
        ("sm_80", "8.7", "no"),  # Orin is embedded
        ("sm_87", "8.7", "machine code"),
        ("sm_87", "8.9", "no"),
        ("sm_90a", "9.0", "machine code"),
        ("sm_90a", "10.0", "no"),
        ("sm_120", "12.1", "machine code"),
        ("sm_120a", "12.1", "no"),
        ("sm_120a", "12.0", "machine code"),
        ("sm_120f", "12.1", "machine code"),
        ("sm_121", "12.0", "no"),
        ("sm_121f", "12.0", "no"),
        ("sm_100", "12.1", "no"),
        ("sm_100f", "10.3", "machine code"),
        ("sm_100f", "11.0", "no"),
        ("sm_103f", "10.0", "no"),
        ("sm_140f", "14.1", "unknown"),
        ("sm_140f", "12.1", "no"),
        ("compute_80", "12.1", "ptx"),
        ("compute_120", "12.0", "ptx"),
        ("compute_90", "8.9", "no"),
        ("compute_90a", "12.1", "no"),
        ("compute_90a", "9.0", "ptx"),
        ("compute_120f", "12.1", "ptx"),
        ("compute_80", "8.7", "ptx"),
        ("kind64_90", "9.0", "unknown"),
        ("gfx942", "9.0", "no"),
    ],
)
def test_on_nvidia(target: str, capability: str, expected: str) -> None:
    assert on_nvidia(target, Capability.parse(capability)) == expected


LOADED_BY_AN_H200 = {
    "compute_80": True, "compute_86": True, "compute_89": True, "compute_90": True, "compute_90a": True,
    "compute_100": False, "compute_100f": False, "compute_120": False,
    "sm_80": False, "sm_86": False, "sm_89": False, "sm_90": True, "sm_90a": True,
    "sm_100": False, "sm_100f": False, "sm_120": False,
}  # fmt: skip
"""What cuModuleLoadData took on 2026-11-30, of one empty kernel: driver of CUDA 13.0, ptxas 12.9.86, PTX 8.8."""


@pytest.mark.parametrize(("target", "loads"), LOADED_BY_AN_H200.items())
def test_what_a_real_gpu_loads(target: str, loads: bool) -> None:
    runs = on_nvidia(target, Capability(9, 0))
    way = "ptx" if target.startswith("compute_") else "machine code"
    assert runs == (way if loads else "no")


@pytest.mark.parametrize(
    ("target", "processor", "expected"),
    [
        ("gfx942", "gfx942", "machine code"),
        ("gfx942:sramecc+:xnack-", "gfx942", "machine code"),
        ("gfx90a", "gfx942", "no"),
        ("gfx9-4-generic", "gfx950", "machine code"),
        ("gfx11-generic", "gfx942", "no"),
        ("gfx77-generic", "gfx942", "unknown"),
        ("amdgcnspirv", "gfx942", "unknown"),
        ("sm_90", "gfx942", "no"),
    ],
)
def test_on_amd(target: str, processor: str, expected: str) -> None:
    assert on_amd(target, processor) == expected


def test_siblings_are_of_the_same_major_capability() -> None:
    spark = Capability(12, 1)
    assert [
        is_near(target, spark) for target in ("sm_120a", "sm_120f", "sm_90a", "sm_120", "compute_120a")
    ] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_names_of_cudas_libraries() -> None:
    assert cuda_library("libcudart.faf08d9a.so.13") == ("libcudart", "13")
    assert cuda_library("libcudart-9335f6a2.so.12") == ("libcudart", "12")
    assert cuda_library("libcudart.so.11.0") == ("libcudart", "11.0")
    assert cuda_library("libnvshmem_host.so.3") == ("libnvshmem_host", "3")
    for name in ("libcuda.so.1", "libc10_cuda.so", "libcudart.so", "libnvidia-ml.so.1", "", "libc.so.6"):
        assert cuda_library(name) is None


def test_the_table_and_the_examples_in_the_code() -> None:
    assert doctest.testmod(gpu_code).failed == 0
    assert [name for name, package in packages().items() if package.essential] == ["torch"]
    for section in ("family", "alone", "generic", "package", "runtime", "library"):
        assert all(row.source for row in load(gpu_code.FILE).rows(section))
    for row in load(gpu_code.FILE).rows("family"):
        made_for = Capability.parse(row.text("target").rstrip("f"))
        runs = [Capability.parse(text) for text in row.texts("capabilities")]
        assert made_for == runs[0] and all(each.major == made_for.major and each >= made_for for each in runs)
