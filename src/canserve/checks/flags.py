"""flags-accepted: every engine flag the user gives, as the build's own argument parser would read it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from canserve.checks.case import Case
from canserve.checks.config import runs_code_anyway
from canserve.checks.gates import look
from canserve.checks.names import near, some
from canserve.checks.reader import Check, NotApplicable, Reader
from canserve.checks.wish import normalized
from canserve.facts import Known, Missing
from canserve.subjects.build import Flag, FlagSyntax
from canserve.verdict import No, Unknown, Verdict, Yes

TRUST = "--trust-remote-code"
NEGATED = "--no-"
INVERSES = (("--enable-", "--disable-"), ("--disable-", "--enable-"))
SWITCHES = frozenset({"switch", "pair"})
ALWAYS = frozenset({"-h", "--help"})
"""Flags that every argparse parser has."""


@dataclass(frozen=True, slots=True)
class Table:
    """The flags of a build by every name they go by."""

    names: Mapping[str, Flag]
    """Names and aliases, and the second names of pairs: ``--no-x``, in some builds ``--disable-x``."""
    abbreviations: bool = True
    """Whether names may be cut short."""

    @classmethod
    def of(cls, flags: Mapping[str, Flag], syntax: FlagSyntax | None) -> Table:
        """All names of these flags."""
        inverses = syntax is not None and syntax.inverses
        names = {name: flag for flag in flags.values() for name in (flag.name, *flag.aliases)}
        for name, flag in list(names.items()):
            if flag.kind in ("pair", None) and name.startswith("--"):
                names.setdefault(NEGATED + name[2:], flag)
            for start, inverse in INVERSES if inverses and flag.kind == "pair" else ():
                if name.startswith(start):
                    names.setdefault(inverse + name.removeprefix(start), flag)
        return cls(names, syntax is None or syntax.abbreviations)

    def find(self, name: str) -> list[tuple[str, Flag]]:
        """The flag of that name; else those whose names begin so, where names may be cut short."""
        if name in self.names:
            return [(name, self.names[name])]
        if not name.startswith("--") or not self.abbreviations:
            return []
        return [(full, flag) for full, flag in self.names.items() if full.startswith(name)]


@dataclass(frozen=True, slots=True)
class Given:
    """One flag as the user wrote it, and its value."""

    written: str
    value: str | None


@dataclass(frozen=True, slots=True)
class Wrong:
    """What is wrong with one flag, and what helps. ``open``: it could not be decided."""

    because: str
    advice: str
    open: bool = False


def run(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``flags-accepted``."""
    if not case.wish.flags:
        recipe = case.wish.recipe
        other = recipe is not None and recipe.engine not in (None, case.build.identity.engine)
        raise NotApplicable(
            f"the recipe's flags are for {recipe.engine}, as recipe-engine-matches says"
            if recipe is not None and other
            else "no engine flags were given after --"
        )
    syntax = case.build.flag_syntax
    table = Table.of(reader.read(case.build.flags), syntax.value if isinstance(syntax, Known) else None)
    judged = [_at_line(case, flag, _judge(reader, case, table, Given(flag, value)))
              for flag, value in case.wish.flags.items()]  # fmt: skip
    wrong = [one for one in judged if one is not None and not one.open]
    unsure = [one for one in judged if one is not None and one.open]
    if wrong:
        return No("; ".join(one.because for one in wrong), "; ".join(one.advice for one in wrong))
    if unsure:
        return Unknown("; ".join(one.because for one in unsure), "; ".join(one.advice for one in unsure))
    count = len(case.wish.flags)
    return Yes("the flag is accepted" if count == 1 else f"all {count} flags are accepted")


def _at_line(case: Case, flag: str, wrong: Wrong | None) -> Wrong | None:
    """With the line of the recipe that it stands on."""
    place = case.wish.recipe.place_of(flag) if case.wish.recipe is not None else None
    return wrong if wrong is None or place is None else replace(wrong, because=f"{place}: {wrong.because}")


def _judge(reader: Reader, case: Case, table: Table, given: Given) -> Wrong | None:
    """What is wrong with a flag; None: nothing."""
    given = _unglued(given, table)
    name = given.written
    if name in ALWAYS or _does_anyway(reader, case, name):
        return None
    if name not in table.names and _needs_syntax(name):
        if isinstance(case.build.flag_syntax, Missing):
            return Wrong(f"how the build reads {name} was not read", f"write it as {_plain(name)}", open=True)
        read_as = _read_as(name, reader.read(case.build.flag_syntax))
        if read_as is None:
            return Wrong(f"{name} does not exist in this build", f"write it as {_plain(name)}")
        name = read_as
    found = table.find(name)
    if not found:
        return _unknown_flag(reader, case, table, given)
    if len({flag.name for _, flag in found}) > 1:
        meant = ", ".join(full for full, _ in found[:4])
        return Wrong(f"{given.written} is ambiguous: {meant}", "write the name out")
    full, flag = found[0]
    reader.cite((look(case, str(flag.at), f"{flag.name}{_shown(flag)}"),))
    return _judge_value(given, full, flag)


def _does_anyway(reader: Reader, case: Case, name: str) -> bool:
    """Whether the flag asks for what the build does without being asked, and has no flag for."""
    return normalized(name) == TRUST and runs_code_anyway(reader, case)


def _unglued(given: Given, table: Table) -> Given:
    """``-qawq`` is ``-q awq``, as argparse reads it where there is no flag of the whole name."""
    name = given.written
    if name.startswith("--") or name in table.names or name[:2] not in table.names or given.value is not None:
        return given
    return Given(name[:2], name[2:])


def _needs_syntax(name: str) -> bool:
    return "." in name or (name.startswith("--") and "_" in name)


def _read_as(name: str, syntax: FlagSyntax) -> str | None:
    """The name that argparse gets to see; None when the build does not read such names."""
    if "." in name and not syntax.dotted:
        return None
    head = name.split(".", 1)[0]
    if "_" in head and not syntax.underscores:
        return None
    return normalized(head)


def _plain(name: str) -> str:
    head, dot, rest = normalized(name).partition(".")
    if not dot:
        return head
    value: object = "..."
    for key in reversed(rest.split(".")):
        value = {key: value}
    return f"{head} '{json.dumps(value)}'"


def _unknown_flag(reader: Reader, case: Case, table: Table, given: Given) -> Wrong:
    name = normalized(given.written).split(".", 1)[0]
    if not name.startswith("--"):
        return Wrong(
            f"{given.written} is no short flag of the build, but parsers rewrite some before they look",
            "write the long name",
            open=True,
        )
    engine = case.build.identity.engine
    like = near(name, table.names, cutoff=0.75)
    first = case.history.first_listing(engine, "flags", name)
    reader.cite((case.history.evidence(engine),))
    because = f"{given.written} does not exist in this build"
    if like:
        because += f"; nearest: {', '.join(like)}"
    newer = f"{engine}>={first}, the first release with it" if first else ""
    helps = " or ".join(part for part in (like[0] if like else "", newer) if part)
    return Wrong(because, f"use {helps}" if helps else f"leave {given.written} out")


def _judge_value(given: Given, full: str, flag: Flag) -> Wrong | None:
    """Whether the flag may have this value, or may have none."""
    dotted = "." in given.written
    if full not in (flag.name, *flag.aliases):  # the second name of a pair
        if flag.kind == "pair" and given.value is not None:
            return Wrong(f"{given.written} takes no value", f"leave {given.value!r} out")
        return None
    if flag.kind in SWITCHES:
        if given.value is not None:
            return Wrong(
                f"{given.written} takes no value, but {given.value!r} follows it", "leave the value out"
            )
        return None
    if given.value is None:
        return Wrong(f"{given.written} needs a value", f"write {given.written} VALUE") if flag.kind else None
    if flag.kind == "json" and not dotted:
        return _judge_json(given)
    return None if dotted else _judge_choice(given, flag)


def _judge_json(given: Given) -> Wrong | None:
    """Some builds also take a path or a number there, so only a broken object is wrong."""
    text = (given.value or "").strip()
    if not text.startswith("{"):
        return None
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        return Wrong(
            f"{given.written} is not valid JSON: {error}", "mend the JSON, and put it in single quotes"
        )
    return None


def _judge_choice(given: Given, flag: Flag) -> Wrong | None:
    if not flag.choices or given.value is None:
        return None
    values = given.value.split() if flag.kind == "values" else [given.value]
    for value in values:
        if value not in flag.choices:
            like = near(value, flag.choices)
            return Wrong(
                f"{given.written} does not take {value!r}",
                f"use {' or '.join(like)}" if like else f"use one of {some(flag.choices)}",
            )
    return None


def _shown(flag: Flag) -> str:
    return f": {', '.join(flag.choices)}" if flag.choices else ""


CHECK = Check(
    "flags-accepted",
    "The build's own argument parser takes every engine flag that was given, with its value.",
    run,
)
