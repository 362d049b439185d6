"""triton-compiler-knows-gpu: the assembler that Triton calls compiles for the machine's compute capability."""

from __future__ import annotations

from canserve.checks.case import Case
from canserve.checks.machine.stated import machine_of, read_around
from canserve.checks.reader import Check, NotApplicable, Reader
from canserve.facts import Missing
from canserve.rules import stack as rules
from canserve.subjects.stack import Tool
from canserve.verdict import No, Unknown, Verdict, Yes


def knows(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``triton-compiler-knows-gpu``."""
    capability = reader.read(machine_of(case).capability)
    if capability is None:
        raise NotApplicable("the accelerator has no compute capability")
    triton = read_around(reader, case.build.stack.triton)
    if triton is None:
        raise NotApplicable("Triton is not beside the build")
    brought = {tool.path.rpartition("/")[2]: tool for tool in triton.assemblers}
    row = rules.chosen(brought, capability)
    if row is None:
        return Unknown(
            "Triton brings no assembler where releases have had theirs", "look for ptxas in its package"
        )
    variable, name = row.text("variable"), row.text("assembler")
    named: Tool | None = triton.named.get(variable)
    tool = named or brought[name]
    whose = f"{tool.path}, which the image's {variable} names," if named else f"the {name} that Triton brings"
    version = read_around(reader, tool.version)
    release = rules.assembler(version)
    if release is None:
        return Unknown(f"no rule says which GPUs {whose} knows: it is of CUDA {version}", "start it once")
    reader.cite((row.evidence(f"{name} from {row.text('from')} on"),))
    said = f"compute capability {capability}"
    reader.cite((release.evidence(f"ptxas of CUDA {release.text('cuda')}"),))
    if rules.assembles(release, capability):
        return Yes(f"{whose} is of CUDA {version} and compiles for {said}")
    first = rules.first_assembling(capability)
    newer = f"CUDA {first} or newer" if first else "a CUDA release that knows it"
    return No(
        f"{whose} is of CUDA {version} and does not compile for {said}: no kernel of Triton starts there",
        f"set {variable} to the ptxas of {newer}, or use a build with a Triton that brings one",
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
)
