"""The command line as names of tables: flags, what may follow them, and how the parser reads their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from canserve.index.at import At, Lazy
from canserve.index.words import join, word
from canserve.subjects.build import Flag

OTHERS = ("flag_kinds", "flag_choices", "flag_aliases")


def write(value: Mapping[str, Flag]) -> Mapping[str, Iterable[str]]:
    """All flags of a release, by table."""
    flags = value.items()
    return {
        "flags": [word(name) for name in value],
        "flag_kinds": [join(name, flag.kind) for name, flag in flags if flag.kind is not None],
        "flag_choices": [join(name, *flag.choices) for name, flag in flags if flag.choices is not None],
        "flag_aliases": [join(name, *flag.aliases) for name, flag in flags if flag.aliases],
    }


def read(at: At) -> Mapping[str, Flag]:
    """The flags again."""
    return Lazy(at, "flags", _flag)


def _flag(at: At, name: str) -> Flag:
    choices = next((tuple(words) for words in at.of("flag_choices", name)), None)
    aliases = next((tuple(words) for words in at.of("flag_aliases", name)), ())
    kind = next((words[0] for words in at.of("flag_kinds", name)), None)
    return Flag(name, choices, at.site, aliases, kind)
