"""entrypoint-passes-command: what follows an image's name on the command line reaches the engine."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import takewhile

from canserve.checks.case import Case
from canserve.checks.machine.stated import read_around
from canserve.checks.reader import Check, Reader
from canserve.facts import Cause, Missing
from canserve.rules import stack as rules
from canserve.subjects.stack import Started
from canserve.verdict import No, Unknown, Verdict, Yes

SHELLS = frozenset({"sh", "bash", "dash", "zsh"})
REST = frozenset({"$@", "$*"})
ASK = "look at it: docker inspect, or start it with --entrypoint and the engine's own command"


def passes(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``entrypoint-passes-command``."""
    started = read_around(reader, case.build.stack.started)
    words = _after_launchers(reader, started.entrypoint)
    if not words:
        what = (
            f"{shlex.join(started.entrypoint)} starts"
            if started.entrypoint
            else "without an entrypoint it starts"
        )
        return Yes(f"{what} what follows the image's name")
    program = words[0].rpartition("/")[2]
    if program in SHELLS:
        return _shell(words)
    if (verdict := _engine(reader, case, words)) is not None:
        return verdict
    return _script(reader, case, started, words)


def _after_launchers(reader: Reader, words: Sequence[str]) -> tuple[str, ...]:
    """Without programs that start what follows them, and their options."""
    left = list(words)
    while left and (row := rules.passes(left[0])) is not None:
        reader.cite((row.evidence(f"{left[0]} starts what follows it"),))
        left.pop(0)
        while left and (left[0].startswith("-") or "=" in left[0]):
            left.pop(0)
    return tuple(left)


def _shell(words: Sequence[str]) -> Verdict:
    options = list(takewhile(lambda word: word.startswith("-"), words[1:]))
    shown = shlex.join(words)
    if not any("c" in option.lstrip("-") for option in options):
        return Yes(
            f"the entrypoint is a shell: {shown}",
            ("the command as -c '...', or the engine's with --entrypoint",),
        )
    text = " ".join(words[1 + len(options) :][:1])
    if any(rest in text for rest in REST):
        return Unknown(f"what follows the image's name becomes words of a shell command: {shown}", ASK)
    return No(
        f"its entrypoint is a shell command that leaves out whatever follows the image's name: {shown}",
        "start it with --entrypoint and the engine's own command",
    )


def _engine(reader: Reader, case: Case, words: Sequence[str]) -> Verdict | None:
    """An entrypoint that is the engine's own command, or its beginning; None: it is neither."""
    found = rules.starts(words)
    row, known = found if found is not None else (rules.begins(words), "")
    if row is None:
        return None
    shown = shlex.join(words)
    reader.cite((row.evidence(f"{known or shown} starts it"),))
    if found is not None and row.text("engine") != case.build.identity.engine:
        return Unknown(f"its entrypoint starts another engine than was found in it: {shown}", ASK)
    rest = "flags alone" if known else f"the rest of the command after `{shown}`"
    return Yes(
        f"its entrypoint is {shown}, so that what follows is added to it",
        (f"after the image's name {rest}, or --entrypoint for another command",),
    )


def _script(reader: Reader, case: Case, started: Started, words: Sequence[str]) -> Verdict:
    last = started.script
    if isinstance(last, Missing) and last.cause is Cause.UNREACHED:
        return Unknown(f"what its entrypoint {words[0]} does was not read", last.ask or ASK)
    line = reader.read(last)
    if line is None:
        return Unknown(f"what its entrypoint {words[0]} does with the words that follow it was not read", ASK)
    try:
        run = shlex.split(line)
    except ValueError:
        return Unknown(f"its entrypoint {words[0]} ends with a line that was not understood: {line}", ASK)
    if run and set(run) <= REST:
        return Yes(
            f"its entrypoint {words[0]} ends with exec {line}: it starts what follows the image's name"
        )
    if REST & set(run):
        verdict = _engine(reader, case, [word for word in run if word not in REST])
        if verdict is not None:
            return verdict
    elif found := rules.starts(run):
        return Unknown(f"its entrypoint {words[0]} starts {found[1]} and passes nothing on: exec {line}", ASK)
    return Unknown(f"its entrypoint {words[0]} ends with exec {line}", ASK)


ENTRYPOINT = Check(
    "entrypoint-passes-command",
    "What follows the image's name on the command line reaches the engine: its flags, or a whole command.",
    passes,
    needs_machine=True,
)
