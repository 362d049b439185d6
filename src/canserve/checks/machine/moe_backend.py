"""moe-backend-runs: the kernels for fused experts that are named run on this GPU, by the build's own rules.

Only what is named is judged: without a name the build takes whatever runs. A no says that the build refuses the name
at start-up, on this GPU or for this quantization; a yes, that some kernel behind it says it runs here.
"""

from __future__ import annotations

from collections.abc import Sequence

from canserve.checks.case import Case
from canserve.checks.gates import look
from canserve.checks.reader import Check, NotApplicable, Reader
from canserve.checks.wish import given, normalized
from canserve.facts import Missing
from canserve.subjects.build import CAPABILITIES, MoeBackend
from canserve.verdict import No, Unknown, Verdict, Yes

FLAGS = ("--moe-backend", "--kernel-config.moe_backend")
ELSEWHERE = ("--enable-lora", "--lora-modules", "--all2all-backend")
AUTO = ("auto", "")


def run(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``moe-backend-runs``."""
    assert case.machine is not None
    asked = next((value for flag, value in case.wish.flags.items() if normalized(flag) in FLAGS), None)
    if asked is None or asked in AUTO:
        raise NotApplicable("no kernels for fused experts are named (--moe-backend)")
    if given(case.wish, *ELSEWHERE) is not None:
        raise NotApplicable(f"with {' or '.join(ELSEWHERE)} other kernels may be taken than those named")
    _has_experts(reader, case)
    name = asked.lower().replace("-", "_")
    backends = reader.read(case.build.moe_backends)
    if not any(one.name == name for one in backends):
        raise NotApplicable(f"no rules of the build for {asked} were read")
    capability = reader.read(case.machine.capability)
    if capability is None or capability.tenfold not in CAPABILITIES:
        raise NotApplicable("the rules are for NVIDIA GPUs of known compute capability")
    asking = _asking(reader, case, backends)
    answers = _answers(asking, name, capability.tenfold)
    mine = [one for one in asking if one.name == name and one.classes]
    reader.cite(tuple(look(case, str(one.at), f"{one.oracle}: {_said(one)}") for one in mine or asking[:12]))
    classes = ", ".join(dict.fromkeys(cls for one in mine for cls in one.classes))
    if all(answer is False for answer in answers.values()):
        fix = _fix(asking, capability.tenfold)
        if not mine:
            return No(f"{asked} is no name that {' or '.join(answers)} experts take in this build", fix)
        return No(f"{asked}: none of its kernels ({classes}) runs on compute capability {capability}", fix)
    if all(answer is True for answer in answers.values()):
        return Yes(f"{asked}: {classes} say that they run on compute capability {capability}")
    still = ", ".join(f"{oracle} experts" for oracle, answer in answers.items() if answer is not True)
    return Unknown(f"{asked}: for {still} more decides than the name and the GPU", "start it once")


def _answers(asking: Sequence[MoeBackend], name: str, tenfold: int) -> dict[str, bool | None]:
    """What each oracle says of the name: that it runs, that it is refused, or None."""
    answers: dict[str, bool | None] = {}
    for oracle in sorted({one.oracle for one in asking}):
        names = {one.name: one for one in asking if one.oracle == oracle}
        answers[oracle] = names[name].runs.get(tenfold) if name in names else None if "" in names else False
    return answers


def _said(one: MoeBackend) -> str:
    return (
        f"{one.name} is {', '.join(one.classes)}"
        if one.classes
        else f"takes {one.name or 'names in a form not read'}"
    )


def _has_experts(reader: Reader, case: Case) -> None:
    from canserve.memory.layers import layers
    from canserve.memory.layers.kinds import Experts

    found = layers(case.model)
    if isinstance(found, Missing):
        raise NotApplicable(f"the kinds of the model's layers are not known: {found.why}")
    if not any(isinstance(mlp, Experts) for layer in reader.read(found) for mlp in layer.mlps):
        raise NotApplicable("the model has no experts")


def _asking(reader: Reader, case: Case, backends: Sequence[MoeBackend]) -> list[MoeBackend]:
    """What is asked of this model: by its quantization, and for experts that are left out of it, without one."""
    quantization = reader.read(case.model.quantization)
    wish = case.wish.quantization
    methods = {""} if quantization is None and wish is None else {wish or ""}
    if quantization is not None and wish is None:
        methods = {
            quantization.method,
            quantization.declared,
            quantization.declared.lower(),
            *quantization.aliases,
        }
    of_method = [one for one in backends if one.methods & methods]
    if not of_method:
        raise NotApplicable(f"which kernels {', '.join(sorted(methods - {''}))} experts ask for was not read")
    return [one for one in backends if one.methods & (methods | {""})]


def _fix(asking: Sequence[MoeBackend], tenfold: int) -> str:
    others = sorted({one.name for one in asking if one.runs.get(tenfold) is True})
    return f"leave it out, or use {' or '.join(others[:4])}" if others else "leave it out"


MOE_BACKEND = Check(
    "moe-backend-runs",
    "The kernels for fused experts that are named run on this GPU, by the rules of the build itself.",
    run,
    needs_machine=True,
    of_accelerators=True,
)
