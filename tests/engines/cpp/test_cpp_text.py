"""Blanking C++: nothing in a comment, a string or a dead branch can be taken for code; hostile text ends soon."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from canserve.engines.cpp import text as cpp
from canserve.engines.cpp.text import Code, CppError, read


def code(source: str) -> Code:
    found = read(source)
    assert len(found.text) == len(source)
    assert [at for at, c in enumerate(found.text) if c == "\n"] == [
        at for at, c in enumerate(source) if c == "\n"
    ]
    return found


@pytest.mark.parametrize(
    "source",
    [
        "// hidden",
        "// goes on \\\n hidden",
        "/* hidden\n hidden */",
        "/* // */ /* hidden */",
        '"hidden"',
        '"\\"hidden"',
        '"\\\\" "hidden"',
        'u8"hidden"',
        'R"(hidden " ) )"',
        'R"x(hidden )" )x"',
        "'\"' /* hidden */ '\"'",
        "L'\"' // hidden",
        "1'000'000 /* hidden */",
        "#define A hidden",
        "#define A \\\n hidden",
        "#include <hidden> // it's hidden",
        "#error don't \"hidden",
        "#if 0\nhidden\n#endif",
        "#if 0\n#if 1\nhidden\n#endif\nhidden\n#else\n#endif",
        "#if 0\n#if 0\nhidden\n#endif\nhidden\n#endif",
    ],
)
def test_what_is_no_code_is_gone(source: str) -> None:
    assert "hidden" not in code(f"before {source}\n".replace("before #", "#")).text


@pytest.mark.parametrize(
    "source",
    [
        "/* a */ shown",
        "// a\nshown",
        '"a" shown',
        "'a' shown",
        "'\\'' shown",
        "a / shown",
        "#if 1\nshown\n#endif",
        "#if 0\na\n#else\nshown\n#endif",
        "#if 0 || A\nshown\n#endif",
        "#ifdef A\nshown\n#endif",
        "#endif\n#else\nshown",
        "#define A b // c\nshown",
        "1'0 shown",
    ],
)
def test_what_is_code_stays(source: str) -> None:
    assert "shown" in code(source).text


def test_strings_by_position_joined_where_they_follow_each_other() -> None:
    found = code('f("a\\n\\x41\\101", "b" /* c */\n "d", R"(\\n)", "");')
    texts = [found.string_at(at) for at in sorted(found.strings)]
    assert texts == ["a\nAA", "bd", "d", "\\n", ""]
    assert found.string_at(0) is None


def test_lines_count_from_one() -> None:
    found = code("a\nb\n/* c\n */ d")
    assert [found.line(found.text.index(name)) for name in "abd"] == [1, 2, 4]


def test_macros_are_remembered() -> None:
    found = code("#define A 1\n#  define B(x) x\n// #define C\n")
    assert set(found.macros) == {"A", "B"}


@pytest.mark.parametrize("source", ["/* a", '"a', '"a\n"', "'a", 'R"(a', "a /*/"])
def test_what_does_not_close_is_an_error(source: str) -> None:
    with pytest.raises(CppError, match="closed"):
        read(source)


def test_brackets() -> None:
    found = code('f({ "}" /* } */, (1) })')
    assert found.text[found.closing(1)] == ")"
    assert found.closing(1) == len(found.text) - 1
    with pytest.raises(CppError, match="line 2"):
        code("\n{ (").closing(1)


@pytest.mark.parametrize(
    "source",
    [
        "/*" * 300_000,
        '"' * 300_001,
        "'" * 300_001,
        "\\" * 600_000,
        "#" * 600_000,
        "#if 0\n" * 100_000,
        "#define A \\\n" * 60_000,
        'R"' * 300_000,
        'R"x(' * 150_000,
        "1'" * 300_000,
        "{" * 600_000,
        "//\\\n" * 150_000,
    ],
)
def test_hostile_text_ends_soon(source: str) -> None:
    begun = time.process_time()
    with contextlib.suppress(CppError):
        read(source)
    assert time.process_time() - begun < 3


def test_brackets_in_brackets_cost_one_pass() -> None:
    found = code("{" * 300_000 + "}" * 300_000)
    begun = time.process_time()
    assert [found.closing(at) for at in range(300_000)] == list(range(599_999, 299_999, -1))
    assert time.process_time() - begun < 5
    with pytest.raises(CppError, match="brackets"):
        code("(" * (cpp.MAX_BRACKETS + 2)).closing(0)


def test_a_source_that_is_too_long_is_refused() -> None:
    with pytest.raises(CppError, match="characters"):
        read(" " * (cpp.MAX_SOURCE + 1))


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab01\"'/*\\#\n (){}R", max_size=60))
def test_any_text_is_blanked_or_refused(source: str) -> None:
    try:
        found = read(source)
    except CppError:
        return
    assert len(found.text) == len(source)
    assert all(found.text[at] == '"' for at in found.strings)
