"""Carrying out small pure functions of a package on its classes, step by step, without running them.

Engines say in functions what a class can do (``supports_pp(model)``), make classes from classes
(``as_seq_cls_model(Base)``), export names lazily (``__getattr__``) and name minimum capabilities in
methods. Whatever is not decided by the sources comes out as ``Opaque``, never as a guess.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from canserve.engines.static import builtin, modules
from canserve.engines.static.bounds import Budget, Exhausted, Impossible, source_of
from canserve.engines.static.classes import Classes
from canserve.engines.static.expressions import FAILURES
from canserve.engines.static.mutation import Guarded, mutate
from canserve.engines.static.natives import PARAMETER_KINDS, Natives, Parameter, Signature, Super
from canserve.engines.static.scan import Binding, Imported
from canserve.engines.static.sites import (
    Absent,
    Assigned,
    ClassSite,
    External,
    FunctionSite,
    ModuleSite,
    Resolved,
    Unseen,
)
from canserve.engines.static.values import Opaque, Record, Ref, Table, Value

if TYPE_CHECKING:
    from canserve.engines.static.graph import ClassGraph

CALL_STEPS = 60_000
"""Work allowed for one question, calls inside it included."""
MAX_CALLS = 16
"""Calls within calls."""

RAISES = Opaque("raise")
"""What a call comes out as that certainly raises."""
_EFFECTLESS = (ast.Expr, ast.Pass, ast.Import, ast.ImportFrom, ast.Assert, ast.Raise)


class _Returned(Exception):  # noqa: N818 - control flow of the interpreted function
    def __init__(self, value: Value) -> None:
        super().__init__()
        self.value = value


class _Raised(Exception):  # noqa: N818
    """The interpreted function raises."""


class _LoopEnd(Exception):  # noqa: N818
    def __init__(self, stop: bool) -> None:
        super().__init__()
        self.stop = stop


class Interpreter:
    """Answers questions about one package's classes by following its own functions."""

    def __init__(self, graph: ClassGraph) -> None:
        self.graph = graph
        self.classes = Classes(graph, self)
        self.natives = Natives(self)
        self.calls = 0

    def call(
        self, function: Value, args: Sequence[Value], kwargs: Mapping[str, Value] | None = None
    ) -> Value:
        """What ``function(*args, **kwargs)`` returns; ``Opaque`` where that is not decided by the sources.

        ``RAISES`` where it certainly ends in a ``raise``.
        """
        if not isinstance(function, FunctionSite):
            return Opaque("not a function")
        try:
            return self.invoke(function, args, kwargs or {}, Budget(CALL_STEPS))
        except _Raised:
            return RAISES
        except (*FAILURES, Exhausted, RecursionError):
            return Opaque(f"{getattr(function.node, 'name', 'lambda')}(...)")

    def value(self, module: str, node: ast.expr, names: Mapping[str, Value] | None = None) -> Value:
        """An expression's value at a module's top level, with classes and functions as sites."""
        path = self.graph.file_of(module) or module
        frame = Frame(self, module, path, Budget(CALL_STEPS), names)
        try:
            return frame.use(node)
        except (*FAILURES, Exhausted, _Raised, RecursionError):
            return Opaque(source_of(node))

    def local(self, site: ClassSite, node: ast.expr) -> Value:
        """An expression's value where a class stands that a function made."""
        return self.value(site.module, node, site.scope)

    def attribute(self, site: ClassSite, name: str) -> Value:
        """``site.name`` as Python would find it on the class. Raises NoAttribute, Impossible."""
        return self.classes.get(site, name)

    def sites(self, value: Value) -> list[Resolved]:
        """The value as what a name leads to; empty for plain data and what could not be followed."""
        match value:
            case ClassSite() | FunctionSite() | ModuleSite():
                return [value]
            case Ref(name=name):
                return [External(name)]
            case _:
                return []

    def of_sites(self, sites: Sequence[Resolved]) -> Value:
        """What a resolved name is as a value. Raises Impossible."""
        match sites[0]:
            case ClassSite() | FunctionSite() | ModuleSite() as site:
                return site
            case External(name=name):
                return Ref(name.removeprefix("builtins."))
            case Assigned(node=node, path=path):
                return self.graph.constants.value(path, node)
            case Absent() | Unseen():
                raise Impossible
        raise AssertionError(sites[0])

    def invoke(
        self, function: FunctionSite, args: Sequence[Value], kwargs: Mapping[str, Value], budget: Budget
    ) -> Value:
        """Carry out a call with a budget that is shared with the caller."""
        if self.calls >= MAX_CALLS:
            raise Impossible
        frame = Frame(self, function.module, function.path, budget, function.scope)
        bound = () if function.bound is None else (function.bound,)
        if isinstance(function.bound, ClassSite) and function.owner is not None:
            frame.parent = Super(function.bound, function.owner)
        frame.enter(function.node.args, (*bound, *args), kwargs)
        self.calls += 1
        try:
            if isinstance(function.node, ast.Lambda):
                return frame.evaluate(function.node.body)
            found = self.graph.whole(function.path, function.node)
            if found is None:
                raise Impossible
            frame.block(found.body)
        except _Returned as returned:
            return returned.value
        finally:
            self.calls -= 1
        return None


class Frame(Guarded):
    """One call's local names and the statements that change them."""

    def __init__(
        self,
        interpreter: Interpreter,
        module: str,
        path: str,
        budget: Budget,
        scope: Mapping[str, Value] | None = None,
    ) -> None:
        super().__init__(budget, interpreter.graph.platform)
        self.interpreter = interpreter
        self.module = module
        self.path = path
        self.env = dict(scope or {})
        self.parent: Super | None = None

    # -- names, attributes, calls

    def lookup(self, name: str) -> Value:
        """A local name, then what the module makes of it; imports are followed when they are used."""
        if name in self.env:
            return self.env[name]
        if name == "__name__":
            return self.module
        graph = self.interpreter.graph
        found = graph.module(self.module)
        match found.bindings.get(name) if found else None:
            case [Binding(bound=Imported(module=module, name=str() as origin), guards=())]:
                return (
                    Ref(name, module, origin)
                    if modules.within(module, graph.top)
                    else Ref(f"{module}.{origin}")
                )
            case _:
                return self.interpreter.of_sites(graph.resolve(self.module, name))

    def force(self, value: Value) -> Value:
        """The constant, class, function or module behind a reference."""
        graph = self.interpreter.graph
        if not isinstance(value, Ref) or value.module is None or value.origin is None:
            return value
        if not modules.within(value.module, graph.top):
            return value
        first, *attributes = value.origin.split(".")
        found = self.interpreter.of_sites(graph.resolve(value.module, first))
        for name in attributes:
            found = self.attribute(found, name)
        return found

    def items(self, value: Value) -> list[Value]:
        """The elements of plain data, or the values of an enumeration."""
        if isinstance(value, ClassSite):
            return self.interpreter.classes.members_of_enum(value)
        return super().items(value)

    def attribute(self, owner: Value, name: str) -> Value:
        """``owner.name`` of classes, modules, signatures, records."""
        owner = self.force(owner)
        match owner:
            case ClassSite():
                return self.interpreter.attribute(owner, name)
            case ModuleSite():
                return self.interpreter.of_sites(self.interpreter.graph.resolve(owner.module, name))
            case Super():
                return self.interpreter.classes.get(owner.site, name, owner.owner)
            case str() | int() if name == "value":
                return owner  # a member of an enumeration, which stands for its value here
            case Ref() if owner.name.endswith("Parameter") and name in PARAMETER_KINDS:
                return name
            case Record() | Signature() | Parameter() | FunctionSite():
                return self.interpreter.natives.attribute(owner, name)
            case _:
                return super().attribute(owner, name)

    def call(self, func: Value, args: Sequence[Value], kwargs: Mapping[str, Value], line: int) -> Value:
        """A call inside the interpreted function."""
        if isinstance(func, Ref) and func.origin in self.interpreter.natives.stand_ins:
            return self.interpreter.natives.stand_ins[func.origin](*map(self.force, args), **kwargs)
        func = self.force(func)
        match func:
            case FunctionSite():
                return self.interpreter.invoke(func, args, kwargs, self.budget)
            case ClassSite():
                return self.interpreter.natives.instantiate(func, args, kwargs)
            case Ref(name="super") if not args and self.parent is not None:
                return self.parent
            case Ref():
                try:
                    return self.interpreter.natives.call(func.name, [self.force(arg) for arg in args])
                except KeyError:
                    return super().call(func, args, kwargs, line)
            case _:
                raise Impossible

    def enter(self, wanted: ast.arguments, args: Sequence[Value], kwargs: Mapping[str, Value]) -> None:
        """Bind a call's arguments to the function's parameters. Raises Impossible when they do not fit."""
        named = [*wanted.posonlyargs, *wanted.args]
        defaults: list[ast.expr | None] = [None] * (len(named) - len(wanted.defaults))
        rest = dict(kwargs)
        for index, (arg, default) in enumerate(zip(named, [*defaults, *wanted.defaults], strict=True)):
            if index < len(args):
                self.env[arg.arg] = args[index]
            else:
                self._bind_named(arg.arg, default, rest)
        for arg, default in zip(wanted.kwonlyargs, wanted.kw_defaults, strict=True):
            self._bind_named(arg.arg, default, rest)
        extra = tuple(args[len(named) :])
        if (extra and wanted.vararg is None) or (rest and wanted.kwarg is None):
            raise Impossible
        if wanted.vararg is not None:
            self.env[wanted.vararg.arg] = extra
        if wanted.kwarg is not None:
            self.env[wanted.kwarg.arg] = Table(rest.items())

    def _bind_named(self, name: str, default: ast.expr | None, rest: dict[str, Value]) -> None:
        if name in rest:
            self.env[name] = rest.pop(name)
        elif default is not None:
            self.env[name] = Frame(self.interpreter, self.module, self.path, self.budget).evaluate(default)
        else:
            raise Impossible

    # -- statements

    def block(self, body: Sequence[ast.stmt]) -> None:
        """Carry out statements in order."""
        for node in body:
            self.budget.spend(1)
            self.statement(node)

    def statement(self, node: ast.stmt) -> None:  # noqa: C901, PLR0912 - one branch a statement form
        """Carry out one statement. Raises Impossible where it cannot be followed."""
        match node:
            case ast.Return(value=value):
                raise _Returned(None if value is None else self.use(value))
            case ast.Assign():
                assigned = self.evaluate(node.value)
                for target in node.targets:
                    self.assign(target, assigned)
            case ast.AnnAssign(value=ast.expr() as expression):
                self.assign(node.target, self.evaluate(expression))
            case ast.If():
                self.branch(node)
            case ast.For():
                self.loop(node)
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) as call):
                self.change(self.env.get(name), method, call)
            case ast.Expr(value=ast.Call(func=ast.Name()) as call):
                self.evaluate(call)  # a function that checks, and perhaps raises
            case ast.FunctionDef():
                self.env[node.name] = FunctionSite(self.module, node, self.path, (), dict(self.env))
            case ast.ClassDef():
                self.env[node.name] = ClassSite(self.module, node, self.path, (), dict(self.env))
            case ast.ImportFrom():
                self.import_names(node)
            case ast.Import():
                for alias in node.names:
                    name = alias.name if alias.asname else alias.name.split(".")[0]
                    self.env[alias.asname or name] = self._module(name)
            case ast.Raise():
                raise _Raised
            case ast.Try():
                self.attempt(node)
            case ast.Break() | ast.Continue():
                raise _LoopEnd(isinstance(node, ast.Break))
            case ast.With():
                self.block(node.body)
            case ast.Expr() | ast.Pass() | ast.Assert() | ast.AnnAssign() | ast.Global():
                pass  # logging and other talk
            case _:
                raise Impossible

    def assign(self, target: ast.expr, value: Value) -> None:
        """Assign to a local name, a table, or a class made or decorated here."""
        match target:
            case ast.Name() | ast.Tuple() | ast.List():
                self.bind(target, value)
            case ast.Attribute(value=inner, attr=attr):
                owner = self.use(inner)
                if not isinstance(owner, ClassSite):
                    raise Impossible
                owner.extra[attr] = value
            case ast.Subscript(value=inner, slice=key_node):
                owner, key = self.use(inner), self.use(key_node)
                if not isinstance(owner, Table) or not builtin.hashable(key):
                    raise Impossible
                owner.put(key, value, target.lineno)
            case _:
                raise Impossible

    def branch(self, node: ast.If) -> None:
        """``if``; an undecided one ends the question unless neither branch matters."""
        decided = self.decide(node.test)
        if decided is not None:
            self.block(node.body if decided else node.orelse)
        elif not all(isinstance(statement, _EFFECTLESS) for statement in [*node.body, *node.orelse]):
            raise Impossible

    def loop(self, node: ast.For) -> None:
        """``for`` over known elements."""
        for item in self.items(self.use(node.iter)):
            self.bind(node.target, item)
            try:
                self.block(node.body)
            except _LoopEnd as end:
                if end.stop:
                    return
        self.block(node.orelse)

    def attempt(self, node: ast.Try) -> None:
        """``try``: the handlers only after a ``raise`` that was reached for certain."""
        try:
            self.block(node.body)
        except _Raised:
            if not node.handlers:
                raise
            self.block(node.handlers[0].body)
        else:
            self.block(node.orelse)
        self.block(node.finalbody)

    def change(self, owner: Value, method: str, call: ast.Call) -> None:
        """``local.append(...)`` and the like; calls on anything else are talk (logging)."""
        if isinstance(owner, list | set | dict):
            mutate(self, owner, method, call)

    def import_names(self, node: ast.ImportFrom) -> None:
        """``from x import a`` inside a function; followed only when the name is used."""
        source = modules.imported_module(node, self.module, modules.is_package(self.path))
        for alias in node.names:
            name = alias.asname or alias.name
            inside = modules.within(source, self.interpreter.graph.top)
            self.env[name] = Ref(name, source, alias.name) if inside else Ref(f"{source}.{alias.name}")

    def _module(self, name: str) -> Value:
        path = self.interpreter.graph.file_of(name)
        return Ref(name) if path is None else ModuleSite(name, path)
