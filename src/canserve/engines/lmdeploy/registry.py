"""Which architectures each of the two back ends serves, in all forms that LMDeploy has written it down.

PyTorch: ``MODULE_MAP`` of ``module_map.py`` names a class for each architecture. In older releases it names
replacements for single layers of transformers' own classes, and a list beside it says for which architectures
they suffice. TurboMind: ``SUPPORTED_ARCHS`` names the converter of each architecture; in older releases
``_SUPPORTED_ARCHS`` says yes or no of each. The oldest releases choose by the name that the user gives.

With ``--backend`` left out or not ``pytorch``, TurboMind is taken for all that it lists
(``autoget_backend``), PyTorch for the rest.
"""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass

from canserve.engines.lmdeploy.reading import (
    MODULE_MAP,
    PATCH,
    PYTORCH,
    PYTORCH_LIST,
    TOP,
    TURBOMIND,
    TURBOMIND_LIST,
    Reading,
)
from canserve.engines.static.bounds import source_of
from canserve.engines.static.modules import module_of
from canserve.engines.static.values import Table
from canserve.facts import Evidence, Fact, Known
from canserve.subjects.build import Registered, Site

LISTS = ("SUPPORTED_ARCHS", "_SUPPORTED_ARCHS")
CONVERTER = f"{TOP}.turbomind.turbomind"
ENGINE = "TurboMind"
"""The class in ``CONVERTER`` that runs every model; releases whose table says only yes or no lead to it."""
BY_NAME = "name a release from 0.2.5 on: older ones choose the model by a name that the user gives"


@dataclass(frozen=True, slots=True)
class Entry:
    """What one back end says of one architecture."""

    target: str
    """PyTorch: the dotted class; TurboMind: its engine and the name of the converter."""
    at: Site
    guards: tuple[str, ...] = ()
    """Conditions on the config under which TurboMind takes it."""


@dataclass(frozen=True, slots=True)
class Registry:
    """Both back ends' tables."""

    pytorch: Mapping[str, Entry]
    turbomind: Mapping[str, Entry]
    layers: bool
    """Whether PyTorch serves transformers' own classes, with single layers replaced."""
    evidence: tuple[Evidence, ...]

    def rows(self) -> dict[str, Registered]:
        """One row an architecture, with the class of the back end that is taken by default."""
        rows = {name: self._row(name) for name in (*self.turbomind, *self.pytorch)}
        return dict(sorted(rows.items(), key=lambda pair: (pair[1].at.file, pair[1].at.line, pair[0])))

    def _row(self, name: str) -> Registered:
        tables = ((TURBOMIND, self.turbomind), (PYTORCH, self.pytorch))
        backends = tuple(backend for backend, table in tables if name in table)
        entry = self.turbomind.get(name) or self.pytorch[name]
        module, _, target = entry.target.rpartition(".")
        guards = entry.guards if backends == (TURBOMIND,) else ()
        return Registered(name, module, target, " and ".join(backends), entry.at, guards, backends)


def read_registry(reading: Reading) -> Registry:
    """Both tables; raises where a build has neither, or one of an unknown form."""
    pytorch, layers = _pytorch(reading)
    turbomind = _turbomind(reading)
    if pytorch is None and turbomind is None:
        why = "the build has no list of architectures: it chooses the model by the name that the user gives"
        raise reading.unavailable(why, BY_NAME, MODULE_MAP)
    evidence = [
        reading.sources.seen(path, f"{len(table)} architectures")
        for path, table in ((PYTORCH_LIST if layers else MODULE_MAP, pytorch), (TURBOMIND_LIST, turbomind))
        if table is not None
    ]
    return Registry(pytorch or {}, turbomind or {}, layers, tuple(evidence))


# -- PyTorch


def _pytorch(reading: Reading) -> tuple[dict[str, Entry] | None, bool]:
    """Its table, and whether it is made of replaced layers."""
    if not reading.has(MODULE_MAP):
        return None, False
    table = reading.constants(MODULE_MAP).get("MODULE_MAP")
    if not isinstance(table, Table) or not table:
        raise reading.unknown(MODULE_MAP, "MODULE_MAP is not a table")
    pairs = {key: value for key, value in table.items() if isinstance(key, str) and isinstance(value, str)}
    layers = {key for key in pairs if "." in key}
    if len(pairs) < len(table) or (table.opaque and not layers) or (layers and len(layers) < len(pairs)):
        raise reading.unknown(MODULE_MAP, "a row of MODULE_MAP is not a name and a class")
    if not layers:
        lines = table.lines
        return {name: Entry(pairs[name], Site(MODULE_MAP, lines.get(name, 0))) for name in pairs}, False
    listed = _listed(reading, PYTORCH_LIST)
    if listed is None:
        return None, True
    target = f"{module_of(PATCH)}.patch"
    return {name: Entry(target, entry.at) for name, entry in listed.items()}, True


# -- TurboMind


def _turbomind(reading: Reading) -> dict[str, Entry] | None:
    listed = _listed(reading, TURBOMIND_LIST)
    if listed is None:
        return None
    special = dict(_special_cases(reading))
    return {name: Entry(entry.target, entry.at, special.get(name, ())) for name, entry in listed.items()}


def _listed(reading: Reading, path: str) -> dict[str, Entry] | None:
    """``dict(Arch='converter')`` or ``dict(Arch=True)``; None: no such file."""
    if not reading.has(path):
        return None
    constants = reading.constants(path)
    table = next((constants[name] for name in LISTS if name in constants), None)
    if not isinstance(table, Table) or not table or table.opaque:
        raise reading.unknown(path, f"neither of {' and '.join(LISTS)} is a table")
    lines = {**table.lines, **_lines(reading.tree(path))}
    found: dict[str, Entry] = {}
    for name, value in table.items():
        if not isinstance(name, str) or not isinstance(value, str | bool):
            raise reading.unknown(path, f"the row of {name} is neither a name nor yes or no")
        if value is not False:
            target = f"{CONVERTER}.{value}" if isinstance(value, str) else f"{CONVERTER}.{ENGINE}"
            found[name] = Entry(target, Site(path, lines.get(name, 0)))
    return found


def _lines(tree: ast.Module) -> dict[Hashable, int]:
    """Where each row of ``dict(Arch='converter', ...)`` stands: it is one expression of many lines."""
    calls = (node.value for node in tree.body if isinstance(node, ast.Assign))
    rows = (row for call in calls if isinstance(call, ast.Call) for row in call.keywords)
    return {row.arg: row.value.lineno for row in rows if row.arg}


def _special_cases(reading: Reading) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Architectures of which ``is_supported`` looks at the config too, and what it wants there."""
    function = reading.function(TURBOMIND_LIST, "is_supported")
    for node in ast.walk(function) if function is not None else ():
        match node:
            case ast.If(test=ast.Compare(ast.Name("arch"), [ast.Eq() | ast.In()], [named])):
                for part in ast.walk(named):
                    match part:
                        case ast.Constant(str() as name):
                            yield name, tuple(_conditions(node))
                        case _:
                            pass
            case _:
                pass


def _conditions(branch: ast.If) -> Iterator[str]:
    for statement in branch.body:
        match statement:
            case ast.If(test=test, body=[ast.Assign(_, ast.Constant(False))]):
                yield f"not ({source_of(test)})"
            case ast.Assign([ast.Name("support_by_turbomind")], value):
                yield source_of(value)
            case _:
                pass


# -- what left


def read_dropped(reading: Reading) -> Fact[Mapping[str, str]]:
    """``REMOVED_MODEL_MAP``: refused by name. The build does not say which release was the last."""
    if not reading.has(MODULE_MAP):
        return Known({}, (reading.sources.seen(MODULE_MAP, "no such file"),))
    constants = reading.constants(MODULE_MAP)
    if "REMOVED_MODEL_MAP" not in constants:
        return Known({}, (reading.sources.seen(MODULE_MAP, "no REMOVED_MODEL_MAP"),))
    table = constants["REMOVED_MODEL_MAP"]
    if not isinstance(table, Table) or table.opaque:
        raise reading.unknown(MODULE_MAP, "REMOVED_MODEL_MAP is not a table")
    names = dict.fromkeys((name for name in table if isinstance(name, str)), "")
    return Known(names, (reading.sources.seen(MODULE_MAP, f"REMOVED_MODEL_MAP: {len(names)} names"),))
