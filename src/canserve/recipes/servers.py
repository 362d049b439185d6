"""Words of a command line that start a server: whose it is, which model it serves, and the words for the engine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from posixpath import basename

from canserve.recipes.arity import Arity, positional
from canserve.rules.recipes import Server, joins, servers
from canserve.subjects.recipe import Said

_PYTHON = re.compile(r"python(\d(\.\d+)?)?")
_VALUED = frozenset({"-X", "-W"})
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@+~-]*")
"""What a model may be called: a name of a hub, or a path."""
_CACHED = re.compile(r"/.*/models--([^/]+?)--([^/]+?)/snapshots/([^/]+)/?")
"""A model in the Hub's cache."""
_EXECUTES = re.compile(r"[;&|<>`(){}!\\\n*?\"']|\$")


@dataclass(frozen=True, slots=True)
class Serving:
    """A server's words taken apart."""

    engine: str
    model: Said | None
    revision: Said | None
    args: tuple[Said, ...]
    config: Said | None = None
    """A file of further options."""
    after_flags: Said | None = None
    """A word behind flags that is the model, or may be it."""


def serving(words: Sequence[Said], arity: Arity | None = None) -> Serving | None:
    """The server that these words start; None: they start none. ``arity``: of the build's own flags."""
    for server in servers():
        rest = _after(words, server)
        if rest is not None:
            return _apart(rest, server, arity)
    return None


def is_joining(words: Sequence[Said]) -> bool:
    """Whether these words only join machines."""
    return any(_program(words, program) for program in joins())


def _after(words: Sequence[Said], server: Server) -> Sequence[Said] | None:
    """The words behind those that start the server; None: it is not this one."""
    if server.program:
        return words[len(server.program) :] if _program(words, server.program) else None
    if not words or not _PYTHON.fullmatch(basename(words[0].value)):
        return None
    at = 1
    while at < len(words) and words[at].value.startswith("-") and words[at].value != "-m":
        at += 2 if words[at].value in _VALUED else 1
    start = [word.value for word in words[at : at + 3]]
    wanted = ["-m", server.module, *([server.verb] if server.verb else [])]
    return words[at + len(wanted) :] if start[: len(wanted)] == wanted else None


def _program(words: Sequence[Said], program: tuple[str, ...]) -> bool:
    """Whether a command line begins so; its first word may have a folder in front."""
    if len(words) < len(program):
        return False
    first, *more = (word.value for word in words[: len(program)])
    return basename(first) == program[0] and tuple(more) == program[1:]


def _apart(words: Sequence[Said], server: Server, arity: Arity | None) -> Serving:
    rest = list(words)
    named = _taken(rest, server.model)
    revision = _taken(rest, server.revision)
    for flag in server.own:
        _taken(rest, (flag,))
    config = next(reversed(_values(rest, server.config)), None) if server.config else None
    model = after = None
    if server.positional and rest and not rest[0].value.startswith("-"):
        model = rest.pop(0)
    elif server.positional and named is None:
        number, certain = positional([word.value for word in rest], arity or Arity.of(server.engine))
        after = None if number is None else rest[number]
        model = rest.pop(number) if number is not None and certain else None
    found = named or model
    if found is not None and (cached := _CACHED.fullmatch(found.value)):
        revision = revision or Said(cached[3], found.line)
        found = Said(f"{cached[1]}/{cached[2]}", found.line)
    return Serving(server.engine, found, revision, tuple(rest), config, after)


def _values(words: Sequence[Said], flag: str) -> list[Said]:
    """What a flag is given, each time that it stands there."""
    found = []
    for number, word in enumerate(words):
        name, equals, value = word.value.partition("=")
        if name == flag and equals:
            found.append(replace(word, value=value))
        elif name == flag and number + 1 < len(words):
            found.append(words[number + 1])
    return found


def _taken(words: list[Said], flags: Sequence[str]) -> Said | None:
    """The value of the last of these flags, which are taken out."""
    found = None
    at = 0
    while at < len(words):
        name, equals, value = words[at].value.partition("=")
        if name not in flags:
            at += 1
        elif equals:
            found = Said(value, words.pop(at).line)
        elif at + 1 < len(words) and not words[at + 1].value.startswith("-"):
            words.pop(at)
            found = words.pop(at)
        else:
            at += 1
    return found


def suspicious(model: str) -> str | None:
    """What a shell would execute in a model's name, where it is put into a command; None: nothing."""
    if _NAME.fullmatch(model) or (model.startswith(("/", "./", "../", "~")) and not _EXECUTES.search(model)):
        return None
    found = _EXECUTES.search(model)
    return found[0] if found else None
