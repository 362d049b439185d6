"""One pass over a module's top level: what each name is bound to, and what is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from canserve.engines.static.bounds import DEPTH, source_of
from canserve.engines.static.guards import truth
from canserve.engines.static.modules import imported_module, is_package, module_of
from canserve.engines.static.sites import ImportSite


@dataclass(frozen=True, slots=True)
class Imported:
    """``from module import name``; name None: ``import module``."""

    module: str
    name: str | None
    line: int


Bound: TypeAlias = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.expr | Imported


@dataclass(frozen=True, slots=True)
class Binding:
    """One statement that gives a name its meaning, with the undecided conditions around it."""

    bound: Bound
    guards: tuple[str, ...]


@dataclass(slots=True)
class Module:
    """What the top level of a module says."""

    name: str
    path: str
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    imports: list[ImportSite] = field(default_factory=list)

    @property
    def package(self) -> bool:
        """Whether it is a package's ``__init__``."""
        return is_package(self.path)

    @property
    def stars(self) -> list[str]:
        """Modules whose public names are all imported, last first."""
        return [site.module for site in reversed(self.imports) if site.name == "*"]

    def bind(self, name: str, bound: Bound, guards: tuple[str, ...]) -> None:
        """Note one more meaning of a name."""
        self.bindings.setdefault(name, []).append(Binding(bound, guards))


Guarded: TypeAlias = tuple[ast.stmt, tuple[str, ...]]


def flat(
    body: Iterable[ast.stmt], platform: str, guards: tuple[str, ...] = (), depth: int = 0
) -> Iterator[Guarded]:
    """The simple statements of a block with their conditions; branches that cannot run here are left out."""
    for node in body:
        if depth > DEPTH:
            return
        match node:
            case ast.If():
                decided = truth(node.test, platform)
                test = source_of(node.test) if decided is None else ""
                if decided is not False:
                    yield from flat(node.body, platform, (*guards, test) if test else guards, depth + 1)
                if decided is not True:
                    inner = (*guards, f"not ({test})") if test else guards
                    yield from flat(node.orelse, platform, inner, depth + 1)
            case ast.Try() | ast.TryStar():
                yield from flat([*node.body, *node.orelse], platform, (*guards, "try"), depth + 1)
                for handler in node.handlers:
                    kind = source_of(handler.type) if handler.type else ""
                    inner = (*guards, f"except {kind}".rstrip())
                    yield from flat(handler.body, platform, inner, depth + 1)
                yield from flat(node.finalbody, platform, guards, depth + 1)
            case ast.With() | ast.AsyncWith() | ast.For() | ast.While():
                yield from flat(node.body, platform, guards, depth + 1)
            case _:
                yield node, guards


def scan(tree: ast.Module, path: str, platform: str) -> Module:
    """Read the top level of a module."""
    found = Module(module_of(path), path)
    for node, guards in flat(tree.body, platform):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                found.bind(node.name, node, guards)
            case ast.ImportFrom():
                _import_from(found, node, guards)
            case ast.Import():
                for alias in node.names:
                    found.imports.append(ImportSite(alias.name, None, node.lineno, guards))
                    module = alias.name if alias.asname else alias.name.split(".")[0]
                    found.bind(alias.asname or module, Imported(module, None, node.lineno), guards)
            case ast.Assign():
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        found.bind(target.id, node.value, guards)
                    elif isinstance(target, ast.Tuple):
                        for name in target.elts:
                            if isinstance(name, ast.Name):
                                found.bind(name.id, node.value, guards)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found.bind(name, value, guards)
            case ast.AugAssign(target=ast.Name(id=name)):
                found.bind(name, node.value, guards)
            case _:
                pass
    return found


def _import_from(found: Module, node: ast.ImportFrom, guards: tuple[str, ...]) -> None:
    source = imported_module(node, found.name, found.package)
    for alias in node.names:
        found.imports.append(ImportSite(source, alias.name, node.lineno, guards))
        if alias.name != "*":
            found.bind(alias.asname or alias.name, Imported(source, alias.name, node.lineno), guards)
