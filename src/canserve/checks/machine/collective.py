"""collective-library-loads: torch gets a copy of NCCL, no older than the one that it was made with."""

from __future__ import annotations

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from canserve.checks.case import Case
from canserve.checks.machine.stated import machine_of, read_around
from canserve.checks.reader import Check, NotApplicable, Reader
from canserve.facts import Cause, Known, Missing
from canserve.rules import stack as rules
from canserve.subjects.stack import Loaded
from canserve.verdict import No, Unknown, Verdict, Yes


def loads(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``collective-library-loads``."""
    if reader.read(machine_of(case).vendor) != "nvidia":
        raise NotApplicable("other vendors' accelerators have other libraries")
    stack = case.build.stack
    loaded = read_around(reader, stack.nccl_loaded)
    if loaded is None:
        raise NotApplicable("torch links against no NCCL library of its own")
    if loaded.path is None:
        return _absent(reader, case, loaded)
    if isinstance(loaded.version, Missing) and loaded.version.cause is not Cause.UNREACHED:
        reader.read(loaded.version)
    version = reader.try_read(loaded.version)
    if (doubt := _other(reader, case, loaded)) is not None:
        return doubt
    wanted = reader.try_read(stack.torch_requires_nccl)
    if version is None:
        return Unknown(
            f"torch gets {loaded.path}, by {loaded.because}; its release was not read", "add --deep"
        )
    needs = () if loaded.certain else ("no LD_LIBRARY_PATH that names another copy",)
    if wanted is not None and (older := _older(version, wanted)):
        return Unknown(
            f"torch requires NCCL {wanted} and gets {version} ({loaded.path}, by {loaded.because}): functions that "
            f"came after {older} are not in it",
            "install the NCCL that torch requires, or start it once",
        )
    made = f"; torch requires {wanted}" if wanted else ""
    return Yes(f"torch gets NCCL {version}: {loaded.path}, by {loaded.because}{made}", needs)


def _absent(reader: Reader, case: Case, loaded: Loaded) -> Verdict:
    """No folder of the loader has one; where there is none at all that is certain."""
    copies = case.build.stack.nccl
    if isinstance(copies, Known) and all(look.whole for look in copies.evidence):
        found = reader.read(copies)
        if not found:
            return No(f"{loaded.because}, nor is there any in the image", "install NCCL in the image")
        return Unknown(f"{loaded.because}; there is {found[0].path}", "set LD_LIBRARY_PATH, or look with ldd")
    return Unknown(loaded.because, "look with ldd")


def _older(version: str, wanted: str) -> str | None:
    """The release that is wanted, where this one is older than all that will do."""
    try:
        allowed, found = SpecifierSet(wanted), Version(version)
        bounds = [Version(each.version) for each in allowed if each.operator in {"==", ">=", "~="}]
    except (InvalidSpecifier, InvalidVersion):
        return None
    return str(found) if bounds and found < max(bounds) else None


def _other(reader: Reader, case: Case, loaded: Loaded) -> Unknown | None:
    """A variable of the image by which the engine loads another copy than torch."""
    pins = case.build.stack.pins
    copies = case.build.stack.nccl
    for name, value in (reader.read(pins) if isinstance(pins, Known) else {}).items():
        row = rules.bound(name)
        if row is None or not row.values.get("loads") or not rules.heeded(row, case.build.identity.engine):
            continue
        reader.cite((row.evidence(f"{name} names the copy that the engine loads"),))
        there = isinstance(copies, Known) and value.lstrip("/") in {tool.path for tool in copies.value}
        if value.lstrip("/") != loaded.path and "/" in value:
            what = "another copy than torch gets" if there else "a file that was not found in the image"
            return Unknown(
                f"the image sets {name}={value}, {what} ({loaded.path})", f"start it with -e {name}="
            )
    return None


COLLECTIVE_LOADS = Check(
    "collective-library-loads",
    "The copy of NCCL that torch's libraries get is there, and no older than the one that torch requires.",
    loads,
    needs_machine=True,
    of_accelerators=True,
)
