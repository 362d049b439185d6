"""A predicate over ``current_platform``, asked for one NVIDIA GPU: true, false, or more than the device decides.

Of the platform only the methods count that ``vllm/platforms/interface.py`` defines for every platform: what it is,
and its compute capability compared as a whole, as a least one, or by its major number alone.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

PLATFORM = "current_platform"
OFF = ("is_rocm", "is_cpu", "is_xpu", "is_tpu", "is_out_of_tree")
_IS: Mapping[str, bool] = {"is_cuda": True, "is_cuda_alike": True, **dict.fromkeys(OFF, False)}
_UNKNOWN = object()


def on_cuda(function: ast.FunctionDef, tenfold: int) -> bool | None:
    """What a function without arguments returns there; None: that depends on more, or it has a form unknown here."""
    answer = _Asked(tenfold).block(function.body)
    return answer if isinstance(answer, bool) else None


class _Asked:
    def __init__(self, tenfold: int) -> None:
        self._tenfold = tenfold
        self._platforms = {PLATFORM}

    def block(self, body: Sequence[ast.stmt]) -> object:
        """What its first return gives; None: it ends without one."""
        for node in body:
            match node:
                case ast.Expr(value=ast.Constant()) | ast.Import() | ast.ImportFrom() | ast.Pass():
                    continue
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=of)) if of in self._platforms:
                    self._platforms.add(name)
                case ast.Assign(targets=[ast.Name(id=name)]) if name not in self._platforms:
                    continue  # whatever it holds, nothing is known of it
                case ast.Return(value=value) if value is not None:
                    known = self.truth(value)
                    return _UNKNOWN if known is None else known
                case ast.If(test=test, body=then, orelse=otherwise):
                    answer = self._branch(test, then, otherwise)
                    if answer is not None:
                        return answer
                case _:
                    return _UNKNOWN
        return None

    def _branch(self, test: ast.expr, then: Sequence[ast.stmt], otherwise: Sequence[ast.stmt]) -> object:
        match self.truth(test):
            case True:
                return self.block(then)
            case False:
                return self.block(otherwise)
            case _:
                return _UNKNOWN  # either way may be taken

    def truth(self, node: ast.expr) -> bool | None:
        """Of one condition."""
        match node:
            case ast.Constant(value=bool(value)):
                return value
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                inside = self.truth(inner)
                return None if inside is None else not inside
            case ast.BoolOp(op=ast.And(), values=values):
                found = [self.truth(value) for value in values]
                return False if False in found else None if None in found else True
            case ast.BoolOp(op=ast.Or(), values=values):
                found = [self.truth(value) for value in values]
                return True if True in found else None if None in found else False
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method), args=args, keywords=[]):
                return self._method(method, args) if name in self._platforms else None
            case _:
                return None

    def _method(self, method: str, args: Sequence[ast.expr]) -> bool | None:
        if method in _IS and not args:
            return _IS[method]
        asked = _capability(args[0]) if len(args) == 1 else None
        if asked is None:
            return None
        match method:
            case "is_device_capability":
                return self._tenfold == asked
            case "has_device_capability":
                return self._tenfold >= asked
            case "is_device_capability_family":
                return self._tenfold // 10 == asked // 10
            case _:
                return None


def _capability(node: ast.expr) -> int | None:
    """``90`` or ``(9, 0)``, times ten."""
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Tuple(elts=[ast.Constant(value=int(major)), ast.Constant(value=int(minor))]) if minor < 10:
            return major * 10 + minor
        case _:
            return None
