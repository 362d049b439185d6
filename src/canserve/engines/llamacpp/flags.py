"""Flags of llama-server, from the code that compares or declares them.

Three forms: the server's own loop over its arguments, one loop for all programs, and then a list of options
each of which says for which programs it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from canserve.engines.cpp.forms import Span, functions
from canserve.engines.cpp.text import Code
from canserve.engines.llamacpp.options import options
from canserve.engines.llamacpp.reading import Reading
from canserve.engines.llamacpp.serving import cache_types
from canserve.facts import Fact
from canserve.subjects.build import Flag, FlagSyntax, Site

DECLARED = "common/arg.cpp"
COMPARED = "common/common.cpp"
COMMON_LOOP = "gpt_params_find_arg"
SERVER_LOOP = "server_params_parse"
SERVERS = ("tools/server/server.cpp", "examples/server/server.cpp")
FILES = (DECLARED, COMPARED, *SERVERS)
PORT = "--port"
"""Every server has it; a loop without it is not the server's."""
CACHE = ("--cache-type-k", "--cache-type-v")

MAX_BODY = 2_000
"""Characters of what is done for a flag; what takes a value does so at once."""

_COMPARISON = re.compile(r"\barg\s*==\s*(?=\")")
_JOINED = re.compile(r"\s*\|\|\s*arg\s*==\s*(?=\")")
_BODY = re.compile(r"\s*\)\s*(?=\{)")
_UNDERSCORES = re.compile(r"\bstd::replace\s*\(\s*arg\.begin\(\)\s*,\s*arg\.end\(\)")


def read_flags(reading: Reading) -> Fact[Mapping[str, Flag]]:
    """Every flag the server takes; none in releases without a server."""
    for path, flags in _forms(reading):
        found: dict[str, Flag] = {}
        for flag in flags:
            found.setdefault(flag.name, flag)
        if any(PORT in (flag.name, *flag.aliases) for flag in found.values()):
            saw = f"{len(found)} flags of the server"
            return reading.known(_with_cache_types(reading, found), saw, Site(path, 0))
    server = reading.first(SERVERS)
    if server is not None:
        raise reading.unknown(server, "its flags are neither declared nor compared as known")
    nothing: Mapping[str, Flag] = {}
    return reading.known(nothing, "no server", Site(reading.path(SERVERS[-1]), 0))


def read_flag_syntax(reading: Reading) -> Fact[FlagSyntax]:
    """Names are taken whole; underscores are read as dashes where the loop replaces them."""
    for path, _ in _forms(reading):
        code = reading.code(path)
        match = _UNDERSCORES.search(code.text)
        at = Site(path, code.line(match.start()) if match else 0)
        syntax = FlagSyntax(match is not None, dotted=False, at=at, abbreviations=False)
        return reading.known(syntax, f"underscores as dashes: {syntax.underscores}; names are never cut", at)
    raise reading.unknown(reading.path(SERVERS[0]), "no loop over arguments")


def _forms(reading: Reading) -> Iterator[tuple[str, list[Flag]]]:
    """The file of each form that the build has, newest first, with the flags of the server in it."""
    if (path := reading.first([DECLARED])) is not None:
        yield path, list(_declared(path, reading.code(path)))
    if (path := reading.first([COMPARED])) is not None:
        bodies = functions(reading.code(path), COMMON_LOOP)
        flags = [flag for body in bodies for flag in _compared(path, body)]
        if any(flag.name == PORT for flag in flags):
            yield path, flags
    if (path := reading.first(SERVERS)) is not None:
        bodies = functions(reading.code(path), SERVER_LOOP)
        if bodies:
            yield path, [flag for body in bodies for flag in _compared(path, body)]


def _declared(path: str, code: Code) -> Iterator[Flag]:
    for option in options(code):
        if option.for_server:
            yield _flag(option.names, option.kind, Site(path, option.line))


def _compared(path: str, body: Span) -> Iterator[Flag]:
    """``if (arg == "-m" || arg == "--model") {``; what takes a value moves on to the next argument."""
    code, until = body.code, 0
    for match in body.find(_COMPARISON):
        if match.start() < until:
            continue
        names: list[str] = []
        at = match.end()
        while (name := code.string_at(at)) is not None:
            names.append(name)
            at = code.text.index('"', at + 1) + 1
            until = at
            joined = _JOINED.match(code.text, at)
            if joined is None:
                break
            at = joined.end()
        block = _BODY.match(code.text, at)
        kind = None
        if block is not None:
            inside = code.text[block.end() : min(code.closing(block.end()), block.end() + MAX_BODY)]
            kind = "value" if re.search(r"\bargv\b|\bCHECK_ARG\b|\+\+\s*i\b", inside) else "switch"
        names = [name for name in names if name.startswith("-")]
        if names:
            yield _flag(names, kind, Site(path, code.line(match.start())))


def _flag(names: Sequence[str], kind: str | None, at: Site) -> Flag:
    main = next((name for name in names if name.startswith("--")), names[0])
    aliases = tuple(name for name in dict.fromkeys(names) if name != main)
    return Flag(main, None, at, aliases, kind)


def _with_cache_types(reading: Reading, flags: Mapping[str, Flag]) -> Mapping[str, Flag]:
    """The choices of the flags that name a type of the KV cache."""
    types = cache_types(reading)
    if types is None:
        return flags
    return {name: _choosing(flag, types[0]) if name in CACHE else flag for name, flag in flags.items()}


def _choosing(flag: Flag, choices: Iterable[str]) -> Flag:
    return Flag(flag.name, tuple(choices), flag.at, flag.aliases, flag.kind)
