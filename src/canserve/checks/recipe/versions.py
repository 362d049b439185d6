"""stated-versions-met: the releases that a recipe asks for, against those that were read of the build."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from canserve.checks.reader import NotApplicable, Reader
from canserve.checks.recipe.question import RecipeCheck, line
from canserve.facts import Fact, Known, Missing
from canserve.rules.table import covers
from canserve.subjects.build import Build
from canserve.subjects.recipe import Recipe, Stated
from canserve.verdict import No, Unknown, Verdict, Yes, undecided


@dataclass(frozen=True, slots=True)
class _Held:
    """One stated release, compared."""

    stated: Stated
    met: Literal["yes", "some", "no", "unknown"]
    found: str
    """What was read, in words."""
    ask: str = ""

    def __str__(self) -> str:
        one = self.stated
        return f"line {one.line} asks for {one.about}{one.releases}: {self.found}"


def run(reader: Reader, recipe: Recipe, build: Build) -> Verdict:
    """The verdict of ``stated-versions-met``."""
    ours = [one for one in recipe.stated if _versions(one.about, build) is not None]
    if not ours:
        raise NotApplicable("the recipe asks for no release of what the build is made of")
    held = [_compared(reader, one, build) for one in ours]
    reader.cite(line(recipe, one.line, one.text) for one in ours)
    if missed := [one for one in held if one.met == "no" and one.stated.firm]:
        return No(_said(missed), f"use {_wanted(missed)}")
    if open_ := [one for one in held if one.met == "unknown" or (one.met == "no" and not one.stated.firm)]:
        asks = dict.fromkeys(one.ask or f"use {_wanted([one])}" for one in open_)
        return Unknown(_said(open_), "; ".join(asks))
    needs = tuple(dict.fromkeys(f"{o.stated.about}{o.stated.releases}" for o in held if o.met == "some"))
    return Yes(_said(held), needs)


def _compared(reader: Reader, stated: Stated, build: Build) -> _Held:
    fact = _versions(stated.about, build)
    assert fact is not None
    reader.cite(fact.evidence)
    if isinstance(fact, Missing):
        return _Held(stated, "unknown", fact.why, undecided(fact).ask)
    answers = {version: covers(stated.releases, version) for version in fact.value}
    passing = [version for version, answer in answers.items() if answer is True]
    shown = fact.value[0] if len(fact.value) == 1 else f"{fact.value[0]} to {fact.value[-1]} may be there"
    if len(passing) == len(answers):
        return _Held(stated, "yes", shown)
    if passing:
        return _Held(stated, "some", f"{shown}, of which {passing[0]} to {passing[-1]} meet it")
    if None in answers.values():
        why = f"{shown} may lie on either side of it"
        return _Held(stated, "unknown", why, "the build's own files decide: see the other checks")
    return _Held(stated, "no", f"the build has {shown}")


def _versions(about: str, build: Build) -> Fact[tuple[str, ...]] | None:
    """Releases of a package that the build has, or may run with; None: it is nothing of this build."""
    if about == build.identity.engine:
        version = build.identity.version
        return version if isinstance(version, Missing) else Known((version.value,), version.evidence)
    if about == "transformers":
        return build.transformers.candidates()
    torch = build.torch
    if about == "torch" and isinstance(torch, Known) and torch.value is not None:
        return Known((torch.value,), torch.evidence)
    return None


def _said(held: Sequence[_Held]) -> str:
    return "; ".join(map(str, held))


def _wanted(held: Sequence[_Held]) -> str:
    return ", ".join(dict.fromkeys(f"{one.stated.about}{one.stated.releases}" for one in held))


CHECK = RecipeCheck(
    "stated-versions-met",
    "Every release that the recipe asks for (a least version, a requirement that it installs) is what the build has.",
    run,
)
