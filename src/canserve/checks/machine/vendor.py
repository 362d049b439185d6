"""gpu-vendor-matches: the build is made for accelerators of this maker."""

from __future__ import annotations

from canserve.checks.architecture import route
from canserve.checks.case import Case
from canserve.checks.gates import resolved
from canserve.checks.machine.stated import machine_of
from canserve.checks.reader import Check, NotApplicable, Reader
from canserve.facts import Known
from canserve.rules.vendors import by_package, by_requirements, by_torch, for_processors
from canserve.verdict import No, Unknown, Verdict, Yes


def matches(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``gpu-vendor-matches``."""
    machine = machine_of(case)
    if isinstance(machine.gpus, Known) and machine.gpus.value == 0:
        return _without(reader, case, machine.gpus)
    vendor = reader.read(machine.vendor)
    torch = case.build.torch
    if isinstance(torch, Known) and torch.value is not None and (row := by_torch(torch.value)) is not None:
        reader.cite((*torch.evidence, row.evidence(f"torch {torch.value}")))
        if row.text("name") == vendor:
            return Yes(f"torch {torch.value} beside it is made for {vendor} accelerators")
        return No(
            f"torch {torch.value} beside it is made for {row.text('name')} accelerators, the machine's are {vendor}",
            f"take an environment or image of this engine made for {vendor}",
        )
    lines = reader.read(case.build.identity.requires)
    found = by_requirements(lines)
    if found is None:
        tags = reader.read(case.build.identity.platforms)
        if vendor != "nvidia" and "any" not in tags:
            return _elsewhere(
                reader, case, vendor, f"a compiled wheel ({tags[0]}) says not for which accelerators"
            )
        raise NotApplicable("nothing it requires is made for one vendor's accelerators only")
    row, line = found
    reader.cite((row.evidence(f"requires {line}"),))
    made_for = row.text("name")
    if made_for == vendor:
        return Yes(f"it requires {line}, which is made for {vendor}")
    return _elsewhere(
        reader, case, vendor, f"this build is made for {made_for} accelerators: it requires {line}"
    )


def _without(reader: Reader, case: Case, none: Known[int]) -> Verdict:
    """On a machine that was looked at and has no accelerator."""
    torch = case.build.torch
    beside = torch.value if isinstance(torch, Known) else None
    if beside is not None and (plain := for_processors(beside)) is not None:
        # What was installed counts, not what the package would have asked for.
        reader.cite((*none.evidence, *torch.evidence, plain.evidence(f"torch {beside}")))
        return Yes(f"torch {beside} beside it is made for processors, and the machine has no accelerator")
    row = by_torch(beside) if beside is not None else None
    if row is not None:
        reader.cite(torch.evidence)
        what = f"torch {beside} beside it is"
    else:
        lines = reader.read(case.build.identity.requires)
        found = by_requirements(lines)
        if found is None:
            raise NotApplicable("nothing it requires is made for one vendor's accelerators only")
        row = found[0]
        what = f"it requires {found[1]}, which is"
    reader.cite((*none.evidence, row.evidence(what)))
    return No(
        f"{what} made for {row.text('name')} accelerators, and the machine has none",
        "name a machine that has one, or a build of this engine made for CPUs",
    )


def _elsewhere(reader: Reader, case: Case, vendor: str, because: str) -> Verdict:
    """Engines publish builds for other vendors outside the package index, from the same source."""
    known = case.build.vendor_quantization
    if isinstance(known, Known) and vendor in known.value:
        reader.cite(known.evidence)
        if (module := _made_for_another(reader, case, vendor)) is not None:
            return Unknown(
                f"{because}; the class was read in {module}, and what a build made for {vendor} takes was not",
                f"name an environment or image of this engine made for {vendor}, and see its notes on this model",
            )
        version = reader.try_read(case.build.identity.version) or "this release"
        return Yes(
            f"its source knows {vendor} accelerators; {because}",
            (f"a build of {version} made for {vendor}, from the engine's own images or index",),
        )
    return Unknown(
        f"{because}; whether its source knows {vendor} was not read",
        f"name an environment or image of this engine made for {vendor}",
    )


def _made_for_another(reader: Reader, case: Case, vendor: str) -> str | None:
    """The module of the model's class, where that is a vendor's own: a build for others takes another, or has none."""
    if reader.try_read(case.model.gguf_architecture) is not None:
        return None
    way, _ = route(reader, case)
    if way is None or way.way not in ("native", "converted"):
        return None
    found = resolved(reader, case, way.served_by)
    row = by_package(found.module) if found is not None else None
    if found is None or row is None or row.text("name") == vendor:
        return None
    reader.cite((row.evidence(f"class {found.name} lies in {found.module}"),))
    return found.module


VENDOR = Check(
    "gpu-vendor-matches",
    "The build is made for accelerators of the machine's vendor, or its source has such a build.",
    matches,
    needs_machine=True,
)
