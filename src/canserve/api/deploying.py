"""``up``: from a plan, or a model, to processes that run, and back where that fails."""

from __future__ import annotations

import getpass
import re
import secrets
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from canserve.api import Options, SpecError, promised
from canserve.api.planning import Asked, plan
from canserve.api.sites import kept, named, real, site, with_addresses
from canserve.facts import Missing
from canserve.plan.file import MAX_BYTES, PlanError, read_plans
from canserve.plan.plan import Plan
from canserve.plan.steps.starting import endpoint, starting
from canserve.plan.steps.step import Step
from canserve.plan.steps.stopping import stopping
from canserve.probes.container.naming import REGISTRY, NamingError, held
from canserve.run.executing import Failure, Hands, Stop, carry_out, now
from canserve.run.looking import Question, look_for
from canserve.store.journal import Journal
from canserve.subjects.cluster import Node
from canserve.subjects.deployment import (
    PROCESS,
    STATE,
    Deployment,
    Folder,
    Given,
    Image,
    Mount,
    Running,
    Seen,
    Where,
)
from canserve.verdict import No

HUB = "/canserve/huggingface"
"""Where a container sees the Hub cache."""
EVERY = 1.0
"""Seconds between two looks at a deployment that starts."""
_SECRET = re.compile(r"--(?:[a-z-]+-)?(?:api-key|token|password|secret)(?:=.*)?", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class UpWishes:
    """What is wished beyond the plan."""

    on: tuple[str, ...] = ()
    asked: Asked | None = None
    """For a model: what is to be planned."""
    inside: str | None = None
    """An image, or the path of an environment on the machines, where the build does not say it."""
    accelerators: str | None = None
    """``nvidia``, ``amd``, ``intel``, ``none``; None: as the machines say."""
    mounts: tuple[str, ...] = ()
    """``/on/machine:/in/container``, with ``:rw`` where it may be written."""
    hub_cache: str | None = None
    """Path of the Hub cache on the machines, for containers."""
    secrets: tuple[str, ...] = ()
    secret_files: tuple[str, ...] = ()
    state: str = STATE
    force: bool = False
    """Although the plan says no."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything that ``up`` will do."""

    deployment: Deployment
    nodes: tuple[Node, ...]
    """Those of the deployment, the head first; then those on the way to them."""
    steps: tuple[Step, ...]
    notes: tuple[str, ...] = ()
    promise: Mapping[str, Any] | None = None
    """What the plan promises of speed, as the journal keeps it for ``verify``."""

    @property
    def machines(self) -> tuple[str, ...]:
        """Names of those that hold something of it, the head first."""
        return tuple(one.name for one in self.deployment.sites)


@dataclass(frozen=True, slots=True)
class UpReport:
    """What has become of it."""

    prepared: Prepared
    state: Literal["up", "starting", "failed", "interrupted"]
    """``up``; ``starting``: not ready in the time given; ``failed``; ``interrupted``."""
    why: str = ""
    hint: str = ""
    seen: tuple[Seen, ...] = ()
    undone: bool = False
    """Whether what had begun was taken away again."""
    left: tuple[Failure, ...] = ()
    """Then: what could not be."""


def prepare(spec: str, wishes: UpWishes, options: Options | None = None) -> Prepared:
    """The steps for a saved plan's first plan, or for the best plan of a model. Runs nothing. Raises SpecError."""
    options = options or Options()
    chosen = _chosen(spec, wishes, options)
    if isinstance(chosen.start, Missing):
        raise SpecError(f"the plan has no commands: {chosen.start.why}", chosen.start.ask or "")
    if isinstance(chosen.verdict, No) and not wishes.force:
        raise SpecError(f"the plan says no: {chosen.verdict.because}", chosen.verdict.fix)
    start = chosen.start.value
    _refuse_secrets([process.argv for process in start.processes])
    where = _where(wishes.inside or chosen.build)
    names = tuple(dict.fromkeys(rank.machine for rank in chosen.placement.ranks))
    names = tuple(dict.fromkeys((*names, *(process.host for process in start.processes))))
    container = isinstance(where, Image)
    nodes = real(names, named(wishes.on or names, options, look=container and wishes.accelerators is None))
    ranks = chosen.placement.ranks
    sites = tuple(site(node, ranks, wishes.accelerators, container) for node in nodes[: len(names)])
    when = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    deployment = Deployment(
        run=secrets.token_hex(4),
        model=chosen.model,
        build=wishes.inside or chosen.build,
        engine=chosen.engine,
        where=where,
        sites=sites,
        processes=with_addresses(start.processes, start.placeholders, nodes),
        operator=f"{operator()} {when}",
        given=_given(chosen.model, where, wishes),
        state=_absolute(wishes.state, "the folder of claims"),
    )
    notes = (*start.notes, *_notes(deployment, wishes))
    return Prepared(deployment, nodes, starting(deployment), notes, promised.kept(chosen))


def operator() -> str:
    """Who asks, and from which machine."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", getpass.getuser())
    return f"{name}@{re.sub(r'[^A-Za-z0-9._-]', '_', socket.gethostname())}"


def _chosen(spec: str, wishes: UpWishes, options: Options) -> Plan:
    path = Path(spec)
    if spec.endswith(".json") and path.is_file() and path.name != "config.json":
        try:
            with path.open(encoding="utf-8") as file:
                plans = read_plans(file.read(MAX_BYTES + 1))
        except (PlanError, UnicodeDecodeError) as error:
            raise SpecError(f"{spec}: {error}", "canserve plan ... --save FILE writes one") from error
        if not plans.plans:
            raise SpecError(f"{spec} holds no plan", "canserve plan ... --save FILE writes one")
        return plans.plans[0]
    if wishes.asked is None or not wishes.asked.on:
        raise SpecError(
            f"{spec} is no saved plan", "for a model name machines with --on, and a build with --build"
        )
    model = str(path.resolve()) if path.exists() else spec
    report = plan(model, wishes.asked, options)
    if not report.plans.plans:
        raise SpecError(f"no plan could be made: {_why(report.plans.verdict)}")
    return report.plans.plans[0]


def _why(verdict: object) -> str:
    return str(getattr(verdict, "because", ""))


def _where(build: str) -> Where:
    """Where the build is on the machines. Raises SpecError for one that is nowhere there."""
    try:
        found = held(build)
    except NamingError as error:
        raise SpecError(f"{build}: {error}") from error
    if found is not None and found.kind == "image":
        return Image(found.programs[0], found.name)
    if build.startswith(REGISTRY) and found is None:
        return Image("docker", build[len(REGISTRY) :])
    if build.startswith("/"):
        return Folder(build.rstrip("/") or "/")
    raise SpecError(
        f"{build} says not where the build lies on the machines",
        "name an image (docker-daemon:IMAGE, podman:IMAGE) or an environment's absolute path with --in",
    )


def _refuse_secrets(argvs: Sequence[Sequence[str]]) -> None:
    for word in (word for argv in argvs for word in argv):
        if _SECRET.fullmatch(word):
            raise SpecError(
                f"{word.partition('=')[0]} would show a secret to everybody on the machine",
                "give it as a variable of the engine: --secret NAME, or --secret-file PATH",
            )


def _given(model: str, where: Where, wishes: UpWishes) -> Given:
    for name in wishes.secrets:
        if not _NAME.fullmatch(name):
            raise SpecError(
                f"{name.partition('=')[0]} is no name of a variable", "only names: values stay there"
            )
    files = tuple(_absolute(path, "a file of secrets") for path in wishes.secret_files)
    if isinstance(where, Folder):
        if wishes.mounts:
            raise SpecError("only containers have mounts", "leave --mount out")
        environment = (
            {} if wishes.hub_cache is None else {"HF_HOME": _absolute(wishes.hub_cache, "the Hub cache")}
        )
        _path_of(model)
        return Given((), environment, wishes.secrets, files)
    mounts = [_mount(text) for text in wishes.mounts]
    environment = {}
    if (path := _path_of(model)) is not None and not any(_covers(mount, path) for mount in mounts):
        mounts.append(Mount(path, path))
    if wishes.hub_cache is not None:
        mounts.append(Mount(_absolute(wishes.hub_cache, "the Hub cache"), HUB, readonly=False))
        environment = {"HF_HOME": HUB}
    return Given(tuple(mounts), environment, wishes.secrets, files)


def _path_of(model: str) -> str | None:
    """Of a model that is a folder or file; None: it has a name on the Hub. Raises SpecError."""
    if model.startswith((".", "~")):
        raise SpecError(
            f"{model} is another folder on every machine",
            "plan for the model under its absolute path on the machines",
        )
    return model if model.startswith("/") else None


def _covers(mount: Mount, path: str) -> bool:
    return path == mount.target or path.startswith(f"{mount.target.rstrip('/')}/")


def _mount(text: str) -> Mount:
    source, _, rest = text.partition(":")
    target, _, mode = rest.partition(":")
    if (
        not source.startswith("/")
        or not target.startswith("/")
        or mode not in ("", "ro", "rw")
        or '"' in text
    ):
        raise SpecError(
            f"{text} is no mount", "write /ON/MACHINE:/IN/CONTAINER, with :rw where it may be written"
        )
    return Mount(source, target, mode != "rw")


def _absolute(path: str, what: str) -> str:
    if not path.startswith("/") or "\n" in path:
        raise SpecError(f"{path}: {what} is named by its absolute path on the machines")
    return path.rstrip("/")


def _notes(it: Deployment, wishes: UpWishes) -> tuple[str, ...]:
    if isinstance(it.where, Image) and _path_of(it.model) is None and wishes.hub_cache is None:
        return (f"{it.model} is fetched into each container and goes with it: --hub-cache PATH keeps it",)
    return ()


@dataclass(frozen=True, slots=True)
class Doing:
    """How ``up`` is carried out."""

    journal: Journal
    wait: float = 600.0
    """Seconds until it should be ready; 0: it is not waited for."""
    keep: bool = False
    """Whether what failed is left standing."""
    stop: Stop = field(default_factory=Stop)
    undoing: Stop = field(default_factory=Stop)
    """Ends taking away, too."""
    tell: Callable[[str], None] = lambda _: None


def up(it: Prepared, doing: Doing) -> UpReport:
    """Carry out the steps, and wait until it answers. Where that fails, or is interrupted, take it away again."""
    one = it.deployment
    told = {
        "model": one.model, "build": one.build, "engine": one.engine, "program": one.program, "state": one.state,
        "operator": one.operator, "machines": kept(it.nodes), "held": it.machines, "endpoint": endpoint(one),
        "promise": it.promise,
        "processes": [{"host": each.host, "ranks": each.ranks} for each in one.processes],
    }  # fmt: skip
    doing.journal.begin(one.run, now(), told)
    nodes = {node.name: node for node in it.nodes}
    hands = Hands(
        one.run, nodes, doing.journal, tell=doing.tell, stop=doing.stop, dead=lambda _: _ended(_look(it))
    )
    failures = carry_out(it.steps, "up", hands)
    if failures:
        why = "; ".join(f"{each.step.machine}: {each.why}" for each in failures)
        return _undone(it, doing, UpReport(it, "failed", why, _hint(failures[0], it)))
    report = _awaited(it, doing)
    if report.state in ("failed", "interrupted"):
        return _undone(it, doing, report)
    doing.journal.settle(one.run, "up" if report.state == "up" else "starting", report.why)
    return report


def _hint(failure: Failure, it: Prepared) -> str:
    match failure.step.name:
        case "claim":
            held_by = failure.why.rpartition(": ")[2].split(" ")[0]
            return f"canserve status {held_by} --on {failure.step.machine} shows it, canserve down {held_by} ends it"
        case "image-held":
            return f"load it there first: docker save IMAGE | ssh {failure.step.machine} docker load"
        case "port-free":
            return "end what listens there, or choose another: --engine-arg port=N"
        case "listens" | "joined":
            return f"canserve logs {it.deployment.run} (with --keep, what failed is left standing)"
        case _:
            return ""


def _look(it: Prepared, ports: tuple[int, ...] = ()) -> tuple[Seen, ...]:
    one = it.deployment
    programs = () if one.program == PROCESS else (one.program,)
    return look_for(it.nodes, Question(one.state, one.run, programs, ports), it.machines)


def _ended(seen: Sequence[Seen]) -> str | None:
    """The first process that is no more; None: all are there, as far as can be seen."""
    ended: list[Running] = [one for each in seen for one in each.running if one.alive is False]
    if not ended:
        return None
    first = ended[0]
    return (
        f"process {first.process} {first.state}: {first.last}"
        if first.last
        else f"process {first.process} {first.state}"
    )


def _awaited(it: Prepared, doing: Doing) -> UpReport:
    """Looks until it answers requests, something of it has ended, or the time is over."""
    where = endpoint(it.deployment)
    ports = () if where is None else (where[1],)
    end = time.monotonic() + doing.wait
    while True:
        seen = _look(it, ports)
        if doing.stop.asked:  # also while it was looked at: whoever pressed Ctrl-C wants it gone, up or not
            return UpReport(it, "interrupted", "interrupted")
        if (ended := _ended(seen)) is not None:
            machine = next(each.machine for each in seen if any(one.alive is False for one in each.running))
            return UpReport(it, "failed", f"{machine}: {ended}", f"canserve logs {it.deployment.run}", seen)
        if where is not None and any(each.machine == where[0] and each.ports.get(where[1]) for each in seen):
            return UpReport(it, "up", seen=seen)
        if time.monotonic() > end:
            if not doing.wait:
                return UpReport(it, "starting", "it was not waited for", "", seen)
            why = f"nothing answers yet after {doing.wait:.0f} s"
            return UpReport(it, "starting", why, f"canserve status {it.deployment.run}", seen)
        doing.tell("waiting until it answers")
        doing.stop.event.wait(EVERY)


def _undone(it: Prepared, doing: Doing, report: UpReport) -> UpReport:
    """Take away what had begun, and nothing else."""
    one = it.deployment
    if doing.keep:
        doing.journal.settle(one.run, "kept", report.why, now())
        return report
    doing.tell("taking away what was started")
    doing.journal.settle(one.run, "stopping", report.why)
    line = f"{operator()} {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} down {one.run}: {report.state}"
    steps = stopping(one.run, it.machines, one.program, one.state, line)
    hands = Hands(
        one.run, {node.name: node for node in it.nodes}, doing.journal, tell=doing.tell, stop=doing.undoing
    )
    left = list(carry_out(steps, "down", hands, whole=True))
    if doing.undoing.asked:
        left += [
            Failure(step, "not taken away: interrupted", reached=False) for step in steps if step.stage == 0
        ]
    doing.journal.settle(one.run, "left" if left else "failed", report.why, now())
    return replace(report, undone=True, left=tuple(left))
