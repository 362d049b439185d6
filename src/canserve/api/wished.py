"""What a command line says of a deployment: the plan, where its build lies, what every process is given."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from canserve.api import Options, SpecError
from canserve.api.planning import Asked, plan
from canserve.facts import Missing
from canserve.plan.export.exported import Exported
from canserve.plan.file import MAX_BYTES, PlanError, read_plans
from canserve.plan.plan import Plan
from canserve.probes.container.naming import REGISTRY, NamingError, held
from canserve.subjects.deployment import STATE, Deployment, Folder, Given, Image, Mount, Where
from canserve.subjects.launch import Start
from canserve.verdict import No

EXPORTED = (".yaml", ".yml", ".sh", ".service")
"""Endings of files that ``export`` writes."""
HUB = "/canserve/huggingface"
"""Where a container sees the Hub cache."""
_SECRET = re.compile(r"--(?:[a-z-]+-)?(?:api-key|token|password|secret)(?:=.*)?", re.IGNORECASE)
_POLICY = re.compile(r"on-failure(?::[1-9]\d{0,3})?|unless-stopped|always")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET_NAME = re.compile(r"(?:.*_)?(?:KEY|TOKEN|PASSWORD|PASSWD|SECRET|CREDENTIALS)", re.IGNORECASE)


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
    restart: str | None = None
    """``on-failure``, ``on-failure:3``, ``unless-stopped``, ``always``: of containers, once they serve."""
    environment: tuple[str, ...] = ()
    """``NAME=VALUE`` for every process; they win over what the plan says."""
    carried: Given | None = None
    """What an exported file says that every process is given, where nothing else is said here."""


def completed(spec: str, wishes: UpWishes) -> UpWishes:
    """With what an exported file says of where and how its plan runs, where nothing else is said. Raises SpecError."""
    it = carried_in(spec)
    if it is None:
        return wishes
    vendors = {site.vendor for site in it.sites if site.devices}
    vendor = next(iter(vendors)) if len(vendors) == 1 else None
    return replace(
        wishes,
        inside=wishes.inside or _where_told(it.where),
        accelerators=wishes.accelerators or vendor or ("none" if not vendors else None),
        state=it.state if wishes.state == STATE else wishes.state,
        carried=it.given,
    )


def carried_in(spec: str) -> Exported | None:
    """The plan that an exported file carries; None: it is no such file. Raises SpecError for one that was edited."""
    path = Path(spec)
    if path.suffix not in EXPORTED or not path.is_file():
        return None
    from canserve.plan.export.carrying import MAX_CHARACTERS, read

    try:
        with path.open(encoding="utf-8") as file:
            found = read(file.read(MAX_CHARACTERS))
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{spec}: {error}") from error
    if found is None:
        return None
    if found.form is None:
        raise SpecError(
            f"{spec} was edited since canserve exported it: what it starts is not the plan in it",
            f"canserve plan --recipe {spec} reads what it says now",
        )
    return found.exported


def _where_told(where: Where) -> str:
    """As ``--in`` takes it."""
    if isinstance(where, Folder):
        return where.path
    return f"{'podman' if where.program == 'podman' else 'docker-daemon'}:{where.name}"


def chosen_plan(spec: str, wishes: UpWishes, options: Options) -> Plan:
    """A saved plan's first plan, or the best plan of a model. Raises SpecError."""
    return candidate_plans(spec, wishes, options)[0]


@dataclass(frozen=True, slots=True)
class Startable:
    """What of a plan it takes to start it."""

    start: Start
    where: Where
    machines: tuple[str, ...]
    """By their names in the plan, the head first."""

    @property
    def contained(self) -> bool:
        """Whether its processes are containers."""
        return isinstance(self.where, Image)


def startable(chosen: Plan, wishes: UpWishes) -> Startable:
    """That of a plan. Raises SpecError where it is not to be started."""
    if isinstance(chosen.start, Missing):
        raise SpecError(f"the plan has no commands: {chosen.start.why}", chosen.start.ask or "")
    if isinstance(chosen.verdict, No) and not wishes.force:
        raise SpecError(f"the plan says no: {chosen.verdict.because}", chosen.verdict.fix)
    start = chosen.start.value
    refuse_secrets([process.argv for process in start.processes])
    hosts = (*(rank.machine for rank in chosen.placement.ranks), *(each.host for each in start.processes))
    return Startable(start, where_it_lies(wishes.inside or chosen.build), tuple(dict.fromkeys(hosts)))


def candidate_plans(spec: str, wishes: UpWishes, options: Options) -> tuple[Plan, ...]:
    """The plans of a file, or those of a model, the best first; at least one. Raises SpecError."""
    if (exported := carried_in(spec)) is not None:
        return (exported.plan,)
    path = Path(spec)
    if spec.endswith(".json") and path.is_file() and path.name != "config.json":
        try:
            with path.open(encoding="utf-8") as file:
                plans = read_plans(file.read(MAX_BYTES + 1))
        except (PlanError, UnicodeDecodeError) as error:
            raise SpecError(f"{spec}: {error}", "canserve plan ... --save FILE writes one") from error
        if not plans.plans:
            raise SpecError(f"{spec} holds no plan", "canserve plan ... --save FILE writes one")
        return plans.plans
    if wishes.asked is None or not wishes.asked.on:
        raise SpecError(
            f"{spec} is no saved plan", "for a model name machines with --on, and a build with --build"
        )
    model = str(path.resolve()) if path.exists() else spec
    report = plan(model, wishes.asked, options)
    if not report.plans.plans:
        raise SpecError(f"no plan could be made: {_why(report.plans.verdict)}")
    return report.plans.plans


def _why(verdict: object) -> str:
    return str(getattr(verdict, "because", ""))


def where_it_lies(build: str) -> Where:
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


def refuse_secrets(argvs: Sequence[Sequence[str]]) -> None:
    """Raises SpecError for words that would show a secret to everybody on the machine."""
    for word in (word for argv in argvs for word in argv):
        if _SECRET.fullmatch(word):
            raise SpecError(
                f"{word.partition('=')[0]} would show a secret to everybody on the machine",
                "give it as a variable of the engine: --secret NAME, or --secret-file PATH",
            )


def restart_policy(where: Where, wishes: UpWishes) -> str | None:
    """Of its containers; None: none. Raises SpecError."""
    if wishes.restart is None or wishes.restart == "no":
        return None
    if not _POLICY.fullmatch(wishes.restart):
        raise SpecError(
            f"{wishes.restart} is no restart policy", "no, on-failure, on-failure:N, unless-stopped, always"
        )
    if isinstance(where, Folder):
        raise SpecError(
            "only containers have a restart policy", "canserve export writes units for what runs without"
        )
    return wishes.restart


def given_to(model: str, where: Where, wishes: UpWishes) -> Given:
    """What every process gets beside what the plan says. Raises SpecError."""
    said = (wishes.mounts, wishes.secrets, wishes.secret_files, wishes.environment, wishes.hub_cache)
    if wishes.carried is not None and not any(said):
        return wishes.carried
    for name in wishes.secrets:
        if not _NAME.fullmatch(name):
            raise SpecError(
                f"{name.partition('=')[0]} is no name of a variable", "only names: values stay there"
            )
    files = tuple(absolute(path, "a file of secrets") for path in wishes.secret_files)
    environment = dict(map(_variable, wishes.environment))
    if isinstance(where, Folder):
        if wishes.mounts:
            raise SpecError("only containers have mounts", "leave --mount out")
        if wishes.hub_cache is not None:
            environment["HF_HOME"] = absolute(wishes.hub_cache, "the Hub cache")
        _path_of(model)
        return Given((), environment, wishes.secrets, files)
    mounts = [_mount(text) for text in wishes.mounts]
    if (path := _path_of(model)) is not None and not any(_covers(mount, path) for mount in mounts):
        mounts.append(Mount(path, path))
    if wishes.hub_cache is not None:
        mounts.append(Mount(absolute(wishes.hub_cache, "the Hub cache"), HUB, readonly=False))
        environment["HF_HOME"] = HUB
    return Given(tuple(mounts), environment, wishes.secrets, files)


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not _NAME.fullmatch(name) or not equals or "\n" in value or "\0" in value:
        raise SpecError(f"{name:.80} is no variable with its value", "write --env NAME=VALUE")
    if _SECRET_NAME.fullmatch(name):
        raise SpecError(
            f"{name}=... would show a secret to everybody on the machine",
            "--secret NAME takes its value from the logins there, --secret-file PATH from a file there",
        )
    return name, value


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


def absolute(path: str, what: str) -> str:
    """A path of the machines. Raises SpecError for one that is another on every machine."""
    if not path.startswith("/") or "\n" in path:
        raise SpecError(f"{path}: {what} is named by its absolute path on the machines")
    return path.rstrip("/")


def notes_for(it: Deployment, wishes: UpWishes) -> tuple[str, ...]:
    """What whoever starts this should know."""
    if isinstance(it.where, Image) and _path_of(it.model) is None and wishes.hub_cache is None:
        return (f"{it.model} is fetched into each container and goes with it: --hub-cache PATH keeps it",)
    return ()
