"""How engines spread a model over accelerators: what ``parallel.toml`` says of a release."""

from __future__ import annotations

from functools import cache

from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.rules.table import Row, covers, load

FILE = "parallel.toml"
ANY = "any"
"""In place of a range of releases: what an engine does by its design, whatever its releases are called."""


@cache
def row(section: str, engine: str, version: str, part: str | None = None) -> Fact[Row | None]:
    """The row of a section that holds for a release. ``part`` chooses among rows that are about a part.

    ``Known(None)``: the table knows the engine, and no row of the section covers this release. Missing: it does
    not know the engine, or the version cannot tell.
    """
    rows = [
        each
        for each in load(FILE).rows(section)
        if each.values["engine"] == engine and part in (None, each.values.get("part"))
    ]
    words = f"{engine} {version}: {section}" + (f" of {part}" if part else "")
    if not rows:
        return _missing(words, f"no rule says how {engine} treats {section} over several accelerators")
    inside = [(each, _holds(each, version)) for each in rows]
    held = [each for each, holds in inside if holds]
    if held:
        return Known(held[0], (held[0].evidence(words),))
    if any(holds is None for _, holds in inside):
        return _missing(words, f"{engine} {version} may be either of two releases that differ in {section}")
    return Known(None, (Evidence(f"rules/{FILE}", section, f"{words}: no row covers it"),))


def _holds(each: Row, version: str) -> bool | None:
    releases = each.text("releases")
    return True if releases == ANY else covers(releases, version)


def _missing(words: str, why: str) -> Missing:
    look = Evidence(f"rules/{FILE}", words, "no row", whole=False)
    return Missing(
        Cause.UNAVAILABLE, why, (look,), ask="start it once, or use a release that the table knows"
    )


@cache
def of_class(section: str, engine: str, version: str, architectures: tuple[str, ...]) -> Fact[Row | None]:
    """The row of ``vision`` or ``attention`` for one of these classes; ``Known(None)``: no row knows the class."""
    for each in load(FILE).rows(section):
        named = each.values["engine"] == engine and set(architectures) & set(each.texts("architectures"))
        if named and covers(each.text("releases"), version):
            words = f"{engine} {version}: {section} of {', '.join(architectures)}"
            return Known(each, (each.evidence(words),))
    return Known(None)
