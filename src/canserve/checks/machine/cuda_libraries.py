"""cuda-libraries-linked: the CUDA libraries that the build's extensions link against are there."""

from __future__ import annotations

from collections.abc import Mapping

from canserve.checks.case import Case
from canserve.checks.machine.driver import wanted_cuda
from canserve.checks.machine.stated import machine_of, read_compiled
from canserve.checks.names import some
from canserve.checks.reader import Check, NotApplicable, Reader
from canserve.engines.requirements import requirement
from canserve.facts import Known, Missing
from canserve.rules.gpu_code import cuda_library, packages, runtime_packages
from canserve.subjects.build import CudaLibrary
from canserve.verdict import No, Unknown, Verdict, Yes

RUNTIME = "libcudart"
"""Without it an extension that links against it is never loaded; others may serve a part that is not used."""


def linked(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``cuda-libraries-linked``."""
    needed = read_compiled(reader, case.build.cuda_needed)
    if not needed:
        raise NotApplicable("no extension of the build links against CUDA's libraries")
    for name in needed:
        _cite(reader, case, needed[name])
    absent = {name: library for name, library in needed.items() if library.found is None}
    if not absent:
        return Yes(
            f"all {len(needed)} of CUDA's libraries that it links against lie in it: {some(needed, 4)}"
        )
    if isinstance(case.build.torch, Missing):  # a distribution alone: its dependencies bring the libraries
        return _by_torch(reader, case, absent)
    return _absent(case, absent)


def _cite(reader: Reader, case: Case, library: CudaLibrary) -> None:
    """The extensions that need it, as far as they were read."""
    extensions = case.build.gpu_code
    if isinstance(extensions, Known):
        for name in library.by[:1]:
            if (found := extensions.value.get(name)) is not None:
                reader.cite(found.evidence)


def _by_torch(reader: Reader, case: Case, absent: Mapping[str, CudaLibrary]) -> Verdict:
    runtimes = [name for name in absent if name.startswith(RUNTIME)]
    if not runtimes:
        raise NotApplicable("only a part of an installation, so that what it links against lies elsewhere")
    requires = reader.read(case.build.identity.requires)
    brought = {name: row for name in runtimes for row in runtime_packages(_major(name))
               if requirement(requires, row.text("package")) is not None}  # fmt: skip
    if len(brought) == len(runtimes):
        packages_of = ", ".join(row.text("package") for row in brought.values())
        for name, row in brought.items():
            reader.cite((row.evidence(f"{row.text('package')} brings {name}"),))
        return Yes(
            f"its extensions link against {', '.join(runtimes)}, which {packages_of} brings: it requires that"
        )
    wanted = wanted_cuda(reader, case, machine_of(case))
    if isinstance(wanted, Unknown):
        return wanted
    majors = {name: _major(name) for name in runtimes}
    what = f"CUDA {wanted.cuda} ({wanted.known_by})"
    wrong = [name for name, major in majors.items() if major != wanted.cuda.partition(".")[0]]
    if not wrong:
        return Yes(f"its extensions link against {', '.join(runtimes)}, as {what} brings it", wanted.needs)
    return Unknown(
        f"{absent[wrong[0]].by[0]} links against {wrong[0]}, and the torch it usually runs with is made for {what}",
        f"install a torch for CUDA {majors[wrong[0]]} beside it, or use a build for CUDA {wanted.cuda}",
    )


def _absent(case: Case, absent: Mapping[str, CudaLibrary]) -> Verdict:
    certain = {name: by for name, library in absent.items() if (by := _essential(case, name, library))}
    name = next(iter(certain or absent))
    library = absent[name]
    other = f"; {', '.join(library.others)} is" if library.others else ""
    more = f", nor are {len(absent) - 1} others" if len(absent) > 1 else ""
    why = f"{certain.get(name, library.by[0])} links against {name}, which is not in it{more}{other}"
    linked_later = any(
        other.startswith(f"{name}.") for other in library.others
    )  # ldconfig makes the short name
    if certain and library.everywhere and not linked_later:
        return No(why, f"use a build for the CUDA that is there, or add the libraries of CUDA {_major(name)}")
    return Unknown(why, f"look for it on the machine: ldconfig -p | grep {name}")


def _essential(case: Case, name: str, library: CudaLibrary) -> str | None:
    """The extension of the engine or of torch that is not loaded without the library; None: there is none."""
    kind = cuda_library(name)
    extensions = case.build.gpu_code
    if kind is None or kind[0] != RUNTIME or isinstance(extensions, Missing):
        return None
    optional = {name for name, package in packages().items() if not package.essential}
    for by in library.by:
        found = extensions.value.get(by)
        if isinstance(found, Known) and found.value.package not in optional:
            return by
    return None


def _major(name: str) -> str:
    found = cuda_library(name)
    return found[1].partition(".")[0] if found else ""


CUDA_LIBRARIES = Check(
    "cuda-libraries-linked",
    "The CUDA libraries that the build's extensions link against are there, in the same major release.",
    linked,
    needs_machine=True,
)
