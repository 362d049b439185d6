"""The compute capability that a quantizer's ``validate_environment`` asks for.

The method is followed for each capability on a CUDA machine with every package installed, for a checkpoint that
was quantized before: the question is whether it raises. A condition that is not decided by this is taken the way
that does not raise; a quantizer that falls back on plain weights does not raise either.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Any

from canserve.subjects.build import CAPABILITIES

MAX_STATEMENTS = 2000
"""Statements that are followed for one capability; the longest real method has 60."""
UNDECIDED = object()
_OTHERS = ("xpu", "npu", "hpu", "mps", "rocm", "hip", "musa", "mlu", "neuron")
"""Words in the names of questions about accelerators that are not there."""
_ORDER: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip


class End(Enum):
    """How a block ends."""

    RAISES = auto()
    RETURNS = auto()
    GOES_ON = auto()


def accepted(method: ast.FunctionDef) -> tuple[int, ...]:
    """Of ``CAPABILITIES`` those for which the method does not raise."""
    return tuple(one for one in CAPABILITIES if Follow(one).block(method.body) is not End.RAISES)


class Follow:
    """Follows one method for one capability, times ten."""

    def __init__(self, tenfold: int) -> None:
        self._capability = divmod(tenfold, 10)
        self._names: dict[str, object] = {}
        self._left = MAX_STATEMENTS

    def block(self, body: Sequence[ast.stmt]) -> End:
        """How a block of statements ends."""
        for statement in body:
            self._left -= 1
            if self._left < 0:
                return End.RETURNS
            end = self._statement(statement)
            if end is not End.GOES_ON:
                return end
        return End.GOES_ON

    def _statement(self, node: ast.stmt) -> End:
        match node:
            case ast.Raise():
                return End.RAISES
            case ast.Return():
                return End.RETURNS
            case ast.Assign([target], value):
                self._assign(target, self.value(value))
            case ast.If(test, body, orelse):
                return self._branch(self.value(test), body, orelse)
            case ast.With(body=body) | ast.Try(body=body):
                return self.block(body)
            case _:
                pass
        return End.GOES_ON

    def _branch(self, test: object, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]) -> End:
        if test is not UNDECIDED:
            return self.block(body if test else orelse)
        ends = {self.block(body), self.block(orelse)}
        return ends.pop() if len(ends) == 1 else End.GOES_ON

    def _assign(self, target: ast.expr, value: object) -> None:
        match target:
            case ast.Name(name):
                self._names[name] = value
            case ast.Tuple(parts):
                values = list(value) if isinstance(value, tuple) and len(value) == len(parts) else None
                for index, part in enumerate(parts):
                    self._assign(part, values[index] if values is not None else UNDECIDED)
            case _:
                pass

    def value(self, node: ast.expr) -> object:  # noqa: PLR0911 - one return a form of expression
        """What an expression comes out as, or ``UNDECIDED``."""
        match node:
            case ast.Constant(literal):
                return literal
            case ast.Name(name):
                return self._names.get(name, UNDECIDED)
            case ast.Tuple(parts):
                values = tuple(map(self.value, parts))
                return UNDECIDED if UNDECIDED in values else values
            case ast.UnaryOp(ast.Not(), operand):
                inner = self.value(operand)
                return UNDECIDED if inner is UNDECIDED else not inner
            case ast.BoolOp(op, values):
                return self._junction(isinstance(op, ast.And), values)
            case ast.Compare(left, [op], [right]):
                return self._compared(self.value(left), op, self.value(right))
            case ast.Subscript(owner, ast.Constant(int() as index)):
                whole = self.value(owner)
                return whole[index] if isinstance(whole, tuple) and index < len(whole) else UNDECIDED
            case ast.Attribute():
                return {"self.pre_quantized": True, "self.quantization_config.dequantize": False}.get(
                    ast.unparse(node), UNDECIDED
                )
            case ast.Call(func):
                return self._asked(ast.unparse(func)[:200])
            case _:
                return UNDECIDED

    def _junction(self, both: bool, parts: Sequence[ast.expr]) -> object:
        values = [self.value(part) for part in parts]
        if any(value is not UNDECIDED and bool(value) is not both for value in values):
            return not both
        return UNDECIDED if UNDECIDED in values else both

    def _compared(self, left: object, op: ast.cmpop, right: object) -> object:
        compare = _ORDER.get(type(op))
        if compare is None or UNDECIDED in (left, right):
            return UNDECIDED
        try:
            return compare(left, right)
        except TypeError:
            return UNDECIDED

    def _asked(self, function: str) -> object:
        name = function.rsplit(".", 1)[-1]
        if name == "get_device_capability":
            return self._capability
        if name.endswith("available"):
            return not any(word in function for word in _OTHERS)
        return UNDECIDED
