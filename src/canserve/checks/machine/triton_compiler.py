"""triton-compiler-knows-gpu: the assembler that Triton calls compiles for the machine's compute capability."""

from __future__ import annotations

from dataclasses import dataclass

from canserve.checks.case import Case
from canserve.checks.machine.stated import machine_of, read_around
from canserve.checks.reader import Check, NotApplicable, Reader
from canserve.facts import Known, Missing
from canserve.rules import stack as rules
from canserve.subjects.stack import Tool, Triton
from canserve.units import Capability
from canserve.verdict import No, Unknown, Verdict, Yes

OLDER, NEWER = "ptxas", "ptxas-blackwell"
ASK = "look for ptxas in its package"


def knows(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``triton-compiler-knows-gpu``."""
    capability = reader.read(machine_of(case).capability)
    if capability is None:
        raise NotApplicable("the accelerator has no compute capability")
    triton = read_around(reader, case.build.stack.triton)
    if triton is None:
        raise NotApplicable("Triton is not beside the build")
    used = _used(reader, triton, capability)
    if not used:
        return Unknown("the assembler that Triton calls is not where releases have had theirs", ASK)
    verdicts = [_judge(reader, each, capability) for each in used]
    refused = [verdict for verdict in verdicts if isinstance(verdict, No)]
    doubts = [verdict for verdict in verdicts if not isinstance(verdict, No)]
    if not refused:
        return next((verdict for verdict in doubts if isinstance(verdict, Unknown)), doubts[0])
    if doubts:
        return Unknown(f"{refused[0].because}; which one Triton takes was not understood", refused[0].fix)
    if triton.by_torch is not None and not triton.named:
        other = _judge(reader, _Used("the ptxas that torch brings", triton.by_torch, ""), capability)
        if not isinstance(other, No):
            return Unknown(
                f"{refused[0].because}, unless torch's compiler puts its own in place", refused[0].fix
            )
    return refused[0]


@dataclass(frozen=True, slots=True)
class _Used:
    """An assembler that Triton calls, or may call."""

    shown: str
    tool: Tool
    variable: str
    """What names another one instead."""


def _used(reader: Reader, triton: Triton, capability: Capability) -> list[_Used]:
    """The one that it calls for this GPU; all that it may, where how it chooses was not understood."""
    brought = {tool.path.rpartition("/")[2]: tool for tool in triton.assemblers}
    names = sorted(brought)
    bound = reader.try_read(triton.newer_from)
    if isinstance(triton.newer_from, Known):
        newer = bound is not None and capability >= Capability.of(bound)
        names = [NEWER if newer else OLDER]
    found = []
    for name in names:
        row = rules.assembler_row(name)
        variable = row.text("variable") if row else ""
        if row is not None and variable in triton.named:
            reader.cite((row.evidence(f"{variable} names the assembler"),))
            found.append(_Used(f"the one that {variable} names", triton.named[variable], variable))
        elif name in brought:
            found.append(_Used(f"the {name} that Triton brings", brought[name], variable))
    return found


def _judge(reader: Reader, used: _Used, capability: Capability) -> Verdict:
    version = read_around(reader, used.tool.version)
    release = rules.assembler(version)
    if release is None:
        return Unknown(
            f"no rule says which GPUs {used.shown} knows: it is of CUDA {version}", "start it once"
        )
    reader.cite((release.evidence(f"ptxas of CUDA {release.text('cuda')}"),))
    if rules.assembles(release, capability):
        return Yes(f"{used.shown} is of CUDA {version} and compiles for compute capability {capability}")
    first = rules.first_assembling(capability)
    newer = f"CUDA {first} or newer" if first else "a CUDA release that knows it"
    return No(
        f"{used.shown} is of CUDA {version} and does not compile for compute capability {capability}: no kernel of "
        "Triton starts there",
        f"set {used.variable} to the ptxas of {newer}, or use a build with a Triton that brings one",
    )


def nvcc_knows(reader: Reader, case: Case, tools: tuple[Tool, ...]) -> tuple[Tool, str] | Missing | None:
    """The first of these compilers that compiles for the machine's GPU; None: none does; Missing: not known."""
    capability = reader.read(machine_of(case).capability)
    unsure: Missing | None = None
    for tool in tools:
        if isinstance(tool.version, Missing):
            unsure = tool.version
            continue
        row = rules.assembler(tool.version.value)
        if capability is not None and row is not None and rules.assembles(row, capability):
            reader.cite((*tool.version.evidence, row.evidence(f"CUDA {row.text('cuda')} knows {capability}")))
            return tool, tool.version.value
    return unsure


TRITON_COMPILER = Check(
    "triton-compiler-knows-gpu",
    "The ptxas that Triton calls compiles for the machine's compute capability.",
    knows,
    needs_machine=True,
    of_accelerators=True,
)
