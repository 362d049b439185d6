"""The public functions: what the command line does, as typed values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from canserve.checks.case import Case, Wish
from canserve.checks.merging import once, together
from canserve.commands.ssh import Route
from canserve.facts import Evidence, Fact, Known, Missing
from canserve.subjects.build import Build, Want
from canserve.subjects.model import Model
from canserve.trees.tree import Cost
from canserve.verdict import Finding, Skipped, Unknown, Verdict, undecided, word, worst

if TYPE_CHECKING:
    from canserve.probes.build import Reading
    from canserve.subjects.cluster import Node
    from canserve.subjects.machine import Machine
    from canserve.subjects.recipe import Recipe

T = TypeVar("T")

AT_ONCE = 3
"""Builds that are read at the same time."""


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
    deep: bool = False
    """Read what remote builds have compiled as well, which downloads most of them."""
    routes: Mapping[str, Route] = field(default_factory=dict)
    """How machines are reached that follow an @ in a build's name; those of a cluster file are added to it."""
    recipe: Recipe | None = None
    """Where flags come from that the user did not give."""
    recent: MutableMapping[str, object] = field(default_factory=dict)
    """What was read of containers for one question: some builds are opened more than once."""


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
    notes: tuple[str, ...] = ()
    """What the user should know of how it was read: a yanked file, a whole download, a second engine."""
    indexed: str | None = None
    """Date of the release index that it was judged from; None: from its own files."""

    @property
    def verdict(self) -> Verdict:
        """The worst of its findings; unknown where the build could not be read."""
        if isinstance(self.build, Missing) and not self.findings:
            return undecided(self.build)
        return worst(self.findings)


@dataclass(frozen=True, slots=True)
class Report:
    """One model against several builds."""

    model: Model
    builds: tuple[BuildReport, ...]
    cost: Cost
    chosen: bool = False
    """No build was named: each is the most suitable release of its engine in the index."""
    not_indexed: tuple[str, ...] = ()
    """Then: engines of which there is no index, so that nothing is said of them."""
    notes: tuple[str, ...] = ()
    """Then: what lies on the machines and was not judged, and machines that could not be looked at."""
    recipe: Recipe | None = None
    """What was asked about, where a recipe says it."""

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all builds; where they were chosen the best, since one suitable release will do."""
        order = ("yes", "unknown", "no") if self.chosen else ("no", "unknown", "yes")
        verdicts = sorted((build.verdict for build in self.builds), key=lambda v: order.index(word(v)))
        return verdicts[0] if verdicts else Unknown("no build was named", "name a build with --build")


def check(
    model: str, builds: Sequence[str] = (), *, on: str | None = None, options: Options | None = None
) -> Report:
    """Judge each build for this model, and on this machine or cluster where one is named.

    Without builds: the newest suitable release of every engine, from the release index alone.

    Raises SpecError when the machine or a flag is not written as it can be understood; what cannot be
    *read* is never an exception but an unknown verdict that says so.
    """
    options = options or Options()
    wish = replace(read_wish(options.flags), recipe=options.recipe)
    nodes = read_nodes(on, options) if on else ()
    options = with_routes(options, nodes)
    machines = tuple(node.machine for node in nodes)
    subject = read_model(model, options)
    if not builds:
        from canserve.api.newest import Wanted, newest_suitable
        from canserve.index import not_indexed
        from canserve.plan.offers.unjudged import unjudged

        reports = newest_suitable(Wanted(subject, machines, on, wish, options))
        lying = tuple(unjudged(nodes))
        return Report(subject, reports, Cost(), True, not_indexed(), lying, options.recipe)
    want = replace(wanted(subject, wish, machines), deep=options.deep)
    judged = []
    asked = [(target, arch, group) for target in builds for arch, group in by_arch(machines, options.arch)]
    readings = _opened([(target, arch) for target, arch, _ in asked], want, options)
    for (_, _, group), reading in zip(asked, readings, strict=True):
        held = tuple(node for node in nodes if any(node.machine is machine for machine in group))
        report = judge(Judged(subject, reading, group, on, wish, held))
        unseen = (machine.unseen for machine in group)
        judged.append(replace(report, notes=(*report.notes, *(why for why in unseen if why is not None))))
    cost = sum((reading.cost for reading in readings), Cost())
    return Report(subject, tuple(judged), cost, recipe=options.recipe)


def _opened(asked: Sequence[tuple[str, str | None]], want: Want, options: Options) -> list[Reading]:
    """A few at once: most of the time is spent waiting for machines and registries."""
    from canserve.index import transformers_table
    from canserve.trees.fanout import fanout

    transformers_table()  # all of them look into it: unpacked once
    return fanout(lambda one: open_build(one[0], want, options, one[1]), asked, AT_ONCE)


def wanted(model: Model, wish: Wish, machines: Sequence[Machine] = ()) -> Want:
    """What has to be read of a build to judge it for this model; nothing else is read."""
    architectures = model.architectures
    names = set(architectures.value if isinstance(architectures, Known) else ())
    named = _value(model.auto_map, {})
    names |= {name.rsplit(".", 1)[-1] for key, name in named.items() if key.startswith("AutoModel")}
    if wish.speculative and wish.speculative[0].isupper():
        names.add(wish.speculative)
    model_type = _value(model.model_type, None)
    if not names and model_type:
        names = _stands_for(model_type)
    quantization = _value(model.quantization, None)
    methods = {wish.quantization} if wish.quantization else set()
    if quantization is not None:
        methods |= {
            quantization.method,
            quantization.declared,
            quantization.declared.lower(),
            *quantization.aliases,
        }
    if isinstance(model.gguf_architecture, Known) and model.gguf_architecture.value:
        methods.add("gguf")
    return Want(
        architectures=frozenset(names),
        model_types=frozenset({model_type} if model_type else ()),
        quantization=frozenset(methods),
        flags=bool(wish.flags),
        attention=any(_value(machine.vendor, "nvidia") == "nvidia" for machine in machines),
        moe=_names_moe(wish),
        vendors=any(_value(machine.vendor, "nvidia") != "nvidia" for machine in machines),
        gpu_code=bool(machines),
        stack=bool(machines),
    )


def _names_moe(wish: Wish) -> bool:
    """Whether kernels for fused experts are named."""
    return any("moe" in flag and "backend" in flag for flag in wish.flags)


def _stands_for(model_type: str) -> set[str]:
    """The classes of a model type in any release of transformers: a config may name none."""
    from canserve.index import transformers_table

    match transformers_table():
        case Known(table):
            return {name for one in table.versions for name in table.architectures_of(one, model_type)}
        case _:
            return set()


def read_build(target: str, options: Options | None = None) -> Build | Missing:
    """Everything that is known how to read of one build."""
    options = options or Options()
    want = replace(Want.everything(), deep=options.deep)
    return open_build(target, want, with_routes(options, ()), options.arch).build


def read_model(spec: str, options: Options | None = None) -> Model:
    """One model: Hub id, folder, config.json or GGUF file."""
    from canserve.probes.model import Options as ModelOptions
    from canserve.probes.model import read_model as read

    options = options or Options()
    say(options, f"reading {spec}")
    return read(spec, options=ModelOptions(offline=options.offline))


def read_machines(spec: str, options: Options | None = None) -> tuple[Machine, ...]:
    """A profile's machine, a machine that is looked at, or all machines of a cluster file.

    Raises SpecError for what does not exist; what cannot be read on a machine is Missing in it.
    """
    return tuple(node.machine for node in read_nodes(spec, options))


def read_nodes(spec: str, options: Options | None = None) -> tuple[Node, ...]:
    """The same machines with their names and how they are reached. Raises SpecError."""
    from canserve.probes.live import Way
    from canserve.probes.machine import MachineError
    from canserve.probes.machine import read_nodes as read

    options = options or Options()
    try:
        return read((spec,), Way(options.offline, options.progress))
    except MachineError as error:
        raise SpecError(str(error), machine_hint((spec,))) from error


def machine_hint(specs: Sequence[str]) -> str:
    """What can be written instead of machines that are none; of a file its own error says it."""
    files = all(spec.endswith(".toml") for spec in specs)
    return "" if files else "canserve machine --list names every profile"


def machine_names() -> tuple[str, ...]:
    """Every machine profile, as ``--on`` takes it."""
    from canserve.rules.machines import names

    return tuple(f"profile:{name}" for name in names())


def _value(fact: Fact[T], default: T) -> T:
    return fact.value if isinstance(fact, Known) else default


def say(options: Options, what: str) -> None:
    """Tell what is being done, where somebody wants to know."""
    if options.progress is not None:
        options.progress(what)


def read_wish(flags: Sequence[str]) -> Wish:
    """The wish behind flags of an engine. Raises SpecError."""
    from canserve.checks.asked_degrees import degrees
    from canserve.checks.wish import parse_wish

    try:
        wish = parse_wish(flags)
        degrees(wish)  # a size that is none is the user's slip, and said before anything is read
        return wish
    except ValueError as error:
        raise SpecError(str(error), "flags for the engine follow -- as on its own command line") from error


def with_routes(options: Options, nodes: Sequence[Node]) -> Options:
    """The same for a new question, with the ways to these machines: what they hold is named by theirs."""
    if not nodes:
        return replace(options, recent={})
    from canserve.probes.live import routes

    return replace(options, routes={**options.routes, **routes(nodes)}, recent={})


def by_arch(
    machines: Sequence[Machine], chosen: str | None
) -> tuple[tuple[str | None, tuple[Machine, ...]], ...]:
    """Machines grouped by CPU architecture: each group is judged with the wheel made for it."""
    groups: dict[str | None, list[Machine]] = {}
    for machine in machines:
        arch = chosen or (machine.cpu_arch.value if isinstance(machine.cpu_arch, Known) else None)
        groups.setdefault(arch, []).append(machine)
    return tuple((arch, tuple(group)) for arch, group in groups.items()) or ((chosen, ()),)


def open_build(target: str, want: Want, options: Options, arch: str | None) -> Reading:
    """Read one build for a question. What cannot be read is Missing in the reading."""
    from canserve.index import transformers_table
    from canserve.probes.build import BuildOptions
    from canserve.probes.build import read_build as read

    say(options, f"reading {target}")
    how = BuildOptions(
        offline=options.offline,
        arch=arch,
        cpu_named=options.arch is not None,
        table=transformers_table(),
        tell=partial(say, options),
        routes=options.routes,
        recent=options.recent,
    )
    reading = read(target, want, how)
    if isinstance(reading.build, Build) and options.transformers is not None:
        return replace(reading, build=with_transformers(reading.build, options.transformers))
    return reading


def with_transformers(build: Build, version: str) -> Build:
    """The same build, judged as if this release of transformers were installed beside it."""
    told = Evidence("transformers", f"--with transformers=={version}", f"{version}, as the user says")
    return replace(build, transformers=replace(build.transformers, installed=Known(version, (told,))))


@dataclass(frozen=True, slots=True)
class Judged:
    """What one report is about."""

    model: Model
    reading: Reading
    machines: tuple[Machine, ...]
    on: str | None
    wish: Wish
    nodes: tuple[Node, ...] = ()
    """The machines with their names, where they may have to serve together."""


def judge(it: Judged) -> BuildReport:
    """Every check about one build, on each of the machines."""
    from canserve.checks.asked_degrees import degrees
    from canserve.checks.plain import PLAIN
    from canserve.checks.wish import meant_for
    from canserve.index import release_history

    build, target, notes = it.reading.build, it.reading.target, it.reading.notes
    if isinstance(build, Missing):
        return BuildReport(build, target, it.on, (), (), notes)
    it = replace(it, wish=meant_for(build.identity.engine, it.wish))
    findings: list[Finding] = []
    skipped: list[Skipped] = []
    for machine in it.machines or (None,):
        case = Case(it.model, build, machine, it.wish, release_history())
        for each in PLAIN:
            judged = each.judge(case)
            if isinstance(judged, Finding):
                findings.append(judged)
            else:
                skipped.append(judged)
    found: tuple[Finding, ...] = ()
    rest: tuple[Skipped, ...] = ()
    if (
        it.machines and degrees(it.wish) is not None
    ):  # few questions name a layout: what judges it is loaded then
        from canserve.api.deployed import layout_findings

        found, rest = layout_findings(it.model, build, it.nodes or it.machines, it.wish)
    elif it.nodes:
        from canserve.checks.machines import each_alone

        found, rest = each_alone(it.nodes, image=build.identity.in_container)
    if it.wish.recipe is not None:
        from canserve.checks.recipe import judge as judge_recipe

        of_recipe, left = judge_recipe(it.wish.recipe, build)
        found, rest = (*found, *of_recipe), (*rest, *left)
    return BuildReport(build, target, it.on, (*together(findings), *found), (*once(skipped), *rest), notes)
