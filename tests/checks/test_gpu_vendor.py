"""gpu-vendor-matches: a build for one maker's accelerators on another's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from quant_world import UNREAD, judged, listing, machine, skipped
from small_world import case, model, seen, small_class

from canserve.checks.case import Case
from canserve.checks.machine.vendor import VENDOR
from canserve.facts import Cause, Known, Missing
from canserve.rules.vendors import by_requirements, by_torch
from canserve.verdict import No, Unknown, Yes

CUDA = ("torch==2.11.0", "flashinfer-python==0.6.13", "nvidia-cutlass-dsl[cu13]==4.5.2")


def required(
    *lines: str, vendor: str, tag: str = "manylinux_2_28_x86_64", torch: str | None = None, **facts: Any
) -> Case:
    built = listing()
    identity = replace(
        built.identity, requires=Known(lines, seen("METADATA")), platforms=Known((tag,), seen(tag))
    )
    built = replace(built, identity=identity, torch=Known(torch, seen(str(torch))), **facts)
    return case(model(), built, machine=machine(vendor=vendor))


def test_a_build_for_cuda_on_nvidia() -> None:
    verdict = judged(VENDOR, required(*CUDA, vendor="nvidia"))
    assert isinstance(verdict, Yes) and not verdict.needs


def test_on_another_vendor_it_takes_another_build_of_the_release() -> None:
    knows = Known({"amd": ("fp8",)}, seen("platforms/rocm.py"))
    verdict = judged(VENDOR, required(*CUDA, vendor="amd", vendor_quantization=knows))
    assert isinstance(verdict, Yes)
    assert verdict.needs == ("a build of 1.0 made for amd, from the engine's own images or index",)


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("eng.models.small.nvidia.model", Unknown),
        ("eng.models.small.amd.model", Yes),
        ("eng.models.nvidias", Yes),
    ],
)
def test_a_class_that_was_written_for_one_vendor_proves_nothing_for_another(
    module: str, expected: type
) -> None:
    """A build for the other vendor takes another class there, or has none."""
    facts: dict[str, Any] = {
        "vendor_quantization": Known({"amd": ("fp8",)}, seen("platforms/rocm.py")),
        "classes": {"SmallForCausalLM": Known(replace(small_class(), module=module), seen())},
    }
    verdict = judged(VENDOR, required(*CUDA, vendor="amd", **facts))
    assert isinstance(verdict, expected)
    assert (module in getattr(verdict, "because", "")) == (expected is Unknown)
    assert isinstance(judged(VENDOR, required(*CUDA, vendor="nvidia", **facts)), Yes)


def test_a_source_that_says_nothing_of_the_vendor_is_unknown() -> None:
    for knows in (Known({"amd": ("fp8",)}, seen()), UNREAD):
        verdict = judged(VENDOR, required(*CUDA, vendor="intel", vendor_quantization=knows))
        assert isinstance(verdict, Unknown) and "made for intel" in verdict.ask


@pytest.mark.parametrize(
    ("torch", "vendor", "expected"),
    [("2.9.1+cu130", "nvidia", Yes), ("2.9.1+cu130", "amd", No), ("2.9.1+rocm6.4", "amd", Yes),
     ("2.9.1+rocm6.4", "nvidia", No), ("2.9.1+xpu", "intel", Yes)],
)  # fmt: skip
def test_torch_beside_it_decides(torch: str, vendor: str, expected: type) -> None:
    assert isinstance(judged(VENDOR, required(*CUDA, vendor=vendor, torch=torch)), expected)


@pytest.mark.parametrize(
    ("lines", "torch", "said"),
    [
        (CUDA, None, "it requires flashinfer-python==0.6.13"),
        (("torch",), "2.9.1+cu130", "torch 2.9.1+cu130 beside it"),
    ],
)
def test_a_machine_without_accelerators(lines: tuple[str, ...], torch: str | None, said: str) -> None:
    nothing = Missing(Cause.UNAVAILABLE, "it has no accelerator")
    box = machine(vendor=nothing, gpus=0)
    verdict = judged(VENDOR, replace(required(*lines, vendor="nvidia", torch=torch), machine=box))
    assert isinstance(verdict, No) and said in verdict.because and "made for CPUs" in verdict.fix
    for wanted in (CUDA, ("torch",)):  # what was installed counts, not what the package would have asked for
        plain = judged(VENDOR, replace(required(*wanted, vendor="nvidia", torch="2.9.1+cpu"), machine=box))
        assert isinstance(plain, Yes) and "2.9.1+cpu" in plain.because
    any_ = replace(required("torch", vendor="nvidia", torch="2.9.1"), machine=box)
    assert "nothing it requires" in skipped(VENDOR, any_)
    unseen = replace(required(*CUDA, vendor="nvidia"), machine=machine(vendor=nothing))
    assert isinstance(judged(VENDOR, unseen), Unknown), "that nobody saw one is not that there is none"


def test_what_is_for_any_is_not_judged() -> None:
    assert "nothing it requires" in skipped(VENDOR, required("torch", vendor="amd", tag="any"))
    assert "nothing it requires" in skipped(VENDOR, required("torch", vendor="nvidia"))


def test_a_compiled_wheel_that_does_not_say_is_doubted_elsewhere() -> None:
    verdict = judged(VENDOR, required("torch", vendor="amd", vendor_quantization=UNREAD))
    assert isinstance(verdict, Unknown) and "compiled wheel" in verdict.because


def test_extras_and_odd_lines_prove_nothing() -> None:
    assert by_requirements(['nvidia-modelopt; extra == "x"', "!!", "numpy"]) is None
    found = by_requirements(["numpy", "Flashinfer_Python==0.6.3"])
    assert found is not None and found[0].text("name") == "nvidia"
    assert by_torch("2.9.1") is None
    assert by_torch("2.9.1+cpu") is None
