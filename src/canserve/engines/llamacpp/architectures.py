"""Which GGUF files are served: names of architectures that the code also builds a graph for.

``LLM_ARCH_NAMES`` alone is too long: it has names that nothing builds (``gptj`` ever since, ``gptneox`` for
its first months), one that ends every list (``(unknown)``), and one that is refused as a model of its own
(``clip``, since it serves quantizing projectors).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from canserve.engines.cpp.forms import Pair, Span, cases, functions, initializer, pairs
from canserve.engines.cpp.text import Code
from canserve.engines.llamacpp.reading import Reading
from canserve.facts import Fact
from canserve.subjects.build import Site

NAMES = "LLM_ARCH_NAMES"
NAMED_IN = ("src/llama-arch.cpp", "src/llama.cpp", "llama.cpp")
BUILT_IN = ("src/llama-model.cpp", "src/llama.cpp", "llama.cpp")
BUILDERS = ("llama_model_mapping", "build_arch_graph", "build_graph", "llama_build_graph")
"""Functions that choose an architecture's code, newest first: the model's class, or its graph."""
PLACEHOLDER = "(unknown)"
LOADERS = ("llama.h", "llama.cpp")
FILES = tuple(dict.fromkeys((*NAMED_IN, *BUILT_IN, *LOADERS)))
OLD_MAGIC = "LLAMA_FILE_MAGIC"
"""Of the formats before GGUF, which name no architecture."""
_GGUF = re.compile(r"\bgguf_\w+\s*\(")
_REFUSED = re.compile(r"\barch\s*==\s*(LLM_ARCH_\w+)\s*\)\s*\{\s*throw\b")


def read_gguf_architectures(reading: Reading) -> Fact[Mapping[str, Site] | None]:
    """Values of ``general.architecture`` that the build loads, each with where it is named."""
    named = _named(reading)
    if named is None:
        return _before_gguf(reading)
    path, rows = named
    built = _built(reading, {row.key for row in rows})
    found: dict[str, Site] = {
        row.text: Site(path, row.line) for row in rows if row.key in built and row.text != PLACEHOLDER
    }
    if not found:
        raise reading.unknown(path, f"no function builds what {NAMES} names")
    unbuilt = [row.text for row in rows if row.key not in built and row.text != PLACEHOLDER]
    saw = f"{len(found)} GGUF architectures"
    if unbuilt:
        saw += f"; named, but not built as a model: {', '.join(unbuilt[:10])}"
    return reading.known(found, saw, Site(path, rows[0].line))


def _named(reading: Reading) -> tuple[str, list[Pair]] | None:
    for path in reading.existing(NAMED_IN):
        code = reading.code(path)
        span = initializer(code, NAMES)
        if span is not None:
            rows = pairs(span)
            if not rows:
                raise reading.unknown(path, f"{NAMES} holds no rows of a name and a text")
            return path, rows
    return None


def _built(reading: Reading, keys: set[str]) -> set[str]:
    """Of these architectures those whose code is chosen somewhere, and that are not refused by name."""
    files = [reading.code(path) for path in reading.existing(BUILT_IN)]
    for builder in BUILDERS:
        bodies = [body for code in files for body in functions(code, builder)]
        if built := _cases(bodies) & keys:
            return built - _refused(files)
    return set()


def _cases(bodies: Iterable[Span]) -> set[str]:
    return {label for body in bodies for label in cases(body)}


def _refused(files: Iterable[Code]) -> set[str]:
    return {match[1] for code in files for match in _REFUSED.finditer(code.text)}


def _before_gguf(reading: Reading) -> Fact[Mapping[str, Site] | None]:
    """Releases until August 2023 read LLaMA only, from formats of their own: no GGUF file at all."""
    codes = {path: reading.code(path) for path in reading.existing(LOADERS)}
    if not any(_GGUF.search(code.text) for code in codes.values()):
        for path, code in codes.items():
            if (
                old := next((at for name, at in code.macros.items() if name.startswith(OLD_MAGIC)), None)
            ) is not None:
                nothing: Mapping[str, Site] = {}
                return reading.known(nothing, "formats before GGUF only", Site(path, code.line(old)))
    raise reading.unknown(reading.path(NAMED_IN[0]), f"no {NAMES}")
