"""What may stand where: values for the shell, as they are typed. Asked of what lies here; no network, no machine.

What a parameter takes is read from its metavar, the word that ``--help`` shows for it: so a new option that is called
MACHINE is completed like all the others.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class, split_arg_string
from click.types import StringParamType

Item = CompletionItem[str]
NAMES_FILE = "names.tsv"
"""Name, when it is judged, claim of every check; written by ``./dev docs``."""
SERVED = "of a served endpoint"
_LOOKED_AT = frozenset(
    {"up", "export", "distribute", "status", "logs", "down", "adopt", "verify", "diagnose"}
)
"""Commands for which a profile is no machine."""
_MOST = 400
"""Values that are offered."""
_FILES = frozenset({"MACHINE", "BUILD", "MODEL", "PLAN", "FILE", "DIR", "PATH", "WHERE"})
"""What may be a file or folder as well."""


class Offered(StringParamType):
    """A text of which some values are known."""

    def __init__(self, words: frozenset[str], command: str) -> None:
        self._words, self._command = words, command

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Item]:
        """Values that begin so, and the word that files do as well."""
        del ctx, param
        found = [
            item
            for word, source in SOURCES.items()
            if word in self._words
            for item in source(incomplete, self._command)
            if item.value.startswith(incomplete)
        ][:_MOST]
        files = [CompletionItem(incomplete, type="file")] if self._words & _FILES else []
        return [*found, *files]


def offer(command: click.Command, name: str) -> None:
    """Let every parameter of a command offer what it takes."""
    if isinstance(command, click.Group):
        for each, inner in command.commands.items():
            offer(inner, each)
    for param in command.params:
        words = frozenset(re.findall("[A-Z]+", param.metavar or (param.name or "").upper()))
        if param.type is click.STRING and words & {*SOURCES, *_FILES}:
            param.type = Offered(words, name)


def _machines(incomplete: str, command: str) -> Iterator[Item]:
    from canserve.rules.machines import PREFIX, names

    count = re.match(r"\d+x", incomplete)  # several alike: 2xprofile:dgx-spark
    several = count[0] if count else ""
    yield from _items(("local",) if not several else ())
    if command not in _LOOKED_AT:
        yield from _items(f"{several}{PREFIX}{name}" for name in names())


def _builds(incomplete: str, command: str) -> Iterator[Item]:
    """All releases of an engine that is named, the newest of every engine else."""
    from canserve.engines import NAMES
    from canserve.index import release_history

    del command
    past = release_history()
    named, whole, _ = incomplete.partition("==")
    for name in (named,) if whole else NAMES:
        if name in NAMES and name.startswith(named):
            versions = past.releases(name)
            yield from _items(f"{name}=={each}" for each in reversed(versions if whole else versions[-1:]))


def _checks(incomplete: str, command: str) -> Iterator[Item]:
    """From a list that is kept beside the checks: loading all of them takes longer than who types would wait."""
    from importlib.resources import files

    del incomplete
    yield CompletionItem("all", help="every check")
    for line in files("canserve.checks").joinpath(NAMES_FILE).read_text("utf-8").splitlines():
        name, when, claim = line.split("\t")
        if (when == SERVED) is (command == "verify"):
            yield CompletionItem(name, help=claim)


def _engines(incomplete: str, command: str) -> Iterator[Item]:
    from canserve.engines import NAMES

    del incomplete, command
    yield from _items(NAMES)


def _architectures(incomplete: str, command: str) -> Iterator[Item]:
    """Classes that any release of any engine lists."""
    from canserve.engines import NAMES
    from canserve.index import release_history

    if command == "since":
        past = release_history()
        found = {name for engine in NAMES for name in past.names(engine) if name.startswith(incomplete)}
        yield from _items(sorted(found))


def _runs(incomplete: str, command: str) -> Iterator[Item]:
    """Those of the journal, the latest first; only those that may be there still where that is what is asked for."""
    from canserve.store.journal import FILE, JournalError, default_folder, journal

    del incomplete
    if not (default_folder() / FILE).is_file():
        return
    try:
        with journal() as kept:
            entries = kept.runs()
    except JournalError:
        return
    for entry in entries:
        if command in ("history", "diagnose") or entry.state != "down":
            yield CompletionItem(
                entry.run, help=f"{entry.state}, {entry.began}: {entry.told.get('model', '')}"
            )


def _items(values: Iterable[str]) -> Iterator[Item]:
    return (CompletionItem(value) for value in values)


SOURCES: Mapping[str, Callable[[str, str], Iterator[Item]]] = {
    "RUN": _runs,
    "CHECK": _checks,
    "ENGINE": _engines,
    "PROJECT": _engines,
    "MACHINE": _machines,
    "BUILD": _builds,
    "NAME": _architectures,
}
"""By the word in a metavar."""

_BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' response type value
    response=$(env COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_WORDBREAKS="$COMP_WORDBREAKS" \
%(complete_var)s=bash_complete "$1" 2>/dev/null)
    COMPREPLY=()
    while IFS=',' read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done <<< "$response"
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class Bash(BashComplete):
    """bash takes words apart at ``:`` and ``=``, and puts in only the last piece: this puts together and cuts off."""

    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the one that is typed, and that one, as far as it is typed."""
        self._cut = ""
        line = os.environ.get("COMP_LINE")
        if line is None:  # a script that an earlier canserve wrote
            return super().get_completion_args()
        words = split_arg_string(line)[1:]
        typed = "" if not words or line[-1:].isspace() else words.pop()
        self._cut = _already(typed, os.environ.get("COMP_WORDBREAKS", ":="))
        return words, typed

    def format_completion(self, item: Item) -> str:
        """Without what stands there already, in bash's eyes as a word of its own."""
        value = item.value
        if item.type == "plain" and self._cut and value.startswith(self._cut):
            value = value[len(self._cut) :]
        return f"{item.type},{value}"


def _already(typed: str, breaks: str) -> str:
    """What of the value bash takes for words of their own: all up to the last letter that takes words apart."""
    option = re.match(r"--[\w-]+=", typed) if "=" in breaks else None
    value = typed[option.end() :] if option else typed
    ends = [place + 1 for place, letter in enumerate(value) if letter in breaks and letter in ":=@"]
    return value[: ends[-1]] if ends else ""


add_completion_class(Bash, "bash")
