"""Where names lead to: classes, functions, modules, outside packages, or nowhere."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from canserve.engines.static.values import Value
from canserve.facts import Missing


@dataclass(frozen=True, slots=True, eq=False)
class ClassSite:
    """A class statement, found in a module of the package."""

    module: str
    """Where it stands, as the class's own ``__module__`` would say."""
    node: ast.ClassDef
    path: str
    guards: tuple[str, ...] = ()
    """Conditions on the way here that the platform does not decide."""
    scope: Mapping[str, Value] | None = None
    """Local names around it, for a class made by a function."""
    extra: dict[str, Value] = field(default_factory=dict)
    """Attributes set on it afterwards, by the function or decorator that made it."""

    def __eq__(self, other: object) -> bool:
        """One class statement makes one class, or one for every call of the function it stands in."""
        return isinstance(other, ClassSite) and self.node is other.node and self.scope is other.scope

    def __hash__(self) -> int:
        return hash((id(self.node), id(self.scope)))

    @property
    def name(self) -> str:
        """The class's ``__name__``."""
        given = self.extra.get("__name__")
        return given if isinstance(given, str) else self.node.name

    @property
    def line(self) -> int:
        """Line of the class statement."""
        return self.node.lineno


@dataclass(frozen=True, slots=True, eq=False)
class FunctionSite:
    """A function or method."""

    module: str
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    path: str
    guards: tuple[str, ...] = ()
    scope: Mapping[str, Value] | None = None
    """Local names around it."""
    bound: Value = None
    """What it is bound to, for a class method read from a class."""
    owner: ClassSite | None = None
    """The class whose body it stands in."""


@dataclass(frozen=True, slots=True)
class ModuleSite:
    """A module of the package."""

    module: str
    path: str
    guards: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Assigned:
    """A name bound to an expression that is no class and no function."""

    module: str
    node: ast.expr
    path: str
    guards: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class External:
    """A name outside the package: ``torch.nn.Module``, ``builtins.object``."""

    name: str
    guards: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Absent:
    """A module or name of the package that does not exist: ``vllm.config.Gone``."""

    name: str
    guards: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unseen:
    """A name that could not be looked up, because a file could not be read or an expression not followed."""

    name: str
    missing: Missing
    guards: tuple[str, ...] = ()


Resolved: TypeAlias = ClassSite | FunctionSite | ModuleSite | Assigned | External | Absent | Unseen


@dataclass(frozen=True, slots=True)
class Attribute:
    """A class attribute and the class that defines it."""

    owner: ClassSite
    node: ast.expr | ast.FunctionDef | ast.AsyncFunctionDef
    line: int


@dataclass(frozen=True, slots=True)
class ImportSite:
    """One import that runs when its module is imported."""

    module: str
    """Absolute module that is read."""
    name: str | None
    """Imported name, ``*``, or None for ``import module``."""
    line: int
    guards: tuple[str, ...] = ()
    """Conditions, ``try`` and ``except X`` around it; platform conditions that hold are left out."""
