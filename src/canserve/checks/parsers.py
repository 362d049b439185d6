"""parsers-known: the reasoning and tool parsers that the user asks for, against those the build has."""

from __future__ import annotations

from dataclasses import dataclass

from canserve.checks.case import Case
from canserve.checks.gates import look
from canserve.checks.names import near, some
from canserve.checks.reader import Check, NotApplicable, Reader
from canserve.checks.wish import given
from canserve.facts import Fact
from canserve.verdict import No, Unknown, Verdict, Yes

PLUGINS = ("--tool-parser-plugin", "--reasoning-parser-plugin")
CHOOSING = frozenset({"auto"})
"""Values that ask the engine to choose."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One parser that the user names."""

    flag: str
    name: str
    table: str
    """``reasoning_parsers`` or ``tool_parsers``: the field of the build and of the index."""

    @property
    def kind(self) -> str:
        """``reasoning parser``."""
        return self.table.removesuffix("s").replace("_", " ")


def run(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``parsers-known``."""
    wish = case.wish
    asked = [
        Asked(flag, name, table)
        for flag, name, table in (
            ("--reasoning-parser", wish.reasoning_parser, "reasoning_parsers"),
            ("--tool-call-parser", wish.tool_parser, "tool_parsers"),
        )
        if name is not None
    ]
    if not asked:
        raise NotApplicable("no reasoning or tool parser was asked for")
    lacking = [one for one in asked if not _known(reader, case, one)]
    if not lacking:
        return Yes(" and ".join(f"{one.kind} {one.name}" for one in asked) + " known")
    if (plugin := given(wish, *PLUGINS)) is not None:
        return Unknown(
            f"{lacking[0].kind} {lacking[0].name} is not the build's own; {plugin} may add it",
            "look into the plugin for the name it registers",
        )
    refusals = [_refusal(reader, case, one) for one in lacking]
    return No("; ".join(no.because for no in refusals), "; ".join(no.fix for no in refusals))


def _parsers(case: Case, asked: Asked) -> Fact[tuple[str, ...]]:
    build = case.build
    return build.reasoning_parsers if asked.table == "reasoning_parsers" else build.tool_parsers


def _known(reader: Reader, case: Case, asked: Asked) -> bool:
    """Whether the parser is there, and the flag lets it through: builds have listed choices by hand."""
    names = reader.read(_parsers(case, asked))
    choices = _choices(reader, case, asked.flag)
    if choices is not None:
        return asked.name in choices
    return asked.name in names or asked.name in CHOOSING


def _choices(reader: Reader, case: Case, flag: str) -> tuple[str, ...] | None:
    found = (reader.try_read(case.build.flags) or {}).get(flag)
    if found is None or found.choices is None:
        return None
    reader.cite((look(case, str(found.at), f"{flag}: {', '.join(found.choices)}"),))
    return found.choices


def _refusal(reader: Reader, case: Case, asked: Asked) -> No:
    names = reader.read(_parsers(case, asked))
    choices = _choices(reader, case, asked.flag)
    offered = names if choices is None else choices
    if asked.name in names:
        because = f"{asked.flag} refuses {asked.name}, although the build has that {asked.kind}"
    else:
        because = f"the build has no {asked.kind} {asked.name}"
    if not offered:
        return No(
            f"{because}: it has none at all", f"leave {asked.flag} out, or {_newer(reader, case, asked)}"
        )
    like = near(asked.name, offered)
    shown = f"nearest: {', '.join(like)}" if like else f"it has {some(offered)}"
    return No(
        f"{because}; {shown}", f"use {like[0] if like else 'one it has'}, or {_newer(reader, case, asked)}"
    )


def _newer(reader: Reader, case: Case, asked: Asked) -> str:
    engine = case.build.identity.engine
    first = case.history.first_listing(engine, asked.table, asked.name)
    reader.cite((case.history.evidence(engine),))
    return f"{engine}>={first}, the first release with it" if first else "a build that has it"


CHECK = Check(
    "parsers-known",
    "The reasoning and tool parsers that were asked for exist in the build, under these names.",
    run,
)
