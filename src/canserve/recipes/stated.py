"""Releases that texts ask for: ``NAME >= 0.17.0``, ``NAME 0.12 or newer``, ``requires NAME 5.2``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from canserve.rules.recipes import named
from canserve.subjects.recipe import Stated

_VERSION = r"v?(\d{1,4}\.\d{1,4}(?:\.\d{1,4})?(?:\.?(?:rc|a|b|post|dev)\d{1,6})*)"
_BETWEEN = r"[\s:*`_\"']{0,6}(?:versions?)?[\s:*`_\"']{0,6}"
MAX_STATED = 40


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    names = "|".join(sorted((re.escape(word) for word in named()), key=len, reverse=True))
    name = rf"(?<![\w./@-])({names})(?![\w/-])"
    flags = re.IGNORECASE
    return (
        re.compile(rf"{name}{_BETWEEN}(?:>=|=>|≥|at least){_BETWEEN}{_VERSION}", flags),
        re.compile(rf"{name}{_BETWEEN}{_VERSION}(?:\+|\s+(?:or|and)\s+(?:newer|later|higher|above))", flags),
        re.compile(rf"\b(?:requires?|needs?|minimum|min\.?)\s+(?:\w+\s+)?{name}{_BETWEEN}{_VERSION}", flags),
    )


def stated_in(text: str, line: int, lined: bool = False) -> Iterator[Stated]:
    """Releases that a text states. ``lined``: its lines are those of the file."""
    seen = 0
    for pattern in _patterns():
        for found in pattern.finditer(text):
            where = line + (text.count("\n", 0, found.start()) if lined else 0)
            if seen < MAX_STATED and (version := _version(found[2])):
                seen += 1
                words = " ".join(found[0].split())
                yield Stated(named()[found[1].lower()], f">={version}", where, words, firm=False)


def least(about: str, value: str, line: int) -> Stated | None:
    """What a key says that states the least release; None: it is no release."""
    version = _version(value.strip().lstrip(">= "))
    return None if version is None else Stated(about, f">={version}", line, value)


def required(text: str, line: int) -> tuple[str | None, tuple[Stated, ...]]:
    """A requirement as pip takes it: the release that it pins of a named package, and what it states."""
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return None, ()
    about = named().get(requirement.name.lower())
    if about is None:
        return None, ()
    clauses = [clause for each in requirement.specifier for clause in _plain(each.operator, each.version)]
    pinned = next((version for operator, version in clauses if operator == "=="), None)
    releases = ",".join(f"{operator}{version}" for operator, version in clauses)
    stated = (Stated(about, releases, line, text, firm=False),) if releases else ()
    return (f"{about}=={pinned}" if pinned else None), stated


def _plain(operator: str, version: str) -> list[tuple[str, str]]:
    """A clause as bounds; of what is none nothing is stated."""
    if version.endswith(".*") or operator in ("!=", "==="):
        return []
    if operator != "~=":
        return [(operator, version)]
    release = Version(version).release
    above = ".".join(map(str, (*release[:-2], release[-2] + 1)))
    return [(">=", version), ("<", above)]


def _version(text: str) -> str | None:
    try:
        return str(Version(text))
    except InvalidVersion:
        return None
