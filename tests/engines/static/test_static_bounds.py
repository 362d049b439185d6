"""Hostile sources end soon, small, and as something unknown; never as an exception."""

from __future__ import annotations

import time
import tracemalloc

import pytest
from static_sources import graph, sources

from canserve.engines.static.evaluate import evaluate
from canserve.engines.static.graph import ClassGraph
from canserve.engines.static.sites import ClassSite
from canserve.engines.static.values import Opaque
from canserve.facts import Cause, Known, Missing

ENDLESS = {
    "range": "x = [i for i in range(10**9)]",
    "product": "r = list(range(5000))\nx = {(i, j) for i in r for j in r}",
    "doubling list": "x = [1]\n" + "x = x + x\n" * 60,
    "doubling literal": "from typing import Literal\nx = Literal['a']\n" + "x = Literal[x, x]\n" * 60,
    "doubling table": "x = {1: 2}\n"
    + "\n".join(f"x.update({{i + {10**k}: 1 for i in x}})" for k in range(60)),
    "shared lists compared": "a = [1]\n"
    + "a = [a, a]\n" * 80
    + "b = [1]\n"
    + "b = [b, b]\n" * 80
    + "x = a == b",
    "shared tuples hashed": "x = (1,)\n" + "x = (x, x)\n" * 80 + "y = {x: 1}",
    "cyclic": "x = []\nx.append(x)\ny = x == x",
}
HARMLESS = {
    "string": "x = 'a' * 10**9",
    "list": "x = [0] * 10**12",
    "power": "x = 10**10**10",
    "shift": "x = 1 << (1 << 40)",
    "squares": "x = 2\n" + "x = x * x\n" * 100,
    "percent": "x = '%1000000000d' % 1",
    "format": "x = '{:>1000000000}'.format(1)",
    "f-string": "x = f\"{'a':>1000000000}\"",
    "replace": "a = 'a' * 60000\nx = a.replace('a', a)",
    "join": "a = 'a' * 60000\nx = a.join([a] * 100)",
    "long f-string": "x = 'x'\n" + "x = f'{x}{x}'\n" * 80,
    "deep": "x = " + "-" * 500 + "1",
}


@pytest.fixture(autouse=True)
def bounded() -> object:
    started = time.process_time()
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert time.process_time() - started < 15
    assert peak < 100 << 20


@pytest.mark.parametrize("name", ENDLESS)
def test_endless_work_is_unreadable(name: str) -> None:
    fact = evaluate(sources({"m.py": ENDLESS[name]}), "pkg/m.py", "pkg")
    assert isinstance(fact, Missing) and fact.cause is Cause.UNREADABLE


@pytest.mark.parametrize("name", HARMLESS)
def test_huge_results_are_opaque(name: str) -> None:
    fact = evaluate(sources({"m.py": HARMLESS[name]}), "pkg/m.py", "pkg")
    assert isinstance(fact, Known) and fact.value is not None
    assert isinstance(fact.value["x"], Opaque)


def test_modules_that_import_each_other() -> None:
    files = {"a.py": "from .b import x\nfrom .b import *", "b.py": "from .a import x\nfrom .a import *"}
    g = graph(files)
    names = g.constants.of_module("pkg.a")
    assert names is not None and names["x"].__class__.__name__ == "Ref"
    assert not isinstance(g.resolve("pkg.a", "x")[0], ClassSite)


def test_classes_and_functions_without_end() -> None:
    text = """
        def f(x): return f(x)
        def g(x):
            y = [1]
            for i in y:
                y.append(i)
            return y
        class A(f(1)): ...
        class B(A, B): ...
        class C(D): ...
        class D(C): ...
        class E(g(1)): ...
    """
    g = graph({"m.py": text})
    for name in "ABCDE":
        site = g.class_named("pkg.m", name)
        assert site is not None
        assert g.linear(site)[0] == site


def test_many_modules_share_one_budget() -> None:
    work = "\n".join(["x = 0", *["x = [i for i in range(50000)]"]])
    files = {f"m{i}.py": work for i in range(80)}
    g = ClassGraph(sources(files), "pkg")
    missing = [isinstance(g.constants.of(f"pkg/m{i}.py"), Missing) for i in range(80)]
    assert not missing[0] and missing[-1]
