"""Which releases of an engine serve a name: listed is one question, usable another; both for every release.

Each release is judged by the gates of ``check`` over its indexed build. Support comes and goes, so neighbours
are put together only where they were all read and all answer alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from packaging.version import Version

from canserve.checks.architecture import MODULE_PRESENT, REGISTERED, Route, route
from canserve.checks.case import Case, Wish
from canserve.checks.config import PARSABLE, REMOTE, SATISFIED, opened
from canserve.checks.gates import Passing, candidates, condition, resolved
from canserve.checks.gguf import converted_row
from canserve.checks.quantization.registered import REGISTERED as QUANTIZED
from canserve.checks.reader import Check, Reader, Unread
from canserve.engines import LIBRARIES
from canserve.facts import Fact, Known, Missing
from canserve.index.names import Subject
from canserve.index.runs import Column, Run, runs_of
from canserve.rules import broken
from canserve.subjects.build import Build, gguf_only
from canserve.subjects.model import Model
from canserve.verdict import Finding, No, Unknown, Word, Yes, word

GATES = (REGISTERED, MODULE_PRESENT, PARSABLE, SATISFIED, REMOTE)
"""The checks that decide whether a release serves an architecture at all."""
NEVER = frozenset(
    {
        "attention_backends", "draft_classes", "engine_flags", "flag_syntax", "flags", "gguf_projectors",
        "gguf_types", "gguf_vocabularies", "kv_cache_dtypes", "kv_cache_engines", "launchers", "moe_backends",
        "reasoning_parsers", "requires", "speculative", "tool_parsers", "vendor_quantization",
    }
)  # fmt: skip
"""Fields of a build that none of these checks reads."""
FOR_WEIGHTS = frozenset({"literal_methods", "quantization"})
"""What is asked about weights alone."""
LISTED = ("native", "converter")
"""Ways of releases that name the architecture themselves."""
BORROWED = ("fallback", "remote")
"""Ways through a class that is not the release's own."""
Days = Mapping[str, str]
"""Transformers release to the day of its upload, ISO 8601."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How one release takes a model, or several neighbours that answer alike."""

    way: str
    """``native``, ``converted``, ``fallback`` (through transformers' own class), ``remote`` (the repository's),
    ``gguf`` (as its file says), ``converter`` (once made a GGUF file), ``none``; ``unknown``: it could not be told."""
    served_by: str | None
    """The registered class or the wrapper that does the work."""
    usable: Word
    """Whether some transformers that the release allows opens every gate."""
    because: str
    """Why not; empty for a yes."""
    check: str | None = None
    """The check that decided it; None for a yes."""
    needs: tuple[str, ...] = ()
    """What the user must see to; empty: any transformers that the release allows will do."""
    ahead: bool = False
    """Whether every transformers that opens the gates came out after the next release of the engine: this one
    allows the pair, but nobody can have tried it while it was the newest."""

    @property
    def kind(self) -> tuple[object, ...]:
        """What neighbours must have in common to be told as one; their reasons may name other numbers."""
        return self.way, self.served_by, self.usable, self.check, self.needs, self.ahead


@dataclass(frozen=True, slots=True)
class Stretch:
    """Neighbouring releases with one answer."""

    run: Run
    answer: Answer
    """Its reason is that of the newest of them."""
    transformers: tuple[str, str] | None
    """Oldest and newest transformers release that opens every gate of some release in it; None: none does, or
    none matters."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """What builds say of a name that they no longer serve."""

    run: Run
    """The releases that say so."""
    name: str
    last: str
    """The last version that served it, in the builds' own words."""


@dataclass(frozen=True, slots=True)
class Since:
    """One engine's answer about one model: every indexed release is in exactly one stretch."""

    column: Column
    stretches: tuple[Stretch, ...]
    dropped: tuple[Dropped, ...]

    @property
    def usable(self) -> tuple[Stretch, ...]:
        """Those that surely serve it, oldest first."""
        return tuple(stretch for stretch in self.stretches if stretch.answer.usable == "yes")

    @property
    def own(self) -> tuple[Run, ...]:
        """Releases that serve it with a class of their own and a transformers of their time."""
        return self.together(s for s in self.usable if not s.answer.ahead and s.answer.way not in BORROWED)

    @property
    def borrowed(self) -> tuple[Run, ...]:
        """The same through a class that is not their own."""
        return self.together(s for s in self.usable if not s.answer.ahead and s.answer.way in BORROWED)

    @property
    def lists(self) -> tuple[Run, ...]:
        """Releases that register the architecture themselves, or convert it, whether or not they can serve it."""
        return self.together(stretch for stretch in self.stretches if stretch.answer.way in LISTED)

    def together(self, stretches: Iterable[Stretch]) -> tuple[Run, ...]:
        """The releases of these stretches, neighbours put together whatever else tells them apart."""
        positions = {release.version: at for at, release in enumerate(self.column.releases)}
        runs = (stretch.run for stretch in stretches)
        inside = (range(positions[run.first.version], positions[run.last.version] + 1) for run in runs)
        return runs_of(self.column, (at for run in inside for at in run))

    @property
    def word(self) -> Word:
        """Whether any release serves it; unknown where none does but of some it could not be told."""
        said = {stretch.answer.usable for stretch in self.stretches}
        return next((word for word in _BEST if word in said), "unknown")

    @property
    def blank(self) -> str | None:
        """Why no release could be read at all; None: some could."""
        reasons = {stretch.answer.because for stretch in self.stretches if stretch.answer.way == "unknown"}
        return min(reasons, default="") if all(s.answer.way == "unknown" for s in self.stretches) else None

    def current(self, run: Run) -> bool:
        """Whether a run ends with the newest indexed release."""
        return bool(self.column.releases) and run.last == self.column.releases[-1]


_BEST: tuple[Word, ...] = ("yes", "unknown", "no")


@dataclass(frozen=True, slots=True)
class Answers:
    """What all engines say of one subject."""

    name: str
    """As the user gave it."""
    subject: Subject
    engines: tuple[Since, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of every release."""

    model: Model
    wish: Wish = field(default_factory=Wish)
    days: Days = field(default_factory=dict)
    more: tuple[Check, ...] = ()
    """Checks beyond the gates that a release must not fail."""


class Releases(Protocol):
    """The releases of one engine, in the order of its column."""

    def build(self, position: int) -> Fact[Build]:
        """One of them."""
        ...

    def same_until(self, position: int) -> int:
        """The first later release that may answer otherwise than what was read of this one since ``build``."""
        ...


@dataclass(frozen=True, slots=True)
class _Judged:
    """What was found of one release."""

    answer: Answer
    passing: Passing | None
    dropped: Mapping[str, str]


def left_out(model: Model, *, weights: bool = False) -> frozenset[str]:
    """Fields of a build that a question about this model does not read; ``weights``: they are asked about too."""
    file = isinstance(model.gguf_architecture, Known) and model.gguf_architecture.value is not None
    return NEVER if weights or file else NEVER | FOR_WEIGHTS


def since(asked: Question, column: Column, releases: Releases) -> Since:
    """Judge every release of one engine."""
    judged: list[_Judged] = []
    while (position := len(judged)) < len(column.releases):
        build = releases.build(position)
        answer, passing = _judged(asked, build)
        target = f"{column.engine}=={column.releases[position].version}: "
        answer = replace(answer, because=answer.because.removeprefix(target))
        if column.engine in LIBRARIES:
            passing = None  # the release is itself what it needs
        found = _Judged(answer, passing, _dropped(asked, build))
        end = position + 1 if _by_number(asked, column.engine) else releases.same_until(position)
        judged += [found] * (end - position)
    pairs = zip(column.releases, column.releases[1:], strict=False)
    followed = (*(max(release.date, after.date) for release, after in pairs), "")
    told = [_told(asked, one, until) for one, until in zip(judged, followed, strict=True)]
    return Since(column, tuple(_stretches(column, told)), tuple(_together(column, told)))


def _by_number(asked: Question, engine: str) -> bool:
    """Whether a rule goes by the release's number, which is not read from its shelf."""
    names = asked.model.architectures
    return bool(broken.rows(engine, names.value if isinstance(names, Known) else ()))


def _told(asked: Question, one: _Judged, until: str) -> _Judged:
    """With the word whether what it needs came too late for the release, which was the newest until that day."""
    if one.answer.usable != "yes" or one.passing is None or not until:
        return one
    first = min((asked.days.get(version, "") for version in one.passing.passed), default="")
    return replace(one, answer=replace(one.answer, ahead=first > until))


def _stretches(column: Column, judged: Sequence[_Judged]) -> Iterator[Stretch]:
    start = 0
    for end in range(1, len(judged) + 1):
        if end < len(judged) and judged[end].answer.kind == judged[start].answer.kind:
            continue
        run = Run(column.releases[start], column.releases[end - 1], end - start)
        yield Stretch(run, judged[end - 1].answer, _bounds([one.passing for one in judged[start:end]]))
        start = end


def _bounds(gates_of: Sequence[Passing | None]) -> tuple[str, str] | None:
    """Oldest and newest release that passes anywhere; candidates are ordered oldest first."""
    passed = {version for passing in gates_of if passing is not None for version in passing.passed}
    ordered = sorted(passed, key=Version)
    return (ordered[0], ordered[-1]) if ordered else None


def _judged(asked: Question, build: Fact[Build]) -> tuple[Answer, Passing | None]:
    if isinstance(build, Missing):
        return Answer("unknown", None, "unknown", build.why), None
    model, case = asked.model, Case(asked.model, build.value, wish=asked.wish)
    if isinstance(model.gguf_architecture, Known) and model.gguf_architecture.value is not None:
        return _by_file(asked, case, model.gguf_architecture.value)
    if gguf_only(build.value):
        return _by_converter(asked, case), None
    reader = Reader()
    try:
        way, borrowed = route(reader, case)
    except Unread as unread:
        return Answer("unknown", None, "unknown", unread.missing.why), None
    if way is None:
        return (
            _by_checks(case, "none", (REGISTERED,)) if _open(case) else Answer("none", None, "no", "")
        ), None
    try:
        passing = opened(reader, case, way, borrowed)
    except Unread:  # a build that does without transformers, or one of which too little is recorded
        return _by_checks(case, way.way, (*GATES, *asked.more), way.served_by), None
    plain = passing.passed and not _own_code(model) and _importable(reader, case, way)
    if plain and not asked.more:
        return Answer(way.way, way.served_by, "yes", "", needs=condition(passing)), passing
    return _by_checks(case, way.way, (*GATES, *asked.more), way.served_by), passing


def _by_file(asked: Question, case: Case, architecture: str) -> tuple[Answer, Passing | None]:
    """How a release takes a GGUF file: by a table of its own, or as far as transformers reads it."""
    own = case.build.gguf_architectures
    if isinstance(own, Known) and own.value and architecture not in own.value:
        return Answer("none", None, "no", ""), None
    checks = (REGISTERED, QUANTIZED, *asked.more)
    if not (isinstance(own, Known) and own.value is None):
        return _by_checks(case, "gguf", checks), None
    passing = _read_by_transformers(case, architecture)
    if passing is None or not passing.passed:
        return replace(_by_checks(case, "gguf", checks), way="gguf"), passing
    answer = _by_checks(case, "gguf", checks[1:])  # the first check asks for nothing else than was just found
    return replace(answer, needs=tuple(dict.fromkeys((*condition(passing), *answer.needs)))), passing


def _read_by_transformers(case: Case, architecture: str) -> Passing | None:
    """Candidates that read this GGUF architecture; None: which there may be is not known."""
    try:
        versions, table = candidates(Reader(), case)
    except Unread:
        return None
    known = frozenset(table.versions)
    read = (version for version in versions if version in known)
    passed = frozenset(version for version in read if architecture in table.gguf_architectures(version))
    return Passing(versions, passed)


def _by_converter(asked: Question, case: Case) -> Answer:
    """How a release that serves GGUF alone takes a checkpoint of the Hub: its converter decides."""
    converter, names = case.build.converter, asked.model.architectures
    if (
        isinstance(converter, Known)
        and isinstance(names, Known)
        and names.value
        and converter.value is not None
    ):
        row = converted_row(converter.value, names.value)
        if row is None and not converter.value.unnamed:
            return Answer("none", None, "no", "")
        served_by = row.name if row is not None else None
        return _by_checks(case, "converter" if row else "none", (*GATES, *asked.more), served_by)
    return _by_checks(case, "none", (REGISTERED,))


def _open(case: Case) -> bool:
    """Whether a release without a way may serve the model all the same: that is for the check to tell."""
    named, plugins = case.model.architectures, case.build.plugins
    return not (isinstance(named, Known) and named.value) or bool(
        isinstance(plugins, Known) and plugins.value
    )


def _own_code(model: Model) -> bool:
    return isinstance(model.auto_map, Missing) or bool(model.auto_map.value)


def _importable(reader: Reader, case: Case, way: Route) -> bool:
    """Whether the registered class is there and whole; of a wrapper nothing is asked."""
    if way.way not in ("native", "converted"):
        return True
    found = resolved(reader, case, way.served_by)
    return found is not None and not found.broken


def _by_checks(case: Case, way: str, checks: Sequence[Check], served_by: str | None = None) -> Answer:
    """The worst of what these checks say, in the words of the first one that says it."""
    findings = [judged for check in checks if isinstance(judged := check.judge(case), Finding)]
    if not findings:
        return Answer(way, served_by, "unknown", "nothing could be judged")
    decided = min(findings, key=lambda f: _ORDER[word(f.verdict)])
    match decided.verdict:
        case Yes():
            needs = (need for f in findings if isinstance(f.verdict, Yes) for need in f.verdict.needs)
            return Answer(way, served_by, "yes", "", needs=tuple(dict.fromkeys(needs)))
        case No(because=because):
            listed = "none" if decided.check == REGISTERED.name else way
            return Answer(listed, served_by, "no", because, decided.check)
        case Unknown(because=because):
            return Answer(way, served_by, "unknown", because, decided.check)


_ORDER: dict[Word, int] = {"no": 0, "unknown": 1, "yes": 2}


def _dropped(asked: Question, build: Fact[Build]) -> Mapping[str, str]:
    """What a build says of those of the model's architectures that it no longer serves."""
    names = asked.model.architectures
    dropped = build.value.dropped if isinstance(build, Known) else build
    if isinstance(names, Missing) or isinstance(dropped, Missing):
        return {}
    return {name: dropped.value[name] for name in names.value if name in dropped.value}


def _together(column: Column, judged: Sequence[_Judged]) -> Iterator[Dropped]:
    """What builds say of dropped names, neighbours that say the same together."""
    said: dict[tuple[str, str], list[int]] = {}
    for position, one in enumerate(judged):
        for pair in one.dropped.items():
            said.setdefault(pair, []).append(position)
    for (name, last), positions in said.items():
        yield from (Dropped(run, name, last) for run in runs_of(column, positions))
