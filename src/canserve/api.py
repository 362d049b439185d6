"""The public functions: what the command line does, as typed values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from canserve.facts import Missing
from canserve.subjects.build import Build
from canserve.subjects.machine import Machine
from canserve.subjects.model import Model
from canserve.trees.tree import Cost
from canserve.verdict import Finding, Skipped, Unknown, Verdict, word, worst


class SpecError(ValueError):
    """What the user named cannot be understood. ``hint`` says what can be written instead."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Options:
    """What the user wishes beyond model, builds and machine."""

    offline: bool = False
    flags: tuple[str, ...] = ()
    """Flags for the engine, as they would stand on its command line."""
    arch: str | None = None
    """CPU architecture to judge for, where no machine says it: ``x86_64`` or ``aarch64``."""
    transformers: str | None = None
    """Judge as if this version of transformers were installed beside the engine."""
    progress: Callable[[str], None] | None = None
    """Told in a few words what is being done."""


@dataclass(frozen=True, slots=True)
class BuildReport:
    """One build (on one machine), judged."""

    build: Build | Missing
    """Missing: the whole build could not be read."""
    target: str
    """As the user named it."""
    machine: str | None
    findings: tuple[Finding, ...]
    skipped: tuple[Skipped, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst of its findings; unknown where the build could not be read."""
        if isinstance(self.build, Missing) and not self.findings:
            return Unknown(self.build.why, self.build.ask or f"make it readable: {self.build.why}")
        return worst(self.findings)


@dataclass(frozen=True, slots=True)
class Report:
    """One model against several builds."""

    model: Model
    builds: tuple[BuildReport, ...]
    cost: Cost

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all builds."""
        order = ("no", "unknown", "yes")
        verdicts = sorted((build.verdict for build in self.builds), key=lambda v: order.index(word(v)))
        return verdicts[0] if verdicts else Unknown("no build was named", "name a build with --build")


def check(
    model: str, builds: Sequence[str], *, on: str | None = None, options: Options | None = None
) -> Report:
    """Judge each build for this model, and on this machine or cluster where one is named.

    Raises SpecError when the model, a build, the machine or a flag is not written as it can be understood;
    what cannot be *read* is never an exception but an unknown verdict that says so.
    """
    from canserve.judging import judge

    return judge(model, builds, on, options or Options())


def read_build(target: str, options: Options | None = None) -> Build | Missing:
    """Everything that is known how to read of one build."""
    from canserve.judging import open_build
    from canserve.subjects.build import Want

    return open_build(target, Want.everything(), options or Options())[0]


def read_model(spec: str, options: Options | None = None) -> Model:
    """One model: Hub id, folder, config.json or GGUF file."""
    from canserve.judging import open_model

    return open_model(spec, options or Options())


def read_machine(spec: str, options: Options | None = None) -> Machine | Missing:
    """One machine, by profile."""
    from canserve.judging import open_machines

    machines = open_machines(spec, options or Options())
    return machines if isinstance(machines, Missing) else machines[0]


def machine_names() -> tuple[str, ...]:
    """Every machine profile, as ``--on`` takes it."""
    from canserve.probes.machine import profile_names

    return profile_names()
