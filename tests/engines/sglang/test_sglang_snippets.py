"""Cutting a statement out of a file gives what parsing the whole file gives, or nothing."""

from __future__ import annotations

import ast
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canserve.engines.sglang.snippets import bracketed, expression_at, functions, line_of

FILE = '''
"""A file. def wanted(: not this one"""
class C:
    @property
    def wanted(self, a: int = (1, 2)[0]) -> int:
        """Doc with ) and def wanted(self): inside."""
        if a:
            return 1

        # a comment at depth
# a comment at the margin
        return 2

    def other(self): ...

def wanted(): return 3
async def wanted_too(
    a,
):
    pass
X = 1
'''


@pytest.mark.parametrize("pattern", ["wanted", "wanted|other", r"wanted\w*", "absent"])
def test_functions_are_those_of_the_whole_file(pattern: str) -> None:
    whole = [
        node
        for node in ast.walk(ast.parse(FILE))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and re.fullmatch(pattern, node.name)
    ]
    whole.sort(key=lambda node: node.lineno)
    cut = functions(FILE, pattern)
    assert cut is not None
    assert [(n.name, n.lineno, ast.dump(ast.Module(n.body, []))) for n in cut] == [
        (n.name, n.lineno, ast.dump(ast.Module(n.body, []))) for n in whole
    ]


def test_a_string_at_the_margin_ends_the_shortcut() -> None:
    assert functions('def wanted():\n    x = """\nat the margin\n"""\n', "wanted") is None


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("f(1, [2]) + g(3)", "f(1, [2])"),
        ('f(")", "(")', 'f(")", "(")'),
        ("[\n  1,  # ]\n  2,\n]\nrest", "[\n  1,  # ]\n  2,\n]"),
        ("f(1", None),
        ("", None),
        ("f('''", None),
    ],
)
def test_bracketed(text: str, cut: str | None) -> None:
    assert bracketed(text, 0) == cut


@given(st.text(alphabet="()[]{}'\"#\\\n abc=,:", max_size=60))
def test_whatever_the_text_a_snippet_is_python_or_nothing(text: str) -> None:
    found = expression_at(text, 0)
    assert found is None or isinstance(found, ast.expr)
    functions("def wanted(" + text, "wanted")


def test_lines_are_counted_from_one() -> None:
    assert [line_of("a\nb\nc", offset) for offset in (0, 2, 4)] == [1, 2, 3]
