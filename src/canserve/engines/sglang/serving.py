"""What a server of this build can be told: parsers, dtypes, formats, back ends, launchers; and plugins."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from canserve.engines.sglang.flags import one_flag
from canserve.engines.sglang.places import (
    ATTENTION,
    GGUF,
    LOAD_CONFIG,
    PLUGINS,
    REASONING,
    SERVER_ARGS,
    SPECULATIVE,
    SPECULATIVE_ALIASES,
    TOOLS,
)
from canserve.engines.sglang.reading import Reading
from canserve.engines.sglang.registry import Registry
from canserve.engines.sglang.snippets import expression_at, line_of, matches
from canserve.facts import Cause, Fact, Known, Missing
from canserve.subjects.build import AttentionBackend, Flag, Site

_DRAFT = re.compile(r"(NextN|MTP|DSpark)$|Eagle|DFlash|Draft|Speculator|Medusa")
"""How draft models of speculative decoding are called in every release."""
_COMPARED = r"\bspeculative_algorithm == [\"'](\w+)[\"']"
"""A name that the arguments treat on its own, such as NEXTN where it only stands for EAGLE."""
MAX_ENTRY_POINTS = 1 << 16
"""Bytes of one ``entry_points.txt``; the largest one seen in the wild has a few kilobytes."""


# -- parsers of what the model says


def read_reasoning_parsers(reading: Reading) -> Fact[tuple[str, ...]]:
    """Values of ``--reasoning-parser``."""
    return _detectors(reading, REASONING, "DetectorMap", "--reasoning-parser")


def read_tool_parsers(reading: Reading) -> Fact[tuple[str, ...]]:
    """Values of ``--tool-call-parser``."""
    return _detectors(reading, TOOLS, "ToolCallParserEnum", "--tool-call-parser")


def _detectors(reading: Reading, paths: Sequence[str], table: str, flag: str) -> Fact[tuple[str, ...]]:
    path = reading.first(paths)
    if path is None:
        return Known((), (reading.sources.seen(paths[-1], "no such parsers yet"),))
    text = reading.text(path)
    match = re.search(rf"^\s+{table}\b[^=\n]*= *(?=\{{)", text, re.MULTILINE)
    listed = expression_at(text, match.end()) if match else None
    if match is None or not isinstance(listed, ast.Dict) or not all(map(_text, listed.keys)):
        raise reading.unknown(path, f"{table} is no table of names")
    names = [name for key in listed.keys if (name := _text(key))]
    names += [extra for extra in _beside(reading, flag) if extra not in names]
    at = Site(path, line_of(text, match.start(0)) + match[0].count("\n"))
    return Known(tuple(names), (reading.seen(at, f"{table}: {len(names)} parsers"),))


def _beside(reading: Reading, flag: str) -> list[str]:
    """Choices that the flag adds to a table's names: ``choices=["auto"] + names``."""
    text = reading.text(SERVER_ARGS)
    match = re.search(rf"add_argument\(\s*[\"']{flag}[\"']", text)
    call = expression_at(text, match.start()) if match else None
    choices = [k.value for k in call.keywords if k.arg == "choices"] if isinstance(call, ast.Call) else []
    return [name for node in choices for name in _texts(node)]


def _texts(node: ast.expr | None) -> list[str]:
    """All strings in an expression."""
    return [] if node is None else [name for inner in ast.walk(node) if (name := _text(inner))]


def _text(node: ast.AST | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


# -- choices of flags


def read_kv_cache_dtypes(reading: Reading) -> Fact[tuple[str, ...]]:
    """Values of ``--kv-cache-dtype``; before there was such a flag the cache had the model's own type."""
    flag = one_flag(reading, "--kv-cache-dtype")
    if flag is None:
        return Known(("auto",), (reading.sources.seen(SERVER_ARGS, "no --kv-cache-dtype"),))
    return Known(_choices_of(reading, flag), (reading.seen(flag.at, flag.name),))


def _choices_of(reading: Reading, flag: Flag) -> tuple[str, ...]:
    if flag.choices is None:
        raise reading.unknown(flag.at.file, f"the choices of {flag.name}")
    return flag.choices


def read_load_formats(reading: Reading) -> Fact[tuple[str, ...]]:
    """Values of ``--load-format``."""
    flag = one_flag(reading, "--load-format")
    if flag is None:
        raise reading.unknown(SERVER_ARGS, "no --load-format")
    return Known(_choices_of(reading, flag), (reading.seen(flag.at, flag.name),))


def read_gguf(reading: Reading) -> Fact[Mapping[str, Site] | None]:
    """``Known(None)``: left to the gguf and transformers packages; empty: such files are not loaded."""
    flag = one_flag(reading, "--load-format")
    if flag is not None and flag.choices is not None and "gguf" not in flag.choices:
        return Known({}, (reading.seen(flag.at, "no load format gguf"),))
    looks = [reading.sources.seen(LOAD_CONFIG, "the load format gguf uses transformers' own reader")]
    if reading.first((GGUF,)) is not None:
        looks.append(reading.sources.seen(GGUF, "reads a few architectures itself, beside transformers"))
    return Known(None, tuple(looks))


def read_launchers(reading: Reading) -> Fact[tuple[str, ...]]:
    """How the server's processes can be started: its own on one machine, on several, or through Ray."""
    found, looks = ["mp"], [reading.sources.seen(SERVER_ARGS, "starts its own processes")]
    for launcher, flags in (("sglang-multinode", ("--nnodes", "--node-rank")), ("ray", ("--use-ray",))):
        declared = [flag for name in flags if (flag := one_flag(reading, name))]
        if len(declared) == len(flags):
            found.append(launcher)
            looks += [reading.seen(flag.at, flag.name) for flag in declared]
    return Known(tuple(found), tuple(looks))


# -- speculative decoding


def read_speculative(reading: Reading, registry: Registry | None) -> Fact[Mapping[str, Site]]:
    """Names of algorithms, and the registered draft classes."""
    found: dict[str, Site] = {}
    flag = one_flag(reading, "--speculative-algorithm")
    if flag is not None:
        found.update(dict.fromkeys(flag.choices or (), flag.at))
        text = reading.text(SERVER_ARGS)
        for match in matches(_COMPARED, text):
            found.setdefault(match[1], Site(SERVER_ARGS, line_of(text, match.start())))
    if reading.first((SPECULATIVE,)) is not None:
        found.update(_algorithms(reading))
    rows = registry.rows.items() if found and registry is not None else ()
    found.update({name: row.at for name, row in rows if _DRAFT.search(name)})
    saw = f"{len(found)} algorithms and draft classes" if found else "no speculative decoding yet"
    return Known(found, (reading.sources.seen(SPECULATIVE, saw),))


def _algorithms(reading: Reading) -> dict[str, Site]:
    """Members of the enumeration, or what is registered in its place, and names that stand for one."""
    members: dict[str, Site] = {}
    for node in reading.tree(SPECULATIVE).body:
        at = Site(SPECULATIVE, node.lineno)
        match node:
            case ast.ClassDef("SpeculativeAlgorithm"):
                members.update({name: Site(SPECULATIVE, line) for name, line in _members(node)})
            case ast.Expr(ast.Call(func, [ast.Constant(str() as name), *_], keywords)):
                if "register" in ast.unparse(func):
                    aliases = [alias for k in keywords if k.arg == "aliases" for alias in _texts(k.value)]
                    members.update(dict.fromkeys([name, *aliases], at))
            case _:
                pass
    members.pop("NONE", None)
    if not members:
        raise reading.unknown(SPECULATIVE, "SpeculativeAlgorithm has no members")
    text = reading.text(SPECULATIVE_ALIASES) if reading.sources.has(SPECULATIVE_ALIASES) else ""
    if match := re.search(r"^_RESERVED_ALIASES = (?=frozenset\()", text, re.MULTILINE):
        at = Site(SPECULATIVE_ALIASES, line_of(text, match.start()))
        members.update(dict.fromkeys(_texts(expression_at(text, match.end())), at))
    return members


def _members(node: ast.ClassDef) -> Iterator[tuple[str, int]]:
    for statement in node.body:
        match statement:
            case ast.Assign([ast.Name(name)]) if name.isupper():
                yield name, statement.lineno
            case _:
                pass


# -- attention


def read_attention(reading: Reading) -> Fact[Mapping[str, AttentionBackend]]:
    """Attention back ends by name. What GPUs each runs on stands in code that is not followed."""
    found: dict[str, Site] = {}
    if reading.first((ATTENTION,)) is not None:
        text = reading.text(ATTENTION)
        for match in matches(r"^@register_attention_backend\(\s*[\"']([\w-]+)[\"']", text):
            found[match[1]] = Site(ATTENTION, line_of(text, match.start()))
    flag = one_flag(reading, "--attention-backend")
    for name in (flag.choices or ()) if flag is not None else ():
        found.setdefault(name, flag.at if flag is not None else Site(SERVER_ARGS, 1))
    if not found:
        raise reading.unavailable(
            "this release has no list of attention back ends", "start it once", SERVER_ARGS
        )
    backends = {name: _backend(reading, name, at) for name, at in found.items()}
    return Known(backends, tuple(reading.seen(at, name) for name, at in list(found.items())[:1]))


def _backend(reading: Reading, name: str, at: Site) -> AttentionBackend:
    why = f"the source states no rule in one place for what {name} runs on"
    missing = Missing(Cause.UNAVAILABLE, why, (reading.seen(at, why),), "start it once")
    return AttentionBackend(name, missing, missing, at)


# -- plugins


def read_plugins(reading: Reading) -> Fact[tuple[str, ...]]:
    """Entry points through which installed packages may add architectures."""
    group = ""
    if reading.first((PLUGINS,)) is not None:
        match = re.search(r"^GENERAL_PLUGINS_GROUP = [\"']([\w.]+)[\"']", reading.text(PLUGINS), re.MULTILINE)
        if match is None:
            raise reading.unknown(PLUGINS, "no group of entry points")
        group = match[1]
    found: list[str] = []
    paths = reading.sources.under("", ".dist-info/entry_points.txt") if group else []
    reading.sources.prefetch(paths)
    for path in paths:
        text = reading.raw(path)[:MAX_ENTRY_POINTS].decode("utf-8", "replace")
        found += [f"{group}: {line}" for line in _section(text.splitlines(), group)]
    saw = f"{len(found)} plugins; SGLANG_EXTERNAL_MODEL_PACKAGE may name a package with further classes"
    return Known(tuple(found), (reading.sources.seen(PLUGINS, saw),))


def _section(lines: Iterable[str], group: str) -> Iterable[str]:
    inside = False
    for line in lines:
        if line.strip().startswith("["):
            inside = line.strip() == f"[{group}]"
        elif inside and "=" in line:
            yield line.strip()[:200]
