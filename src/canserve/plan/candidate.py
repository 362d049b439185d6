"""What a plan is made of: a model, a build that was judged, machines, a layout, and wishes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from canserve.checks.case import Wish
from canserve.engines import engine_named
from canserve.facts import Cause, Fact, Known, Missing
from canserve.layout import Host, Layout
from canserve.layout.judged import Judged as Rulings
from canserve.memory.request import Request, Serving
from canserve.plan.wishes import Wishes
from canserve.subjects import launch
from canserve.subjects.build import Build
from canserve.subjects.cluster import Node
from canserve.subjects.model import Model
from canserve.subjects.parallel import Device
from canserve.verdict import Finding, Skipped

VENDORS = frozenset({"nvidia", "amd"})
"""Whose accelerators the memory rules were looked up for; others have workers of their own in every engine."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A build that was read, and what was found about it with the model on the machines."""

    target: str
    build: Build
    findings: tuple[Finding, ...]
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()
    options: Mapping[str, object] = field(default_factory=dict)
    """Engine options that were asked for and that this build knows."""
    wish: Wish = field(default_factory=Wish)
    """The same, as checks read it."""
    indexed: bool = False
    """Whether the release index told of it; what that does not hold is not judged."""

    @property
    def engine(self) -> str:
        """Its engine."""
        return self.build.identity.engine

    @property
    def version(self) -> str:
        """Of the engine; empty where it is not known."""
        version = self.build.identity.version
        return version.value if isinstance(version, Known) else ""


@dataclass(frozen=True, slots=True)
class Machines:
    """The machines that plans may use."""

    hosts: tuple[Host, ...]
    networks: Mapping[str, launch.Host]
    """By name: how commands reach them."""
    devices: Mapping[str, Fact[Device]]
    """By name: one accelerator of each."""
    nodes: Mapping[str, Node] = field(default_factory=dict)
    """By name: what is known of each, where several may have to serve together."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Everything that a plan is made of."""

    model: Model
    judged: Judged
    machines: Machines
    layout: Layout
    wishes: Wishes
    rulings: Rulings
    """The constraints on layouts of this build."""
    options: Mapping[str, object] = field(default_factory=dict)
    """Engine options, what the wishes ask for included."""

    def request(self, **more: object) -> Fact[Request]:
        """What the engine's memory rules are asked; Missing where an accelerator's memory is not known."""
        devices = []
        for rank in self.layout.placement.ranks:
            device = self.machines.devices[rank.machine]
            if isinstance(device, Missing):
                return device
            vendor = device.value.machine.vendor
            if isinstance(vendor, Known) and vendor.value not in VENDORS:
                why = f"how {self.judged.engine} divides the memory of {vendor.value} accelerators is not known here"
                return Missing(
                    Cause.UNAVAILABLE, why, vendor.evidence, "start it once and read what it prints"
                )
            devices.append(device.value)
        if not self.judged.version:
            why = f"the version of {self.judged.target} is not known"
            return Missing(Cause.UNAVAILABLE, why, ask="name a build whose version can be read")
        options = {**self.options, **more}
        return Known(Request(self.model, self.judged.version, self.layout.placement, tuple(devices), options))

    def serving(self, **more: object) -> Fact[Serving]:
        """What it holds, with these options beside or instead of its own."""
        shape = self.rulings.question.shape
        if isinstance(shape, Missing):  # nobody knows which layers a rank has
            return shape
        return served(self.judged.engine, self.request(**more))


def served(engine: str, request: Fact[Request]) -> Fact[Serving]:
    """What the engine's memory rules say; Missing where a number or a rule is missing."""
    rules = engine_named(engine)
    if isinstance(request, Missing):
        return request
    if rules is None:
        return Missing(Cause.UNAVAILABLE, f"nothing is known of the memory of {engine}")
    weights = rules.weights(request.value)
    return weights if isinstance(weights, Missing) else rules.memory(request.value, weights.value)
