"""The Transformers back end: what happens to an architecture that no class of the build implements."""

from __future__ import annotations

import ast

from canserve.engines.sglang.places import LOADER_UTILS
from canserve.engines.sglang.reading import Reading
from canserve.engines.sglang.registry import Registry
from canserve.facts import Fact, Known
from canserve.subjects.build import Fallback, Site

_TESTS = {"is_backend_compatible": "supports_attention_backend"}
"""Methods of transformers' classes by which a build chooses -> the test's name in ``Fallback.accepts``."""


def read_fallback(reading: Reading, registry: Registry) -> Fact[Fallback | None]:
    """The fallback; ``Known(None)``: an architecture that is not registered is refused."""
    path = reading.first((LOADER_UTILS,))
    text = "" if path is None else reading.text(path)
    resolver = next(iter(reading.functions(LOADER_UTILS, "resolve_transformers_arch")), None)
    if resolver is None:
        if path is not None and "import transformers" in text:
            raise reading.unknown(path, "it uses transformers' classes in an unknown way")
        return Known(None, (*registry.evidence, reading.sources.seen(LOADER_UTILS, "no fallback")))
    at = Site(LOADER_UTILS, resolver.lineno)
    wrappers = tuple(name for name in registry.rows if name.startswith("Transformers"))
    if not wrappers:
        return Known(None, (reading.seen(at, "falls back on a class that is not registered"),))
    used = {node.attr for node in ast.walk(resolver) if isinstance(node, ast.Attribute)}
    accepts = tuple(test for method, test in _TESTS.items() if method in used)
    if not accepts:
        raise reading.unknown(LOADER_UTILS, f"{resolver.name} tests classes in an unknown way")
    found = Fallback(
        classes=wrappers,
        accepts=accepts,
        remote_code=any(isinstance(n, ast.Constant) and n.value == "AutoModel" for n in ast.walk(resolver)),
        multimodal=any("MultiModal" in name for name in wrappers),
        suffixes={},
        refuses_dropped=False,
        at=at,
    )
    return Known(found, (reading.seen(at, f"falls back on {wrappers[0]}"),))
