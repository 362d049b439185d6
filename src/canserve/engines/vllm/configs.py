"""Config classes that the engine brings for model types, and how it repairs configs.

The table is ``_CONFIG_REGISTRY``: a dict of classes, or (lazily) of class names in
``vllm.transformers_utils.configs``. In the oldest form a config is first parsed by transformers and only
then given the engine's class: there the table is no way to parse anything, and counts for nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from canserve.engines.static.closure import Imports
from canserve.engines.static.modules import module_of, within
from canserve.engines.static.sites import Absent, ClassSite, External, Resolved, Unseen
from canserve.engines.static.values import CallValue, Ref, Table, Value
from canserve.engines.vllm.reading import Reading
from canserve.facts import Fact, Known, Missing
from canserve.subjects.build import ConfigShim, Import, Site, Want

FILE = "vllm/transformers_utils/config.py"
CLASSES = "vllm.transformers_utils.configs"
TABLE = "_CONFIG_REGISTRY"
BY_ARCHITECTURE = "_ARCHITECTURE_TO_MODEL_TYPE"


def read_shims(reading: Reading, want: Want) -> Fact[Mapping[str, ConfigShim]]:
    """Model types that the engine parses itself; those wanted with what their class needs."""
    text = reading.excerpts.text(FILE)
    value = reading.excerpts.value(FILE, TABLE)
    if isinstance(text, Missing):
        return text
    if isinstance(value, Missing):
        return value
    if text is None or value is None:
        return reading.sources.gap(FILE) or reading.known({}, f"no {TABLE}", FILE)
    rows = value.kwargs if isinstance(value, CallValue) else value
    if not isinstance(rows, dict) or (isinstance(rows, Table) and rows.opaque):
        return reading.unknown_form(FILE, f"{TABLE} is not a table of config classes")
    if not _parses(text):
        return reading.known({}, f"{TABLE} is asked only after transformers has parsed the config", FILE)
    lines = dict(_lines(reading))
    imports = Imports(reading.graph, lambda module: within(module, CLASSES))
    shims: dict[str, ConfigShim] = {}
    for model_type, named in rows.items():
        at = Site(FILE, lines.get(str(model_type), 1))
        shim = ConfigShim(str(model_type), _name(named), at, overrides=True)
        if want.model_types is None or model_type in want.model_types:
            resolved = _resolved(reading, imports, shim, named)
            if isinstance(resolved, Missing):
                return resolved
            if resolved is None:
                continue  # a name without class fails when it is asked for
            shim = resolved
        shims[shim.model_type] = shim
    return reading.known(shims, f"{TABLE}: {len(shims)} model types", FILE)


def _name(named: Value) -> str:
    return named.name if isinstance(named, Ref) else str(named)


def _parses(text: str) -> bool:
    """Whether the table is asked, or registered with transformers, before transformers parses a config."""
    if "AutoConfig.register(" in text:
        return True
    asked, parsed = text.find(f"in {TABLE}"), text.find("AutoConfig.from_pretrained(")
    return asked >= 0 and (parsed < 0 or asked < parsed)


def _lines(reading: Reading) -> Iterator[tuple[str, int]]:
    """The line of every key of the table, written as keyword, key or element."""
    for name in (TABLE, f"{TABLE}_OVERRIDE_HF"):
        statement = reading.excerpts.statement(FILE, name)
        for node in ast.walk(statement) if isinstance(statement, ast.stmt) else ():
            if isinstance(node, ast.keyword) and node.arg:
                yield node.arg, node.value.lineno
            elif isinstance(node, ast.Dict):
                for key in node.keys:
                    if isinstance(key, ast.Constant):
                        yield str(key.value), key.lineno


def _resolved(
    reading: Reading, imports: Imports, shim: ConfigShim, named: Value
) -> ConfigShim | Missing | None:
    """The shim with what its class needs from transformers; None: there is no such class."""
    module = CLASSES if isinstance(named, str) else module_of(FILE)
    site: Resolved = reading.graph.resolve(module, shim.name)[0]
    match site:
        case ClassSite():
            pulled = imports.closure([site.module])
            if pulled.unread:
                return pulled.unread[0]
            needs = tuple(
                Import(need.site.module, need.site.name, Site(need.path, need.site.line))
                for need in pulled.outside
                if within(need.site.module, "transformers")
            )
            return ConfigShim(shim.model_type, shim.name, shim.at, shim.overrides, needs)
        case External(name=name):
            outside, _, last = name.rpartition(".")
            needs = (Import(outside, last, shim.at),) if within(outside, "transformers") else ()
            return ConfigShim(shim.model_type, shim.name, shim.at, shim.overrides, needs)
        case Absent():
            return None
        case Unseen(missing=missing):
            return missing
        case _:
            return reading.unknown_form(FILE, f"{shim.name} is not a class")


def read_architecture_types(reading: Reading) -> Fact[Mapping[str, str]]:
    """Architectures whose config is given a model type; empty where the build repairs none."""
    table = reading.excerpts.value(FILE, BY_ARCHITECTURE)
    if isinstance(table, Missing):
        return table
    if table is None:
        return reading.sources.gap(FILE) or reading.known({}, f"no {BY_ARCHITECTURE}", FILE)
    if not isinstance(table, Table) or table.opaque:
        return reading.unknown_form(FILE, f"{BY_ARCHITECTURE} is not a table of names")
    rows = {str(key): str(value) for key, value in table.items()}
    return reading.known(rows, f"{BY_ARCHITECTURE}: {len(rows)} architectures", FILE)


def nothing_rewritten(reading: Reading) -> Fact[Mapping[str, Any]]:
    """Model types, or architectures, rewritten in code before transformers sees a config: no release has any.

    What ``config.py`` changes in code concerns configs that transformers parses anyway (rope scaling,
    attribute names), and architectures that a config does not name at all.
    """
    fact = reading.sources.raw(FILE)
    return fact if isinstance(fact, Missing) else Known({}, fact.evidence)
