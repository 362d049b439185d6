"""driver-new-enough: the machine's NVIDIA driver runs the CUDA that the build's torch was made with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from canserve.checks.case import Case
from canserve.checks.machine.stated import machine_of, read_stated
from canserve.checks.reader import Check, NotApplicable, Reader
from canserve.engines import engine_named
from canserve.engines.requirements import requirement
from canserve.facts import Known, Missing
from canserve.rules import cuda as rules
from canserve.rules.cuda import NO_CUDA, numbers
from canserve.rules.table import Row, load
from canserve.verdict import No, Unknown, Verdict, Yes

if TYPE_CHECKING:
    from canserve.subjects.machine import Machine


CONTAINERS = ("image", "container")
"""Origins that may bring NVIDIA's compatibility package, which stands in for a newer driver."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The CUDA a build was made with, as ``13.0``, how that is known, and what the user must see to."""

    cuda: str
    known_by: str
    needs: tuple[str, ...] = ()


def new_enough(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``driver-new-enough``."""
    machine = machine_of(case)
    vendor = reader.read(machine.vendor)
    if vendor != "nvidia":
        raise NotApplicable(f"{vendor} accelerators have no NVIDIA driver")
    wanted = wanted_cuda(reader, case, machine)
    if isinstance(wanted, Unknown):
        return wanted
    oldest, own = rules.family(wanted.cuda), rules.toolkit(wanted.cuda)
    if oldest is None:
        return Unknown(
            f"no rule says which driver CUDA {wanted.cuda} needs", "update canserve, or start it once"
        )
    reader.cite((oldest.evidence(f"CUDA {wanted.cuda} runs from driver {oldest.text('driver')} on"),))
    if own is not None:
        reader.cite((own.evidence(f"CUDA {wanted.cuda} came with driver {own.text('driver')}"),))
    return _judge(reader, case, wanted, oldest, own)


def _judge(reader: Reader, case: Case, wanted: Wanted, oldest: Row, own: Row | None) -> Verdict:
    machine = machine_of(case)
    what = f"CUDA {wanted.cuda} ({wanted.known_by})"
    minimum = oldest.text("driver")
    if not isinstance(machine.driver, Known) and isinstance(machine.cuda, Known):
        return _by_cuda(reader.read(machine.cuda), machine, wanted, what)
    driver = read_stated(reader, machine.driver, f"{what} needs driver {minimum} or newer")
    have, at_least = numbers(driver), numbers(minimum)
    if have is None or at_least is None:
        return Unknown(f"{driver!r} is not a driver version", "state it as nvidia-smi prints it: 580.95.05")
    if have < at_least:
        return _too_old(
            reader, case, wanted, f"{what} needs driver {minimum} or newer; the machine has {driver}", minimum
        )
    complete = numbers(own.text("driver")) if own is not None else None
    if complete is not None and have >= complete:
        return Yes(f"driver {driver} runs {what}", wanted.needs)
    newer = own.text("driver") if own is not None else "the driver that came with it"
    return Unknown(
        f"driver {driver} runs machine code of {what}, but compiles its PTX only from {newer} on; whether "
        "this build needs PTX on this GPU was not read",
        f"update the driver to {newer}, or start it once",
    )


def _by_cuda(served: str, machine: Machine, wanted: Wanted, what: str) -> Verdict:
    """The machine states the newest CUDA its driver serves (as nvidia-smi prints it), not the driver."""
    have, want = numbers(served), numbers(wanted.cuda)
    if have is None or want is None:
        return Unknown(f"{served!r} is not a CUDA version", "state it as nvidia-smi prints it: 13.0")
    if have >= want:
        return Yes(
            f"the driver of {machine.subject} serves CUDA {served}, and the build needs {what}", wanted.needs
        )
    if have[0] == want[0]:
        return Unknown(
            f"the driver serves CUDA {served}, older than {what}: machine code runs, PTX is not compiled",
            "update the driver, or start it once",
        )
    return No(
        f"the driver serves CUDA {served}; the build needs {what}",
        "update the driver, or use a build for an older CUDA",
    )


def _too_old(reader: Reader, case: Case, wanted: Wanted, because: str, minimum: str) -> Verdict:
    major, _, minor = wanted.cuda.partition(".")
    package = f"cuda-compat-{major}-{minor}"
    if any(word in case.build.identity.origin for word in CONTAINERS):
        compat = case.build.stack.cuda_compat
        if isinstance(compat, Missing):
            return Unknown(
                f"{because}; whether the image brings {package} was not read",
                f"look for {package} in the image",
            )
        brought, least = reader.read(compat), numbers(minimum) or ()
        if brought is not None and (numbers(brought) or ()) >= least:
            kinds = " and ".join(load(rules.FILE).data["forward_compatibility"]["kinds"])
            return Unknown(
                f"{because}; the image brings {brought}, which stands in for a newer driver on {kinds} alone",
                "start it once, or update the driver",
            )
    return No(
        because,
        f"update the driver to {minimum} or newer, or use a build for an older CUDA "
        f"(data-center GPUs: {package} also helps)",
    )


def wanted_cuda(reader: Reader, case: Case, machine: Machine) -> Wanted | Unknown:
    """The CUDA of the torch beside the engine, else of the build's version, else of the torch it requires."""
    identity = case.build.identity
    beside = reader.read(case.build.torch) if isinstance(case.build.torch, Known) else None
    stated = case.build.stack.torch_cuda
    if beside and isinstance(stated, Known) and stated.value is not None:
        return _named(reader.read(stated) or NO_CUDA, f"torch {beside} beside it was built with it")
    if beside and (named := rules.local_cuda(beside)):
        return _named(named, f"torch {beside} lies beside it")
    version = reader.try_read(identity.version)
    if beside is None and version and (named := rules.local_cuda(version)):
        return _named(named, f"the build's version says {version}")
    asked = f"=={beside}" if beside else _requirement(reader, case)
    if asked is None:
        raise NotApplicable("the build requires no torch, so nothing says which CUDA it was made with")
    rows = rules.torch(asked)
    if not rows:
        return Unknown(
            f"no rule says which CUDA torch{asked} was made with",
            "judge an environment where torch is installed",
        )
    row = rows[-1]
    x86, arm = row.text("x86_64"), row.text("aarch64")
    reader.cite((row.evidence(f"torch {row.text('version')}: CUDA {x86} on x86_64, {arm} on aarch64"),))
    return _indexed(reader, machine, row)


def _requirement(reader: Reader, case: Case) -> str | None:
    """Which torch a usual installation of the build requires; None: none."""
    identity = case.build.identity
    requires = reader.read(identity.requires)
    engine = engine_named(identity.engine)
    return engine.requirement(requires, "torch") if engine else requirement(requires, "torch")


def _named(cuda: str, known_by: str) -> Wanted | Unknown:
    if cuda == NO_CUDA:
        return Unknown(
            f"{known_by}, which is built without CUDA", "install a torch with CUDA, or name a CUDA build"
        )
    return Wanted(cuda, known_by)


def _indexed(reader: Reader, machine: Machine, row: Row) -> Wanted:
    """What the package index's wheel of a torch release brings to the machine's CPU."""
    release = row.text("version")
    cuda = row.text("x86_64")
    cpu = reader.try_read(machine.cpu_arch)
    if cpu == "aarch64" and row.text("aarch64") == NO_CUDA:
        need = f"torch=={release} from an index with CUDA builds for aarch64: the package index has none"
        return Wanted(cuda, f"torch {release}, if taken for the CUDA of its x86_64 wheel", (need,))
    return Wanted(cuda, f"torch {release}")


DRIVER = Check(
    "driver-new-enough",
    "The machine's NVIDIA driver runs programs made with the CUDA release of the build's torch.",
    new_enough,
    needs_machine=True,
    of_accelerators=True,
)
