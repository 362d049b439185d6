"""Attributes of classes as Python would find them, for interpreted functions."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from canserve.engines.static.bounds import Budget, Impossible
from canserve.engines.static.modules import module_of
from canserve.engines.static.scan import Imported
from canserve.engines.static.sites import Attribute, ClassSite, External, FunctionSite, Unseen
from canserve.engines.static.values import Opaque, Ref, Value
from canserve.facts import Known

if TYPE_CHECKING:
    from canserve.engines.static.graph import ClassGraph
    from canserve.engines.static.interpret import Interpreter

_STUB = ast.parse("def __init__(self, *args, **kwargs): ...\ndef forward(self, *input): ...")
_OUTSIDE: dict[str, dict[str, ast.FunctionDef]] = {
    "torch.nn.Module": {node.name: node for node in _STUB.body if isinstance(node, ast.FunctionDef)},
}
"""The signatures that ``torch.nn.Module`` gives to a class that does not define them itself."""
_PLAIN = {"torch.nn.Module", "typing.Protocol", "typing_extensions.Protocol", "typing.Generic", "abc.ABC",
          "builtins.object", "enum.Enum", "builtins.str", "typing.NamedTuple"}  # fmt: skip
"""Outside classes that define none of the names that engines ask for, beside those above."""
_GENERAL = {"forward", "__init__", "__call__", "get_input_embeddings", "load_weights", "config_class"}
"""Names that a library's own model classes define as well, so that an engine may inherit them unseen."""
_OF_EVERY_CLASS = {"__call__", "__eq__", "__hash__", "__repr__", "__str__", "__class__", "__new__"}


class NoAttribute(Impossible):
    """The class certainly lacks the attribute."""


class Classes:
    """Looks attributes up along a class's bases, with what decorators and makers added."""

    def __init__(self, graph: ClassGraph, interpreter: Interpreter) -> None:
        self.graph = graph
        self.interpreter = interpreter
        self._decorated: set[tuple[int, str]] = set()

    def get(self, site: ClassSite, name: str, after: ClassSite | None = None) -> Value:
        """``site.name``, or what ``super()`` in ``after`` finds.

        Raises NoAttribute, or Impossible where an outside base class may define it.
        """
        special = self._special(site, name)
        if special is not None:
            return special
        found = self.locate(site, name, after)
        return self._value(site, found) if isinstance(found, Attribute) else found

    def locate(self, site: ClassSite, name: str, after: ClassSite | None = None) -> Attribute | Value:
        """Like ``get``, but what a class body says is not evaluated."""
        order = self.graph.linear(site)
        start = order.index(after) + 1 if after in order else 0
        for base in order[start:]:
            if isinstance(base, ClassSite):
                self._decorate(base, name)
                if name in base.extra:
                    return base.extra[name]
                found = self.graph.body(base).get(name)
                if found is not None:
                    return replace(found, owner=base)
            elif isinstance(base, External):
                outside = self._outside(base.name, name)
                if outside is not None:
                    return outside
            else:
                raise Impossible
        if name in _OF_EVERY_CLASS:
            return Ref(f"object.{name}")
        raise NoAttribute

    def _special(self, site: ClassSite, name: str) -> Value:
        match name:
            case "__name__" | "__qualname__":
                return site.name
            case "__module__":
                return site.module
            case "__mro__" | "__bases__":
                order = self.graph.linear(site) if name == "__mro__" else self.graph.bases(site)
                return tuple(base if isinstance(base, ClassSite) else Ref(_named(base)) for base in order)
            case _:
                return None

    def _value(self, site: ClassSite, found: Attribute) -> Value:
        node, owner = found.node, found.owner
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            bound = site if _decorated_as(node, "classmethod") else None
            return FunctionSite(owner.module, node, owner.path, (), owner.scope, bound, owner)
        from canserve.engines.static.interpret import Frame

        frame = Frame(self.interpreter, owner.module, owner.path, Budget(2000), owner.scope)
        for name in {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} & self.graph.body(owner).keys():
            earlier = self.graph.body(owner)[name].node
            if isinstance(earlier, ast.expr) and earlier is not node:
                frame.env[name] = frame.evaluate(earlier)
        return frame.use(node)

    def _outside(self, base: str, name: str) -> Value:
        stub = _OUTSIDE.get(base, {}).get(name)
        if stub is not None:
            return FunctionSite(base.rsplit(".", 1)[0], stub, base)
        if base not in _PLAIN and name in _GENERAL:
            raise Impossible
        return None

    def members(self, protocol: ClassSite) -> dict[str, bool]:
        """A protocol's members; True: a method, which an implementation may not set to None."""
        out: dict[str, bool] = {}
        for base in self.graph.linear(protocol):
            if isinstance(base, Unseen):
                raise Impossible
            if not isinstance(base, ClassSite):
                continue
            for node in base.node.body:
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    out.setdefault(node.target.id, False)
            for name, found in self.graph.body(base).items():
                out.setdefault(name, not isinstance(found.node, ast.expr))
        for name in ("__init__", "__slots__", "__doc__", "__module__", "__new__", "_is_protocol"):
            out.pop(name, None)
        return out

    def members_of_enum(self, site: ClassSite) -> list[Value]:
        """The values of an enumeration, in order. Raises Impossible for any other class."""
        if not any(
            isinstance(base, External) and base.name.startswith("enum.") for base in self.graph.linear(site)
        ):
            raise Impossible
        return [
            self._value(site, found)
            for name, found in self.graph.body(site).items()
            if isinstance(found.node, ast.expr) and not name.startswith("_")
        ]

    def is_protocol(self, site: ClassSite) -> bool:
        """Whether the class itself is declared a protocol."""
        return any(
            isinstance(base, External) and base.name.rsplit(".", 1)[-1] == "Protocol"
            for base in self.graph.bases(site)
        )

    def conforms(self, site: ClassSite, protocol: ClassSite) -> bool:
        """``isinstance(site, protocol)`` for a runtime-checkable protocol and a class. Raises Impossible."""
        unknown = False
        for name, method in self.members(protocol).items():
            try:
                found = self.locate(site, name)
            except NoAttribute:
                return False
            except Impossible:
                unknown = True
                continue
            node = found.node if isinstance(found, Attribute) else None
            if method and isinstance(node, ast.Constant) and node.value is None:
                return False
        if unknown:
            raise Impossible
        return True

    def _decorate(self, site: ClassSite, name: str) -> None:
        """Apply the decorators of a class that set this attribute, once."""
        if not site.node.decorator_list or (id(site.node), name) in self._decorated:
            return
        self._decorated.add((id(site.node), name))
        for node in reversed(site.node.decorator_list):
            func = node.func if isinstance(node, ast.Call) else node
            if not isinstance(func, ast.Name) or not self._may_set(site.module, func.id, name):
                continue
            replaced = self._assigned(site.module, func.id, name)
            if replaced is not None:
                site.extra[name] = replaced
                continue
            decorator = self.interpreter.value(site.module, node, site.scope)
            result = self.interpreter.call(decorator, [site])
            if isinstance(result, Opaque) and name not in site.extra:
                site.extra[name] = result

    def _may_set(self, module: str, function: str, name: str) -> bool:
        """Whether the decorator's file assigns such an attribute at all; a look at its text."""
        path = self._file_of_name(module, function)
        raw = None if path is None else self.graph.sources.raw(path)
        data = getattr(raw, "value", None)
        return isinstance(data, bytes) and f".{name} =".encode() in data

    def _file_of_name(self, module: str, name: str) -> str | None:
        """The file that a name is imported from, or the module's own; parses nothing new."""
        found = self.graph.module(module)
        bindings = found.bindings.get(name, []) if found else []
        source = bindings[-1].bound if bindings else None
        return self.graph.file_of(source.module if isinstance(source, Imported) else module)

    def _assigned(self, module: str, function: str, name: str) -> FunctionSite | None:
        """The nested function that a decorator too long to follow puts in this place, if just one."""
        path = self._file_of_name(module, function)
        tree = None if path is None else self.graph.sources.tree(path)
        found: list[FunctionSite] = []
        for maker in ast.walk(tree.value) if isinstance(tree, Known) and tree.value else ():
            if not isinstance(maker, ast.FunctionDef):
                continue
            nested = {node.name: node for node in maker.body if isinstance(node, ast.FunctionDef)}
            for node in maker.body:
                match node:
                    case ast.Assign(targets=[ast.Attribute(attr=attr)], value=ast.Name(id=given)):
                        if attr == name and given in nested:
                            found.append(FunctionSite(module_of(path or ""), nested[given], path or ""))
                    case _:
                        pass
        return found[0] if len(found) == 1 else None


def _named(base: object) -> str:
    return str(getattr(base, "name", None) or getattr(base, "module", "?"))


def _decorated_as(node: ast.FunctionDef | ast.AsyncFunctionDef, word: str) -> bool:
    return any(isinstance(decorator, ast.Name) and decorator.id == word for decorator in node.decorator_list)
