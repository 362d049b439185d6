"""From a deployment to the steps that put it into service."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from canserve.commands import claims, serving
from canserve.engines import ray
from canserve.engines.listening import listens
from canserve.plan.steps.describing import description
from canserve.plan.steps.step import Step
from canserve.subjects.deployment import Deployment, Folder, Image, Site
from canserve.subjects.launch import Process

CLAIMING = frozenset({"place", "claim", "describe", "audit", "port-free"})
"""Steps before which nothing is brought to a machine: it may be somebody else's."""
JOINING = 120.0
"""Seconds that a process has to listen for those which join it, and these to join."""


def starting(it: Deployment) -> tuple[Step, ...]:
    """Every step in order: claims on all machines, then the processes, each after those that it needs."""
    return (*(step for site in it.sites for step in _claims(it, site)), *_processes(it))


def kept_up(it: Deployment, policy: str) -> tuple[Step, ...]:
    """Steps for once it serves: from then on its container engines start again what ends, as the policy says."""
    last = max((step.stage for step in starting(it)), default=0) + 1
    what = "the restart policy was not set"
    return tuple(
        Step("restart", one.host, serving.restart(it.program, it.run, number, policy), last, what, number)
        for number, one in enumerate(it.processes)
    )


def ports(it: Deployment, machine: str) -> dict[int, int]:
    """Ports that a machine's processes will listen on, each with the process."""
    return {
        port: number
        for number, process in enumerate(it.processes)
        if process.host == machine
        for port in listens(it.engine, process.argv).all
    }


def endpoint(it: Deployment) -> tuple[str, int] | None:
    """Where requests will be answered: machine and port; None: that is not known."""
    found = ((process.host, listens(it.engine, process.argv).api) for process in it.processes)
    return next(((host, api) for host, api in found if api is not None), None)


def _claims(it: Deployment, site: Site) -> Iterator[Step]:
    at = site.name
    text = claims.said(it.run, it.program, it.operator)
    yield Step("place", at, claims.place(it.state), 0, f"{it.state} cannot be written")
    for name in claims.names(site):
        yield Step("claim", at, claims.claim(it.state, name, text), 0, f"{name} is held")
    line = f"{it.operator} up {it.run}: {it.model} with {it.build}"
    text = description(it, at)
    yield Step("describe", at, claims.describe(it.state, it.run, text), 0, f"{it.state} cannot be written")
    yield Step("audit", at, claims.note(it.state, line), 0, f"{it.state} cannot be written")
    for port in ports(it, at):
        yield Step("port-free", at, claims.free(port), 0, f"port {port} is taken: something listens there")
    yield from _held(it, site)


def _held(it: Deployment, site: Site) -> Iterator[Step]:
    """What is to run has to be there; nothing is fetched while starting."""
    if isinstance(it.where, Image):
        argv = (it.where.program, "image", "inspect", "--format", "{{.Id}}", it.where.name)
        yield Step("image-held", site.name, argv, 0, f"{it.where.program} gives no image {it.where.name}")
    else:
        mine = (process for process in it.processes if process.host == site.name)
        for program in dict.fromkeys(process.argv[0] for process in mine):
            path = f"{it.where.path}/bin/{program}"
            yield Step("program-held", site.name, ("test", "-x", path), 0, f"no program {path}")
        folder = serving.folder(it.state, it.run)
        yield Step("folder", site.name, claims.run_folder(folder), 0, f"{folder} cannot be made")
    for path in it.given.secret_files:
        yield Step("secrets", site.name, ("test", "-r", path), 0, f"{path} cannot be read")


def _processes(it: Deployment) -> Iterator[Step]:
    stage = 1
    for group in _groups(it):
        for number in group:
            yield from _start(it, number, stage)
        for number in group:
            process = it.processes[number]
            port = listens(it.engine, process.argv).join
            if not process.ranks and port is not None:
                what = f"nothing listens on port {port} within {JOINING:.0f} s"
                argv = claims.listening(port)
                yield Step("listens", process.host, argv, stage, what, number, JOINING)
        stage += 1
        clustered = [it.processes[number].argv for number in group if ray.starts(it.processes[number].argv)]
        if clustered and group[0] > 0:
            yield _joined(it, stage)
            stage += 1


def _groups(it: Deployment) -> Iterator[list[int]]:
    """In order; whoever others join, and whoever serves over those that joined, starts alone."""
    group: list[int] = []
    for number, process in enumerate(it.processes):
        if group and (_apart(it, group[-1], process) or process.host in _hosts(it, group)):
            yield group
            group = []
        group.append(number)
    if group:
        yield group


def _hosts(it: Deployment, group: list[int]) -> set[str]:
    return {it.processes[number].host for number in group}


def _apart(it: Deployment, before: int, process: Process) -> bool:
    """Whether a process has to wait for the one before."""
    other = it.processes[before]
    if bool(other.ranks) != bool(process.ranks):
        return True
    first = listens(it.engine, other.argv)
    return first.join is not None and (bool(other.ranks) or ray.starts(other.argv))


def _start(it: Deployment, number: int, stage: int) -> Iterator[Step]:
    process = it.processes[number]
    what = f"{process.argv[0]} was not started"
    if isinstance(it.where, Folder):
        folder = serving.folder(it.state, it.run, number)
        yield Step("folder", process.host, claims.run_folder(folder), stage, f"{folder} cannot be made")
    yield Step("start", process.host, serving.start(it, number), stage, what, number, seconds=120.0)


def _joined(it: Deployment, stage: int) -> Step:
    """All accelerators have joined, as the head's own Ray says."""
    count = ray.accelerators(process.argv for process in it.processes)
    head = next(number for number, process in enumerate(it.processes) if ray.starts(process.argv))
    address = ray.address(process.argv for process in it.processes) or ""
    asked = shlex.join(serving.inside(it, head, ("ray", "status", "--address", address)))
    argv = ("sh", "-c", f'{asked} | grep -q "{ray.joined(count)}"')
    what = f"not all of {count} accelerators joined Ray within {JOINING:.0f} s"
    return Step("joined", it.processes[head].host, argv, stage, what, head, JOINING)
