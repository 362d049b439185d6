"""Which names can be imported: every form of package, and what is undecided or unreadable."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_library import COLLECTED, FINDER, LISTED, library

from canserve.engines.sources import Hole
from canserve.facts import Cause, Missing

TOP = "transformers"


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("MothConfig", True),
        ("MothForCausalLM", True),  # extend in an else branch
        ("StaticCache", True),  # += on an element
        ("Cache", True),
        ("FlaxMoth", True),  # a stand-in, since flax is not installed
        ("DummyObject", True),  # whatever a stand-in module binds is offered too
        ("_hidden", False),
        ("OnlyWithoutTorch", False),  # its stand-ins are not used: torch is there
        ("MothGhost", False),  # listed, but the package it points to does not have it
        ("NeverThere", False),  # only for type checkers
        ("__version__", True),
        ("models", True),
        ("cache_utils", True),  # a module
        ("utils", True),
        ("is_torch_available", False),  # bound in the file that the lazy module replaces
    ],
)
def test_listed_names(name: str, there: bool) -> None:
    assert library(LISTED).names.has(TOP, name) is there


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("MothConfig", True),
        ("MothTextConfig", True),
        ("MothForCausalLM", True),  # decorated
        ("make_moth", True),
        ("MothModel", True),
        ("MothOther", True),
        ("MothHidden", False),
        ("NotCollected", False),
        ("NotCollectedEither", False),
        ("TokenizersBackend", True),
        ("MothTokenizerFast", True),  # former class names
        ("MothImageProcessorFast", True),
        ("CousinTokenizer", True),  # of the same converter as a tokenizer that is there
        ("CousinTokenizerFast", True),
        ("OwlTokenizer", False),
        ("MothConfigFast", False),
        ("tokenization_utils_fast", True),  # a former module
    ],
)
def test_collected_names(name: str, there: bool) -> None:
    assert library(COLLECTED).names.has(TOP, name) is there


@pytest.mark.parametrize(
    ("module", "name", "there"),
    [
        ("transformers.models.moth", "MothConfig", True),
        ("transformers.models.moth", "modeling_moth", True),
        ("transformers.models.moth", "MothHidden", False),
        ("transformers.models.moth.modeling_moth", "MothHidden", True),
        ("transformers.models.moth.modeling_moth", "NoSuch", False),
        ("transformers.models.moth.modeling_moth", None, True),
        ("transformers.models.owl", None, False),
        ("transformers.models.owl", "OwlConfig", False),
        ("transformers.tokenization_utils_fast", "TokenizersBackend", True),
        ("transformers.models.moth.image_processing_moth_fast", "smart_resize", True),
        ("transformers.models.moth.image_processing_moth_fast", "MothImageProcessorFast", True),
        ("transformers.models.moth.image_processing_moth_fast", "NoSuchFast", False),
        ("transformers.models.moth.image_processing_moth_fast", None, True),
    ],
)
def test_deep_names(module: str, name: str | None, there: bool) -> None:
    assert library(COLLECTED).names.has(module, name) is there


def test_former_modules_on_demand_leave_pil_processors_out() -> None:
    names = library(FINDER).names
    assert names.has("transformers.tokenization_utils_fast", "TokenizersBackend") is True
    assert names.has("transformers.models.moth.image_processing_moth_fast", "smart_resize") is True
    assert names.has("transformers.models.moth.image_processing_pil_moth_fast", None) is False
    assert (
        library(COLLECTED).names.has("transformers.models.moth.image_processing_pil_moth_fast", None) is False
    )


def test_a_file_wins_over_a_former_name_on_demand_only() -> None:
    real = {"models/moth/image_processing_moth_fast.py": "class OfTheFile: ...\n"}
    module = "transformers.models.moth.image_processing_moth_fast"
    assert library(FINDER | real).names.has(module, "OfTheFile") is True
    assert library(COLLECTED | real).names.has(module, "OfTheFile") is False


MODULE = """
    import os.path
    from ..utils import logging as log
    from .other import *
    A: int = 1
    B, (C) = 1, 2
    class D: ...
    def e(): ...
    async def f(): ...
    if is_torch_available():
        G = 1
    else:
        H = 1
    if is_flax_available():
        I = 1
    if RUN_TIME:
        J = 1
    if RUN_TIME:
        K = 1
    else:
        K = 2
    try:
        import fast as L
    except ImportError:
        L = None
    try:
        import fast as M
    except ImportError:
        log.warning("slow")
    try:
        import fast as N
    except ImportError:
        raise
    with open(os.devnull) as O:
        P = 1
    for Q in ():
        R = 1
    S = 1
    del S
    T: int
"""


@pytest.mark.parametrize(
    "name", ["os", "log", "A", "B", "C", "D", "e", "f", "G", "K", "L", "N", "O", "P", "Q", "R"]
)
def test_bound_whatever_happens(name: str) -> None:
    assert library({"mod.py": MODULE, "other.py": ""}).names.has("transformers.mod", name) is True


@pytest.mark.parametrize("name", ["J", "M"])
def test_bound_under_conditions_of_the_run(name: str) -> None:
    assert library({"mod.py": MODULE, "other.py": ""}).names.has("transformers.mod", name) is None


@pytest.mark.parametrize("name", ["H", "I", "S", "T", "path", "Nothing"])
def test_not_bound(name: str) -> None:
    assert library({"mod.py": MODULE, "other.py": ""}).names.has("transformers.mod", name) is False


def test_star_imports_follow_all_and_leave_private_names() -> None:
    files = {
        "mod.py": "from .listed import *\nfrom .free import *\n",
        "listed.py": '__all__ = ["A"]\nA = B = 1\n',
        "free.py": "C = 1\n_D = 1\nfrom .mod import *\n",
    }
    names = library(files).names
    assert [names.has("transformers.mod", name) for name in ("A", "B", "C", "_D")] == [
        True,
        False,
        True,
        False,
    ]


def test_a_star_import_from_outside_leaves_everything_open() -> None:
    names = library({"mod.py": "from torch import *\nA = 1\n"}).names
    assert names.has("transformers.mod", "A") is True
    assert names.has("transformers.mod", "Tensor") is None


def test_a_star_import_of_a_lazy_package_brings_what_it_offers() -> None:
    names = library(COLLECTED | {"mod.py": "from .models.moth import *\n"}).names
    assert names.has("transformers.mod", "MothConfig") is True
    assert names.has("transformers.mod", "MothHidden") is False


def test_names_served_by_getattr() -> None:
    names = library({
        "dynamic.py": "def __getattr__(name): ...\n",
        "renamed.py": '__getattr__ = deprecate_attr(__name__, rename={"Old": (New, "6.0")})\n',
    }).names  # fmt: skip
    assert names.has("transformers.dynamic", "Anything") is None
    assert names.has("transformers.renamed", "Old") is True
    assert names.has("transformers.renamed", "Anything") is False


def test_what_could_not_be_listed_is_not_absent() -> None:
    denied = Missing(Cause.UNAVAILABLE, "permission denied")
    names = library(COLLECTED, [Hole("transformers/models/owl", denied)]).names
    assert names.has("transformers.models.owl", None) is None
    assert names.has("transformers.models.owl.modeling_owl", "Owl") is None
    assert names.has(TOP, "OwlConfig") is None
    assert names.has(TOP, "MothConfig") is True
    assert names.has("transformers.models.moth.modeling_moth", "NoSuch") is False


@pytest.mark.parametrize(
    "broken",
    ["def broken(:\n", b"\xff\xfe\x00", "(" * 5000 + ")" * 5000],
)
def test_an_unreadable_module_answers_nothing_wrong(broken: str | bytes) -> None:
    names = library({"mod.py": broken}).names
    assert names.has("transformers.mod", "A") in {None, False}
    assert names.has("transformers.mod", None) is True


def test_a_chain_of_conditions_longer_than_the_stack() -> None:
    chain = "if a0:\n    A = 1\n" + "".join(f"elif a{i}:\n    A = 1\n" for i in range(3000))
    assert library({"mod.py": chain}).names.has("transformers.mod", "A") is None


def test_an_unknown_kind_of_structure_is_not_an_empty_one() -> None:
    names = library(
        {"__init__.py": "import sys\nsys.modules[__name__] = _LazyModule(__name__, build())\n"}
    ).names
    assert names.has(TOP, "Anything") is None


@pytest.mark.parametrize("form", [LISTED, COLLECTED, FINDER])
def test_one_question_and_the_whole_list_agree(form: dict[str, str]) -> None:
    whole = library(form).names
    modules = whole.modules()
    for module in sorted(modules):
        offer = whole.members(module)
        assert offer.whole
        for name in offer.names:
            assert library(form).names.has(module, name) is True, (module, name)
    assert whole.public().names >= {"MothConfig", "models", "__name__"}


_STATEMENTS = st.recursive(
    st.sampled_from(
        ["A = 1", "B = 1", "from .x import A", "class B: ...", "def A(): ...", "import A.b", "pass"]
    ),
    lambda inner: st.lists(inner, min_size=1, max_size=3).flatmap(
        lambda lines: st.sampled_from(["if RUN:", "if not RUN:", "if is_torch_available():", "try:"]).map(
            lambda head: "\n".join(
                [
                    head,
                    *("    " + line for statement in lines for line in statement.split("\n")),
                    *(["except ImportError:", "    pass"] if head == "try:" else ["else:", "    A = 2"]),
                ]
            )
        )
    ),
    max_leaves=8,
)


@given(st.lists(_STATEMENTS, min_size=1, max_size=6), st.booleans())
def test_certain_answers_hold_in_every_run(statements: list[str], run: bool) -> None:
    """Against Python itself, on modules made here of harmless statements."""
    text = "\n".join(statements)
    names = library({"mod.py": text, "x.py": "A = 1"}).names
    stripped = text.replace("from .x import A", "A = 1").replace("import A.b", "A = 1")
    space: dict[str, object] = {"RUN": run, "is_torch_available": lambda: True}
    exec(stripped, space)  # text that this test generated itself
    for name in "AB":
        answer = names.has("transformers.mod", name)
        assert answer is None or answer is (name in space), (name, text)
