"""launcher-present: the build can start every rank of the layout, where it lies."""

from __future__ import annotations

from canserve.checks.case import NOT_COMPUTED, Case
from canserve.checks.layout.deployed import placed
from canserve.checks.reader import Check, NotApplicable, Reader
from canserve.facts import Cause, Missing
from canserve.verdict import No, Unknown, Verdict, Yes


def run(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``launcher-present``."""
    found = placed(case).start
    if found == NOT_COMPUTED:
        raise NotApplicable("its commands were not written: canserve plan writes them")
    reader.cite((*found.evidence, *case.build.launchers.evidence))
    if isinstance(found, Missing):
        advice = found.ask or "choose another layout"
        return No(found.why, advice) if found.cause is Cause.UNAVAILABLE else Unknown(found.why, advice)
    reader.cite(case.build.flags.evidence)
    if not reader.evidence:
        return Unknown("neither launchers nor flags of the build were read", "read the build in full")
    by_ray = any(process.argv[:1] == ("ray",) for process in found.value.processes)
    if by_ray and (verdict := _without_ray(reader, case)) is not None:
        return verdict
    needs: tuple[str, ...] = ()
    if by_ray and isinstance(case.build.stack.ray, Missing) and not _brings_ray(reader, case):
        needs = ("ray installed beside the build on every machine",)
    count = len(found.value.processes)
    return Yes("one process starts it" if count == 1 else f"{count} processes start it", needs)


def _without_ray(reader: Reader, case: Case) -> No | None:
    """Ray is a package of its own, which some builds use where it is installed and do not bring."""
    ray = case.build.stack.ray
    if isinstance(ray, Missing):
        return None
    if reader.read(ray) is not None:
        return None
    return No(
        "it is started with Ray, which is not installed beside the build",
        "install ray there on every machine, or use a build that brings it",
    )


def _brings_ray(reader: Reader, case: Case) -> bool:
    """Whether the build requires Ray, so that installing it installs that."""
    launchers = reader.try_read(case.build.launchers)
    return launchers is None or "ray" in launchers


CHECK = Check(
    "launcher-present",
    "The build has a launcher that starts every rank of the layout, on every machine.",
    run,
    needs_layout=True,
)
