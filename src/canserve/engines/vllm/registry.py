"""The model registry in all its forms, and the lists beside it.

In order of age: ``_MODEL_REGISTRY`` in ``model_loader.py`` (names, star-imported), ``_MODELS`` in
``models/__init__.py`` (module and class), the tables of ``models/registry.py`` that are spread into
``_VLLM_MODELS``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from canserve.engines.static.values import Ref, Table, Value
from canserve.engines.vllm.reading import TOP, Reading
from canserve.facts import Fact, Missing
from canserve.subjects.build import Registered, Site

MODELS = "vllm.model_executor.models"
FORMS = (
    ("vllm/model_executor/models/registry.py", "_VLLM_MODELS"),
    ("vllm/model_executor/models/__init__.py", "_MODELS"),
    ("vllm/model_executor/model_loader.py", "_MODEL_REGISTRY"),
)
"""Where the final table stood, newest first."""
FILES = tuple(path for path, _ in FORMS)
_PART = re.compile(r"_(\w+?)_MODELS?")
_NO_PART = {"_VLLM_MODELS", "_PREVIOUSLY_SUPPORTED_MODELS", "_OOT_SUPPORTED_MODELS", "_OOT_MODELS"}
_PLATFORM_LIST = re.compile(r"_(ROCM|NEURON|CPU|TPU|XPU)_")
DROPPED = "_PREVIOUSLY_SUPPORTED_MODELS"
ELSEWHERE = "_OOT_SUPPORTED_MODELS"


def read_registry(reading: Reading) -> Fact[Mapping[str, Registered]]:
    """Every architecture the build serves natively on CUDA."""
    seen = None
    for path, final in FORMS:
        names = reading.constants(path)
        if isinstance(names, Missing):
            return names
        if names is None:
            if (missing := reading.sources.gap(path)) is not None:
                return missing
            continue
        table = names.get(final)
        if isinstance(table, Table) and table:
            return _rows(reading, path, final, table)
        seen = seen or path
    if seen is None:
        return reading.sources.unreadable(FILES[0], "no file of a model registry is there")
    return reading.unknown_form(seen, f"none of {', '.join(final for _, final in FORMS)} is a table")


def _rows(reading: Reading, path: str, final: str, table: Table) -> Fact[Mapping[str, Registered]]:
    if table.opaque:
        return reading.unknown_form(path, f"parts of {final} cannot be evaluated: {table.opaque[0]}")
    kinds = _kinds(reading, path)
    rows: dict[str, Registered] = {}
    for name, value in table.items():
        where = _where(value, path)
        if not isinstance(name, str) or where is None:
            return reading.unknown_form(path, f"a row of {final} is not a module and a class: {name}")
        guards = table.guards.get(name, ()) + tuple(f"not ({text})" for text in table.removed.get(name, ()))
        at = Site(path, table.lines.get(name, 0))
        rows[name] = Registered(name, *where, kinds.get(name, "generation"), at, guards)
    return reading.known(rows, f"{final}: {len(rows)} architectures", path)


def _where(value: Value, path: str) -> tuple[str, str] | None:
    """Absolute module and class of a row."""
    match value:
        case (str() as module, str() as name):
            return (module if module.startswith(f"{TOP}.") else f"{MODELS}.{module}"), name
        case Ref(name=name, module=module):
            return module or path.removesuffix(".py").replace("/", "."), name
        case _:
            return None


def _kinds(reading: Reading, path: str) -> dict[str, str]:
    """Architecture -> the partial table it stands in, as ``text_generation``."""
    names = reading.constants(path)
    kinds: dict[str, str] = {}
    if isinstance(names, Missing) or names is None:
        return kinds
    for name in names:
        match = _PART.fullmatch(name)
        if match is None or name in _NO_PART or _PLATFORM_LIST.match(name):
            continue
        table = names[name]
        for key in table if isinstance(table, dict) else ():
            kinds.setdefault(str(key), match[1].lower())
    return kinds


def read_list(reading: Reading, name: str) -> Fact[Mapping[str, str]]:
    """``_PREVIOUSLY_SUPPORTED_MODELS`` or ``_OOT_SUPPORTED_MODELS``; empty where there is no such list."""
    path = next((path for path in FILES if reading.sources.has(path)), FILES[0])
    found = reading.constant([path], name)
    if isinstance(found, Missing):
        return found
    if found is None:
        return reading.known({}, f"no {name}", path)
    table = found[1]
    if not isinstance(table, Table) or table.opaque:
        return reading.unknown_form(path, f"{name} is not a table of names")
    rows = {str(key): str(value) for key, value in table.items() if isinstance(value, str)}
    return reading.known(rows, f"{name}: {len(rows)} names", path)
