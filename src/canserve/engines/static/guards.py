"""Which way a condition goes, where that follows from the platform alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import lru_cache

from canserve.engines.static.parsing import expression

PLATFORM_TEST = re.compile(
    r"_?is_(cuda_alike|cuda|rocm|hip|xpu|cpu|tpu|neuron|hpu|npu|musa|mps|openvino|out_of_tree)(?:_platform)?"
)
_ALIAS = {"hip": "rocm"}
MAX_TEXT = 4000
"""Longest condition that is looked at, in characters."""


def guard_truth(text: str, platform: str = "cuda") -> bool | None:
    """Truth of a guard's source text on a platform; None when the text alone does not say.

    >>> guard_truth("not current_platform.is_rocm()"), guard_truth("HAS_TRITON")
    (True, None)
    """
    return None if len(text) > MAX_TEXT else _truth_of_text(text, platform)


@lru_cache(maxsize=4096)
def _truth_of_text(text: str, platform: str) -> bool | None:
    try:
        return truth(expression(text), platform)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # "try", "except ImportError"


def truth(node: ast.expr, platform: str = "cuda") -> bool | None:
    """Truth of a condition on a platform; None when it does not follow from the platform."""
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            inside = truth(inner, platform)
            return None if inside is None else not inside
        case ast.BoolOp(op=ast.And(), values=values):
            return _all(truth(value, platform) for value in values)
        case ast.BoolOp(op=ast.Or(), values=values):
            none_holds = _all(_negated(truth(value, platform)) for value in values)
            return _negated(none_holds)
        case ast.Constant(value=bool() as value):
            return value
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[ast.Constant(value=str() as word)]):
            return _compared(left, word, platform)
        case ast.Call(func=func, args=[], keywords=[]):
            return _named(func, platform)
        case ast.Name() | ast.Attribute():
            return _named(node, platform)
        case _:
            return None


def _named(node: ast.expr, platform: str) -> bool | None:
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    if name == "TYPE_CHECKING":
        return False
    if match := PLATFORM_TEST.fullmatch(name):
        asked = _ALIAS.get(match[1], match[1])
        return platform in {"cuda", "rocm"} if asked == "cuda_alike" else asked == platform
    return None


def _compared(left: ast.expr, word: str, platform: str) -> bool | None:
    if isinstance(left, ast.Name) and left.id == "__name__":
        return False if word == "__main__" else None
    if isinstance(left, ast.Attribute) and left.attr == "device_type":
        return word == ("cuda" if platform == "rocm" else platform)
    return None


def _negated(value: bool | None) -> bool | None:
    return None if value is None else not value


def _all(values: Iterable[bool | None]) -> bool | None:
    unknown = False
    for value in values:
        if value is False:
            return False
        unknown |= value is None
    return None if unknown else True


def holds(guards: Iterable[str], platform: str = "cuda") -> bool | None:
    """Whether all of several guards hold; None when at least one is undecided and none is false."""
    return _all(guard_truth(guard, platform) for guard in guards)
