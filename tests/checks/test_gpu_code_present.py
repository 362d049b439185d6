"""gpu-code-present: every branch, by extensions that hold what real ones hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from quant_world import gpu, judged, listing, machine, skipped
from small_world import case, model, seen

from canserve.checks.case import Case
from canserve.checks.machine.gpu_code import GPU_CODE
from canserve.checks.plain import PLAIN
from canserve.checks.reader import Check
from canserve.facts import Cause, Fact, Known, Missing
from canserve.subjects.build import Extension
from canserve.subjects.gpu_code import Unit
from canserve.subjects.machine import Machine
from canserve.units import Capability
from canserve.verdict import No, Skipped, Unknown, Yes

UNREADABLE = Missing(Cause.UNREADABLE, "eng/_C.so: a section of bytes 1 to 2; the file has 1")
USUAL = ("sm_80", "sm_90", "sm_100", "sm_120")


def extension(*units: tuple[str, ...], package: str = "eng", isa: str = "8.4", count: int = 1) -> Extension:
    ptx = {target: isa for unit in units for target in unit if target.startswith("compute")}
    return Extension(package, "x86_64", tuple(Unit(tuple(sorted(unit)), count) for unit in units), ptx)


def on(where: Machine, **files: Extension | Missing) -> Case:
    """``eng_C`` stands for ``eng/_C.so``."""
    facts: dict[str, Fact[Extension]] = {
        f"{name.replace('_', '/', 1)}.so": one if isinstance(one, Missing) else Known(one, seen(name))
        for name, one in files.items()
    }
    return built(where, Known(facts, seen("libraries")))


def built(where: Machine, fact: Fact[Mapping[str, Fact[Extension]]]) -> Case:
    return case(model(), replace(listing(), gpu_code=fact), machine=where)


def test_machine_code_for_the_gpu() -> None:
    verdict = judged(
        GPU_CODE, on(gpu("9.0"), eng_C=extension(USUAL), torch_a=extension(USUAL, package="torch"))
    )
    assert isinstance(verdict, Yes) and not verdict.needs
    assert "2 of its extensions" in verdict.because and "guard at run time" in verdict.because


@pytest.mark.parametrize(
    ("capability", "expected"), [("12.1", Yes), ("12.0", Yes), ("11.0", Unknown), ("7.5", Unknown)]
)
def test_the_engines_own_extensions_are_not_known_to_be_needed(capability: str, expected: type) -> None:
    assert isinstance(judged(GPU_CODE, on(gpu(capability), eng_C=extension(USUAL))), expected)


def test_a_torch_without_code_is_a_no_whatever_the_engine_has() -> None:
    files = {"eng_C": extension(USUAL), "torch_cuda": extension(("sm_80", "sm_90"), package="torch")}
    verdict = judged(GPU_CODE, on(gpu("12.1"), **files))
    assert isinstance(verdict, No) and "torch holds no code" in verdict.because
    assert "sm_80, sm_90" in verdict.because
    files["torch_cuda"] = extension(("sm_80", "compute_90"), package="torch")
    assert isinstance(judged(GPU_CODE, on(gpu("12.1"), **files)), Yes)


def test_a_part_of_torch_that_lacks_code_is_named() -> None:
    parts = {
        "torch_cuda": extension(("sm_75",), package="torch"),
        "torch_linalg": extension(USUAL, package="torch"),
    }
    verdict = judged(GPU_CODE, on(gpu("7.5"), **parts, eng_C=extension(("sm_75",))))
    assert isinstance(verdict, Unknown) and "torch/linalg.so holds no code" in verdict.because


def test_ptx_is_compiled_by_the_driver() -> None:
    found = on(gpu("12.1"), eng_C=extension(USUAL), eng_fa2=extension(("sm_80", "compute_80"), isa="9.0"))
    verdict = judged(GPU_CODE, found)
    assert isinstance(verdict, Yes) and "eng/fa2.so holds PTX, compiled at start" in verdict.because
    assert verdict.needs == ("a driver for CUDA 13.0 or newer, to compile PTX 9.0",)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"driver": "580.95.05"}, Yes),
        ({"driver": "570.86.10"}, Unknown),
        ({"cuda": "13.0"}, Yes),
        ({"cuda": "12.8"}, Unknown),
    ],
)
def test_the_driver_must_know_that_ptx(facts: Mapping[str, Any], expected: type) -> None:
    where = machine(capability=Capability(12, 1), **facts)
    verdict = judged(GPU_CODE, on(where, eng_C=extension(("sm_80", "compute_80"), isa="9.0")))
    assert isinstance(verdict, expected)
    if isinstance(verdict, Unknown):
        assert "580.65.06" in verdict.ask
    else:
        assert isinstance(verdict, Yes) and not verdict.needs


def test_ptx_of_a_form_that_no_rule_knows() -> None:
    assert isinstance(
        judged(GPU_CODE, on(gpu("12.1"), eng_C=extension(("compute_80",), isa="77.0"))), Unknown
    )


def test_extensions_for_other_gpus_by_design_do_not_count() -> None:
    files = {
        "eng_C": extension(USUAL),
        "eng_fa3": extension(("sm_90a",)),
        "eng_mla": extension(("sm_90a", "sm_100f")),
    }
    verdict = judged(GPU_CODE, on(gpu("12.1"), **files))
    assert isinstance(verdict, Yes) and "for other GPUs only: eng/fa3.so, eng/mla.so" in verdict.because
    assert "by design" in skipped(GPU_CODE, on(gpu("12.1"), eng_fa3=extension(("sm_90a",))))


def test_a_package_beside_that_lacks_code_is_named_and_not_guessed() -> None:
    files = {"eng_C": extension(USUAL), "xformers_C": extension(("sm_80", "sm_90a"), package="xformers")}
    verdict = judged(GPU_CODE, on(gpu("12.1"), **files))
    assert isinstance(verdict, Unknown)
    assert "xformers/C.so holds no code for compute capability 12.1" in verdict.because


def test_units_for_a_sibling_only() -> None:
    """vllm 0.17.0 for aarch64: its FP8 and FP4 units exist for 12.0a alone, which 12.1 does not run."""
    mixed = Extension("eng", "aarch64", (Unit(("sm_120a",), 16), Unit(USUAL, 36), Unit(("sm_90a",), 46)))
    verdict = judged(GPU_CODE, on(gpu("12.1"), eng_C=mixed))
    assert isinstance(verdict, Unknown) and "16 of 98 units of eng/_C.so" in verdict.because.replace(
        "eng/C", "eng/_C"
    )
    assert "sm_120a" in verdict.because
    assert isinstance(judged(GPU_CODE, on(gpu("12.0"), eng_C=mixed)), Yes)
    assert isinstance(judged(GPU_CODE, on(gpu("9.0"), eng_C=mixed)), Yes)


def test_nothing_but_units_for_a_sibling() -> None:
    """lmdeploy 0.18.0: 12.0a alone in all that its C++ engine has; its Python engine needs none of it."""
    verdict = judged(GPU_CODE, on(gpu("12.1"), eng_C=extension(("sm_120a", "sm_90a", "sm_80"))))
    assert isinstance(verdict, Unknown) and "no other one holds any" in verdict.because
    assert isinstance(judged(GPU_CODE, on(gpu("12.1"), eng_C=extension(("sm_120a", "sm_90a")))), Unknown)


def test_code_of_an_unknown_kind_is_unknown() -> None:
    assert isinstance(judged(GPU_CODE, on(gpu("9.0"), eng_C=extension(("kind64_90",)))), Unknown)
    assert isinstance(judged(GPU_CODE, on(gpu("9.0"), eng_C=extension(("kind64_90", "sm_90")))), Yes)


def test_an_extension_that_could_not_be_read_is_unknown_but_no_excuse() -> None:
    verdict = judged(GPU_CODE, on(gpu("9.0"), eng_C=UNREADABLE, eng_D=extension(USUAL)))
    assert isinstance(verdict, Unknown) and "the file has" in verdict.because
    lacking = extension(("sm_80",), package="torch")
    assert isinstance(judged(GPU_CODE, on(gpu("9.0"), eng_C=UNREADABLE, torch_C=lacking)), No)


def test_amd() -> None:
    where = machine(vendor="amd", arch_name="gfx942", capability=None)
    assert isinstance(judged(GPU_CODE, on(where, eng_C=extension(("gfx90a", "gfx942")))), Yes)
    assert isinstance(judged(GPU_CODE, on(where, eng_C=extension(("gfx90a", "gfx1100")))), Unknown)
    torch = extension(USUAL, package="torch")
    assert isinstance(judged(GPU_CODE, on(where, torch_C=torch)), No)
    assert "states no arch" in skipped(GPU_CODE, on(machine(vendor="amd"), eng_C=extension(("gfx942",))))
    assert "not known" in skipped(GPU_CODE, on(machine(vendor="intel"), eng_C=extension(("gfx942",))))


def test_what_nobody_read_makes_no_noise() -> None:
    assert "compiled files were not read" in skipped(GPU_CODE, case(model(), listing(), machine=gpu("9.0")))
    assert "no shared libraries" in skipped(GPU_CODE, on(gpu("9.0")))
    assert "none of the build's shared libraries" in skipped(GPU_CODE, on(gpu("9.0"), eng_C=extension()))
    assert isinstance(judged(GPU_CODE, built(gpu("9.0"), UNREADABLE)), Unknown)


ASKS_OF_ACCELERATORS = [check for check in PLAIN if check.of_accelerators]


def test_which_checks_ask_what_accelerators_need() -> None:
    named = {check.name for check in ASKS_OF_ACCELERATORS}
    assert {GPU_CODE.name, "driver-new-enough", "attention-backend-available"} <= named
    # These tell a build for processors on a machine without accelerators more than that there is nothing to ask.
    assert named.isdisjoint(
        {"cpu-arch-matches", "gpu-vendor-matches", "libc-new-enough", "entrypoint-passes-command"}
    )


@pytest.mark.parametrize("check", ASKS_OF_ACCELERATORS, ids=lambda check: str(check.name))
def test_a_build_for_processors_on_a_machine_without_accelerators(check: Check) -> None:
    none = Missing(Cause.UNAVAILABLE, "box has no accelerator", seen("gpus"), "name a machine that has one")
    bare = machine(gpus=0, vendor=none, capability=none)
    torch: Fact[str | None] = Known("2.13.0+cpu", seen("torch"))

    def asked(where: Machine, torch: Fact[str | None], **files: Extension | Missing) -> Case:
        found = on(where, **files)
        return replace(found, build=replace(found.build, torch=torch))

    assert "no code for accelerators" in skipped(check, asked(bare, torch, eng_C=extension()))
    for doubtful in (
        asked(bare, torch, eng_C=extension(), torch_a=extension(USUAL, package="torch")),  # made for GPUs
        asked(bare, torch, eng_C=extension(), torch_a=UNREADABLE),
        asked(bare, torch),  # nothing that is compiled: what it calls may not be there yet
        asked(bare, Missing(Cause.UNREACHED, "only a distribution"), eng_C=extension()),
        asked(gpu("9.0", gpus=1), torch, eng_C=extension()),
        asked(machine(), torch, eng_C=extension()),  # nobody said that it has none
    ):
        found = check.judge(doubtful)
        assert not (isinstance(found, Skipped) and "machine has none" in found.because)
