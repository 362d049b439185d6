"""What is put into service: one plan's processes on real machines, in a container or from an environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from canserve.subjects.launch import Process

STATE = "/var/tmp/canserve"  # noqa: S108 - made with the sticky bit; nothing in it is trusted
"""Where machines keep claims, logs and the audit. Not in a home folder: another operator logs in as somebody else.
Not in ``/tmp``: that is swept while a deployment serves."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image that every machine's container engine holds."""

    program: str
    """``docker`` or ``podman``."""
    name: str


@dataclass(frozen=True, slots=True)
class Folder:
    """An environment that lies under one path on every machine: its programs are in ``bin``."""

    path: str


Where = Image | Folder


@dataclass(frozen=True, slots=True)
class Site:
    """A machine as steps need it."""

    name: str
    """As in ``Process.host``."""
    devices: tuple[int, ...] = ()
    """The accelerators that are used, by index; empty: the processor serves."""
    vendor: str | None = None
    """Of the accelerators; None: there are none, or a container is not started."""
    rdma: bool = False
    """Whether it has device files for RDMA."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder or file of the machine that a container sees; where it is not there, nothing is made in its place."""

    source: str
    target: str
    readonly: bool = True


@dataclass(frozen=True, slots=True)
class Given:
    """What is passed on to every process beside what the plan says."""

    mounts: tuple[Mount, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    """Names of variables that every login on the machines has; their values are never seen here."""
    secret_files: tuple[str, ...] = ()
    """Files on the machines with ``NAME=VALUE`` lines."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """Everything that decides the steps; equal deployments have equal steps."""

    run: str
    """Its name: letters and digits."""
    model: str
    build: str
    engine: str
    where: Where
    sites: tuple[Site, ...]
    """The head first."""
    processes: tuple[Process, ...]
    """In the order in which they are started."""
    operator: str
    """Who, from where and when: ``ana@desk 2026-11-30T14:40:00Z``."""
    given: Given = field(default_factory=Given)
    state: str = STATE
    promise: Mapping[str, Any] | None = None
    """What its plan promises of speed, as the journal keeps it for ``verify``; also its machines keep it."""

    @property
    def program(self) -> str:
        """What holds the processes: ``docker``, ``podman``, or ``process``."""
        return self.where.program if isinstance(self.where, Image) else PROCESS

    def site(self, name: str) -> Site:
        """The machine of that name. Raises KeyError."""
        return {site.name: site for site in self.sites}[name]


PROCESS = "process"


@dataclass(frozen=True, slots=True)
class Claim:
    """An accelerator that a deployment holds, as its machine's lock says."""

    name: str
    """``accelerator-0``, or ``processor``."""
    run: str
    program: str
    operator: str


@dataclass(frozen=True, slots=True)
class Running:
    """One process of a deployment, as a look found it."""

    run: str
    process: int
    ranks: str
    """``0,1``; empty: it only joins machines."""
    machine: str
    kind: str
    """``container`` or ``process``."""
    name: str
    """Of the container, or the folder of the process."""
    alive: bool | None
    """None: it could not be seen whether it is."""
    exit: int | None
    """Status with which it ended; None: it has not, or nobody knows."""
    state: str
    """In the container engine's own words, or in ours."""
    last: str = ""
    """The last line that it wrote."""


@dataclass(frozen=True, slots=True)
class Described:
    """What a deployment says of itself on one of its machines."""

    run: str
    machine: str
    """As whoever started it calls this one."""
    model: str
    build: str
    engine: str
    program: str
    operator: str
    processes: tuple[tuple[int, str, tuple[int, ...], int | None], ...]
    """Number, machine, ranks, and the port where it answers requests: on the head all, elsewhere its own."""
    held: tuple[str, ...]
    """Machines of which it holds something, as far as this one knows."""
    promise: Mapping[str, Any] | None = None
    """What its plan promises of speed, as ``Deployment.promise``: on the head. Whoever reads it judges its form."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One look at one machine for deployments."""

    machine: str
    claims: tuple[Claim, ...] = ()
    running: tuple[Running, ...] = ()
    ports: Mapping[int, bool] = field(default_factory=dict)
    """Asked ones: whether something listens there."""
    trouble: str | None = None
    """Why something of it could not be seen; None: all was."""
    engine_trouble: str | None = None
    """The same of its container engine: of no concern to who has no containers."""
    hint: str = ""
    described: tuple[Described, ...] = ()
    """What deployments say of themselves there."""
