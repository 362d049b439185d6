"""Attention back ends, the compute capabilities they accept, and the KV cache types they hold.

Since the enumeration's members name classes, each class is asked by its own ``supports_compute_capability``;
older enumerations are bare names, and what runs where is spread over code that no predicate sums up.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping

from canserve.engines.static.bounds import Impossible
from canserve.engines.static.classes import NoAttribute
from canserve.engines.static.modules import module_of
from canserve.engines.static.sites import ClassSite, FunctionSite
from canserve.engines.static.values import Opaque
from canserve.engines.vllm.attention_rules import PLATFORM_FILE, Rules, of_capability
from canserve.engines.vllm.reading import Reading
from canserve.engines.vllm.serving import read_cache_types
from canserve.facts import Fact, Missing
from canserve.subjects.build import CAPABILITIES, AttentionBackend, Site

FILES = (
    "vllm/v1/attention/backends/registry.py",
    "vllm/attention/backends/registry.py",
    "vllm/platforms/interface.py",
    "vllm/attention/selector.py",
)
ENUMS = ("AttentionBackendEnum", "_Backend")
ALSO = (PLATFORM_FILE, "vllm/v1/attention/backend.py", "vllm/attention/backends/abstract.py")
"""Where it is decided which of them are considered, and what all of them share."""
_PREDICATE = "supports_compute_capability"
_KV_PREDICATE = "supports_kv_cache_dtype"
_OTHER_PLATFORM = re.compile(r"(?:^|_)(?:ROCM|XPU|CPU|AMX|TPU|PALLAS|HPU|NPU|IPEX|OPENVINO|NEURON)(?:_|$)")


def read_attention(reading: Reading) -> Fact[Mapping[str, AttentionBackend]]:
    """Every back end of the enumeration that may run on CUDA."""
    paths = reading.existing(FILES)
    if isinstance(paths, Missing):
        return paths
    for path in paths:
        for name in ENUMS:
            site = reading.graph.class_named(module_of(path), name)
            if site is not None and site.path == path and (members := _members(site)):
                return _backends(reading, path, members)
    return reading.known({}, "no enumeration of attention back ends", *(paths or FILES[:1]))


def _members(site: ClassSite) -> dict[str, ast.expr]:
    out: dict[str, ast.expr] = {}
    for node in site.node.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name.isupper():
                if not _OTHER_PLATFORM.search(name):
                    out[name] = value
            case _:
                pass
    return out


def _backends(
    reading: Reading, path: str, members: Mapping[str, ast.expr]
) -> Fact[Mapping[str, AttentionBackend]]:
    named: dict[str, str] = {}
    for name, node in members.items():
        value = reading.graph.constants.value(path, node)
        if isinstance(value, str) and "." in value:
            named[name] = value
    if named:  # members without a class are placeholders beside those that have one
        _prefetch(reading, named.values())
        members = {name: node for name, node in members.items() if name in named}
    backends, rules = {}, Rules(reading)
    for name, node in members.items():
        at = Site(path, node.lineno)
        backends[name] = _backend(rules, name, named.get(name), at)
    return reading.known(backends, f"{len(backends)} attention back ends", path)


def _prefetch(reading: Reading, classes: Iterable[str]) -> None:
    paths = [reading.graph.file_of(one.rsplit(".", 1)[0]) for one in classes]
    reading.sources.prefetch(path for path in (*paths, *ALSO) if path)


def _backend(rules: Rules, name: str, target: str | None, at: Site) -> AttentionBackend:
    reading = rules.reading
    if target is None:
        missing = reading.unknown_form(at.file, f"{name} is a bare name: no rule says where it runs")
        return AttentionBackend(name, missing, missing, at)
    module, _, cls = target.rpartition(".")
    site = reading.graph.class_named(module, cls)
    if site is None:
        missing = reading.graph.unread(module) or reading.unknown_form(at.file, f"{target} is not there")
        return AttentionBackend(name, missing, missing, at)
    return AttentionBackend(
        name,
        _capabilities(reading, site),
        _kv_types(reading, site),
        at,
        traits=rules.traits(site),
        head_sizes=rules.head_sizes(site),
        offered=rules.offered(name, target),
    )


def _capabilities(reading: Reading, site: ClassSite) -> Fact[tuple[int, ...]]:
    try:
        method = reading.graph.interpreter.attribute(site, _PREDICATE)
    except NoAttribute:
        return reading.known(CAPABILITIES, f"{site.name} names no limit", Site(site.path, site.line))
    except Impossible:
        method = None
    if not isinstance(method, FunctionSite):
        return reading.unknown_form(site.path, f"{site.name}.{_PREDICATE} cannot be followed")
    accepted: list[int] = []
    for tenfold in CAPABILITIES:
        answer = reading.graph.interpreter.call(method, [of_capability(reading, tenfold)])
        if not isinstance(answer, bool):
            why = answer.source if isinstance(answer, Opaque) else type(answer).__name__
            return reading.unknown_form(method.path, f"{site.name}.{_PREDICATE}({tenfold}) is open: {why}")
        if answer:
            accepted.append(tenfold)
    at = Site(method.path, method.node.lineno)
    return reading.known(tuple(accepted), f"{site.name}.{_PREDICATE}", at)


def _kv_types(reading: Reading, site: ClassSite) -> Fact[tuple[str, ...]]:
    """Types that ``supports_kv_cache_dtype`` does not refuse.

    Those are counted in for which it asks the GPU or an installed kernel package at run time.
    """
    try:
        method = reading.graph.interpreter.attribute(site, _KV_PREDICATE)
    except Impossible:
        return reading.unknown_form(site.path, f"{site.name} has no {_KV_PREDICATE} that can be followed")
    known = read_cache_types(reading)
    if isinstance(known, Missing):
        return known
    if not isinstance(method, FunctionSite):
        return reading.unknown_form(site.path, f"{site.name}.{_KV_PREDICATE} is not a method")
    taken = [name for name in known.value if reading.graph.interpreter.call(method, [name]) is not False]
    at = Site(method.path, method.node.lineno)
    return reading.known(tuple(taken), f"{site.name}.{_KV_PREDICATE}", at)
