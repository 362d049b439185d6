"""One table of rules: parsed, dated, every row with its source."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib.resources import files
from operator import eq, ge, gt, le, lt
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from canserve.facts import Evidence


class RuleError(ValueError):
    """A table of rules breaks its invariant."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row: its table and section, its values, and where they were looked up."""

    table: str
    section: str
    values: Mapping[str, Any]
    source: str
    updated: str

    def evidence(self, saw: str) -> Evidence:
        """The rule as a look: which row, what it says, its source and date."""
        name = self.values.get("name") or self.values.get("label") or self.values.get("engine")
        how = f"{self.section}: {name}" if name else self.section
        return Evidence(f"rules/{self.table}", how, f"{saw} [{self.source}]", when=self.updated)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings; empty where the row has none."""
        value = self.values.get(key, ())
        return (value,) if isinstance(value, str) else tuple(value)

    def text(self, key: str) -> str:
        """A string that the row must have."""
        value = self.values.get(key)
        if not isinstance(value, str) or not value:
            raise self.wrong(f"{key} is missing")
        return value

    def wrong(self, why: str) -> RuleError:
        """The error that names this row."""
        return RuleError(f"rules/{self.table}: {self.section} {dict(self.values)!r:.120}: {why}")


@dataclass(frozen=True, slots=True)
class Table:
    """A parsed file of rules."""

    name: str
    updated: str
    sources: Mapping[str, str]
    data: Mapping[str, Any]

    def rows(self, section: str) -> tuple[Row, ...]:
        """The rows of ``[[section]]``, each with a source of its own."""
        return tuple(self._row(section, values) for values in self.data.get(section, ()))

    def _row(self, section: str, values: Mapping[str, Any]) -> Row:
        row = Row(
            self.name, section, values, str(self.sources.get(values.get("source", ""), "")), self.updated
        )
        if not row.source:
            raise row.wrong("names no source that the table lists")
        return row


@cache
def load(name: str) -> Table:
    """A table of this package by its file name. Raises RuleError when it is malformed."""
    return parse(name, (files(__package__) / name).read_text(encoding="utf-8"))


def parse(name: str, text: str) -> Table:
    """A table from its text. Raises RuleError: not TOML, undated, a source without words or without use."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RuleError(f"rules/{name}: {error}") from error
    updated, sources = data.pop("updated", None), data.pop("sources", {})
    if not isinstance(updated, date):
        raise RuleError(f"rules/{name}: `updated` is not a date")
    for key, words in sources.items():
        if not isinstance(words, str) or not words.strip():
            raise RuleError(f"rules/{name}: source {key} says nothing")
    if unused := sorted(set(sources) - set(_strings(data))):
        raise RuleError(f"rules/{name}: sources that no row uses: {', '.join(unused)}")
    return Table(name, updated.isoformat(), sources, data)


def _strings(value: object) -> Sequence[str]:
    match value:
        case str():
            return [value]
        case dict():
            return [text for item in value.values() for text in _strings(item)]
        case list():
            return [text for item in value for text in _strings(item)]
        case _:
            return []


def covers(releases: str, version: str) -> bool | None:
    """Whether a range of releases covers a version; None: the version cannot tell.

    A development build lies somewhere between two releases: its number is a guess of the next one, which may
    turn out to be a patch or a minor release. Where the range treats these differently, nothing is decided.

    >>> covers(">=0.6.6,<0.9.0", "0.8.5"), covers("<0.9.0", "0.9.0rc1.dev7"), covers("<0.9.0", "nightly")
    (True, None, None)
    """
    try:
        allowed, found = SpecifierSet(releases), Version(version)
    except (InvalidSpecifier, InvalidVersion):
        return None
    answers = {_inside(allowed, Version(found.public))}
    if found.is_prerelease:
        answers.add(_inside(allowed, Version(found.base_version)))
    if found.is_devrelease:
        answers.add(_inside(allowed, Version(f"{found.major}.{found.minor + 1}")))
    return answers.pop() if len(answers) == 1 else None


_COMPARE: Mapping[str, Callable[[Version, Version], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge, "==": eq}


def _inside(allowed: SpecifierSet, version: Version) -> bool:
    """By order alone: PEP 440 would leave the pre-releases of a bound out of the range below it."""
    return all(_COMPARE[each.operator](version, Version(each.version)) for each in allowed)
