"""The builds that plans are made for: those that were named, else the newest release of each engine that suits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

from canserve.api import Judged as Asking
from canserve.api import Options, SpecError, by_arch, judge, open_build, wanted
from canserve.checks.asked_degrees import EVERY as DEGREES
from canserve.checks.wish import parse_wish
from canserve.engines.argv import Flags
from canserve.engines.argv import options as written
from canserve.engines.starting import starting
from canserve.facts import Cause, Fact, Known, Missing, derive
from canserve.plan.candidate import Judged
from canserve.plan.plan import Unread
from canserve.subjects.build import Build, Want
from canserve.subjects.machine import Machine
from canserve.subjects.model import Model
from canserve.trees.tree import Cost

if TYPE_CHECKING:
    from canserve.probes.build import Reading


@dataclass(frozen=True, slots=True)
class Builds:
    """What was read, and what could not be."""

    judged: tuple[Judged, ...]
    unread: tuple[Unread, ...]
    cost: Cost


@dataclass(frozen=True, slots=True)
class Purpose:
    """What builds are read for."""

    model: Model
    machines: tuple[Machine, ...]
    engine_options: Mapping[str, object]
    options: Options


def read_builds(targets: Sequence[str], purpose: Purpose) -> Builds:
    """Read and judge these builds; without any, the newest suitable release of every engine, from the index.

    Raises SpecError for an engine option that no build knows.
    """
    if not targets:
        return _newest(purpose)
    readings = [_read(target, purpose) for target in targets]
    _refuse_unknown([reading.build for reading in readings], purpose)
    judged, unread, cost = [], [], Cost()
    for reading in readings:
        cost += reading.cost
        if isinstance(reading.build, Missing):
            unread.append(_unread(reading.target, reading.build))
        else:
            judged.append(_judged(reading, reading.build, purpose, FROM_INDEX in " ".join(reading.notes)))
    return Builds(tuple(judged), tuple(unread), cost)


def judged_again(before: Judged, purpose: Purpose) -> Judged:
    """The same build under other engine options. Raises SpecError for one that it does not know."""
    from canserve.probes.build import Reading

    _refuse_unknown([before.build], purpose)
    reading = Reading(before.target, before.build, Cost())
    if not before.indexed and _want(purpose) != _want(replace(purpose, engine_options=before.options)):
        reading = _read(before.target, purpose)  # more of the build is asked about than before
    build = before.build if isinstance(reading.build, Missing) else reading.build
    return _judged(reading, build, purpose, before.indexed)


def _unread(target: str, why: Missing) -> Unread:
    return Unread(target, why.why, why.ask or "name another build")


def _read(target: str, purpose: Purpose) -> Reading:
    """One build with its flags: those of the index where that has read the very same file, else its own.

    A release that cannot be reached is taken from the index as a whole, and that is said.
    """
    want = _want(purpose)
    arch, *others = (arch for arch, _ in by_arch(purpose.machines, purpose.options.arch))
    reading = open_build(target, want, purpose.options, arch)
    for other in others:  # each machine takes the wheel that is made for it
        reading = _also_for(reading, open_build(target, Want(), purpose.options, other))
    build = reading.build
    if isinstance(build, Missing):
        name, _, version = target.partition("==")
        indexed = _indexed(name, version) if build.cause is Cause.UNREACHED else None
        if indexed is None:
            return reading
        note = f"{target} {FROM_INDEX}: {build.why}"
        return replace(reading, build=indexed, notes=(*reading.notes, note))
    identity = build.identity
    if want.flags:
        return reading
    if isinstance(identity.content, Known) and isinstance(identity.version, Known):
        indexed = _indexed(identity.engine, identity.version.value)
        if indexed is not None and _same(identity.content.value, indexed.identity.content):
            known = {name: getattr(indexed, name) for name in COMMAND_LINE}
            return replace(reading, build=replace(build, **known))
    more = open_build(target, replace(want, flags=True), purpose.options, arch)
    if not isinstance(more.build, Missing):
        platforms = identity.platforms
        more = replace(
            more, build=replace(more.build, identity=replace(more.build.identity, platforms=platforms))
        )
    return replace(more, cost=reading.cost + more.cost)


def _also_for(reading: Reading, other: Reading) -> Reading:
    """The same release with the platforms of another machine's wheel beside its own."""
    if isinstance(reading.build, Missing) or isinstance(other.build, Missing):
        return replace(reading, cost=reading.cost + other.cost)
    own, more = reading.build.identity.platforms, other.build.identity.platforms
    if isinstance(own, Missing) or isinstance(more, Missing):
        return replace(reading, cost=reading.cost + other.cost)
    both = Known(tuple(dict.fromkeys(own.value + more.value)), own.evidence + more.evidence)
    identity = replace(reading.build.identity, platforms=both)
    build = replace(reading.build, identity=identity)
    return replace(reading, build=build, cost=reading.cost + other.cost)


def _want(purpose: Purpose) -> Want:
    """What the checks will ask of a build under these engine options, flags apart."""
    try:
        wish = parse_wish(written(Flags(None), purpose.engine_options))
    except ValueError as error:
        raise SpecError(str(error)) from error
    named = wish.speculative is not None  # a draft's class is read with the flags that may name it
    return replace(wanted(purpose.model, wish, purpose.machines), flags=named)


FROM_INDEX = "is taken from the release index"
COMMAND_LINE = ("flags", "flag_syntax", "reasoning_parsers", "tool_parsers", "launchers", "kv_cache_dtypes")
"""Facts of a build that commands are written from, and that take long to read."""


def _same(content: str, indexed: Fact[str]) -> bool:
    """Whether the index has read the very file; it keeps the beginning of a digest and says so with dots."""
    known = indexed.value.rstrip(".") if isinstance(indexed, Known) else ""
    return len(known) >= LEAST_DIGEST and content.startswith(known)


LEAST_DIGEST = len("sha256:") + 16


def _indexed(engine: str, version: str) -> Build | None:
    """A release as the index has it."""
    from canserve.index import indexed_build

    found = indexed_build(engine.strip(), version.strip()) if version else None
    return found.value if isinstance(found, Known) else None


def _newest(purpose: Purpose) -> Builds:
    """The newest release of each engine that suits, of engines whose start is known; judged by the index."""
    from canserve.api.newest import Wanted, newest_suitable
    from canserve.probes.build import Reading

    wish = replace(parse_wish(()), recipe=purpose.options.recipe)
    reports = newest_suitable(Wanted(purpose.model, purpose.machines, None, wish, purpose.options))
    suitable, unread = [], []
    for report in reports:
        build = report.build
        name = report.target.partition("==")[0] if isinstance(build, Missing) else build.identity.engine
        engine = starting(name)
        if engine is None or not engine.suits(purpose.model):
            continue
        if isinstance(build, Missing):
            unread.append(_unread(report.target, build))
            continue
        suitable.append((Reading(report.target, build, Cost(), report.notes), build))
    _refuse_unknown([build for _, build in suitable], purpose)
    judged = tuple(_judged(reading, build, purpose, indexed=True) for reading, build in suitable)
    return Builds(judged, tuple(unread), Cost())


def _judged(reading: Reading, build: Build, purpose: Purpose, indexed: bool = False) -> Judged:
    """With the options that this build knows; others are left out, and that is said.

    The layout that options ask for is not judged here: it becomes the one that is planned.
    """
    build = _at_hand(build)
    known, foreign = _split(build, purpose.engine_options)
    flags = Flags.of(build.flags)
    rest = parse_wish(written(flags, {name: v for name, v in known.items() if _flag(name) not in DEGREES}))
    rest = replace(rest, recipe=purpose.options.recipe)
    report = judge(Asking(purpose.model, replace(reading, build=build), purpose.machines, None, rest))
    if indexed:
        from canserve.api.newest import held

        report = held(report)
    notes = tuple(f"{name} is no option of {reading.target} and was left out" for name in foreign)
    return Judged(
        target=reading.target,
        build=build,
        findings=report.findings,
        skipped=report.skipped,
        notes=(*reading.notes, *notes),
        options=known,
        wish=parse_wish(written(flags, known)),
        indexed=indexed,
    )


def _at_hand(build: Build) -> Build:
    """With its flags as a table: the index puts one together whenever it is asked, and every plan asks."""
    return replace(build, flags=derive(build.flags, dict))


def _split(build: Build, options: Mapping[str, object]) -> tuple[dict[str, object], tuple[str, ...]]:
    """Options that the build's own command line has, and the names of the others."""
    if isinstance(build.flags, Missing):
        return dict(options), ()
    flags = Flags.of(build.flags)
    known = {name: value for name, value in options.items() if flags.has(_flag(name))}
    return known, tuple(name for name in options if name not in known)


def _flag(option: str) -> str:
    return f"--{option.partition('.')[0].replace('_', '-')}"


def _refuse_unknown(builds: Sequence[Build | Missing], purpose: Purpose) -> None:
    """An option that every build was asked for and none has is a slip of the pen."""
    options, recipe = purpose.engine_options, purpose.options.recipe
    read = [build for build in builds if isinstance(build, Build)]
    if not read or not options or any(isinstance(build.flags, Missing) for build in read):
        return
    for name, value in options.items():
        if all(name in _split(build, {name: value})[1] for build in read):
            every = {flag for build in read for flag in Flags.of(build.flags).names or ()}
            like = get_close_matches(_flag(name), sorted(every), n=3)
            near = ", ".join(flag.lstrip("-").replace("-", "_") for flag in like)
            which = ", ".join(build.identity.subject for build in read)
            line = recipe.line_of(_flag(name)) if recipe is not None else None
            where = "" if recipe is None or line is None else f"{recipe.name}, line {line}: "
            raise SpecError(
                f"{where}{which}: there is no engine option {name}",
                f"near ones: {near}" if near else "canserve build BUILD lists every flag",
            )
