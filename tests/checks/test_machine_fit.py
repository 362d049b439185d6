"""cpu-arch-matches and driver-new-enough, every branch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from quant_world import UNREAD, judged, listing, machine, skipped
from small_world import case, model, seen

from canserve.checks.case import Case
from canserve.checks.machine.cpu import CPU_ARCH
from canserve.checks.machine.driver import DRIVER
from canserve.facts import Known, Missing
from canserve.probes.live import Way
from canserve.probes.machine import read_machine
from canserve.verdict import No, Unknown, Yes


def tagged(*tags: str, origin: str = "wheel on the package index", **facts: Any) -> Case:
    built = listing()
    identity = replace(built.identity, platforms=Known(tags, seen(", ".join(tags))), origin=origin)
    return case(model(), replace(built, identity=identity), machine=machine(**facts))


@pytest.mark.parametrize(
    ("tag", "cpu", "expected"),
    [
        ("manylinux1_x86_64", "x86_64", Yes),
        ("manylinux1_x86_64", "aarch64", No),
        ("manylinux_2_28_aarch64", "aarch64", Yes),
        ("linux_x86_64", "aarch64", No),
        ("macosx_11_0_arm64", "aarch64", Yes),
        ("any", "aarch64", Yes),
        ("musllinux_unheard_of", "aarch64", Unknown),
    ],
)
def test_tags_against_the_cpu(tag: str, cpu: str, expected: type) -> None:
    assert isinstance(judged(CPU_ARCH, tagged(tag, cpu_arch=cpu)), expected)


def test_a_no_says_which_wheel_to_take() -> None:
    verdict = judged(CPU_ARCH, tagged("manylinux1_x86_64", cpu_arch="aarch64"))
    assert isinstance(verdict, No) and "wheel or image for aarch64" in verdict.fix


def test_one_fitting_tag_of_several_is_enough() -> None:
    assert isinstance(judged(CPU_ARCH, tagged("linux_x86_64", "linux_aarch64", cpu_arch="aarch64")), Yes)


def test_sources_are_compiled_where_they_are_installed() -> None:
    verdict = judged(CPU_ARCH, tagged("any", origin="source tree", cpu_arch="aarch64"))
    assert isinstance(verdict, Yes) and "compiled" in verdict.needs[0]
    assert judged(CPU_ARCH, tagged("any")) == Yes("the build's files are for any CPU")


def test_a_profile_without_a_cpu_says_what_the_build_is_for() -> None:
    because = skipped(CPU_ARCH, tagged("linux_x86_64"))
    assert "states no cpu arch" in because and "x86_64" in because


def test_a_machine_that_was_not_looked_at_is_unknown() -> None:
    found = replace(tagged("linux_x86_64"), machine=read_machine("spark-1", Way(offline=True)))
    verdict = judged(CPU_ARCH, found)
    assert isinstance(verdict, Unknown) and "profile" in verdict.ask


def test_tags_that_could_not_be_read_are_unknown() -> None:
    built = listing()
    unread = replace(built, identity=replace(built.identity, platforms=UNREAD))
    assert isinstance(judged(CPU_ARCH, case(model(), unread, machine=machine(cpu_arch="x86_64"))), Unknown)


# driver-new-enough -----------------------------------------------------------------------------------


def driven(torch: Any = None, requires: str = "torch==2.9.1", version: str = "1.0", **facts: Any) -> Case:
    origin = facts.pop("origin", "wheel on the package index")
    built = listing(version=version)
    identity = replace(built.identity, requires=Known((requires,), seen(requires)), origin=origin)
    if isinstance(torch, str):
        built = replace(built, torch=Known(torch, seen(torch)))
    elif isinstance(torch, Missing):
        built = replace(built, torch=torch)
    return case(model(), replace(built, identity=identity), machine=machine(**facts))


def test_a_driver_of_the_toolkit_or_newer_is_enough() -> None:
    verdict = judged(DRIVER, driven(driver="580.95.05"))
    assert isinstance(verdict, Yes) and "CUDA 12.8 (torch 2.9.1)" in verdict.because
    assert isinstance(judged(DRIVER, driven(driver="570.86.10")), Yes)


def test_a_driver_of_the_same_family_runs_machine_code_only() -> None:
    verdict = judged(DRIVER, driven(driver="535.104.05"))
    assert isinstance(verdict, Unknown) and "PTX" in verdict.because and "570.86.10" in verdict.ask


def test_a_driver_of_an_older_family_is_a_no() -> None:
    verdict = judged(DRIVER, driven(requires="torch==2.11.0", driver="570.124.06"))
    assert isinstance(verdict, No)
    assert "580.65.06" in verdict.because and "cuda-compat-13-0" in verdict.fix


def test_an_image_may_bring_the_compatibility_package() -> None:
    old = driven(requires="torch==2.11.0", driver="570.124.06", origin="container image")
    assert isinstance(judged(DRIVER, old), Unknown)


def test_the_torch_beside_the_engine_wins_over_what_is_required() -> None:
    verdict = judged(DRIVER, driven(torch="2.9.1+cu130", driver="570.86.10"))
    assert isinstance(verdict, No) and "2.9.1+cu130" in verdict.because
    assert isinstance(judged(DRIVER, driven(torch="2.9.1", driver="570.86.10")), Yes)
    assert isinstance(judged(DRIVER, driven(torch="2.9.1+cpu", driver="570.86.10")), Unknown)


def test_the_builds_own_version_may_name_its_cuda() -> None:
    assert isinstance(judged(DRIVER, driven(version="1.0+cu130", driver="570.86.10")), No)


def test_a_profile_without_a_driver_says_which_is_needed() -> None:
    because = skipped(DRIVER, driven())
    assert "states no driver" in because and "needs driver 525.60.13 or newer" in because


def test_torch_without_cuda_for_the_cpu_is_a_condition() -> None:
    verdict = judged(DRIVER, driven(requires="torch==2.10.0", driver="580.95.05", cpu_arch="aarch64"))
    assert isinstance(verdict, Yes)
    assert verdict.needs and "torch==2.10.0 from an index with CUDA builds for aarch64" in verdict.needs[0]
    later = judged(DRIVER, driven(requires="torch==2.11.0", driver="580.95.05", cpu_arch="aarch64"))
    assert isinstance(later, Yes) and not later.needs


def test_a_range_is_resolved_to_the_newest_release_as_pip_does() -> None:
    verdict = judged(DRIVER, driven(requires="torch>=2.4,<2.7", driver="550.54.14"))
    assert isinstance(verdict, Yes) and "torch 2.6.0" in verdict.because


def test_the_newest_cuda_that_the_driver_serves_may_be_stated_instead() -> None:
    assert isinstance(judged(DRIVER, driven(cuda="13.0")), Yes)
    assert isinstance(judged(DRIVER, driven(cuda="12.4")), Unknown)
    assert isinstance(judged(DRIVER, driven(requires="torch==2.11.0", cuda="12.9")), No)
    assert isinstance(judged(DRIVER, driven(cuda="many")), Unknown)


def test_what_no_rule_knows_is_unknown() -> None:
    assert isinstance(judged(DRIVER, driven(requires="torch==99.0", driver="580.95.05")), Unknown)
    assert isinstance(judged(DRIVER, driven(torch="3.0+cu990", driver="580.95.05")), Unknown)
    assert isinstance(judged(DRIVER, driven(driver="new")), Unknown)


def test_a_toolkit_whose_driver_no_rule_knows_is_unknown() -> None:
    assert isinstance(judged(DRIVER, driven(torch="3.0+cu139", driver="610.43.02")), Unknown)


def test_other_vendors_and_builds_without_torch_are_not_judged() -> None:
    assert "no NVIDIA driver" in skipped(DRIVER, driven(vendor="amd"))
    assert "no torch" in skipped(DRIVER, driven(requires="numpy", driver="580.95.05"))


def test_a_machine_that_was_not_looked_at_has_an_unknown_driver() -> None:
    assert isinstance(
        judged(DRIVER, replace(driven(), machine=read_machine("spark-1", Way(offline=True)))), Unknown
    )
