"""What is known of one subject as text: one fact a row, what could not be read with its reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING

from canserve.facts import Evidence, Known, Missing
from canserve.render.page import STYLES, Cell, Look, Page, Row
from canserve.render.subject_shapes import BuildShape, MachineEntryShape, ModelOutputShape
from canserve.subjects.host import Told
from canserve.subjects.machine import NOT_LOOKED
from canserve.subjects.stack import Stack

if TYPE_CHECKING:
    from canserve.checks.every import Described

_LABEL = 22
"""Columns of a fact's name."""
_SHOWN = 8
"""Names of a long list that are shown unless all are asked for."""
_LONGEST = 200
"""Characters of one value that are shown unless all are asked for."""
_LEFT_TO_JSON = {"raw", "config", "generation", "flag_details", "gpu_code"}
"""Fields whose content the other fields tell in a readable way."""


def build_text(output: BuildShape, look: Look, *, whole: bool) -> str:
    """One build. ``whole``: every name of every list, instead of the first few and their number."""
    page = Page(look)
    page.add(*_subject(output.build, output.facts, whole))
    return page.render()


def model_text(output: ModelOutputShape, look: Look, *, whole: bool) -> str:
    """One model."""
    page = Page(look)
    page.add(*_subject(output.model, output.facts, whole))
    return page.render()


def machine_rows(one: MachineEntryShape) -> Iterable[Row]:
    """One machine, each fact with its source."""
    return _subject(one.machine, one.facts, whole=True, sources=one.evidence)


def _subject(
    name: str, record: object, whole: bool, sources: Mapping[str, Sequence[Evidence]] | None = None
) -> Iterable[Row]:
    yield Row(label=name)
    facts = {"all of it": record} if isinstance(record, Missing) else _fields(record)
    unread: dict[Missing, list[str]] = {}
    shown: set[str] = set()
    for field, value in facts.items():
        if value is NOT_LOOKED:
            continue
        if isinstance(value, Missing):
            unread.setdefault(replace(value, evidence=()), []).append(field.replace("_", " "))
            continue
        if value != name:  # the subject's own name stands above
            yield from _rows(field, value, whole, indent=2)
        for look in (sources or {}).get(field, ()):
            said = _source(look)
            # What was read on a machine is the value above; one look gives many of them and is named once.
            if not _taken(look) or said not in shown:
                yield Row(said, indent=2 + _LABEL, style="dim")
            shown.add(said)
    for missing, names in unread.items():
        yield Row(
            f"{', '.join(names)}: {missing.why}", (Cell("unknown", _LABEL, STYLES["unknown"]),), indent=2
        )
        if missing.ask:
            yield Row(missing.ask, (Cell("ask:", 5, "bold cyan"),), indent=2 + _LABEL)


def _taken(look: Evidence) -> bool:
    """Whether it was a look at a machine, at a moment; a table has a date, a file neither."""
    return look.when is not None and "T" in look.when


def _source(look: Evidence) -> str:
    return f"from {look.how}" if _taken(look) else f"{look.how}: {look.saw}"


def _fields(record: object) -> dict[str, object]:
    """By name; those of a build's stack stand among its own."""
    assert is_dataclass(record)
    found: dict[str, object] = {}
    for name in (f.name for f in fields(record) if f.name not in _LEFT_TO_JSON):
        value = getattr(record, name)
        found |= _fields(value) if isinstance(value, Stack) else {name: value}
    return found


def _is_record(value: object) -> bool:
    """A dataclass that has no way of its own to print in a word, as bytes and capabilities have."""
    return is_dataclass(value) and type(value).__str__ is object.__str__


def _rows(field: str, fact: object, whole: bool, indent: int) -> Iterable[Row]:
    """One row, or one for each part of a record, below its name."""
    value = fact.value if isinstance(fact, Known) else fact
    label = Cell(field.rstrip("_").replace("_", " "), _LABEL)
    if isinstance(value, tuple) and value and all(isinstance(item, Told) for item in value):
        for number, item in enumerate(value):
            yield Row(str(item), (label if number == 0 else Cell("", _LABEL),), indent)
        return
    if isinstance(value, Missing) or not _is_record(value):
        style = STYLES["unknown"] if isinstance(value, Missing) else ""
        yield Row(brief(value, whole), (label,), indent, style)
        return
    yield Row(cells=(label,), indent=indent)
    for name, part in _fields(value).items():
        if not _says_nothing(part):
            yield from _rows(name, part, whole, indent + 2)


def _says_nothing(value: object) -> bool:
    inner = value.value if isinstance(value, Known) else value
    return inner is None or inner in ((), {})


def brief(value: object, whole: bool) -> str:
    """A value in one line: a number and the first few names for long collections."""
    match value:
        case Missing(why=why):
            return f"unknown: {why}"
        case Known(inner):
            return brief(inner, whole)
        case Mapping() | Set() | list() | tuple():
            return _collection(value, whole)
        case _ if _is_record(value):
            parts = {name: part for name, part in _fields(value).items() if not _says_nothing(part)}
            said = (
                f"{name.rstrip('_').replace('_', ' ')} {brief(part, whole)}" for name, part in parts.items()
            )
            return f"[{', '.join(said)}]"
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case _:
            text = str(value)
            return text if whole or len(text) <= _LONGEST else f"{len(text):,} characters"


def _collection(
    found: Mapping[object, object] | Set[object] | list[object] | tuple[object, ...], whole: bool
) -> str:
    if not found:
        return "none"
    items = sorted(found, key=str) if isinstance(found, Set) else list(found)
    shown = items if whole else items[:_SHOWN]
    texts = [_item(item, found, whole) for item in shown]
    if len(shown) < len(items):
        return f"{len(items)}: {', '.join(texts)} ..."
    return ", ".join(texts)


def _item(item: object, found: object, whole: bool) -> str:
    """A list's item, or a mapping's key with its value where that is short."""
    if not isinstance(found, Mapping):
        return brief(item, whole)
    value = found[item]
    if value == "" or is_dataclass(value) or isinstance(value, Mapping | Known | Missing):
        return str(item)
    return f"{item}: {brief(value, whole)}"


def checks_text(checks: Iterable[Described], look: Look) -> str:
    """The check reference: name, and what a yes means."""
    page = Page(look)
    for check in checks:
        needs = "" if check.when == "always" else f" ({check.when})"
        page.add(Row(label=check.name), Row(f"{check.claim}{needs}", indent=4))
    return page.render()


def names_text(names: Iterable[str], look: Look) -> str:
    """Names, one a line."""
    page = Page(look)
    page.add(*(Row(name) for name in names))
    return page.render()
