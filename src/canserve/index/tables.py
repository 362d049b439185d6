"""What the index keeps of a build: every fact as names in tables, and the fact again from a release's names.

A name is what changes from release to release; where it stands (file and line) is not kept, nor is any order
that means nothing. Where a fact is missing, its first table is listed as unread, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from canserve.facts import Fact, Missing, derive
from canserve.index import class_tables, flag_tables, method_tables
from canserve.index.at import At, Firsts, Lazy
from canserve.index.records import parsed, written
from canserve.index.words import NOTHING, join, split, unword, word
from canserve.subjects.build import NOT_ASKED, Build, ConfigShim, Converted, Converter, Registered, Site

Names = Mapping[str, Iterable[str]]
"""By table: the names of one release."""


@dataclass(frozen=True, slots=True)
class Kept:
    """One fact of a build as it is kept."""

    field: str
    """Of ``Build``."""
    table: str
    """The first of its tables: where the fact is missing, this one is unread."""
    write: Callable[[Any], Names]
    """The fact's value as names."""
    read: Callable[[At], Any]
    """The value again."""
    others: tuple[str, ...] = ()
    """Further tables that ``write`` fills."""


def _plain(field: str) -> Kept:
    """A fact whose value is a tuple of names; their order means nothing."""
    return Kept(
        field,
        field,
        lambda value: {field: [word(name) for name in value]},
        lambda at: tuple(map(unword, at.names(field))),
    )


def _pairs(field: str) -> Kept:
    """A fact whose value maps names to names."""
    return Kept(
        field,
        field,
        lambda value: {field: [join(*pair) for pair in value.items()]},
        lambda at: dict(map(split, at.names(field))),
    )


def _groups(field: str) -> Kept:
    """A fact whose value maps names to several names in their order."""
    return Kept(
        field,
        field,
        lambda value: {field: [join(key, *names) for key, names in value.items()]},
        lambda at: {key: tuple(names) for key, *names in map(split, at.names(field))},
    )


def _site(at: At, name: str) -> Site:
    del name
    return at.site


def _sites(field: str) -> Kept:
    """A fact whose value maps names to their places; None is a value of its own."""
    return Kept(
        field,
        field,
        lambda value: {field: [NOTHING] if value is None else map(word, value)},
        lambda at: None if at.has(field, NOTHING) else Lazy(at, field, _site),
    )


@cache
def _kinds() -> Mapping[str, Any]:
    return get_type_hints(Build)


def kind_of(field: str) -> Any:
    """The type of a fact's value."""
    known, _ = get_args(_kinds()[field])
    return get_args(known)[0]


def _whole(field: str) -> Kept:
    """A fact whose value is one record, written as one name: its parts change together."""
    return Kept(
        field,
        field,
        lambda value: {field: [word(written(value, kind_of(field)))]},
        lambda at: parsed(unword(at.names(field)[0]), kind_of(field), at.site),
    )


def _rows(field: str) -> Kept:
    """A fact whose value maps names to records or numbers."""
    return Kept(
        field,
        field,
        lambda value: {
            field: [join(key, written(one, get_args(kind_of(field))[1])) for key, one in value.items()]
        },
        lambda at: Firsts(at, field, lambda _, words: parsed(words[0], get_args(kind_of(field))[1], at.site)),
    )


def _write_registry(value: Mapping[str, Registered]) -> Names:
    rows = value.values()
    return {
        "architectures": [word(row.architecture) for row in rows],
        "registered": [
            join(row.architecture, row.module, row.name, row.kind, ",".join(row.backends), *row.guards)
            for row in rows
        ],
    }


def _registered(at: At, architecture: str) -> Registered:
    ((module, name, kind, backends, *guards),) = at.of("registered", architecture)
    by = tuple(backends.split(",")) if backends else ()
    return Registered(architecture, module, name, kind, at.site, tuple(guards), by)


def _write_shims(value: Mapping[str, ConfigShim]) -> Names:
    shims = value.items()
    return {
        "config_types": map(word, value),
        "config_classes": [join(key, shim.name, "over" if shim.overrides else "") for key, shim in shims],
        "config_imports": [join(key, *class_tables.need(one)) for key, shim in shims for one in shim.imports],
    }


def _shim(at: At, key: str) -> ConfigShim:
    ((name, over),) = at.of("config_classes", key)
    return ConfigShim(
        key, name, at.site, over == "over", tuple(class_tables.needed(at, "config_imports", key))
    )


def _write_converter(value: Converter | None) -> Names:
    if value is None:
        return {"converter": [NOTHING]}
    rest = replace(value, classes={}, projectors={})
    rows = {"converted": value.classes, "converted_projectors": value.projectors}
    return {
        "converter": [word(written(rest, Converter))],
        **{t: [join(k, written(one, Converted)) for k, one in of.items()] for t, of in rows.items()},
    }


def _converter(at: At) -> Converter | None:
    (text,) = at.names("converter")
    if text == NOTHING:
        return None
    rest: Converter = parsed(unword(text), Converter, at.site)
    classes, projectors = (Firsts(at, table, _converted) for table in ("converted", "converted_projectors"))
    return replace(rest, classes=classes, projectors=projectors)


def _converted(at: At, words: list[str]) -> Converted:
    found: Converted = parsed(words[0], Converted, at.site)
    return found


NOT_KEPT = ("gpu_code", "cuda_needed", "libc_needed", "stack", "rpc_worker")
"""Facts of compiled files and of what lies around an engine, which are not read for the index."""
NOT_FACTS = ("identity", "transformers", "torch", *NOT_KEPT)
"""Fields of a build that are made from a release's row, or are about what lies beside it, or are not kept."""
_OWN: tuple[Kept, ...] = (
    Kept(
        "registry",
        "architectures",
        _write_registry,
        lambda at: Lazy(at, "architectures", _registered),
        ("registered",),
    ),
    Kept(
        "classes",
        "classes",
        lambda both: class_tables.write(*both),
        class_tables.Classes,
        class_tables.OTHERS,
    ),
    Kept(
        "config_shims",
        "config_types",
        _write_shims,
        lambda at: Lazy(at, "config_types", _shim),
        ("config_classes", "config_imports"),
    ),
    Kept("quantization", "quantization", method_tables.write, method_tables.read, method_tables.OTHERS),
    Kept("flags", "flags", flag_tables.write, flag_tables.read, flag_tables.OTHERS),
    Kept("converter", "converter", _write_converter, _converter, ("converted", "converted_projectors")),
)
"""Facts with several tables each."""


def _usual(field: str) -> Kept:
    """A fact that is kept as its type suggests: most are."""
    kind = kind_of(field)
    inner = get_args(kind)[-1] if get_origin(kind) is Mapping else None
    if kind == tuple[str, ...]:
        return _plain(field)
    if inner is str:
        return _pairs(field)
    if inner == tuple[str, ...]:
        return _groups(field)
    if inner is Site or kind == Mapping[str, Site] | None:
        return _sites(field)
    return _whole(field) if inner is None else _rows(field)


def _kept() -> tuple[Kept, ...]:
    own = {kept.field: kept for kept in _OWN}
    names = (field.name for field in fields(Build) if field.name not in NOT_FACTS)
    return tuple(own.get(name) or _usual(name) for name in names)


KEPT = _kept()
"""Everything that is kept of a build beyond what its file's name and the index page say."""
REQUIRES = "requires"
"""Table of the ``Requires-Dist`` lines."""


ALWAYS = ("torch", "transformers")
"""What checks ask requirements about; lines of the engine's own name lead to them through extras."""


def kept_lines(engine: str, lines: Iterable[str]) -> set[str]:
    """Of the ``Requires-Dist`` lines all but those of extras that lead nowhere: there are hundreds for tests."""
    own = re.compile(rf"(?:{'|'.join(map(re.escape, (*ALWAYS, engine)))})(?![\w.-])", re.IGNORECASE)
    return {line for line in lines if "extra" not in line.partition(";")[2] or own.match(line)}


def fact_of(build: Build, kept: Kept) -> Fact[Any]:
    """A build's fact; all its classes are one, together with the registry that names them."""
    if kept.field == "classes":
        return derive(build.registry, lambda registry: (registry, build.classes))
    fact: Fact[Any] = getattr(build, kept.field)
    return fact


def names_of(build: Build) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """All names of a build by table, and why tables could not be read; what is not known has no table."""
    names: dict[str, tuple[str, ...]] = {}
    unread: dict[str, str] = {}
    for kept in KEPT:
        fact = fact_of(build, kept)
        if isinstance(fact, Missing):
            if fact != NOT_ASKED:  # of what the engine's reader never tells there is nothing to say
                unread[kept.table] = fact.why
            continue
        for table, found in kept.write(fact.value).items():
            names[table] = tuple(sorted(set(found)))
    requires = build.identity.requires
    if isinstance(requires, Missing):
        unread[REQUIRES] = requires.why
    else:
        names[REQUIRES] = tuple(sorted(kept_lines(build.identity.engine, requires.value)))
    return names, unread
