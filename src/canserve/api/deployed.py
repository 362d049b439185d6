"""The layout that engine flags ask for, for ``check``: whether it is legal, and what its memory holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from canserve.checks.asked_degrees import EVERY, degrees, no_towers, whole_encoder
from canserve.checks.case import Case, Deployment, Wish
from canserve.checks.layout import judge
from canserve.checks.machines import for_serving
from canserve.checks.wish import normalized
from canserve.engines import engine_named
from canserve.facts import Cause, Fact, Known, Missing
from canserve.layout import Host, Layout, Question, hosts, layouts
from canserve.memory.device import one_device
from canserve.memory.request import Request, Serving
from canserve.plan.wishes import read_option
from canserve.subjects.build import Build
from canserve.subjects.cluster import Cluster, Node
from canserve.subjects.machine import Machine
from canserve.subjects.model import Model
from canserve.subjects.parallel import Device
from canserve.verdict import Finding, Skipped

DECIDED = frozenset(name.lstrip("-").replace("-", "_") for name in EVERY)
"""Options that the layout says."""
MOST = 64
"""Accelerators that one machine may be taken to have without saying so."""


def layout_findings(
    model: Model, build: Build, on: Sequence[Machine | Node], wish: Wish
) -> tuple[tuple[Finding, ...], tuple[Skipped, ...]]:
    """What the layout checks say of the degrees that the flags ask for; nothing where they ask for none.

    Of machines that are named, it is also said whether those that the layout takes can serve together.
    """
    parallel = degrees(wish)
    machines = [one.machine if isinstance(one, Node) else one for one in on]
    if parallel is None or not machines:
        return (), ()
    version = build.identity.version
    question = Question(
        model,
        enough(hosts(machines), parallel.ranks),
        build.identity.engine,
        version.value if isinstance(version, Known) else "",
        build,
        whole_encoder=whole_encoder(wish),
        towers=not no_towers(wish),
    )
    answer = layouts(question)
    found = answer.at(parallel)
    between: tuple[tuple[Finding, ...], tuple[Skipped, ...]] = (), ()
    if isinstance(found, Layout):
        taken = {rank.machine for rank in found.placement.ranks}
        named = zip(question.hosts, on, strict=True)
        nodes = [one for host, one in named if host.name in taken and isinstance(one, Node)]
        between = together(nodes, build)
        devices = _devices(question.hosts, found)
        serving = _serving(question, found, devices, wish)
        known = devices.value if isinstance(devices, Known) else ()
        deployment = Deployment(answer.judged, parallel, found.placement, known, serving)
    else:
        deployment = Deployment(answer.judged, parallel)
    findings, skipped = judge(Case(model, build, None, wish, deployment=deployment))
    return (*findings, *between[0]), (*skipped, *between[1])


def together(nodes: Sequence[Node], build: Build) -> tuple[tuple[Finding, ...], tuple[Skipped, ...]]:
    """Whether these machines can serve one model together, and run the build where it is an image."""
    if not nodes:
        return (), ()
    cluster = Cluster(", ".join(node.name for node in nodes), tuple(nodes))
    return for_serving(cluster, image=build.identity.in_container)


def enough(found: tuple[Host, ...], ranks: int) -> tuple[Host, ...]:
    """The machines; one alone that states no number of accelerators is taken to have as many as are asked for."""
    if len(found) == 1 and not found[0].stated and found[0].gpus < ranks:
        return (replace(found[0], gpus=min(ranks, MOST)),)
    return found


def _devices(places: Sequence[Host], layout: Layout) -> Fact[tuple[Device, ...]]:
    """The accelerator of each rank; Missing where a machine states no memory."""
    found = {host.name: one_device(host.machine) for host in places}
    devices = []
    for rank in layout.placement.ranks:
        device = found[rank.machine]
        if isinstance(device, Missing):
            return device
        devices.append(device)
    return Known(tuple(devices))


def _serving(
    question: Question, layout: Layout, devices: Fact[tuple[Device, ...]], wish: Wish
) -> Fact[Serving]:
    """What the engine's memory rules say of it."""
    rules = engine_named(question.engine)
    if isinstance(devices, Missing):
        return devices
    if rules is None or not question.version:
        why = f"the memory rules of {question.engine} {question.version or 'of an unknown version'} are not known"
        return Missing(Cause.UNAVAILABLE, why, ask="start it once")
    request = Request(question.model, question.version, layout.placement, devices.value, _options(wish.flags))
    weights = rules.weights(request)
    return weights if isinstance(weights, Missing) else rules.memory(request, weights.value)


def _options(flags: Mapping[str, str | None]) -> dict[str, object]:
    """Flags as the engine's options: ``--max-model-len 8192`` -> ``max_model_len``, 8192."""
    found = {}
    for flag, value in flags.items():
        if not flag.startswith("--"):
            continue
        try:
            name, known = read_option(normalized(flag) + ("" if value is None else f"={value}"))
        except ValueError:
            continue  # no name that an option of the memory rules has
        found[name] = known
    return {name: value for name, value in found.items() if name not in DECIDED}
