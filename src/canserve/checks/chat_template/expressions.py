"""Expressions of a template, evaluated node by node."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import Undefined, nodes
from jinja2.runtime import Context
from jinja2.utils import missing

from canserve.checks.chat_template.budget import (
    MAX_BITS,
    MAX_VALUE,
    TOO_LARGE,
    BudgetExceeded,
    Unsupported,
    fits,
    weight,
)
from canserve.checks.chat_template.sandbox import Sandbox, bound_percent
from canserve.checks.chat_template.scope import Frame

_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "gt": operator.gt,
    "gteq": operator.ge,
    "lt": operator.lt,
    "lteq": operator.le,
    "in": lambda item, container: item in container,
    "notin": lambda item, container: item not in container,
}


class Expressions:
    """Evaluates expression nodes in a frame. Python's own errors rise, as in jinja2."""

    def __init__(self, sandbox: Sandbox, context: Context) -> None:
        self.sandbox = sandbox
        self.context = context
        self.line = 1
        """Line of the node that was begun last: where it happened, when something fails."""
        self._rules: Mapping[type[nodes.Node], Callable[[Any, Frame], Any]] = {
            nodes.Name: self._name,
            nodes.Const: lambda node, _: node.value,
            nodes.TemplateData: lambda node, _: node.data,
            nodes.Tuple: lambda node, frame: tuple(self._all(node.items, frame)),
            nodes.List: lambda node, frame: self._all(node.items, frame),
            nodes.Dict: self._dict,
            nodes.And: lambda node, frame: (
                self.evaluate(node.left, frame) and self.evaluate(node.right, frame)
            ),
            nodes.Or: lambda node, frame: self.evaluate(node.left, frame) or self.evaluate(node.right, frame),
            nodes.Not: lambda node, frame: not self.evaluate(node.node, frame),
            nodes.Neg: lambda node, frame: -self.evaluate(node.node, frame),
            nodes.Pos: lambda node, frame: +self.evaluate(node.node, frame),
            nodes.Add: self._binary(operator.add),
            nodes.Sub: self._binary(operator.sub),
            nodes.Mul: self._binary(_times),
            nodes.Div: self._binary(operator.truediv),
            nodes.FloorDiv: self._binary(operator.floordiv),
            nodes.Mod: self._binary(self._modulo),
            nodes.Pow: self._binary(_power),
            nodes.Concat: lambda node, frame: self.sandbox.concat_text(self._all(node.nodes, frame)),
            nodes.Compare: self._compare,
            nodes.CondExpr: self._condition,
            nodes.Getattr: lambda node, frame: self.sandbox.getattr(
                self.evaluate(node.node, frame), node.attr
            ),
            nodes.Getitem: self._item,
            nodes.Filter: self._filter,
            nodes.Test: self._test,
            nodes.Call: self.call,
            nodes.ExtensionAttribute: lambda _node, _frame: lambda caller: caller(),
        }
        self._makes = frozenset({
            nodes.Tuple, nodes.List, nodes.Dict, nodes.Add, nodes.Sub, nodes.Mul, nodes.Mod, nodes.Pow,
            nodes.Concat, nodes.Call,
        })  # fmt: skip
        """Nodes that make values; the others hand on what was paid for when it was made."""

    def evaluate(self, node: nodes.Node, frame: Frame) -> Any:
        """The value of an expression."""
        self.sandbox.budget.spend()
        self.line = node.lineno
        rule = self._rules.get(type(node))
        if rule is None:
            raise Unsupported(f"it uses {type(node).__name__.lower()}")
        value = rule(node, frame)
        if type(node) in self._makes:
            self.sandbox.budget.made(value)
        return value

    def _all(self, expressions: list[nodes.Expr], frame: Frame) -> list[Any]:
        return [self.evaluate(expression, frame) for expression in expressions]

    def _name(self, node: nodes.Name, frame: Frame) -> Any:
        value = frame.get(node.name)
        if value is not missing:
            return value
        if frame.is_parameter(node.name):
            raise Unsupported(f"it reads {node.name} after the loop or block that it belongs to")
        return self.sandbox.undefined(name=node.name)

    def _dict(self, node: nodes.Dict, frame: Frame) -> dict[Any, Any]:
        return {self.evaluate(pair.key, frame): self.evaluate(pair.value, frame) for pair in node.items}

    def _binary(self, function: Callable[[Any, Any], Any]) -> Callable[[Any, Frame], Any]:
        def rule(node: nodes.BinExpr, frame: Frame) -> Any:
            return function(self.evaluate(node.left, frame), self.evaluate(node.right, frame))

        return rule

    def _modulo(self, left: Any, right: Any) -> Any:
        if isinstance(left, str):
            self.sandbox.printable(right)
            bound_percent(left, right if isinstance(right, tuple) else (right,))
        return left % right

    def _compare(self, node: nodes.Compare, frame: Frame) -> Any:
        """Chained as in Python: ``a < b < c`` stops at the first false link."""
        value: Any = self.evaluate(node.expr, frame)
        result: Any = True
        for operand in node.ops:
            other = self.evaluate(operand.expr, frame)
            self.sandbox.budget.made(value, other)  # comparing walks over both
            result = _COMPARE[operand.op](value, other)
            if not result:
                break
            value = other
        return result

    def _condition(self, node: nodes.CondExpr, frame: Frame) -> Any:
        if self.evaluate(node.test, frame):
            return self.evaluate(node.expr1, frame)
        if node.expr2 is not None:
            return self.evaluate(node.expr2, frame)
        return Undefined(f"the inline if-expression on line {node.lineno} was false and has no else")

    def _item(self, node: nodes.Getitem, frame: Frame) -> Any:
        owner = self.evaluate(node.node, frame)
        if not isinstance(node.arg, nodes.Slice):
            return self.sandbox.getitem(owner, self.evaluate(node.arg, frame))
        parts = (node.arg.start, node.arg.stop, node.arg.step)
        cut = owner[slice(*(None if part is None else self.evaluate(part, frame) for part in parts))]
        self.sandbox.budget.made(cut)
        return cut

    def _arguments(
        self, node: nodes.Call | nodes.Filter | nodes.Test, frame: Frame
    ) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments; a keyword given twice is Python's TypeError."""
        args = self._all(node.args, frame)
        kwargs = {str(keyword.key): self.evaluate(keyword.value, frame) for keyword in node.kwargs}
        if node.dyn_args is not None:
            args.extend(self.evaluate(node.dyn_args, frame))
        if node.dyn_kwargs is not None:
            more = dict(**self.evaluate(node.dyn_kwargs, frame))
            if kwargs.keys() & more:
                raise TypeError("a keyword argument was given twice")
            kwargs.update(more)
        return args, kwargs

    def _filter(self, node: nodes.Filter, frame: Frame) -> Any:
        value = frame.captured if node.node is None else self.evaluate(node.node, frame)
        args, kwargs = self._arguments(node, frame)
        self.line = node.lineno
        return self.sandbox.call_filter(node.name, value, args, kwargs, self.context)

    def _test(self, node: nodes.Test, frame: Frame) -> Any:
        value = self.evaluate(node.node, frame)
        args, kwargs = self._arguments(node, frame)
        self.line = node.lineno
        return self.sandbox.call_test(node.name, value, args, kwargs, self.context)

    def call(self, node: nodes.Call, frame: Frame, caller: Callable[..., str] | None = None) -> Any:
        """A call: of a macro, a method, a loop, or one of the sandbox's own functions."""
        function = self.evaluate(node.node, frame)
        args, kwargs = self._arguments(node, frame)
        if caller is not None:
            if "caller" in kwargs:
                raise TypeError("the caller was given twice")
            kwargs["caller"] = caller
        self.line = node.lineno
        return function(*args, **kwargs)


def _times(left: Any, right: Any) -> Any:
    for sequence, count in ((left, right), (right, left)):
        if isinstance(count, int) and isinstance(sequence, str):
            fits(len(sequence) * count)
        elif (
            isinstance(count, int)
            and isinstance(sequence, list | tuple)
            and weight(sequence) * count > MAX_VALUE
        ):
            raise BudgetExceeded(TOO_LARGE)
    return left * right


def _power(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int) and left.bit_length() * right > MAX_BITS:
        raise BudgetExceeded(f"it makes an integer of more than {MAX_BITS} bits")
    return left**right
