"""Names that a package offers without importing them: its lazy import structure.

Two forms, which may be combined: a dict ``_import_structure`` of submodule -> names, and
``define_import_structure(folder)``, which collects ``__all__`` and decorated objects of a folder's files.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass

from canserve.engines.sources import Sources
from canserve.engines.static.evaluate import Constants
from canserve.engines.static.values import Table, Value, strings
from canserve.engines.transformers.outline import INSTALLED
from canserve.facts import Fact, Known, Missing

_ALL = re.compile(r"^__all__\b[^\n=]*=\s*\[([^\]]*)\]", re.MULTILINE)
_STRING = re.compile(r"""["']([^"'\n]+)["']""")
_OBJECT = re.compile(r"(?:class|def)\s+(\w+)")
_DUMMIES = re.compile(r"utils\.dummy_(\w+)_objects")
_DECORATORS = ("@requires(", "@export(")
_NOT_COLLECTED = ("convert_", "modular_", "__init__")


@dataclass(frozen=True, slots=True)
class Structure:
    """What a lazy package offers."""

    listed: Mapping[str, str | None]
    """Names listed outright -> the submodule said to hold each; None: the name is one itself."""
    stand_ins: tuple[str, ...]
    """Submodules whose every public name is offered: dummies for what a missing dependency would bring."""
    folders: tuple[str, ...]
    """Folders whose files are collected."""
    whole: bool
    """Whether no part of the structure is built in a way that was not understood."""


def structure(constants: Constants, path: str, tree: ast.Module) -> Fact[Structure]:
    """The import structure of the package whose ``__init__.py`` is ``path``."""
    evaluated = constants.of(path)
    if isinstance(evaluated, Missing):
        return evaluated
    table = evaluated.value.get("_import_structure") if evaluated.value is not None else None
    listed, stand_ins, whole = _read_table(table if isinstance(table, dict) else {})
    folders = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id == "define_import_structure" and node.args:
                folders.append("/".join([path.rsplit("/", 1)[0], *_words(node.args[0])]))
            if node.func.id == "_LazyModule":
                listed.update(dict.fromkeys(_extra_objects(node)))
    seen = (constants.sources.seen(path, "lazy import structure"),)
    if not listed and not folders:
        return constants.sources.unreadable(path, "unknown form: a lazy module without an import structure")
    return Known(Structure(listed, tuple(stand_ins), tuple(folders), whole), seen)


def _read_table(table: dict[Hashable, Value]) -> tuple[dict[str, str | None], list[str], bool]:
    listed: dict[str, str | None] = {}
    stand_ins: list[str] = []
    whole = not (isinstance(table, Table) and table.opaque)
    for module, offered in table.items():
        names = strings(offered)
        if not isinstance(module, str):
            whole = False
        elif names is not None:
            listed.update(dict.fromkeys(names, module))
        elif match := _DUMMIES.fullmatch(module):  # [name for name in dir(dummies) if ...]
            if not INSTALLED.issuperset(match[1].split("_and_")):
                stand_ins.append(module)
        else:
            whole = False
    heads = {module.split(".", 1)[0] for module in table if isinstance(module, str)}
    listed.update(dict.fromkeys(heads))
    return listed, stand_ins, whole


def collected(sources: Sources, folder: str) -> list[str]:
    """The files of a folder whose objects are collected."""
    return [
        path for path in sources.under(folder + "/") if not path.rsplit("/", 1)[1].startswith(_NOT_COLLECTED)
    ]


def exports(text: str) -> Iterator[str]:
    """Objects that a collected file offers: its ``__all__``, and what ``@requires(...)`` stands before."""
    lists = _ALL.findall(text)
    if lists:
        yield from _STRING.findall(lists[-1])
    if any(decorator in text for decorator in _DECORATORS):
        yield from _decorated(text)


def _decorated(text: str) -> Iterator[str]:
    waiting = False
    for line in text.split("\n"):
        if line.startswith(_DECORATORS):
            waiting = True
        elif waiting and (match := _OBJECT.match(line)):
            yield match[1]
            waiting = False


def _words(node: ast.expr) -> list[str]:
    """``Path(__file__).parent / "models"`` -> ["models"]; a bare ``_file`` -> []."""
    constants = (part for part in ast.walk(node) if isinstance(part, ast.Constant))
    return [part.value for part in constants if isinstance(part.value, str) and part.value.isidentifier()]


def _extra_objects(call: ast.Call) -> list[str]:
    for keyword in call.keywords:
        if keyword.arg == "extra_objects" and isinstance(keyword.value, ast.Dict):
            keys = (key.value for key in keyword.value.keys if isinstance(key, ast.Constant))
            return [key for key in keys if isinstance(key, str)]
    return []
