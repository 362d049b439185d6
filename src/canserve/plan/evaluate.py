"""One candidate: a build on a legal layout, with memory, speed, commands and findings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from canserve.checks.case import Case, Deployment
from canserve.checks.layout import judge
from canserve.checks.machine.environment import ENVIRONMENT
from canserve.checks.machines import for_serving
from canserve.checks.pipeline import CHECK as PIPELINE
from canserve.engines import engine_named
from canserve.engines.starting import option_names, start
from canserve.facts import Fact, Known, Missing
from canserve.memory.quantity import Quantity
from canserve.memory.request import Request, Serving
from canserve.plan.candidate import Candidate
from canserve.plan.plan import Plan, Speed
from canserve.plan.settle import settled
from canserve.plan.speed import speed
from canserve.subjects import launch
from canserve.subjects.cluster import Cluster
from canserve.verdict import Finding, Skipped

SHORTEST = 4096
"""Tokens of the shortest sequences of the curve."""


def evaluate(it: Candidate) -> Plan:
    """The whole plan, with the settings that nobody asked for chosen so that it starts and holds a request."""
    it, serving, notes = settled(it)
    request = it.request()
    started = start(launch.Launch(it.model, it.judged.build, it.layout.placement, _hosts(it), it.options))
    deployment = Deployment(
        it.rulings,
        it.layout.placement.parallel,
        it.layout.placement,
        request.value.devices if isinstance(request, Known) else (),
        serving,
        it.wishes.concurrency or 1,
        started,
    )
    between, unasked = _together(it)
    return Plan(
        model=it.model.subject,
        build=it.judged.target,
        engine=it.judged.engine,
        version=it.judged.version,
        placement=it.layout.placement,
        options=it.options,
        serving=serving,
        speed=_speed(it, request, serving),
        start=started,
        findings=(*_with_commands(it, deployment), *_findings(it, deployment), *between),
        skipped=(*it.judged.skipped, *unasked),
        notes=(*it.judged.notes, *notes),
    )


def _speed(it: Candidate, request: Fact[Request], serving: Fact[Serving]) -> Fact[Speed]:
    """With the weights as the engine loads them: quantized online, experts cut over replicas."""
    if isinstance(request, Missing):
        return request
    rules = engine_named(it.judged.engine)
    known = serving.value if isinstance(serving, Known) else None
    return speed(request.value, known, rules.loading(request.value) if rules else None)


def _hosts(it: Candidate) -> tuple[launch.Host, ...]:
    names = dict.fromkeys(rank.machine for rank in it.layout.placement.ranks)
    return tuple(it.machines.networks[name] for name in names)


def _together(it: Candidate) -> tuple[tuple[Finding, ...], tuple[Skipped, ...]]:
    """Whether the machines of the layout can serve together, and run the build where it is an image."""
    names = dict.fromkeys(rank.machine for rank in it.layout.placement.ranks)
    nodes = tuple(it.machines.nodes[name] for name in names if name in it.machines.nodes)
    image = it.judged.build.identity.in_container
    return for_serving(Cluster(", ".join(names), nodes), image=image) if nodes else ((), ())


def _with_commands(it: Candidate, deployment: Deployment) -> Iterator[Finding]:
    """What was found of the build; what an image binds ranks to is judged anew, with the commands that start them."""
    build = it.judged.build
    devices = [it.machines.devices[rank.machine] for rank in it.layout.placement.ranks]
    machines = [one.value.machine for one in devices if isinstance(one, Known)]
    by_about = {f"{build.identity.subject} on {machine.subject}": machine for machine in machines}
    for finding in it.judged.findings:
        machine = by_about.get(finding.about) if finding.check == ENVIRONMENT.name else None
        again = ENVIRONMENT.judge(Case(it.model, build, machine, it.judged.wish, deployment=deployment))
        yield again if machine is not None and isinstance(again, Finding) else finding


def _findings(it: Candidate, deployment: Deployment) -> Iterator[Finding]:
    """The checks of the layout, by the same code as those of the build."""
    stages = deployment.parallel.pp
    wish = replace(it.judged.wish, pipeline_parallel=stages)
    case = Case(it.model, it.judged.build, wish=wish, deployment=deployment)
    yield from judge(case)[0]
    if stages > 1 and isinstance(judged := PIPELINE.judge(case), Finding):
        yield judged


def curve(it: Candidate, longest: int) -> tuple[tuple[int, Quantity], ...]:
    """How many sequences fit at once, by length: fourfold steps up to the longest."""
    name = option_names(it.judged.engine).get("context")
    if name is None:
        return ()
    lengths = [SHORTEST << 2 * step for step in range(12) if SHORTEST << 2 * step < longest]
    points = []
    for length in (*lengths, longest):
        found = it.serving(**{name: length})
        if isinstance(found, Known):
            points.append((length, found.value.max_concurrency))
    return tuple(points)
