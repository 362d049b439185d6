"""Small functions of a package, followed on its classes."""

from __future__ import annotations

import ast

import pytest
from static_sources import graph

from canserve.engines.static.excerpt import Excerpts
from canserve.engines.static.graph import ClassGraph
from canserve.engines.static.interpret import RAISES
from canserve.engines.static.shed import Shed
from canserve.engines.static.sites import ClassSite, FunctionSite
from canserve.engines.static.values import CallValue, Choices, Opaque, Record
from canserve.facts import Missing

INTERFACES = """
    import inspect
    from typing import ClassVar, Literal, Protocol, overload, runtime_checkable
    from torch import nn

    @runtime_checkable
    class Seeing(Protocol):
        sees: ClassVar[Literal[True]] = True
        def look(self): ...

    @overload
    def sees(model: type[object]) -> bool: ...
    def sees(model):
        if isinstance(model, type):
            return isinstance(model, Seeing)
        return False

    def flagged(model):
        return getattr(model, "flagged", False)

    def takes(function, name, *, allow_kwargs=True):
        params = inspect.signature(function).parameters
        if not params:
            return False
        kinds = set((inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY))
        param = params.get(name)
        if param and param.kind in kinds:
            return True
        if allow_kwargs:
            last = params[next(reversed(params))]
            return last.kind == inspect.Parameter.VAR_KEYWORD and last.name != name
        return False

    def forwards(model):
        forward = getattr(model, "forward", None)
        if not callable(forward):
            return False
        missing = tuple(n for n in ("input_ids", "positions") if not takes(forward, n))
        if missing and issubclass(model, nn.Module):
            logger.warning("missing %s", missing)
        return len(missing) == 0

    def kinds(model):
        found = set()
        for cls in model.__mro__:
            kind = getattr(cls, "kind", "plain")
            if kind != "plain":
                found.add(kind)
        return "plain" if not found else next(iter(found))

    class Info:
        @staticmethod
        def of(model):
            return Info(name=model.__name__, sees=sees(model), forwards=forwards(model), odd=made_at_run_time())

    def pooled(kind):
        def func(model):
            model.kind = kind
            return model
        return func

    def as_pooler(cls):
        if flagged(cls):
            return cls
        class Pooler(cls, Seeing):
            flagged = True
        Pooler.__name__ = cls.__name__.removesuffix("ForCausalLM") + "ForPooling"
        return Pooler

    def wrapped(cls):
        if Wrapper in cls.__bases__:
            return cls
        cls.hash = compute(cls)
        def __init__(self, *, config, **kwargs): ...
        cls.__init__ = __init__
        return cls
"""
MODELS = """
    from .interfaces import Seeing, as_pooler, pooled, wrapped
    from torch import nn

    class Plain(nn.Module):
        def forward(self, input_ids, positions): ...

    class Looking(Plain, Seeing): ...

    class Structural(nn.Module):
        sees = True
        def look(self): ...

    class Blind(nn.Module):
        sees = True

    @pooled("late")
    class LateForCausalLM(Plain): ...

    Pooling = as_pooler(LateForCausalLM)
    class Twice(as_pooler(Pooling)): ...

    @wrapped
    class Wrapped(Plain): ...

    from library import Outside
    class Foreign(Outside): ...
"""


@pytest.fixture
def engine() -> ClassGraph:
    return graph({"interfaces.py": INTERFACES, "models.py": MODELS})


def ask(g: ClassGraph, function: str, model: str) -> object:
    site, asked = g.class_named("pkg.models", model), g.resolve("pkg.interfaces", function)[0]
    assert site is not None
    return g.interpreter.call(asked, [site])


@pytest.mark.parametrize(
    ("function", "model", "answer"),
    [
        ("sees", "Plain", False),
        ("sees", "Looking", True),
        ("sees", "Structural", True),
        ("sees", "Blind", False),
        ("flagged", "Plain", False),
        ("flagged", "Pooling", True),
        ("forwards", "Plain", True),
        ("forwards", "Blind", False),
        ("kinds", "Plain", "plain"),
        ("kinds", "LateForCausalLM", "late"),
        ("sees", "Pooling", True),
    ],
)
def test_predicates_about_classes(engine: ClassGraph, function: str, model: str, answer: object) -> None:
    assert ask(engine, function, model) == answer


def test_what_an_outside_class_may_define_is_open(engine: ClassGraph) -> None:
    assert isinstance(ask(engine, "forwards", "Foreign"), Opaque)
    assert ask(engine, "flagged", "Foreign") is False


def test_classes_made_by_functions(engine: ClassGraph) -> None:
    made = engine.class_named("pkg.models", "Pooling")
    assert made is not None and (made.name, made.module) == ("LateForPooling", "pkg.interfaces")
    twice = engine.class_named("pkg.models", "Twice")
    assert twice is not None and engine.linear(twice)[1] == made, "an early return gives the class itself"


def test_a_record_of_answers_keeps_what_is_open(engine: ClassGraph) -> None:
    info, plain = engine.class_named("pkg.interfaces", "Info"), engine.class_named("pkg.models", "Plain")
    assert info is not None
    made = engine.interpreter.call(engine.interpreter.attribute(info, "of"), [plain])
    assert isinstance(made, CallValue)
    assert isinstance(made.kwargs.pop("odd"), Opaque | CallValue)  # type: ignore[attr-defined]
    assert made.kwargs == {"name": "Plain", "sees": False, "forwards": True}


def test_what_a_long_decorator_puts_in_place(engine: ClassGraph) -> None:
    site = engine.class_named("pkg.models", "Wrapped")
    assert site is not None
    init = engine.interpreter.attribute(site, "__init__")
    assert isinstance(init, FunctionSite) and [a.arg for a in init.node.args.kwonlyargs] == ["config"]


def test_certain_raises_are_told_from_the_unknown() -> None:
    g = graph(
        {
            "m.py": """
                def never(): raise NotImplementedError
                def perhaps():
                    if made(): return 1
                    return 2
                def caught():
                    try:
                        never()
                    except NotImplementedError:
                        return "caught"
                """
        }
    )

    def call(name: str) -> object:
        return g.interpreter.call(g.resolve("pkg.m", name)[0], [])

    assert call("never") is RAISES
    assert isinstance(call("perhaps"), Opaque)
    assert call("caught") == "caught"


def test_named_tuples_compare_and_super_is_followed() -> None:
    g = graph(
        {
            "m.py": """
                from typing import NamedTuple
                class Capability(NamedTuple):
                    major: int
                    minor: int
                    def to_int(self): return self.major * 10 + self.minor
                class Backend:
                    @classmethod
                    def runs(cls, capability): return capability >= Capability(8, 0)
                class Hopper(Backend):
                    @classmethod
                    def runs(cls, capability):
                        return capability.to_int() < 100 and super().runs(capability)
                """
        }
    )
    site, shape = g.class_named("pkg.m", "Hopper"), g.class_named("pkg.m", "Capability")
    assert site is not None
    method = g.interpreter.attribute(site, "runs")
    answers = [
        g.interpreter.call(method, [Record(("major", "minor"), pair, shape)])
        for pair in ((7, 5), (9, 0), (10, 0))
    ]
    assert answers == [False, True, False]


def test_enumerations_and_loops_over_them() -> None:
    g = graph(
        {
            "m.py": """
                from enum import Enum
                class Scheme(Enum):
                    A = "a"
                    B = "b"
                def table(name):
                    known = {}
                    for scheme in Scheme:
                        known[scheme.value] = Scheme
                    known.setdefault("c", Scheme)
                    return known[name]
                """
        }
    )
    value = g.interpreter.call(g.resolve("pkg.m", "table")[0], ["c"])
    assert isinstance(value, ClassSite) and value.name == "Scheme"


LONG = """
    class A:
        @classmethod
        def long(
            cls,
            x,
        ):
            text = '''
    less indented
            '''
            y = x + 1
            return y + len(text)
"""


def test_long_bodies_are_left_out_and_read_again() -> None:
    g = graph({"m.py": LONG})
    site = g.class_named("pkg.m", "A")
    assert site is not None
    found = g.attribute(site, "long")
    assert found is not None and isinstance(found.node, ast.FunctionDef)
    assert isinstance(found.node.body[0], Shed)
    whole = g.whole(found.owner.path, found.node)
    assert whole is not None and whole.lineno == found.node.lineno
    assert g.interpreter.call(g.interpreter.attribute(site, "long"), [1]) == 2 + len(
        "\nless indented\n        "
    )


def test_excerpts_of_large_files() -> None:
    text = """
        TEXT = '''
        Kinds = not this
        '''
        Mtp = Literal["mtp"]
        Kinds = Literal[
            "a",
            Mtp,
        ]
        def f(parser):
            parser.add_argument("--other", help="see --kind (a)")
            parser.add_argument("--kind", choices=[*NAMES, ")"])
        class Format(str, Enum):
            AUTO = "auto"
        NAMES = ["x"]
        class Platform:
            supported: list[str] = [
                "awq",
            ]
    """
    g = graph({"m.py": text, "bad.py": "def ("})
    excerpts = Excerpts(g.sources)
    assert excerpts.value("pkg/m.py", "Kinds") == Choices(("a", "mtp"))
    assert excerpts.value("pkg/m.py", "Format") == {"AUTO": "auto"}
    assert excerpts.value("pkg/m.py", "Gone") is None
    assert isinstance(excerpts.value("pkg/bad.py", "Kinds"), Missing)
    calls = list(excerpts.calls("pkg/m.py", "add_argument", '"--kind"'))
    assert excerpts.evaluate("pkg/m.py", calls[0].keywords[0].value) == ["x", ")"]
    assert calls[0].lineno == 12
    listed = excerpts.assigned("pkg/m.py", "supported")
    assert listed is not None and excerpts.evaluate("pkg/m.py", listed) == ["awq"]
