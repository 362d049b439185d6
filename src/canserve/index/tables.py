"""What the index keeps of a build: every fact as names in tables, and the fact again from a release's names.

A name is what changes from release to release; where it stands (file and line) is not kept, nor is any order
that means nothing. Where a fact is missing, its first table is listed as unread, with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from canserve.facts import Fact, Known, Missing
from canserve.index import class_tables, flag_tables, method_tables
from canserve.index.at import At, Lazy
from canserve.index.words import NOTHING, join, split, unword, word
from canserve.subjects.build import AttentionBackend, Build, ConfigShim, Fallback, Registered, Site

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
    return ConfigShim(key, name, at.site, over == "over", class_tables.needed(at, "config_imports", key))


def _write_fallback(value: Fallback | None) -> Names:
    if value is None:
        return {"fallback": [NOTHING]}
    rule = [
        value.classes, value.accepts, value.remote_code, value.multimodal, dict(value.suffixes),
        value.refuses_dropped, value.bases,
    ]  # fmt: skip
    return {"fallback": [json.dumps(rule, separators=(",", ":"))]}  # orders mean something here


def _fallback(at: At) -> Fallback | None:
    (text,) = at.names("fallback")
    if text == NOTHING:
        return None
    classes, accepts, remote_code, multimodal, suffixes, refuses, bases = json.loads(text)
    first, last = (tuple(classes), tuple(accepts)), tuple(bases)
    return Fallback(*first, remote_code, multimodal, suffixes, refuses, at.site, last)


def _write_backends(value: Mapping[str, AttentionBackend]) -> Names:
    written = []
    for name, backend in value.items():
        at, dtypes = backend.capabilities, backend.kv_dtypes
        numbers = ",".join(map(str, at.value)) if isinstance(at, Known) else "?"
        written.append(join(name, numbers, *(dtypes.value if isinstance(dtypes, Known) else "?")))
    return {"attention_backends": written}


def _backends(at: At) -> Mapping[str, AttentionBackend]:
    found = {}
    for name, numbers, *dtypes in map(split, at.names("attention_backends")):
        capabilities: Fact[tuple[int, ...]] = class_tables.NOT_READ
        if numbers != "?":
            capabilities = Known(tuple(int(number) for number in numbers.split(",") if number))
        known: Fact[tuple[str, ...]] = class_tables.NOT_READ if dtypes == ["?"] else Known(tuple(dtypes))
        found[name] = AttentionBackend(name, capabilities, known, at.site)
    return found


KEPT: tuple[Kept, ...] = (
    Kept(
        "registry",
        "architectures",
        _write_registry,
        lambda at: Lazy(at, "architectures", _registered),
        ("registered",),
    ),
    Kept("classes", "classes", class_tables.write, class_tables.Classes, class_tables.OTHERS),
    _pairs("dropped"),
    _pairs("elsewhere"),
    _plain("plugins"),
    Kept("fallback", "fallback", _write_fallback, _fallback),
    Kept(
        "config_shims",
        "config_types",
        _write_shims,
        lambda at: Lazy(at, "config_types", _shim),
        ("config_classes", "config_imports"),
    ),
    _sites("config_fixups"),
    _pairs("architecture_types"),
    _pairs("architecture_rewrites"),
    Kept("quantization", "quantization", method_tables.write, method_tables.read, method_tables.OTHERS),
    _groups("vendor_quantization"),
    _plain("kv_cache_dtypes"),
    _plain("reasoning_parsers"),
    _plain("tool_parsers"),
    _sites("speculative"),
    _groups("draft_classes"),
    Kept("flags", "flags", flag_tables.write, flag_tables.read, flag_tables.OTHERS),
    Kept("flag_syntax", "flag_syntax", flag_tables.write_syntax, flag_tables.read_syntax),
    Kept("attention_backends", "attention_backends", _write_backends, _backends),
    _plain("launchers"),
    _plain("load_formats"),
    _sites("gguf_architectures"),
)
"""Everything that is kept of a build beyond what its file's name and the index page say."""
REQUIRES = "requires"
"""Table of the ``Requires-Dist`` lines."""


def fact_of(build: Build, kept: Kept) -> Fact[Any]:
    """A build's fact; all its classes are one."""
    if kept.field == "classes":
        return build.registry if isinstance(build.registry, Missing) else Known(build.classes)
    fact: Fact[Any] = getattr(build, kept.field)
    return fact


def names_of(build: Build) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """All names of a build by table; and the tables that could not be read, each with the reason."""
    names: dict[str, tuple[str, ...]] = {}
    unread: dict[str, str] = {}
    for kept in KEPT:
        fact = fact_of(build, kept)
        if isinstance(fact, Missing):
            unread[kept.table] = fact.why
            continue
        for table, found in kept.write(fact.value).items():
            names[table] = tuple(sorted(set(found)))
    requires = build.identity.requires
    if isinstance(requires, Missing):
        unread[REQUIRES] = requires.why
    else:
        names[REQUIRES] = tuple(sorted(set(requires.value)))
    return names, unread
