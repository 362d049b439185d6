"""Operators on values, bounded in what they build, and the merging of alternatives."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from canserve.engines.static import builtin
from canserve.engines.static.bounds import BITS, STEPS, Budget, Exhausted, Impossible
from canserve.engines.static.sites import ClassSite
from canserve.engines.static.values import Choices, Opaque, Ref, Table, Value, brief, symbolic

_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
    ast.LShift: operator.lshift, ast.RShift: operator.rshift, ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_, ast.BitXor: operator.xor,
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.In: lambda item, group: operator.contains(group, item),
    ast.NotIn: lambda item, group: not operator.contains(group, item),
}  # fmt: skip


def weigh(value: Value) -> int:
    """Number of parts of a value, shared parts counted every time they are reached. Raises Exhausted.

    Comparing, hashing and printing walk shared parts again and again, so a few lines of source can build a
    value whose walk never ends.
    """
    count, pending = 0, [value]
    while pending:
        item = pending.pop()
        count += 1
        if isinstance(item, list | tuple | set | frozenset):
            pending.extend(item)
        elif isinstance(item, dict):
            pending.extend(item.values())
        if count + len(pending) > STEPS:
            raise Exhausted
    return count


def binary(left: Value, op: ast.operator, right: Value, budget: Budget) -> Value:
    """``left op right``. An unknown operand leaves a hole in a list, set or table."""
    if isinstance(op, ast.BitOr | ast.Add):
        if symbolic(left) or symbolic(right):
            return _with_hole(left, right)
        if isinstance(left, dict) and isinstance(right, dict):
            table = Table(left)
            builtin.spread_into(table, right, budget, 0)
            return table
        if left is None or right is None:  # ``Literal["a"] | None`` in a type alias
            return left if right is None else right
    if symbolic(left) or symbolic(right):
        raise Impossible
    for side in (left, right):
        budget.spend(len(side) // 16 if isinstance(side, str | list | tuple | set) else 0)
    if isinstance(left, str) and isinstance(op, ast.Mod):
        return builtin.percent(left, right)
    _check_size(left, op, right)
    return _ARITHMETIC[type(op)](left, right)


def compare(left: Value, op: ast.cmpop, right: Value, budget: Budget) -> bool:
    """``left op right`` for one comparison operator. Raises Impossible where a part is unknown."""
    if isinstance(right, Choices) or _open(left, right):
        raise Impossible
    if isinstance(op, ast.In | ast.NotIn) and isinstance(right, dict):
        if isinstance(right, Table) and right.opaque and left not in right:
            raise Impossible
        return (left in right) is isinstance(op, ast.In)
    found = isinstance(op, ast.In | ast.NotIn) and isinstance(right, list | tuple | set) and left in right
    if isinstance(right, list | tuple | set) and not found and any(_open(left, item) for item in right):
        raise Impossible  # also for ``==``: an unknown part may or may not be equal
    if not _flat(left) or not _flat(right):
        budget.spend(weigh(left) + weigh(right))
    return bool(_COMPARE[type(op)](left, right))


def _open(left: Value, right: Value) -> bool:
    """Whether it is not known how the two compare. A class of the package equals nothing from outside it."""
    if isinstance(left, ClassSite) and isinstance(right, Ref):
        return False
    return symbolic(left) or symbolic(right)


def _flat(value: Value) -> bool:
    return value is None or isinstance(value, str | int | float)


def _with_hole(left: Value, right: Value) -> Value:
    known, unknown = (right, left) if symbolic(left) else (left, right)
    hole = Opaque(brief(unknown))
    if isinstance(known, list | tuple):
        return [*known, hole]
    if isinstance(known, set):
        return {*known, hole}
    if isinstance(known, dict):
        table = Table(known)
        table.opaque.append(hole.source)
        return table
    if known is None:
        return unknown
    raise Impossible


def _check_size(left: Value, op: ast.operator, right: Value) -> None:
    """Refuse operations whose result could be huge although their operands are small."""
    if isinstance(op, ast.Add) and isinstance(left, str) and isinstance(right, str):
        builtin.within(len(left) + len(right))
    if isinstance(op, ast.Mult):
        for one, other in ((left, right), (right, left)):
            if isinstance(one, str | bytes | list | tuple) and isinstance(other, int):
                builtin.within(len(one) * max(other, 0))
    if isinstance(left, int) and isinstance(right, int):
        bits = left.bit_length()
        if isinstance(op, ast.Pow):
            bits *= max(right, 0)
        elif isinstance(op, ast.LShift):
            bits += max(right, 0)
        if max(bits, right.bit_length()) > BITS:
            raise Impossible


def merge(first: Value, second: Value, first_if: tuple[str, ...], second_if: tuple[str, ...]) -> Value:
    """One value for two alternatives of which only run time knows which one holds."""
    if isinstance(first, dict) and isinstance(second, dict):
        table = Table(first)
        for key in table:
            if key not in second:
                table.guards.setdefault(key, first_if)
        for key, value in second.items():
            if key not in table:
                line = second.lines.get(key, 0) if isinstance(second, Table) else 0
                table.put(key, value, line, second_if)
        if isinstance(second, Table):
            table.opaque.extend(second.opaque)
        return table
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        if weigh(first) * weigh(second) > STEPS:
            raise Exhausted
        return [*first, *(item for item in second if item not in first)]
    if isinstance(first, set) and isinstance(second, set):
        return first | second
    if isinstance(
        first, Ref
    ):  # a class or function: which of several definitions is the class graph's affair
        return first
    if isinstance(second, Ref):
        return second
    if type(first) is type(second) and isinstance(first, str | int | float | None) and first == second:
        return first
    return Opaque(f"{brief(first)} or {brief(second)}")
