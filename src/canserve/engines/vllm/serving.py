"""How a build serves: KV cache types, weight formats, launchers, speculative methods, plugins.

Most of these are type aliases (``CacheDType``) in newer releases, and choices of a flag in older ones.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence

from canserve.engines.requirements import requirement
from canserve.engines.static.values import Choices, Value, strings
from canserve.engines.vllm.reading import TOP, Reading
from canserve.facts import Fact, Known, Missing
from canserve.subjects.build import QuantMethod, Registered, Site

ARGUMENTS = ("vllm/engine/arg_utils.py", "vllm/server/arg_utils.py")
OLD_CONFIGS = ("vllm/config/__init__.py", "vllm/config.py")
CACHE = ("vllm/config/cache.py", *OLD_CONFIGS)
PARALLEL = ("vllm/config/parallel.py", *OLD_CONFIGS)
SPECULATIVE = ("vllm/config/speculative.py", *OLD_CONFIGS)
LOADER = ("vllm/model_executor/model_loader/__init__.py", *OLD_CONFIGS)
PLUGINS = "vllm/plugins/__init__.py"
FRONT_ENDS = "vllm/entrypoints/"
SERVE = "vllm/entrypoints/cli/serve.py"
_DRAFTS = re.compile(r"Medusa|EAGLE|Eagle|MLPSpeculator")
"""Draft classes in releases whose registry has no table of its own for them."""

Named = tuple[tuple[str, ...], Site] | Missing | None


def _alias(reading: Reading, paths: Sequence[str], name: str) -> Named:
    """The values of a type alias or enumeration, from the first file that defines it."""
    for path in paths:
        value = reading.excerpts.value(path, name)
        if isinstance(value, Missing):
            return value
        found = _words(value)
        if found:
            node = reading.excerpts.statement(path, name)
            return found, Site(path, node.lineno if isinstance(node, ast.stmt) else 1)
        if (missing := reading.sources.gap(path)) is not None:
            return missing
    return None


def _words(value: Value) -> tuple[str, ...]:
    if isinstance(value, dict):
        value = list(value.values())
    return strings(value) or () if isinstance(value, Choices | list) else ()


def _flag_choices(reading: Reading, flag: str) -> Named:
    """The choices of a flag, where it has some."""
    for path in ARGUMENTS:
        for quote in ('"', "'"):
            for call in reading.excerpts.calls(path, "add_argument", f"{quote}{flag}{quote}"):
                named = any(isinstance(arg, ast.Constant) and arg.value == flag for arg in call.args)
                for keyword in call.keywords:
                    if named and keyword.arg == "choices":
                        found = strings(reading.excerpts.evaluate(path, keyword.value))
                        if found:
                            return found, Site(path, call.lineno)
        if (missing := reading.sources.gap(path)) is not None:
            return missing
    return None


def _first(*ways: Callable[[], Named]) -> Named:
    """The first way that leads to something; later ones, which cost files of their own, are not tried."""
    return next((found for way in ways if (found := way()) is not None), None)


def _mentions(reading: Reading, path: str, text: str) -> bool:
    found = reading.excerpts.text(path)
    return isinstance(found, str) and text in found


def _values(reading: Reading, found: Named, flag: str) -> Fact[tuple[str, ...]]:
    """The values of a flag; without the flag a build does the one thing that ``auto`` asks for."""
    if isinstance(found, Missing):
        return found
    if found is not None:
        return reading.known(found[0], f"values of {flag}", found[1])
    path = next((path for path in ARGUMENTS if reading.sources.has(path)), ARGUMENTS[0])
    if _mentions(reading, path, flag):
        return reading.unknown_form(path, f"the values of {flag} cannot be evaluated")
    return reading.known(("auto",), f"no {flag}", path)


def read_cache_types(reading: Reading) -> Fact[tuple[str, ...]]:
    """Values of ``--kv-cache-dtype``; only ``auto`` where the build has no such flag."""
    found = _first(
        lambda: _alias(reading, CACHE, "CacheDType"),
        lambda: _flag_choices(reading, "--kv-cache-dtype"),
    )
    return _values(reading, found, "--kv-cache-dtype")


def read_load_formats(reading: Reading) -> Fact[tuple[str, ...]]:
    """Values of ``--load-format``; the oldest releases load what they find."""
    found = _first(
        lambda: _alias(reading, LOADER, "LoadFormats"),
        lambda: _alias(reading, OLD_CONFIGS, "LoadFormat"),
        lambda: _flag_choices(reading, "--load-format"),
    )
    return _values(reading, found, "--load-format")


def read_launchers(reading: Reading, requires: Fact[tuple[str, ...]]) -> Fact[tuple[str, ...]]:
    """Ways to start workers.

    ``ray`` (required by the build) or ``ray-optional`` (used when installed), ``mp``, ``mp-multinode``
    (``--nnodes``), ``headless`` (``--headless`` for further nodes), ``torchrun``.
    """
    found = _first(
        lambda: _alias(reading, PARALLEL, "DistributedExecutorBackend"),
        lambda: _flag_choices(reading, "--distributed-executor-backend"),
    )
    if isinstance(found, Missing):
        return found
    path = next((path for path in ARGUMENTS if reading.sources.has(path)), ARGUMENTS[0])
    if found is None and not reading.sources.has(path):
        return reading.unknown_form(path, "no file of engine arguments is there")
    backends = found[0] if found is not None else (("ray",) if _mentions(reading, path, "use-ray") else ())
    at = found[1] if found is not None else Site(path, 1)
    out = []
    for backend in backends:
        if backend == "ray":
            optional = isinstance(requires, Known) and requirement(requires.value, "ray") is None
            out.append("ray-optional" if optional else "ray")
        elif backend == "external_launcher":
            out.append("torchrun")
        else:
            out.append(backend)
    if "mp" in backends and _mentions(reading, path, '"--nnodes"'):
        out.append("mp-multinode")
    front = [one for one in reading.sources.under(FRONT_ENDS) if one.endswith("/cli_args.py")]
    if any(_mentions(reading, one, '"--headless"') for one in (SERVE, path, *front)):
        out.append("headless")
    return reading.known(tuple(out), "launchers", at)


def read_speculative(reading: Reading, registry: Fact[Mapping[str, Registered]]) -> Fact[Mapping[str, Site]]:
    """Draft classes of the registry, and the methods that ``SpeculativeMethod`` names."""
    if isinstance(registry, Missing):
        return registry
    rows = registry.value.values()
    out = {row.architecture: row.at for row in rows if "speculative" in row.kind}
    out = out or {row.architecture: row.at for row in rows if _DRAFTS.search(row.architecture)}
    for name in ("SpeculativeMethod", "MTPModelTypes"):
        methods = _alias(reading, SPECULATIVE, name)
        if isinstance(methods, Missing):
            return methods
        if methods is not None:
            out |= {method: methods[1] for method in methods[0] if method not in out}
    return Known(out, registry.evidence)


def read_plugins(reading: Reading) -> Fact[tuple[str, ...]]:
    """Entry points of other packages that the build loads at start and that may register models.

    Groups are those that the build's plugin loader asks for; its own entry points (LoRA resolvers) add none.
    """
    entries: list[tuple[str, str]] = []
    paths = entry_points(reading)
    for path in paths:
        text = reading.excerpts.text(path)
        if isinstance(text, Missing):
            return text
        entries += _foreign(text or "")
    if not entries:
        return reading.known((), "no entry points of other packages", *(paths or ["*.dist-info"]))
    group = _plugin_group(reading)
    if isinstance(group, Missing):
        return group
    found = tuple(entry for section, entry in entries if section == group)
    return reading.known(found, f"entry points of {group}" if group else "no plugin loader", *paths, PLUGINS)


def entry_points(reading: Reading) -> list[str]:
    """Entry point files of other distributions; vLLM's own name only its own code."""
    own = re.compile(rf"{TOP}-[^/]+\.(?:dist|egg)-info/")
    return [path for path in reading.sources.under("", "/entry_points.txt") if not own.match(path)]


def _plugin_group(reading: Reading) -> str | Missing | None:
    """``vllm.general_plugins``: a constant, or written into the call."""
    value = reading.excerpts.value(PLUGINS, "DEFAULT_PLUGINS_GROUP")
    if isinstance(value, Missing | str):
        return value
    text = reading.excerpts.text(PLUGINS)
    if isinstance(text, Missing):
        return text
    if text is None:
        return reading.sources.gap(PLUGINS)
    match = re.search(r"group=['\"]([\w.]+)['\"]", text)
    return match[1] if match else None


def _foreign(text: str) -> list[tuple[str, str]]:
    """Group, and ``group: name = target``, for entries of vLLM's groups that lead to other packages."""
    section, out = "", []
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].strip()
        elif section.startswith("vllm.") and "=" in line and not line.startswith(("#", ";")):
            name, _, target = (part.strip() for part in line.partition("="))
            if not target.startswith("vllm."):
                out.append((section, f"{section}: {name} = {target}"[:200]))
    return out


def read_gguf(methods: Fact[Mapping[str, QuantMethod]]) -> Fact[Mapping[str, Site] | None]:
    """GGUF architectures: left to the gguf and transformers packages, or none where GGUF is not loaded."""
    if isinstance(methods, Missing):
        return methods
    return Known(None if "gguf" in methods.value else {}, methods.evidence)
