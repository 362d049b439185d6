"""Parsing in several threads at once, which CPython's own parser does not always bear."""

from __future__ import annotations

import ast
import gc
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from canserve.engines.static.parsing import expression, parsed

TEXT = "\n".join(
    f"def f{n}(a, b=[{{'x': ({n}, [1, (2, 3)])}}]):\n    return g(a)(b)[{n}:][0]" for n in range(300)
)


class Litter:
    """What is collected in the middle of something, and then takes a while."""

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        for _ in range(200):
            pass


@pytest.fixture
def crowded() -> Iterator[None]:
    """Threads take turns as often as they can, whatever the other one is in the middle of."""
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(50)
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*threshold)


def deep(depth: int, parse: Callable[[str], ast.Module]) -> int:
    """Parse so many calls further down."""
    return deep(depth - 1, parse) if depth else len(parse(TEXT).body)


def many(number: int, parse: Callable[[str], ast.Module]) -> list[int]:
    """Parse some times, each time from another depth."""
    found = []
    for turn in range(3):
        for _ in range(200):
            Litter()
        found.append(deep((number * 7 + turn) % 40, parse))
    return found


@pytest.mark.usefixtures("crowded")
def test_threads_parse_at_once() -> None:
    with ThreadPoolExecutor(4) as pool:  # with ast.parse itself about one in fifteen of CPython 3.11 fails
        found = list(pool.map(partial(many, parse=parsed), range(100)))
    assert {count for each in found for count in each} == {300}


def test_what_is_wrong_with_a_text_is_said_at_once() -> None:
    with pytest.raises(SyntaxError):
        parsed("def (")
    assert isinstance(expression("a + 1"), ast.BinOp)
    with pytest.raises(SyntaxError):
        expression("a = 1")
