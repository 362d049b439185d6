"""Memory rules of the engines by release, from ``memory_*.toml``: which rule holds, and where it is written.

A rule holds from its release until the next row of the same fact. The last row is open: it is taken for releases
that came after the table was written, which ``Rule.newest`` tells.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from packaging.version import InvalidVersion, Version

from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.rules.table import RuleError, load

NO_TAG = re.compile(r"0\.(0|1)\.(0\.)?dev")
"""What setuptools-scm calls a build whose source had no tags: it says nothing of the release."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One row: what holds from a release on."""

    fact: str
    since: str
    value: Any
    files: tuple[str, ...]
    """Where the release says so; empty for the first row of a fact, which holds until something else came."""
    form: str
    """A pattern that is found in one of the files from that release on."""
    newest: bool
    """No later row is known."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one engine for one release."""

    engine: str
    version: str
    rows: Mapping[str, Rule]
    updated: str

    def value(self, fact: str) -> Any:
        """What holds for a fact. A fact the table does not have is a mistake of this program."""
        return self.rows[fact].value

    @property
    def beyond(self) -> str | None:
        """The newest release that all rows were compared with, where this one is later."""
        checked = str(self.value("checked"))
        return checked if Version(Version(self.version).base_version) > Version(checked) else None

    def why(self, fact: str) -> str:
        """Since when, and where it is written."""
        rule = self.rows[fact]
        place = f", {rule.files[0]}" if rule.files else ""
        return f"{self.engine} {rule.since}{place}"

    def evidence(self, fact: str) -> Evidence:
        """The rule as a look."""
        saw = f"{self.rows[fact].value!r:.120} [{self.why(fact)}]"
        return Evidence(f"rules/memory_{self.engine}.toml", fact, saw, when=self.updated)


def rules(engine: str, version: str) -> Fact[Rules]:
    """The rules that hold for a release, or for a development build by its own base version."""
    table = every(engine)
    try:
        found = Version(version)
    except InvalidVersion:
        return _unknown(engine, version, "is no version")
    if NO_TAG.match(version):
        return _unknown(engine, version, "is the number of a build without tags")
    wanted = Version(found.base_version) if found.is_prerelease else found
    chosen: dict[str, Rule] = {}
    for fact, rows in table.items():
        holding = [row for row in rows if Version(row.since) <= wanted]
        if not holding:
            return _unknown(engine, version, f"is older than the first rule for {fact}")
        chosen[fact] = holding[-1]
    return Known(Rules(engine, version, chosen, load(_file(engine)).updated))


@cache
def every(engine: str) -> Mapping[str, tuple[Rule, ...]]:
    """All rows by fact, oldest first. Raises RuleError: no row, or rows out of order."""
    name = _file(engine)
    return {fact: _rows(name, fact, rows) for fact, rows in load(name).data.items()}


def _rows(name: str, fact: str, rows: Any) -> tuple[Rule, ...]:
    try:
        made = tuple(
            Rule(
                fact=fact,
                since=row["since"],
                value=row["value"],
                files=tuple(row.get("file", ())),
                form=row.get("form", ""),
                newest=at == len(rows) - 1,
            )
            for at, row in enumerate(rows)
        )
        versions = [Version(row.since) for row in made]
    except (KeyError, TypeError, InvalidVersion) as error:
        raise RuleError(f"rules/{name}: {fact}: {error!r}") from error
    if not made or versions != sorted(set(versions)):
        raise RuleError(f"rules/{name}: {fact}: rows are not in the order of their releases")
    if unsourced := [row.since for row in made[1:] if not row.files or not row.form]:
        raise RuleError(f"rules/{name}: {fact}: no file and form for {', '.join(unsourced)}")
    return made


def _file(engine: str) -> str:
    return f"memory_{engine}.toml"


def _unknown(engine: str, version: str, why: str) -> Missing:
    return Missing(
        Cause.UNAVAILABLE,
        f"{engine} {version} {why}: its memory rules are not known",
        (Evidence(f"rules/{_file(engine)}", version, why),),
        "name the release it was built from",
    )
