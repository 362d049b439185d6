"""Whether the machines of a deployment can read its model, asked before anything is claimed or started."""

from __future__ import annotations

from dataclasses import replace

from canserve.api import Options, SpecError
from canserve.api.preparing import Prepared
from canserve.api.wished import UpWishes, absolute
from canserve.checks.deployment import CHECKS
from canserve.engines import ray
from canserve.probes.placed import look
from canserve.run.carrying import mounted, weights_place
from canserve.subjects.deployment import Deployment, Image
from canserve.subjects.placed import ModelRead
from canserve.verdict import Finding, No, Unknown


def readable(it: Prepared, wishes: UpWishes, options: Options) -> Prepared:
    """The same with what was found, and a note where it is not known. Raises SpecError where a machine cannot read the model."""
    findings = judged(it, wishes, options)
    for one in findings:
        if isinstance(one.verdict, No):
            raise SpecError(f"{one.check} on {one.about}: {one.verdict.because}", one.verdict.fix)
    unknown = tuple(
        f"{one.check} is not known on {one.about}: {one.verdict.because}; {one.verdict.ask}"
        for one in findings
        if isinstance(one.verdict, Unknown)
    )
    return replace(it, notes=(*it.notes, *unknown), findings=(*it.findings, *findings))


def judged(it: Prepared, wishes: UpWishes, options: Options) -> tuple[Finding, ...]:
    """A finding for each machine that reads the model; none where it does not lie on machines."""
    one = it.deployment
    cache = None if wishes.hub_cache is None else absolute(wishes.hub_cache, "the Hub cache")
    place = weights_place(one, cache)
    names = _readers(one)
    if place is None or not names:
        return ()
    if options.progress is not None:
        options.progress("looking whether the machines can read the model")
    mount = mounted(one.model, one.given.mounts)
    top = mount.source if mount is not None else cache if isinstance(one.where, Image) else None
    placed, who = look(names, {node.name: node for node in it.nodes}, place, top, one.where)
    read = ModelRead(
        model=one.model,
        placed=placed,
        who=who,
        program=one.program,
        mounts=one.given.mounts,
        fetched=not one.model.startswith("/"),
        coming=frozenset(
            name for carry in it.carries if carry.wanted.weights is not None for name in carry.to
        ),
    )
    found = [check.judge(read, name) for check in CHECKS for name in names]
    return tuple(each for each in found if isinstance(each, Finding))


def _readers(it: Deployment) -> list[str]:
    """Machines on which the model is read: over Ray on all, else where processes hold ranks."""
    if any(ray.starts(process.argv) for process in it.processes):
        return [site.name for site in it.sites]
    return list(dict.fromkeys(process.host for process in it.processes if process.ranks))
