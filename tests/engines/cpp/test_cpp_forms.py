"""Initializers, enums, functions, cases, arguments: found in code, and only there."""

from __future__ import annotations

import pytest

from canserve.engines.cpp.forms import (
    Span,
    arguments,
    cases,
    compared,
    enum,
    functions,
    initializer,
    numbered,
    pairs,
    strings,
)
from canserve.engines.cpp.text import read


@pytest.mark.parametrize(
    "source",
    [
        'static const std::map<kind, const char *> NAMES = { { A, "a" }, { ns::B, "b" "c" }, };',
        'std::map<kind, std::string> NAMES { {A, "a"}, {B, "bc"} };',
        'const row NAMES[] = { { A, "a" /* {C, "c"} */ }, { B, "bc" } };',
        '// NAMES = { { X, "x" } }\nauto NAMES = names_t{}; auto x = NAMES; static m NAMES = {{A, "a"}, {B, "bc"}};',
    ],
)
def test_rows_of_an_initializer(source: str) -> None:
    span = initializer(read(source), "NAMES")
    assert span is not None
    assert [(row.key, row.text) for row in pairs(span)] == [("A", "a"), ("B", "bc")]


def test_no_initializer() -> None:
    for source in (
        "int NAMES;",
        "f(NAMES);",
        'char * a = "NAMES = {";',
        "XNAMES = { 1 };",
        "NAMES == { 1 };",
    ):
        assert initializer(read(source), "NAMES") is None


def test_members_of_an_enum_with_their_numbers() -> None:
    members = enum(read("enum class kind : int { A = 3, B, // C,\n D = 0x10, E = D + 1, F, G = 9 };"), "kind")
    assert members is not None
    assert [member.key for member in members] == ["A", "B", "D", "E", "F", "G"]
    assert {name: value for name, (value, _) in numbered(members).items()} == {
        "A": 3,
        "B": 4,
        "D": 16,
        "G": 9,
    }
    assert enum(read("enum other { A };"), "kind") is None


def test_bodies_of_functions_but_not_their_calls() -> None:
    source = "int f(int a) { return 1; }\nint T::f() const override { g(); }\nint f();\nint x = f(2) + 3; if (f(1)) { no }"
    code = read(source)
    texts = [code.text[body.start : body.end].strip() for body in functions(code, "f")]
    assert texts == ["return 1;", "g();"]


def test_cases_that_lead_somewhere() -> None:
    source = """
    switch (x) {
        case A: return 1;
        case ns::B:
        case C: { f(); } break;
        case D: throw error("d");
        case E:
        case F: { GGML_ABORT("e"); }
        case G: case H: y = 2; break;
        default: return 0;
    }
    """
    code = read(source)
    assert set(cases(Span(code, 0, len(code.text)))) == {"A", "B", "C", "G", "H"}


def test_texts_a_variable_is_compared_with() -> None:
    code = read('if (a == "x" || a=="y" /* || a == "z" */) {} if (ba == "w" || a != "v") {}')
    assert set(compared(code, "a")) == {"x", "y"}


def test_arguments_are_split_at_their_own_commas_only() -> None:
    source = 'f({"a", "b"}, g(1, 2), [](int x, int y) { h(x, y); }, "c, d")'
    code = read(source)
    spans = arguments(Span(code, 2, len(source) - 1))
    assert [source[one.start : one.end].strip() for one in spans] == [
        '{"a", "b"}',
        "g(1, 2)",
        "[](int x, int y) { h(x, y); }",
        '"c, d"',
    ]
    assert [text for text, _ in strings(spans[0])] == ["a", "b"]
