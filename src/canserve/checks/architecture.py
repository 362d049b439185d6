"""architecture-registered and architecture-module-present.

An architecture is served natively, through a fallback, or not at all; and its class must be importable.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from canserve.checks.case import Case
from canserve.checks.gates import (
    Passing,
    candidates,
    condition,
    fallback_gate,
    import_gate,
    is_the_library,
    look,
    resolved,
    spans,
)
from canserve.checks.gguf import ORIGINAL, architecture_known, convertible
from canserve.checks.reader import Check, NotApplicable, Reader
from canserve.checks.several_engines import forced, given, left
from canserve.facts import Known
from canserve.subjects.build import Fallback, Registered, gguf_only
from canserve.verdict import No, Unknown, Verdict, Yes

SHRANK = 0.9
"""A registry with less than this share of its neighbour's rows was not read in a form that is understood."""


NAME_IT = "write the class into config.json as `architectures`"


@dataclass(frozen=True, slots=True)
class Route:
    """The way an architecture would take through a build."""

    architecture: str
    way: str
    """``native``, ``converted`` (by suffix), ``fallback`` or ``remote`` (the repository's own class)."""
    served_by: str
    """The registered architecture or wrapper class that does the work."""


def wanted(reader: Reader, case: Case) -> tuple[str, ...]:
    """The architectures a config names, or the engine puts in by model type; else those its type stands for."""
    named = reader.read(case.model.architectures)
    rewrites = reader.try_read(case.build.architecture_rewrites) or {}
    declared = reader.try_read(case.model.model_type)
    rewritten = rewrites.get(declared) if declared else None
    if rewritten is not None and rewritten not in named:
        named = (rewritten, *named)
    if named:
        return named
    model_type = reader.read(case.model.model_type)
    if model_type is None:
        return ()
    versions, table = candidates(reader, case)
    known = [v for v in versions if v in table.versions]
    return table.architectures_of(known[-1], model_type) if known else ()


def native(
    registry: Mapping[str, Registered], names: tuple[str, ...], rule: ByAutoMap | None = None
) -> Registered | None:
    """The first named architecture that the build registers, as the engines pick it."""
    named = (rule.name, *names) if rule is not None and rule.name not in names else names
    for name in named:
        row = registry.get(name)
        if row is not None and (rule is None or rule.lets(row)):
            return row
    return None


@dataclass(frozen=True, slots=True)
class ByAutoMap:
    """The class that the config's ``auto_map`` names, where engines of the build take that and no other."""

    name: str
    backends: tuple[str, ...]

    def lets(self, row: Registered) -> bool:
        """Whether an engine is left that serves the row; the others go by ``architectures``."""
        bound = [backend for backend in row.backends if backend in self.backends]
        return row.architecture == self.name or len(bound) < max(len(row.backends), 1)


def by_auto_map(reader: Reader, case: Case) -> ByAutoMap | None:
    """The class that ``auto_map`` names, if the build goes by it and there is one."""
    rule = reader.try_read(case.build.auto_map_rule)
    named = reader.read(case.model.auto_map).get(rule.key) if rule is not None else None
    if rule is None or named is None:
        return None
    reader.cite((look(case, str(rule.at), f"{rule.key} of auto_map: {named}"),))
    return ByAutoMap(named.rsplit(".", 1)[-1], rule.backends)


def converted(registry: Mapping[str, Registered], names: tuple[str, ...], fallback: Fallback) -> Route | None:
    """A suffix conversion: a pooling head on a registered base architecture."""
    for name in names:
        for suffix, base in fallback.suffixes.items():
            for one in dict.fromkeys((base, *fallback.bases)):
                if name.endswith(suffix) and (target := name.removesuffix(suffix) + one) in registry:
                    return Route(name, "converted", target)
    return None


def route(reader: Reader, case: Case) -> tuple[Route | None, Passing | None]:
    """The way through the build, and which transformers releases open it where that matters."""
    names = wanted(reader, case)
    registry = reader.read(case.build.registry)
    if (row := native(registry, names, by_auto_map(reader, case))) and case.wish.model_impl != "transformers":
        return Route(row.architecture, "native", row.architecture), None
    fallback = reader.read(case.build.fallback)
    if fallback is None or case.wish.model_impl not in (None, "auto", "transformers"):
        return None, None
    if way := converted(registry, names, fallback):
        return way, None
    if fallback.refuses_dropped:
        dropped = reader.read(case.build.dropped)
        if any(name in dropped for name in names):
            return None, None
    reader.cite((look(case, str(fallback.at), f"falls back on {', '.join(fallback.classes)}"),))
    passing = None
    for name in names if fallback.accepts else ():
        passing = fallback_gate(reader, case, name, fallback)
        if passing.passed or passing.unsure:
            return Route(name, "fallback", fallback.classes[0]), passing
    auto_map = reader.read(case.model.auto_map)
    if names and fallback.remote_code and any(key.startswith("AutoModel") for key in auto_map):
        return Route(names[0], "remote", fallback.classes[0]), passing
    return None, passing


def registered(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``architecture-registered``."""
    gguf = reader.try_read(case.model.gguf_architecture)
    if gguf is not None:
        return _gguf(reader, case, gguf)
    if gguf_only(case.build):
        return convertible(reader, case)
    names = wanted(reader, case)
    if not names:
        return Unknown(
            "the config names no architecture, and its model type stands for none",
            NAME_IT,
        )
    registry = reader.read(case.build.registry)
    way, passing = route(reader, case)
    match way:
        case Route(name, "native"):
            return _native(reader, case, registry[name])
        case Route(name, "converted", base):
            row = registry[base]
            reader.cite((look(case, str(row.at), f"{base} -> {row.module}.{row.name}"),))
            return Yes(f"{name} is not registered, but is made from {base} by the build's suffix conversion")
        case Route(name, "fallback", served_by) if passing is not None and passing.passed:
            found = spans(passing.passed, passing.candidates)
            because = f"{name} is not registered, but the Transformers back end ({served_by}) serves it"
            return Yes(f"{because} with transformers {found}", condition(passing))
        case Route(name, "fallback"):
            return Unknown(
                f"{name} is not registered; of the transformers that decides on a fallback nothing is known",
                "update the release index, or name a transformers release with --with",
            )
        case Route(name, "remote", served_by):
            return _remote(case, name, served_by)
        case _:
            pass
    return _absent(reader, case, names, registry, passing)


def _native(reader: Reader, case: Case, row: Registered) -> Verdict:
    """Registered is served, unless a flag leaves only an engine that does not have the architecture."""
    name, only, engines = row.architecture, forced(reader, case), left(reader, case, row)
    reader.cite((look(case, str(row.at), f"{name} -> {row.module}.{row.name}"),))
    if only is not None and row.backends and not engines:
        engine, flag = only
        return No(
            f"{name} is registered for {' and '.join(row.backends)}, not for {engine}", f"leave {flag} out"
        )
    conditions = [guard for guard in row.guards if not guard.startswith("--")]
    needs = tuple(guard for guard in row.guards if guard.startswith("--") and not given(case, guard))
    guard = f", if {' and '.join(conditions)}" if conditions else ""
    served = f", for {' and '.join(engines)}" if engines else ""
    return Yes(f"{name} is registered ({row.module.rsplit('.', 1)[-1]}.{row.name}){served}{guard}", needs)


def _remote(case: Case, name: str, served_by: str) -> Verdict:
    because = f"{name} is not registered; {served_by} would run the model's own code from its repository"
    if case.wish.trust_remote_code:
        return Unknown(
            f"{because}, which is never judged here", "start it once: its own code decides whether it fits"
        )
    return Unknown(because, "read that code, then judge again with -- --trust-remote-code")


def _absent(
    reader: Reader,
    case: Case,
    names: tuple[str, ...],
    registry: Mapping[str, Registered],
    passing: Passing | None,
) -> Verdict:
    name = names[0]
    identity = case.build.identity
    reader.cite(case.build.registry.evidence)
    before = case.history.neighbour_count(identity.engine, _version(case))
    if before is not None and len(registry) < SHRANK * before:
        return Unknown(
            f"only {len(registry)} architectures were read where the neighbouring release has {before}: "
            "this registry has a form that is not understood",
            "report the build, so that its form can be learned",
        )
    elsewhere = reader.try_read(case.build.elsewhere) or {}
    plugins = reader.try_read(case.build.plugins) or ()
    if plugins:
        return Unknown(
            f"{name} is not registered, but an installed plugin may add it: {', '.join(plugins[:3])}",
            "look whether the plugin registers it, or judge an environment without plugins",
        )
    because = f"{name} is not among the {len(registry)} registered architectures"
    if passing is not None and passing.reason:
        because += f", and {passing.reason} (looked at {spans(passing.candidates, passing.candidates)})"
    if near := nearest(name, registry):
        because += f"; nearest: {', '.join(near)}"
    if not reader.read(case.model.architectures):
        return Unknown(f"the config names no architecture, and {because}", NAME_IT)
    if name in elsewhere:
        return No(because, f"install its plugin: {elsewhere[name]}")
    return No(because, _release_hint(reader, case, name))


def _release_hint(reader: Reader, case: Case, name: str) -> str:
    engine = case.build.identity.engine
    releases = _of_the_library(reader, case, name)
    if releases is None:
        releases = case.history.releases_with(engine, name)
        reader.cite((case.history.evidence(engine),))
    dropped = reader.try_read(case.build.dropped) or {}
    if not releases:
        if dropped.get(name):
            return f"use {engine}=={dropped[name]}, which the build names as the last that served it"
        return (
            f"no indexed release of {engine} lists it: try another engine, or a build made from newer source"
        )
    mine = _version(case)
    later = [v for v in releases if mine is None or Version(v) > mine]
    earlier = [v for v in releases if mine is not None and Version(v) <= mine]
    if later:
        return f"use {engine}>={later[0]}, the first release that lists it" + (
            f" again (it was dropped after {earlier[-1]})" if earlier else ""
        )
    return f"use {engine}=={releases[-1]}, the last release that lists it"


def _of_the_library(reader: Reader, case: Case, name: str) -> tuple[str, ...] | None:
    """Releases that have the class, where the build is the transformers library itself; None: it is not."""
    if not is_the_library(case.build):
        return None
    table = reader.read(case.build.transformers.table)
    having = [v for v in table.versions if table.backend_tests(v, name) is not None]
    reader.cite(table.evidence(v) for v in having[:1])
    return tuple(v for v in having if not Version(v).is_prerelease) or tuple(having)


def _version(case: Case) -> Version | None:
    version = case.build.identity.version
    if isinstance(version, Known):
        try:
            return Version(version.value)
        except InvalidVersion:
            return None
    return None


def nearest(name: str, known: Mapping[str, object]) -> list[str]:
    """Up to three known names that look like this one."""
    return difflib.get_close_matches(name, known, n=3, cutoff=0.7)


def _gguf(reader: Reader, case: Case, architecture: str) -> Verdict:
    own = reader.read(case.build.gguf_architectures)
    if own is None:
        versions, table = candidates(reader, case)
        known = [v for v in versions if v in table.versions]
        passed = frozenset(v for v in known if architecture in table.gguf_architectures(v))
        passing = Passing(versions, passed, frozenset(versions) - frozenset(known))
        if passed:
            found = spans(passed, versions)
            return Yes(
                f"GGUF architecture {architecture} is read by transformers {found}", condition(passing)
            )
        if not known:
            return Unknown("nothing is recorded of its transformers", "update the release index")
        return No(
            f"GGUF architecture {architecture} is not read by transformers {spans(known, versions)}, "
            "which this build leaves it to",
            ORIGINAL,
        )
    return architecture_known(reader, case, architecture)


def module_present(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``architecture-module-present``."""
    if reader.try_read(case.model.gguf_architecture) is not None:
        raise NotApplicable("a GGUF file names no model class")
    way, _ = route(reader, case)
    if way is None or way.way not in ("native", "converted"):
        raise NotApplicable("no class of the build itself is registered for this model")
    row = reader.read(case.build.registry)[way.served_by]
    found = resolved(reader, case, way.served_by)
    if found is None:
        return No(
            f"{row.at} names {row.module}.{row.name}, which does not exist in this build",
            "use another build: this one was put together wrongly",
        )
    reader.cite((look(case, str(found.at), f"class {found.name}"),))
    if found.broken:
        return No(
            f"its module cannot be imported: {found.broken[0]}",
            "use another build: this one was put together wrongly",
        )
    passing = import_gate(reader, case, found.imports)
    if passing.passed:
        count = f"{len(found.imports)} names" if found.imports else "nothing"
        because = f"{found.module} is there and takes {count} from transformers"
        note = "" if passing.every else f"; {spans(passing.passed, passing.candidates)} offer them"
        return Yes(because + note, condition(passing))
    if passing.unsure:
        return Unknown(
            f"whether {spans(passing.unsure, passing.candidates)} of transformers offers what {found.module} "
            "imports is not recorded",
            "judge an environment in which transformers is installed",
        )
    tried = spans(passing.candidates, passing.candidates)
    return No(
        f"{found.module} cannot be imported with transformers {tried}: {passing.reason}",
        "use another transformers release (--with transformers==X judges one), or another build",
    )


REGISTERED = Check(
    "architecture-registered",
    "The build serves the model's architecture: natively, by a suffix conversion, or through the engine's "
    "Transformers back end.",
    registered,
)
MODULE_PRESENT = Check(
    "architecture-module-present",
    "The registered class exists in the build, and its module can be imported with a transformers release "
    "that the build would run with.",
    module_present,
    of_checkpoints=True,
)
