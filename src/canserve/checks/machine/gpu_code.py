"""gpu-code-present: every extension that will load holds code for the machine's exact GPU.

Compiled code proves that a GPU can run it, not that the code is reached: engines and kernels may refuse a GPU at
run time. Code that is compiled at run time (Triton, CuTe, FlashInfer) is in no extension.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from canserve.checks.case import Case
from canserve.checks.machine.stated import machine_of, read_compiled, read_stated
from canserve.checks.names import some
from canserve.checks.reader import Check, NotApplicable, Reader
from canserve.facts import Fact, Known, Missing
from canserve.rules import cuda, gpu_code
from canserve.rules.gpu_code import Runs
from canserve.subjects.build import Extension
from canserve.verdict import No, Unknown, Verdict, Yes

_WAYS: tuple[Runs, ...] = ("machine code", "ptx", "unknown", "no")
"""From the one that the driver prefers on."""
GUARDS = "compiled code does not prove that a guard at run time lets it through"
OTHER_BUILD = "use a build that is compiled for it, or compile it there"


@dataclass(frozen=True, slots=True)
class _Gpu:
    """The GPU that is judged for."""

    name: str
    """``compute capability 12.1``, ``gfx942``."""
    runs: Callable[[str], Runs]
    near: Callable[[str], bool]
    """Whether a target that does not run is for a sibling of the GPU."""


@dataclass(slots=True)
class _Sorted:
    """Extensions with GPU code, by what they hold for the GPU."""

    runs: list[str] = field(default_factory=list)
    compiled: list[str] = field(default_factory=list)
    """Of those, the ones that hold nothing but PTX for it."""
    isa: list[str] = field(default_factory=list)
    """Versions of that PTX."""
    lacking: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    """Made for one kind of other GPUs alone."""
    unsure: list[str] = field(default_factory=list)
    siblings: dict[str, tuple[int, int, str]] = field(default_factory=dict)
    """Units that only a sibling of the GPU runs: how many, of how many, and for what they are."""


def extensions_of(reader: Reader, case: Case) -> Mapping[str, Fact[Extension]]:
    """The build's extensions; the check does not apply where nobody read them, or there are none."""
    found = read_compiled(reader, case.build.gpu_code)
    if not found:
        raise NotApplicable("the build has no shared libraries")
    return found


def present(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``gpu-code-present``."""
    found = extensions_of(reader, case)
    gpu = _gpu(reader, case)
    known = {name: fact for name, fact in found.items() if isinstance(fact, Known) and fact.value.units}
    unread = [name for name, fact in found.items() if isinstance(fact, Missing)]
    if not known and not unread:
        raise NotApplicable("none of the build's shared libraries holds GPU code")
    told = _Sorted()
    for name, fact in known.items():
        reader.read(fact)
        _sort(told, name, fact.value, gpu)
    verdict = _worst(told, {name: fact.value for name, fact in known.items()}, gpu)
    if isinstance(verdict, No):
        return verdict
    if unread:
        reader.read(found[unread[0]])
    return verdict if isinstance(verdict, Unknown) else _by_driver(reader, case, told, verdict)


def _gpu(reader: Reader, case: Case) -> _Gpu:
    machine = machine_of(case)
    vendor = reader.read(machine.vendor)
    if vendor == "amd":
        processor = read_stated(reader, machine.arch_name, "GPU code is compiled for one processor")
        return _Gpu(processor, lambda target: gpu_code.on_amd(target, processor), lambda _: False)
    capability = reader.read(machine.capability) if vendor == "nvidia" else None
    if capability is None:
        raise NotApplicable(f"which compiled code runs on {vendor} accelerators is not known")
    return _Gpu(
        f"compute capability {capability}",
        lambda target: gpu_code.on_nvidia(target, capability),
        lambda target: gpu_code.is_near(target, capability),
    )


def _sort(told: _Sorted, name: str, extension: Extension, gpu: _Gpu) -> None:
    """Unit by unit: the driver takes one target of each."""
    units = sum(unit.count for unit in extension.units)
    count: dict[Runs, int] = dict.fromkeys(_WAYS, 0)
    near: dict[str, int] = {}
    for unit in extension.units:
        ways = {target: gpu.runs(target) for target in unit.targets}
        best: Runs = next((way for way in _WAYS if way in ways.values()), "no")
        count[best] += unit.count
        if best == "ptx":
            told.isa += [extension.ptx[t] for t, way in ways.items() if way == "ptx" and t in extension.ptx]
        if best == "no" and (targets := [target for target in unit.targets if gpu.near(target)]):
            near[" ".join(targets)] = near.get(" ".join(targets), 0) + unit.count
    if near:
        told.siblings[name] = (sum(near.values()), units, ", ".join(near))
    if count["machine code"] or count["ptx"]:
        told.runs.append(name)
        if not count["machine code"]:
            told.compiled.append(name)
    elif count["unknown"]:
        told.unsure.append(name)
    elif all(gpu_code.is_specific(target) for target in extension.targets) and not near:
        told.elsewhere.append(name)
    else:
        told.lacking.append(name)


def _worst(told: _Sorted, known: Mapping[str, Extension], gpu: _Gpu) -> Verdict:
    essential = {name for name, package in gpu_code.packages().items() if package.essential}
    for package in sorted(essential):
        of_it = [name for name, extension in known.items() if extension.package == package]
        if of_it and all(name in told.lacking for name in of_it):
            return No(f"{package} holds no code for {gpu.name}: {_made_for(known, of_it)}", OTHER_BUILD)
    if told.lacking:
        every = "" if told.runs else ", and no other one holds any"
        return Unknown(
            f"{_files(told.lacking)} no code for {gpu.name} ({_made_for(known, told.lacking)}){every}; "
            "what needs it does not run there",
            "start it once, or use a build that is compiled for it",
        )
    if told.siblings:
        name, (count, units, targets) = max(told.siblings.items(), key=lambda item: item[1][0])
        more = f" (and others in {len(told.siblings) - 1} more files)" if len(told.siblings) > 1 else ""
        return Unknown(
            f"{count} of {units} units of {name} are compiled for {targets} and nothing that runs on "
            f"{gpu.name}{more}",
            "start it once, or use a build that is compiled for it",
        )
    if told.unsure:
        return Unknown(
            f"{_files(told.unsure)} code of a kind that is not known to run on {gpu.name} or not",
            "start it once",
        )
    return _yes(told, gpu)


def _yes(told: _Sorted, gpu: _Gpu) -> Verdict:
    if not told.runs:
        raise NotApplicable(f"its extensions are for other GPUs than {gpu.name}, by design")
    native = len(told.runs) - len(told.compiled)
    said = f"{native} of its extensions hold machine code for {gpu.name}"
    if told.compiled:
        said += f"; {_files(told.compiled)} PTX, compiled at start by the driver"
    if told.elsewhere:
        said += f"; for other GPUs only: {some(told.elsewhere, 3)}"
    return Yes(f"{said} ({GUARDS})")


def _by_driver(reader: Reader, case: Case, told: _Sorted, verdict: Verdict) -> Verdict:
    """Whether the machine's driver compiles the PTX that nothing else stands in for."""
    if not told.compiled or not told.isa or not isinstance(verdict, Yes):
        return verdict
    newest = max(told.isa, key=lambda isa: cuda.numbers(isa) or ())
    row = cuda.ptx(newest)
    if row is None:
        return Unknown(f"no rule says which driver compiles PTX {newest}", "start it once")
    release = row.text("cuda")
    own = cuda.toolkit(release)
    reader.cite((row.evidence(f"PTX {newest} is compiled by the driver of CUDA {release}"),))
    machine = machine_of(case)
    pairs = ((machine.cuda, release), (machine.driver, own.text("driver") if own else ""))
    for fact, least in pairs:
        if isinstance(fact, Known) and (have := cuda.numbers(fact.value)) and (want := cuda.numbers(least)):
            reader.read(fact)
            if have >= want:
                return verdict
            return Unknown(
                f"{_files(told.compiled)} PTX {newest} for it alone, which the driver compiles from CUDA "
                f"{release} on; the machine states {fact.value}",
                f"update the driver to {own.text('driver') if own else f'that of CUDA {release}'}",
            )
    return Yes(verdict.because, (f"a driver for CUDA {release} or newer, to compile PTX {newest}",))


def _made_for(known: Mapping[str, Extension], names: Sequence[str]) -> str:
    targets = {target for name in names for target in known[name].targets}
    return f"compiled for {some(targets, 12)}"


def _files(names: Sequence[str]) -> str:
    return f"{some(names, 3)} {'holds' if len(names) == 1 else 'hold'}"


GPU_CODE = Check(
    "gpu-code-present",
    "Every extension that will load holds machine code or PTX for the machine's exact GPU; whether a guard at run "
    "time lets it through is not judged.",
    present,
    needs_machine=True,
    of_accelerators=True,
)
