"""Evaluating expressions: plain data comes out as data, everything else stays symbolic."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from canserve.engines.static import builtin
from canserve.engines.static.bounds import DEPTH, Budget, Exhausted, Impossible, source_of
from canserve.engines.static.guards import truth
from canserve.engines.static.operators import binary, compare, merge, weigh
from canserve.engines.static.values import CallValue, Choices, Opaque, Record, Ref, Table, Value, symbolic

_GENERIC = {"OrderedDict", "dict", "list", "Dict", "List", "set", "Set", "type", "Type", "defaultdict",
            "tuple", "Tuple", "Mapping", "Sequence", "Final", "ClassVar", "Annotated"}  # fmt: skip
FAILURES = (Impossible, ArithmeticError, AttributeError, LookupError, TypeError, ValueError, MemoryError)


class Expressions:
    """An evaluator of expressions over an environment. Subclasses say what names, attributes, calls are."""

    def __init__(self, budget: Budget, platform: str = "cuda") -> None:
        self.env: dict[str, Value] = {}
        self.budget = budget
        self.platform = platform

    # -- what a subclass may decide

    def lookup(self, name: str) -> Value:
        """The value of a name; a name without plain value is a ``Ref``."""
        return self.env[name] if name in self.env else Ref(name)

    def force(self, value: Value) -> Value:
        """The value behind a reference, at a place where it is needed."""
        return value

    def items(self, value: Value) -> list[Value]:
        """The elements that a loop over the value sees. Raises Impossible."""
        return builtin.elements(value, self.budget)

    def attribute(self, owner: Value, name: str) -> Value:
        """``owner.name``."""
        if isinstance(owner, Ref):
            origin = f"{owner.origin}.{name}" if owner.origin else None
            return Ref(f"{owner.name}.{name}", owner.module, origin)
        raise Impossible

    def call(self, func: Value, args: Sequence[Value], kwargs: Mapping[str, Value], line: int) -> Value:
        """``func(*args, **kwargs)`` of something that is not a method of plain data."""
        if not isinstance(func, Ref):
            raise Impossible
        try:
            forced = [self.force(arg) for arg in args]
            return builtin.call_builtin(func.name.rsplit(".", 1)[-1], forced, kwargs, self.budget, line)
        except FAILURES:
            return CallValue(func.name, tuple(args), dict(kwargs))

    # -- evaluation

    def evaluate(self, node: ast.expr) -> Value:
        """The expression's value; ``Opaque`` where it cannot be known. Raises only Exhausted."""
        self.budget.spend(1)
        handler = self._HANDLERS.get(type(node))
        if handler is None or self.budget.depth > DEPTH:
            return Opaque(source_of(node))
        self.budget.depth += 1
        try:
            return handler(self, node)
        except FAILURES:
            return Opaque(source_of(node))
        except RecursionError:
            raise Exhausted from None
        finally:
            self.budget.depth -= 1

    def use(self, node: ast.expr) -> Value:
        """The expression's value, with references resolved as far as possible."""
        return self.force(self.evaluate(node))

    def decide(self, test: ast.expr) -> bool | None:
        """Which way a condition goes; None when that is not known before run time."""
        by_platform = truth(test, self.platform)
        if by_platform is not None:
            return by_platform
        value = self.use(test)
        if symbolic(value) or isinstance(value, Choices):
            return None
        return bool(value)

    def bind(self, target: ast.expr, value: Value) -> None:
        """Assign a loop or comprehension target."""
        match target:
            case ast.Name(id=name):
                self.env[name] = value
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                parts = builtin.ordered(value) if isinstance(value, list | tuple) else None
                if parts is None or len(parts) != len(targets):
                    parts = [Opaque("unpacked") for _ in targets]
                for inner, part in zip(targets, parts, strict=True):
                    self.bind(inner, part)
            case _:
                pass  # attributes and elements of something that is not followed

    # -- one method an expression form

    def _constant(self, node: ast.Constant) -> Value:
        return node.value

    def _name(self, node: ast.Name) -> Value:
        return self.lookup(node.id)

    def _attribute(self, node: ast.Attribute) -> Value:
        return self.attribute(self.evaluate(node.value), node.attr)

    def _elements(self, nodes: Sequence[ast.expr]) -> list[Value]:
        out: list[Value] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                value = self.use(node.value)
                try:
                    out.extend(self.items(value))
                except Impossible:
                    out.append(Opaque("*" + source_of(node.value)))
            else:
                out.append(self.evaluate(node))
        return out

    def _tuple(self, node: ast.Tuple) -> Value:
        items = tuple(self._elements(node.elts))
        self.budget.spend(weigh(items))  # hashing walks shared parts again and again
        return items

    def _list(self, node: ast.List) -> Value:
        return self._elements(node.elts)

    def _set(self, node: ast.Set) -> Value:
        return set(self._elements(node.elts))

    def _dict(self, node: ast.Dict) -> Value:
        table = Table()
        for key_node, value_node in zip(node.keys, node.values, strict=True):
            if key_node is None:
                value = self.use(value_node)
                if isinstance(value, dict | list | tuple):
                    builtin.spread_into(table, value, self.budget, value_node.lineno)
                else:
                    table.opaque.append(source_of(value_node))
                continue
            key = self.use(key_node)
            if builtin.hashable(key):
                table.put(key, self.evaluate(value_node), key_node.lineno)
            else:
                table.opaque.append(source_of(key_node))
        return table

    def _joined(self, node: ast.JoinedStr) -> Value:
        out = ""
        for part in node.values:
            if isinstance(part, ast.Constant):
                out += str(part.value)
                continue
            if not isinstance(part, ast.FormattedValue) or part.format_spec is not None:
                raise Impossible
            value = self.use(part.value)
            if part.conversion not in {-1, ord("s")} or not isinstance(value, str | int | float):
                raise Impossible
            out += str(value)
            builtin.within(len(out))
        return out

    def _binary(self, node: ast.BinOp) -> Value:
        return binary(self.use(node.left), node.op, self.use(node.right), self.budget)

    def _unary(self, node: ast.UnaryOp) -> Value:
        value = self.use(node.operand)
        if symbolic(value):
            raise Impossible
        match node.op, value:
            case ast.Not(), _:
                return not value
            case ast.USub(), int() | float() as number:
                return -number
            case ast.UAdd(), int() | float():
                return value
            case _:
                raise Impossible

    def _boolean(self, node: ast.BoolOp) -> Value:
        stop_at = isinstance(node.op, ast.Or)
        unknown = False
        value: Value = None
        for part in node.values:
            value = self.use(part)
            if symbolic(value) or isinstance(value, Choices):
                by_platform = truth(part, self.platform)
                if by_platform is None:
                    unknown = True
                    continue
                value = by_platform
            if bool(value) is stop_at:
                if unknown and stop_at and not isinstance(value, bool):
                    raise Impossible  # ``unknown or "x"``: true, but which value it has is open
                return value
        if unknown:
            raise Impossible
        return value

    def _compare(self, node: ast.Compare) -> Value:
        left = self.use(node.left)
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.use(right_node)
            if not compare(left, op, right, self.budget):
                return False
            left = right
        return True

    def _conditional(self, node: ast.IfExp) -> Value:
        decided = self.decide(node.test)
        if decided is not None:
            return self.evaluate(node.body if decided else node.orelse)
        test = source_of(node.test)
        return merge(self.use(node.body), self.use(node.orelse), (test,), (f"not ({test})",))

    def _subscript(self, node: ast.Subscript) -> Value:
        owner = self.use(node.value)
        if isinstance(owner, Ref):
            word = owner.name.rsplit(".", 1)[-1]
            if word == "Literal":
                return self._literal(node.slice)
            if word in {"Optional", "Union"}:
                return self._union(node.slice)
            if word in _GENERIC:
                return self._first_choices(node.slice) or owner
            raise Impossible
        key = self.use(node.slice)
        if symbolic(key):
            raise Impossible
        if isinstance(owner, dict):
            return owner[key]
        if isinstance(owner, list | tuple | str) and isinstance(key, int | slice):
            return owner[key]
        raise Impossible

    def _literal(self, node: ast.expr) -> Choices:
        out: list[Value] = []
        for value in map(self.force, self._elements(node.elts if isinstance(node, ast.Tuple) else [node])):
            added = value.values if isinstance(value, Choices) else (value,)
            self.budget.spend(len(added))
            out.extend(added)
        return Choices(tuple(out))

    def _union(self, node: ast.expr) -> Value:
        found = [
            value
            for value in map(self.force, self._elements(node.elts if isinstance(node, ast.Tuple) else [node]))
            if isinstance(value, Choices)
        ]
        if not found:
            raise Impossible
        self.budget.spend(sum(len(choices.values) for choices in found))
        return Choices(tuple(item for choices in found for item in choices.values))

    def _first_choices(self, node: ast.expr) -> Choices | None:
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
        first = self.evaluate(parts[0]) if parts and isinstance(parts[0], ast.Subscript) else None
        return first if isinstance(first, Choices) else None

    def _slice(self, node: ast.Slice) -> Value:
        parts = [None if part is None else self.use(part) for part in (node.lower, node.upper, node.step)]
        if any(symbolic(part) for part in parts):
            raise Impossible
        return slice(*parts)

    def _walrus(self, node: ast.NamedExpr) -> Value:
        value = self.evaluate(node.value)
        self.bind(node.target, value)
        return value

    def _call(self, node: ast.Call) -> Value:
        args = self._elements(node.args)
        kwargs: dict[str, Value] = {}
        for keyword in node.keywords:
            value = self.evaluate(keyword.value)
            if keyword.arg is not None:
                kwargs[keyword.arg] = value
            else:
                spread = self.force(value)
                if isinstance(spread, dict):
                    kwargs.update({key: item for key, item in spread.items() if isinstance(key, str)})
                else:
                    kwargs[f"**{source_of(keyword.value)}"] = Opaque(source_of(keyword.value))
        if isinstance(node.func, ast.Attribute):
            owner = self.use(node.func.value)
            plain = isinstance(owner, str | dict | list | tuple | set | frozenset)
            if plain and not isinstance(owner, Record):
                return builtin.call_method(owner, node.func.attr, list(map(self.force, args)), self.budget)
            return self.call(self.attribute(owner, node.func.attr), args, kwargs, node.lineno)
        return self.call(self.evaluate(node.func), args, kwargs, node.lineno)

    # -- comprehensions

    def _comprehend(self, generators: Sequence[ast.comprehension], emit: Callable[[], None]) -> None:
        names = [n.id for g in generators for n in ast.walk(g.target) if isinstance(n, ast.Name)]
        outer = {name: self.env[name] for name in names if name in self.env}
        try:
            self._generate(generators, emit)
        finally:
            for name in names:
                self.env.pop(name, None)
            self.env.update(outer)

    def _generate(self, generators: Sequence[ast.comprehension], emit: Callable[[], None]) -> None:
        if not generators:
            self.budget.spend(1)
            emit()
            return
        first = generators[0]
        for item in self.items(self.use(first.iter)):
            self.bind(first.target, item)
            verdicts = [self.decide(test) for test in first.ifs]
            if False in verdicts:
                continue
            if None in verdicts:
                raise Impossible
            self._generate(generators[1:], emit)

    def _dict_comp(self, node: ast.DictComp) -> Value:
        table = Table()

        def emit() -> None:
            key = self.use(node.key)
            if not builtin.hashable(key):
                raise Impossible
            table.put(key, self.evaluate(node.value), node.lineno)

        self._comprehend(node.generators, emit)
        return table

    def _list_comp(self, node: ast.ListComp | ast.GeneratorExp) -> Value:
        out: list[Value] = []
        self._comprehend(node.generators, lambda: out.append(self.evaluate(node.elt)))
        return out

    def _set_comp(self, node: ast.SetComp) -> Value:
        out: set[Value] = set()
        self._comprehend(node.generators, lambda: out.add(self.evaluate(node.elt)))
        return out

    _HANDLERS: ClassVar[dict[type[ast.expr], Callable[..., Value]]] = {
        ast.Constant: _constant, ast.Name: _name, ast.Attribute: _attribute,
        ast.Tuple: _tuple, ast.List: _list, ast.Set: _set,
        ast.Dict: _dict, ast.JoinedStr: _joined, ast.BinOp: _binary,
        ast.UnaryOp: _unary, ast.BoolOp: _boolean, ast.Compare: _compare,
        ast.IfExp: _conditional, ast.Subscript: _subscript, ast.Slice: _slice,
        ast.NamedExpr: _walrus, ast.Call: _call, ast.DictComp: _dict_comp,
        ast.ListComp: _list_comp, ast.GeneratorExp: _list_comp,
        ast.SetComp: _set_comp,
    }  # fmt: skip
