"""Builtins and library functions about classes and signatures, as interpreted functions use them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from canserve.engines.static.bounds import Impossible
from canserve.engines.static.builtin import ordered
from canserve.engines.static.classes import NoAttribute
from canserve.engines.static.sites import ClassSite, External, FunctionSite, ModuleSite
from canserve.engines.static.values import CallValue, Opaque, Record, Ref, Table, Value, symbolic

if TYPE_CHECKING:
    from canserve.engines.static.interpret import Interpreter

PARAMETER_KINDS = {
    "POSITIONAL_ONLY",
    "POSITIONAL_OR_KEYWORD",
    "KEYWORD_ONLY",
    "VAR_POSITIONAL",
    "VAR_KEYWORD",
}
_BUILTIN_TYPES: dict[str, type | tuple[type, ...]] = {
    "str": str, "int": int, "float": float, "bool": bool,
    "dict": dict, "list": list, "tuple": tuple, "set": set,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Parameter:
    """``inspect.Parameter``."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True, eq=False)
class Signature:
    """``inspect.Signature``."""

    parameters: dict[str, Parameter]


@dataclass(frozen=True, slots=True, eq=False)
class Super:
    """``super()`` inside a method of ``owner``, of the class ``site``."""

    site: ClassSite
    owner: ClassSite


class Natives:
    """The functions, by their last name."""

    def __init__(self, interpreter: Interpreter) -> None:
        self._interpreter = interpreter
        self._graph = interpreter.graph
        self._table: dict[str, Callable[..., Value]] = {
            "getattr": self.getattr,
            "hasattr": self.hasattr,
            "callable": self.callable,
            "isinstance": self.isinstance,
            "issubclass": self.issubclass,
            "signature": self.signature,
            "import_module": self.import_module,
            "iter": lambda value: value,
            "next": self.next,
            "type": self.type,
        }
        self.stand_ins: dict[str, Callable[..., Value]] = {}
        """Functions of the package that are not followed, by name: what does the same without their files."""

    def call(self, name: str, args: Sequence[Value]) -> Value:
        """``name(*args)``. Raises KeyError for a function that is not known here, Impossible, NoAttribute."""
        return self._table[name.rsplit(".", 1)[-1]](*args)

    def getattr(self, owner: Value, name: Value, *default: Value) -> Value:
        """``getattr``: the default only where the attribute is certainly not there."""
        if not isinstance(name, str):
            raise Impossible
        try:
            if isinstance(owner, ClassSite):
                return self._interpreter.attribute(owner, name)
            if isinstance(owner, ModuleSite):
                return self._interpreter.of_sites(self._graph.resolve(owner.module, name))
            if isinstance(owner, Ref) and not default:
                return Ref(f"{owner.name}.{name}")
            return self.attribute(owner, name)
        except NoAttribute:
            if not default:
                raise
            return default[0]

    def hasattr(self, owner: Value, name: Value) -> Value:
        """``hasattr``."""
        try:
            if isinstance(owner, ClassSite) and isinstance(name, str) and not name.startswith("__"):
                self._interpreter.classes.locate(owner, name)
            else:
                self.getattr(owner, name)
        except NoAttribute:
            return False
        return True

    def callable(self, value: Value) -> Value:
        """``callable``: functions and classes are, properties and plain data are not."""
        if isinstance(value, FunctionSite):
            node = value.node
            decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
            names = {d.id for d in decorators if isinstance(d, ast.Name)}
            return not names & {"property", "cached_property"}
        if isinstance(value, Ref) and value.name.startswith("object."):
            return True
        if symbolic(value):
            raise Impossible
        return isinstance(value, ClassSite)

    def isinstance(self, value: Value, kind: Value) -> Value:
        """``isinstance``, of classes against protocols as of plain data."""
        if isinstance(kind, tuple):
            return any(self.isinstance(value, one) for one in kind)
        if symbolic(value):
            raise Impossible
        if isinstance(kind, ClassSite):
            if not isinstance(value, ClassSite):
                if isinstance(value, Record):
                    return value.site is kind
                return False
            classes = self._interpreter.classes
            return classes.is_protocol(kind) and classes.conforms(value, kind)
        word = kind.name.rsplit(".", 1)[-1] if isinstance(kind, Ref) else ""
        if word == "type":
            return isinstance(value, ClassSite)
        if word not in _BUILTIN_TYPES:
            raise Impossible
        return isinstance(value, _BUILTIN_TYPES[word])

    def issubclass(self, value: Value, kind: Value) -> Value:
        """``issubclass`` by name; an outside base that is not the one asked for hides its own bases."""
        if isinstance(kind, tuple):
            return any(self.issubclass(value, one) for one in kind)
        if not isinstance(value, ClassSite):
            raise Impossible
        order = self._graph.linear(value)
        if isinstance(kind, ClassSite):
            if any(isinstance(base, ClassSite) and base.node is kind.node for base in order):
                return True
            classes = self._interpreter.classes
            return classes.is_protocol(kind) and classes.conforms(value, kind)
        if not isinstance(kind, Ref):
            raise Impossible
        if any(isinstance(base, External) and base.name == kind.name for base in order):
            return True
        if any(not isinstance(base, ClassSite) for base in order):
            raise Impossible
        return False

    def signature(self, function: Value) -> Signature:
        """``inspect.signature`` of a function of the package."""
        if not isinstance(function, FunctionSite):
            raise Impossible
        args = function.node.args
        found = [(arg.arg, "POSITIONAL_ONLY") for arg in args.posonlyargs]
        found += [(arg.arg, "POSITIONAL_OR_KEYWORD") for arg in args.args]
        found += [(args.vararg.arg, "VAR_POSITIONAL")] if args.vararg else []
        found += [(arg.arg, "KEYWORD_ONLY") for arg in args.kwonlyargs]
        found += [(args.kwarg.arg, "VAR_KEYWORD")] if args.kwarg else []
        if function.bound is not None:
            found = found[1:]
        return Signature({name: Parameter(name, kind) for name, kind in found})

    def attribute(self, owner: Value, name: str) -> Value:
        """Attributes of signatures, parameters, functions and records."""
        match owner:
            case Signature() if name == "parameters":
                return Table(owner.parameters.items())
            case Parameter() if name in {"name", "kind"}:
                return owner.name if name == "name" else owner.kind
            case FunctionSite() if name == "__func__" and owner.bound is not None:
                return FunctionSite(owner.module, owner.node, owner.path, owner.guards, owner.scope)
            case FunctionSite():
                raise NoAttribute
            case Record() if name in owner.names:
                return owner[owner.names.index(name)]
            case Record():
                assert isinstance(owner.site, ClassSite)
                method = self._interpreter.attribute(owner.site, name)
                if isinstance(method, FunctionSite):
                    return FunctionSite(
                        method.module, method.node, method.path, method.guards, method.scope, owner
                    )
                return method
            case _:
                raise Impossible

    def import_module(self, name: Value, *package: Value) -> Value:
        """``importlib.import_module`` of an absolute name."""
        if not isinstance(name, str) or package or name.startswith("."):
            raise Impossible
        path = self._graph.file_of(name)
        return Ref(name) if path is None else ModuleSite(name, path)

    def next(self, items: Value, *default: Value) -> Value:
        """``next(iter(items))`` of known elements."""
        found = ordered(items)
        if found is None or (not found and not default):
            raise Impossible
        return found[0] if found else default[0]

    def type(self, value: Value) -> Value:
        """``type(x)`` of a class; of instances nothing is known here."""
        if isinstance(value, ClassSite):
            return Ref("type")
        raise Impossible

    def instantiate(self, site: ClassSite, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        """``site(*args, **kwargs)``: a named tuple becomes a record, all else stays a call."""
        names = tuple(
            node.target.id
            for node in site.node.body
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        )
        outside = self._graph.mro(site)[1]
        named_tuple = any(isinstance(b, External) and b.name.endswith("NamedTuple") for b in outside)
        if not named_tuple:
            return CallValue(site.name, tuple(args), dict(kwargs))
        fields = dict(zip(names, args, strict=False)) | dict(kwargs)
        for name in names:
            if name not in fields:
                default = self._graph.attribute_value(site, name)
                if default is None or isinstance(default, Opaque):
                    raise Impossible
                fields[name] = default
        return Record(names, (fields[name] for name in names), site)
