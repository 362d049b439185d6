"""What a llama.cpp server can be told, and on what it runs: cache types, reasoning formats, back ends."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from canserve.engines.cpp.forms import compared_in, functions, initializer, strings
from canserve.engines.llamacpp.architectures import read_gguf_architectures
from canserve.engines.llamacpp.options import options
from canserve.engines.llamacpp.reading import PACKAGE, Reading
from canserve.facts import Cause, Fact, Missing
from canserve.subjects.build import Site

CACHE_FILES = ("common/arg.cpp", "common/common.cpp")
CACHE_LIST, CACHE_FUNCTION = "kv_cache_types", "kv_cache_type_from_str"
REASONING_FILES = ("common/chat.cpp", "common/arg.cpp")
REASONING_FUNCTION = "common_reasoning_format_from_name"
REASONING_FLAG = "--reasoning-format"
SPECULATIVE = ("common/speculative.cpp",)
SPECULATIVE_MAP = "common_speculative_type_from_name_map"
RPC = ("ggml/include/ggml-rpc.h", "ggml-rpc.h")
WORKERS = ("tools/rpc/CMakeLists.txt", "examples/rpc/CMakeLists.txt")
BINDINGS = f"{PACKAGE}/llama_cpp.py"
METADATA = "llama_model_meta"
BACKENDS = {"ggml-cuda": "nvidia", "ggml-hip": "amd", "ggml-sycl": "intel", "ggml-cann": "huawei",
            "ggml-metal": "apple"}  # fmt: skip
"""Folders of back ends that are made for one vendor's accelerators."""
FILES = (*CACHE_FILES, *REASONING_FILES, *SPECULATIVE)
_PROGRAM = re.compile(r"^\s*(?:set\(\s*TARGET|add_executable\()\s*([a-z][a-z0-9-]*)[\s)]", re.MULTILINE)
_TYPE = re.compile(r"\bGGML_TYPE_(\w+)")


def read_cache_types(reading: Reading) -> Fact[tuple[str, ...]]:
    """Types that the KV cache can have; none can be chosen in the oldest releases."""
    found = cache_types(reading)
    if found is not None:
        return reading.known(found[0], f"{len(found[0])} types of the KV cache", found[1])
    nothing: tuple[str, ...] = ()
    return reading.known(nothing, "no type of the KV cache can be chosen", Site(_somewhere(reading), 0))


def cache_types(reading: Reading) -> tuple[tuple[str, ...], Site] | None:
    """The types as flags name them, and where they are listed."""
    for path in reading.existing(CACHE_FILES):
        code = reading.code(path)
        span = initializer(code, CACHE_LIST)
        if span is not None:
            names = tuple(match[1].lower() for match in span.find(_TYPE))
            return names, Site(path, code.line(span.start))
        for body in functions(code, CACHE_FUNCTION):
            if names := tuple(compared_in(body, "s")):
                return names, Site(path, code.line(body.start))
    return None


def read_reasoning(reading: Reading) -> Fact[tuple[str, ...]]:
    """Values of ``--reasoning-format``; none before reasoning was told apart."""
    for path in reading.existing(REASONING_FILES):
        code = reading.code(path)
        for body in functions(code, REASONING_FUNCTION):
            if names := tuple(compared_in(body, "format")):
                return reading.known(names, ", ".join(names), Site(path, code.line(body.start)))
        for option in options(code):
            if REASONING_FLAG in option.names and (names := tuple(compared_in(option.whole, "value"))):
                return reading.known(names, ", ".join(names), Site(path, option.line))
    nothing: tuple[str, ...] = ()
    return reading.known(nothing, "no reasoning formats", Site(_somewhere(reading), 0))


def read_speculative(reading: Reading) -> Fact[Mapping[str, Site]]:
    """Kinds of speculative decoding by name; releases that know one kind do not name it."""
    for path in reading.existing(SPECULATIVE):
        code = reading.code(path)
        span = initializer(code, SPECULATIVE_MAP)
        if span is not None:
            found = {name: Site(path, code.line(at)) for name, at in strings(span) if name != "none"}
            return reading.known(
                found, f"{len(found)} kinds of speculation", Site(path, code.line(span.start))
            )
    nothing: Mapping[str, Site] = {}
    return reading.known(nothing, "no kind of speculation has a name", Site(_somewhere(reading), 0))


def read_launchers(reading: Reading) -> Fact[tuple[str, ...]]:
    """``rpc``: workers on other machines that lend their memory and accelerators."""
    path = reading.first(RPC)
    found = () if path is None else ("rpc",)
    return reading.known(
        found, "workers over RPC" if found else "no RPC", Site(path or reading.path(RPC[0]), 0)
    )


def read_rpc_worker(reading: Reading) -> Fact[str]:
    """What the program of such a worker is called: ``rpc-server``, ``ggml-rpc-server``."""
    path = reading.first(WORKERS)
    text = None if path is None else reading.sources.text(path)
    if path is None or text is None:
        return Missing(Cause.UNAVAILABLE, f"neither {' nor '.join(WORKERS)} is there")
    if isinstance(text, Missing):
        return text
    found = _PROGRAM.search(text.value or "")
    if found is None:
        return reading.sources.unreadable(path, "names no program")
    line = (text.value or "")[: found.start(1)].count("\n") + 1
    return reading.known(found[1], f"the worker's program is {found[1]}", Site(path, line))


def read_load_formats(reading: Reading) -> Fact[tuple[str, ...]]:
    """GGUF; its forerunner in releases from before August 2023."""
    if reading.root is None and reading.sources.has(BINDINGS):
        return _of_bindings(reading)
    architectures = read_gguf_architectures(reading)
    if isinstance(architectures, Missing):
        return architectures
    formats = ("gguf",) if architectures.value else ("ggml",)
    at = Site(architectures.evidence[0].how.partition(":")[0], 0)
    return reading.known(formats, f"reads {formats[0]} files", at)


def _of_bindings(reading: Reading) -> Fact[tuple[str, ...]]:
    """Of an installation without sources: whether its bindings can ask a file for metadata, as only GGUF has."""
    for node in reading.tree(BINDINGS).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith(METADATA):
            return reading.known(("gguf",), "reads GGUF files", Site(BINDINGS, node.lineno))
    return reading.missing_tree()


def read_vendors(reading: Reading) -> Fact[Mapping[str, tuple[str, ...]]]:
    """Vendors for whose accelerators it has a back end of their own; every one of them runs GGUF's types."""
    sources, base = reading.sources, reading.path("")
    found = {
        vendor: ("gguf",)
        for folder, vendor in BACKENDS.items()
        if sources.under(f"{base}ggml/src/{folder}/", "")
    }
    return reading.known(
        found, f"back ends for {', '.join(found) or 'no vendor'}", Site(f"{base}ggml/src", 0)
    )


def _somewhere(reading: Reading) -> str:
    return next(iter(reading.existing(CACHE_FILES)), reading.path(CACHE_FILES[-1]))
