"""Constants of a module come out as Python would have them, without running it."""

from __future__ import annotations

import pytest
from static_sources import graph, sources

from canserve.engines.static.evaluate import evaluate
from canserve.engines.static.values import CallValue, Choices, Opaque, Ref, Table, strings
from canserve.facts import Cause, Known, Missing


def constant(text: str, name: str = "x") -> object:
    fact = evaluate(sources({"m.py": text}), "pkg/m.py", "pkg")
    assert isinstance(fact, Known) and fact.value is not None
    return fact.value[name]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x = [1, *[2, 3], 4]", [1, 2, 3, 4]),
        ("x = {**{'a': 1}, 'b': 2}", {"a": 1, "b": 2}),
        ("x = dict(a=1, **{'b-c': 2})", {"a": 1, "b-c": 2}),
        ("x = {'a': 1} | {'b': 2}", {"a": 1, "b": 2}),
        ("x = {k: v for k, v in {'a': 1, 'b': 2}.items() if v > 1}", {"b": 2}),
        ("P = 'models'\nx = f'{P}.llama'", "models.llama"),
        ("x = []\nx.append('a')\nx += ['b']\nx.extend(('c',))", ["a", "b", "c"]),
        ("x = {'a': 1, 'b': 2}\ndel x['a']\nx.pop('b')\nx.update(c=3)", {"c": 3}),
        ("x = {}\nfor n in ('a', 'b'):\n    if n == 'b':\n        break\n    x[n] = n", {"a": "a"}),
        ("x = {}\nx.setdefault('a', 1)\nx.setdefault('a', 2)", {"a": 1}),
        ("x = 3 if 'a' in ('a', 'b') else 4", 3),
        ("x = tuple(sorted({'b', 'a'}))", ("a", "b")),
        ("x = 'a-b'.replace('-', '_').upper()", "A_B"),
        ("x = [1, 2, 3][-1]", 3),
        ("x: list[str] = list(('a',))", ["a"]),
        ("with y():\n    x = 1", 1),
        ("a, (b, x) = 1, (2, 3)", 3),
    ],
)
def test_plain_data(text: str, value: object) -> None:
    assert constant(text) == value


def test_literals_are_choices_through_nesting_and_unions() -> None:
    text = """
        from typing import Literal, Optional, get_args
        A = Literal["a", "b"]
        x = Literal[A, "c"]
        y = Optional[A]
        z = list(get_args(x))
    """
    assert constant(text) == Choices(("a", "b", "c"))
    assert constant(text, "y") == Choices(("a", "b"))
    assert constant(text, "z") == ["a", "b", "c"]


def test_constants_are_followed_through_imports_and_stars_of_the_package_only() -> None:
    files = {
        "a.py": "NAMES = {'a': 1}\nclass Model: ...",
        "b.py": "from .a import *\nfrom torch import float16",
        "m.py": "from pkg.b import NAMES, Model, float16\nNAMES.update(b=2)\nx = {**NAMES, 'c': Model, 'd': float16}",
    }
    made = graph(files).constants
    x = made.of_module("pkg.m")
    a = made.of_module("pkg.a")
    assert x is not None and a is not None
    assert x["x"] == {"a": 1, "b": 2, "c": Ref("Model"), "d": Ref("float16")}
    assert a["NAMES"] == {"a": 1}, "a table that another module adds to is not changed where it is defined"


def test_keys_from_class_attributes() -> None:
    files = {
        "c.py": "class A:\n    model_type = 'a'\nclass B(A):\n    model_type = 'b'",
        "m.py": "from .c import A, B\nx = {cls.model_type: cls for cls in [A, B]}",
    }
    names = graph(files).constants.of_module("pkg.m")
    assert names is not None
    assert names["x"] == {"a": Ref("A"), "b": Ref("B")}


def test_a_table_remembers_lines_and_conditions() -> None:
    table = constant(
        """
        x = {
            "always": 1,
        }
        if HAS_KERNELS:
            x["sometimes"] = 2
        else:
            del x["always"]
        try:
            x["tried"] = 3
        except ImportError:
            x["failed"] = 4
        """
    )
    assert isinstance(table, Table)
    assert table.lines == {"always": 3, "sometimes": 6, "tried": 10, "failed": 12}
    assert table.guards == {
        "sometimes": ("HAS_KERNELS",),
        "tried": ("try",),
        "failed": ("except ImportError",),
    }
    assert table.removed == {"always": ("not (HAS_KERNELS)",)}


def test_platform_conditions_are_decided_for_cuda() -> None:
    text = """
        x = {"a": 1, "b": 2}
        if is_hip():
            for name in ("a",):
                del x[name]
        if current_platform.is_cuda():
            x["c"] = 3
        if TYPE_CHECKING:
            x["d"] = 4
    """
    assert constant(text) == {"a": 1, "b": 2, "c": 3}


def test_what_is_not_known_is_said_to_be_unknown() -> None:
    table = constant("x = {'a': 1, **made(), f(): 2}")
    assert isinstance(table, Table) and table == {"a": 1}
    assert table.opaque == ["made()", "f()"]
    assert constant("x = Thing(1, key='v')").__class__ is CallValue
    assert isinstance(constant("x = 1 if FLAG else 2"), Opaque)
    assert constant("try:\n    x = True\nexcept ImportError:\n    x = False").__class__ is Opaque
    assert strings(constant("x = ['a'] + more")) == ("a",)


def test_no_file_is_known_and_no_python_is_missing() -> None:
    assert evaluate(sources({}), "pkg/gone.py", "pkg").value is None  # type: ignore[union-attr]
    broken = evaluate(sources({"m.py": "def ("}), "pkg/m.py", "pkg")
    assert isinstance(broken, Missing) and broken.cause is Cause.UNREADABLE
