"""Where names lead across modules, in what order attributes are looked up, what imports need."""

from __future__ import annotations

from static_sources import graph

from canserve.engines.sources import Hole
from canserve.engines.static.closure import Imports
from canserve.engines.static.graph import ClassGraph
from canserve.engines.static.sites import (
    Absent,
    Assigned,
    ClassSite,
    External,
    FunctionSite,
    ModuleSite,
    Unseen,
)
from canserve.facts import Cause, Missing

UNLISTED = Missing(Cause.UNAVAILABLE, "permission denied")


def names(g: ClassGraph, module: str, cls: str) -> list[str]:
    site = g.class_named(module, cls)
    assert site is not None
    return [base.name if isinstance(base, ClassSite | External) else repr(base) for base in g.linear(site)]


def test_names_lead_through_reexports_aliases_and_stars() -> None:
    g = graph(
        {
            "a.py": "class A: ...\ndef f(): ...\nN = 1",
            "b/__init__.py": "from ..a import A as Renamed\nfrom ..a import *",
            "c.py": "import pkg.b as b\nfrom pkg import a\nAlias = b.Renamed\nOther = a.A",
        }
    )
    for name in ("Alias", "Other"):
        found = g.resolve("pkg.c", name)[0]
        assert isinstance(found, ClassSite) and (found.module, found.name) == ("pkg.a", "A")
    assert isinstance(g.resolve("pkg.b", "f")[0], FunctionSite)
    assert isinstance(g.resolve("pkg.b", "N")[0], Assigned)
    assert isinstance(g.resolve("pkg.c", "a")[0], ModuleSite)
    assert g.resolve("pkg.c", "Gone") == [Absent("pkg.c.Gone")]
    assert g.resolve("pkg.gone", "A") == [Absent("pkg.gone")]


def test_the_last_unconditional_definition_counts_and_handlers_come_last() -> None:
    g = graph(
        {
            "m.py": """
                if TYPE_CHECKING:
                    from .stub import Kernel
                else:
                    Kernel = object
                class A: ...
                class A(Kernel): ...
                try:
                    from fast import Op
                except ImportError:
                    class Op: ...
                if current_platform.is_rocm():
                    from .amd import Model
                else:
                    from .nvidia import Model
                """,
            "amd.py": "class Model: ...",
            "nvidia.py": "class Model: ...",
        }
    )
    assert names(g, "pkg.m", "A") == ["A", "builtins.object"]
    op = g.resolve("pkg.m", "Op")
    assert isinstance(op[0], External) and isinstance(op[1], ClassSite)
    model = g.class_named("pkg.m", "Model")
    assert model is not None and model.module == "pkg.nvidia"


def test_lazy_packages_are_asked_through_their_own_getattr() -> None:
    lazy = """
        import importlib
        _CLASSES = {"A": "pkg.a", "B": "pkg.gone"}
        def __getattr__(name):
            if name in _CLASSES:
                return getattr(importlib.import_module(_CLASSES[name]), name)
            if name == "C":
                if current_platform.is_rocm():
                    from . import amd
                    return amd.C
                from . import nvidia
                return nvidia.C
            if name == "Old":
                return None
            if name == "Odd":
                return made(name)
            raise AttributeError(name)
    """
    g = graph(
        {
            "lazy/__init__.py": lazy,
            "a.py": "class A: ...",
            "lazy/nvidia.py": "class C: ...",
            "lazy/amd.py": "class C: ...",
        }
    )
    a, c = g.class_named("pkg.lazy", "A"), g.class_named("pkg.lazy", "C")
    assert a is not None and a.module == "pkg.a"
    assert c is not None and c.module == "pkg.lazy.nvidia"
    assert isinstance(g.resolve("pkg.lazy", "Old")[0], Assigned), "it is there, and None"
    assert isinstance(g.resolve("pkg.lazy", "Odd")[0], Unseen), "made at run time is not absent"
    assert isinstance(g.resolve("pkg.lazy", "Gone")[0], Absent)


def test_attributes_are_found_in_pythons_order() -> None:
    g = graph(
        {
            "m.py": """
                from typing import Protocol
                from torch import nn
                class Flag(Protocol):
                    supports = True
                class Base(nn.Module):
                    kind = "base"
                    supports = False
                class Left(Base): ...
                class Right(Base):
                    kind = "right"
                class Model(Left, Right, Flag): ...
                """
        }
    )
    assert names(g, "pkg.m", "Model") == [
        "Model", "Left", "Right", "Base", "torch.nn.Module", "Flag", "typing.Protocol",
    ]  # fmt: skip
    site = g.class_named("pkg.m", "Model")
    assert site is not None
    assert g.attribute_value(site, "kind") == "right"
    assert g.attribute_value(site, "supports") is False
    found = g.attribute(site, "kind")
    assert found is not None and (found.owner.name, found.line) == ("Right", 11)
    inside, outside = g.mro(site)
    assert len(inside) == 5 and len(outside) == 2


def test_what_could_not_be_listed_is_unseen_not_absent() -> None:
    g = graph({"m.py": "from .hidden.a import A\nclass B(A): ..."}, [Hole("pkg/hidden", UNLISTED)])
    assert g.resolve("pkg.m", "A") == [Unseen("pkg.hidden.a.A", UNLISTED)]
    site = g.class_named("pkg.m", "B")
    assert site is not None and isinstance(g.linear(site)[1], Unseen)


def test_a_broken_file_is_unseen() -> None:
    g = graph({"m.py": "from .bad import A", "bad.py": "class A("})
    assert isinstance(g.resolve("pkg.m", "A")[0], Unseen)
    assert g.unread("pkg.bad") is not None


def test_imports_that_must_succeed() -> None:
    g = graph(
        {
            "m.py": """
                import json, torch.nn as nn
                from transformers import Config
                from .a import Used
                from .a import Forgotten
                from .gone import X
                from . import sub, _C
                if TYPE_CHECKING:
                    from nowhere import Y
                if HAS_FAST:
                    import fast
                try:
                    import slow
                except ImportError:
                    slow = None
                def later():
                    import later_on
                """,
            "a.py": "from transformers.models.llama import LlamaConfig\nUsed = 1",
            "sub/__init__.py": "",
            "other.py": "import never_followed",
        }
    )
    found = Imports(g, lambda module: module != "pkg.other").closure(["pkg.m"])
    assert found.modules == ["pkg.m", "pkg", "pkg.a", "pkg.sub"]
    assert [(need.site.module, need.site.name) for need in found.outside] == [
        ("torch.nn", None), ("transformers", "Config"), ("transformers.models.llama", "LlamaConfig"),
    ]  # fmt: skip
    assert [str(need) for need in found.broken] == ["pkg.gone.X (pkg/m.py:6)", "pkg.a.Forgotten (pkg/m.py:5)"]
    assert found.unread == []


def test_an_unread_module_leaves_a_closure_open() -> None:
    g = graph({"m.py": "from .hidden import a"}, [Hole("pkg/hidden", UNLISTED)])
    found = Imports(g, lambda module: True).closure(["pkg.m"])
    assert found.broken == [] and found.unread == [UNLISTED]
