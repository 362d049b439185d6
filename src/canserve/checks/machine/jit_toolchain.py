"""jit-toolchain-present: the compilers that the build calls at run time are there, and know the machine's GPU.

Triton compiles the C code of its launcher when its first kernel starts; FlashInfer and DeepGEMM compile with nvcc
what they do not bring.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TypeVar

from canserve.checks.case import Case
from canserve.checks.machine.stated import NOT_AROUND, machine_of, read_around
from canserve.checks.machine.triton_compiler import nvcc_knows
from canserve.checks.names import some
from canserve.checks.reader import Check, NotApplicable, Reader
from canserve.checks.wish import normalized
from canserve.facts import Cause, Fact, Known, Missing
from canserve.rules import stack as rules
from canserve.rules.table import covers
from canserve.verdict import No, Unknown, Verdict, Yes

T = TypeVar("T")


def present(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``jit-toolchain-present``."""
    if reader.read(machine_of(case).vendor) != "nvidia":
        raise NotApplicable("which compilers builds for other vendors call is not known")
    stack = case.build.stack
    triton, jit = _calls_c(reader, case), _jit(reader, case)
    if not triton and not jit:
        raise NotApplicable("nothing beside the build compiles at run time")
    outside: list[str] = []
    said: list[str] = []
    for wanted, judge in ((triton, _c_compiler), (jit, _nvcc)):
        verdict = judge(reader, case, jit) if wanted else None
        if isinstance(verdict, No | Unknown):
            return verdict
        if isinstance(verdict, str):
            said.append(verdict)
        elif isinstance(verdict, Missing):
            outside.append(verdict.why)
    if not said:
        raise NotApplicable(outside[0] if outside else NOT_AROUND)
    reader.try_read(stack.triton)
    return Yes("; ".join(said), tuple(outside))


def _calls_c(reader: Reader, case: Case) -> bool:
    """Whether there is a Triton that calls a C compiler."""
    triton = read_around(reader, case.build.stack.triton)
    return triton is not None and reader.try_read(triton.compiles) is True


def _jit(reader: Reader, case: Case) -> tuple[str, ...]:
    """Packages that compile with nvcc what no other package beside them has compiled ahead."""
    there = {each.name for each in read_around(reader, case.build.stack.kernels) if not each.kept}
    return tuple(
        row.text("package")
        for row in rules.rows("kernels")
        if row.values.get("jit") and row.text("package") in there and not set(row.texts("ahead")) & there
    )


def _lies_outside(fact: Fact[T]) -> Missing | None:
    """Why it is not known, where it lies around an environment, or in a layer that was not read."""
    return fact if isinstance(fact, Missing) and fact.cause is Cause.UNREACHED else None


def _c_compiler(reader: Reader, case: Case, jit: tuple[str, ...]) -> str | Missing | No | Unknown:
    del jit
    stack = case.build.stack
    if missing := _lies_outside(stack.c_compiler):
        return missing
    compiler = reader.read(stack.c_compiler)
    if compiler is None:
        return _without(reader, case)
    header = stack.python_header
    if isinstance(header, Known) and reader.read(header) is None:
        return Unknown(
            f"{compiler} compiles Triton's launcher, but Python.h, which that includes, was not found",
            "install Python's headers in the image (python3-dev), or start it once",
        )
    return f"Triton's launcher is compiled by {compiler}"


def _without(reader: Reader, case: Case) -> No | Unknown:
    """Without a C compiler: certain only for engines that run kernels of Triton whenever they start."""
    because = (
        "Triton compiles its launcher with a C compiler when its first kernel starts, and the image has none"
    )
    fix = "install gcc in the image, or set CC to a compiler that it has"
    identity = case.build.identity
    version = reader.try_read(identity.version)
    for row in rules.rows("compiles"):
        if row.text("engine") != identity.engine or _changed(case, row.texts("unless")):
            continue
        if version is not None and covers(row.text("releases"), version):
            reader.cite((row.evidence(f"releases {row.text('releases')} start kernels of Triton"),))
            return No(because, fix)
    return Unknown(
        f"{because}; whether one is started depends on the model and the flags", f"{fix}, or start it once"
    )


def _changed(case: Case, unless: Sequence[str]) -> bool:
    """Whether the user gave one of these flags, or a part of one (``--compilation-config.mode``)."""
    names = (normalized(flag).partition(".")[0] for flag in case.wish.flags)
    return any(fnmatchcase(name, pattern) for name in names for pattern in unless)


def _nvcc(reader: Reader, case: Case, jit: tuple[str, ...]) -> str | Missing | Unknown:
    stack, packages = case.build.stack, some(jit, 3)
    if missing := _lies_outside(stack.nvcc):
        return missing
    tools = reader.read(stack.nvcc)
    if not tools:
        return Unknown(
            f"{packages} compiles with nvcc what it does not bring, and the image has none",
            "use an image with CUDA's toolkit or with the kernels compiled ahead, or start it once",
        )
    able = nvcc_knows(reader, case, tools)
    if isinstance(able, Missing):
        return (
            able if able.cause is Cause.UNREACHED else Unknown(able.why, able.ask or "ask it: nvcc --version")
        )
    if able is None:
        shown = some([str(tool) for tool in tools], 2)
        return Unknown(
            f"{packages} compiles with nvcc what it does not bring, and none there compiles for this GPU: {shown}",
            "use an image with a newer toolkit, or start it once",
        )
    if isinstance(stack.ninja, Known) and reader.read(stack.ninja) is None:
        return Unknown(
            f"{packages} builds with ninja what it does not bring, and the image has none",
            "install ninja in the image, or start it once",
        )
    return f"{packages} compiles with {able[0].path} of CUDA {able[1]}"


JIT_TOOLCHAIN = Check(
    "jit-toolchain-present",
    "The compilers that Triton, FlashInfer and DeepGEMM call at run time are in the image and know the machine's GPU.",
    present,
    needs_machine=True,
    of_accelerators=True,
)
