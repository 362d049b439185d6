"""Machine profiles from ``machines.toml``: what is known of a kind of machine before one is looked at."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from typing import Any

from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.rules.table import RuleError, Table, load
from canserve.subjects.machine import Machine
from canserve.units import Bytes, Capability, Compute, Rate

PREFIX = "profile:"
FILE = "machines.toml"
MAX_GPUS = 1024
MAX_TEXT = 200

Convert = Callable[[Any], Any]


def _capability(value: object) -> Capability | None:
    return None if value == "none" else Capability.parse(_text(value))


def _size(value: object) -> Bytes:
    return Bytes.parse(_text(value))


def _some(value: object) -> Bytes:
    size = _size(value)
    if size.count < 1:
        raise ValueError(f"nothing at all: {value!r:.80}")
    return size


def _rate(value: object) -> Rate:
    return Rate(_some(_text(value).removesuffix("/s")).count)


def _compute(value: object) -> Compute:
    known = Compute.parse(_text(value))
    if 0 in (known.bf16, known.fp8, known.fp4):
        raise ValueError(f"nothing at all: {value!r:.80}")
    return known


def _whole(value: object) -> int:
    if type(value) is not int or not 0 <= value <= MAX_GPUS:  # 0: it serves on its processors, or not at all
        raise ValueError(f"not a number of accelerators: {value!r}")
    return value


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"not true or false: {value!r:.80}")  # noqa: TRY004 - one error type for all texts
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > MAX_TEXT:
        raise ValueError(f"not a short text: {value!r:.80}")
    return value


def _version(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[0-9]{1,5}(\.[0-9]{1,5}){0,3}", value):
        raise ValueError(f"not a version: {value!r:.80} (write 580.95.05)")
    return value


def _one_of(*allowed: str) -> Convert:
    def check(value: object) -> str:
        if value not in allowed:
            raise ValueError(f"{value!r:.80} is none of {', '.join(allowed)}")
        return str(value)

    return check


FIELDS: Mapping[str, Convert] = {
    "vendor": _one_of("nvidia", "amd", "intel", "google", "huawei"),
    "gpu": _text,
    "capability": _capability,
    "arch_name": _text,
    "gpus": _whole,
    "memory": _some,
    "visible_memory": _some,
    "reported_memory": _some,
    "unified_memory": _truth,
    "bandwidth": _rate,
    "compute": _compute,
    "cpu_arch": _one_of("x86_64", "aarch64"),
    "disk": _size,
    "driver": _version,
    "cuda": _version,
    "libc": _version,
    "fp8": _truth,
    "fp4": _truth,
    "intra_node": _text,
    "inter_node": _text,
}
"""Every fact of a machine that a file can state, and how its text becomes a value. Raises ValueError."""

KIND = frozenset(
    {"memory", "visible_memory", "unified_memory", "bandwidth", "compute", "arch_name", "fp8", "fp4"}
)
"""Facts of an accelerator that every machine with one of its kind shares."""

assert set(FIELDS) <= {field.name for field in fields(Machine)} - {"subject"}


def names() -> tuple[str, ...]:
    """Every profile's name, without the prefix and the aliases, in the order of the table."""
    return tuple(dict.fromkeys(row["name"] for row in load(FILE).data["machine"]))


def every_name() -> tuple[str, ...]:
    """Names and aliases."""
    return tuple(_index())


def profile(name: str) -> Machine | None:
    """The machine a profile describes (``h200`` or an alias); None: there is no such profile."""
    row = _index().get(name.lower())
    return None if row is None else _machine(load(FILE), row)


def kind(name: str) -> Machine | None:
    """The profile of the accelerator that its maker's tools call by this name; None: no profile is sure to be it."""
    row = _reported().get(name)
    return None if row is None else _machine(load(FILE), row)


@cache
def _reported() -> Mapping[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for row in load(FILE).data["machine"]:
        for name in row.get("reported", ((), ""))[0]:
            if name in found:
                raise RuleError(f"rules/{FILE}: two machines report {name}")
            found[name] = row
    return found


@cache
def _index() -> Mapping[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for row in load(FILE).data["machine"]:
        for name in (row["name"], *row.get("aliases", ())):
            if name in found:
                raise RuleError(f"rules/{FILE}: two machines are called {name}")
            found[name] = row
    return found


def _machine(table: Table, row: Mapping[str, Any]) -> Machine:
    subject = PREFIX + row["name"]
    if unknown := sorted(set(row) - set(FIELDS) - {"name", "aliases", "reported"}):
        raise RuleError(f"rules/{FILE}: {row['name']}: unknown fields: {', '.join(unknown)}")
    return Machine(subject, **{name: _fact(table, subject, row, name) for name in FIELDS})


def _fact(table: Table, subject: str, row: Mapping[str, Any], name: str) -> Fact[Any]:
    if name not in row:
        return unstated(subject, name)
    try:
        value, source = row[name]
        words = table.sources[source]
        known = FIELDS[name](value)
    except (KeyError, TypeError, ValueError) as error:
        raise RuleError(f"rules/{FILE}: {row['name']}: {name}: {error}") from error
    return Known(
        known, (Evidence(subject, f"rules/{FILE}: {name}", f"{value} [{words}]", when=table.updated),)
    )


def unstated(subject: str, name: str) -> Missing:
    """The value of a fact that a profile or a cluster file does not state."""
    look = Evidence(subject, name, "not stated")
    words = name.replace("_", " ")
    return Missing(
        Cause.UNAVAILABLE, f"{subject} states no {words}", (look,), ask=f"state its {words} in a cluster file"
    )
