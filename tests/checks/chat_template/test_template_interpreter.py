"""The interpreter and jinja2 agree, on text and on failure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jinja_reference import reference

from canserve.checks.chat_template.budget import Budget
from canserve.checks.chat_template.render import Failed, Rendering, Undecided, render
from canserve.checks.chat_template.samples import SAMPLES, Sample

HERE = Path(__file__).parent
CONSTRUCTS = (HERE / "constructs.txt").read_text().splitlines()
"""One construct a line, where jinja2's behaviour is easy to get wrong."""
STYLES = {path.stem: path.read_text() for path in sorted((HERE / "styles").glob("*.jinja"))}
"""Templates in the manner of well-known model families, written for these tests."""

VARIABLES: dict[str, Any] = {
    "user": {"name": "ann", "age": 3},
    "words": ["to", "be", "or"],
    "people": [{"name": "bo", "age": 30}, {"name": "al", "age": 40}, {"name": "cy", "age": 30}],
    "tree": [{"v": 1, "c": [{"v": 2, "c": []}, {"v": 3}]}, {"v": 4, "c": []}],
}


def agree(expected: str | Exception, got: Rendering) -> bool:
    if isinstance(expected, Exception):
        return isinstance(got, Failed)
    return got == expected


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
@pytest.mark.parametrize("name", STYLES)
def test_templates_in_the_manner_of_model_families(name: str, sample: Sample) -> None:
    variables = sample.variables()
    expected = reference(STYLES[name], variables)
    assert agree(expected, render(STYLES[name], variables, Budget()))


def test_the_families_do_render_a_user_message() -> None:
    for name, source in STYLES.items():
        assert isinstance(reference(source, SAMPLES[0].variables()), str), name


@pytest.mark.parametrize("source", CONSTRUCTS)
def test_single_constructs(source: str) -> None:
    expected = reference(source, VARIABLES)
    got = render(source, VARIABLES, Budget())
    assert agree(expected, got), f"jinja2: {expected!r}\nhere: {got!r}"


def test_enough_constructs_succeed_and_enough_fail() -> None:
    results = [reference(source, VARIABLES) for source in CONSTRUCTS]
    failures = [result for result in results if isinstance(result, Exception)]
    assert len(failures) > 40
    assert len(results) - len(failures) > 70


def test_a_failure_names_its_line_and_reason() -> None:
    got = render("one\ntwo {{ 1 }}\nthree {{ nothing.more }}\n", {}, Budget())
    assert got == Failed("UndefinedError: 'nothing' is undefined", 3)


def test_a_syntax_error_names_its_line() -> None:
    got = render("fine\n{% if x %}\n{% endfor %}\n", {}, Budget())
    assert isinstance(got, Failed)
    assert got.line == 3
    assert got.why.startswith("TemplateSyntaxError: Encountered unknown tag 'endfor'")


def test_what_a_template_says_is_one_short_line() -> None:
    got = render("{{ raise_exception('a\\nb' * 500) }}", {}, Budget())
    assert isinstance(got, Failed)
    assert "\n" not in got.why
    assert len(got.why) <= 160


UNSUPPORTED = [
    "{% extends 'x' %}",
    "{% block a %}{% endblock %}",
    "{% include 'x' %}",
    "{% import 'x' as y %}",
    "{% autoescape true %}{% endautoescape %}",
    "{{ lipsum() }}",
    "{{ self }}",
    "{{ 'x' | urlize }}",
    "{{ '<a>' | striptags }}",
    "{{ raise_exception(namespace()) }}",
    "{{ '%s' % namespace() }}",
    "{{ '{}'.format(namespace()) }}",
    "{{ 'a' | replace('a', namespace()) }}",
    "{{ 'a' | replace(old='a', new=namespace()) }}",
    "{{ {'a': namespace()} }}",
    "{{ {(namespace(),): 1} }}",
    "{{ [1] | random }}",
    "{{ 'x'.encode() }}",
    "{{ namespace(a=1) }}",
    "{{ [1] | map('string') }}",
    "{% for x in [1] %}{{ loop }}{% endfor %}",
    "{{ dict.fromkeys('ab') }}",
    "{{ 'x'.upper }}",
    "{{ {}.items }}",
    "{{ [[1], [2]] | sum(start=[]) }}",
    "{% set ns = namespace() %}{% for x in [1] %}{% macro m() %}{{ x }}{% endmacro %}"
    "{% set ns.f = m %}{% endfor %}{{ ns.f() }}",
    "{% set ns = namespace() %}{% with x = 1 %}{% macro m() %}{{ x }}{% endmacro %}"
    "{% set ns.f = m %}{% endwith %}{{ ns.f() }}",
]


@pytest.mark.parametrize("source", UNSUPPORTED)
def test_what_is_not_done_here_is_undecided_and_never_a_failure(source: str) -> None:
    assert isinstance(render(source, {}, Budget()), Undecided)


def test_nesting_that_python_would_refuse_in_generated_code() -> None:
    for opening, closing, fine, deep in (
        ("{% if 1 %}", "{% endif %}", 50, 80),
        ("{% for x in [1] %}", "{% endfor %}", 15, 18),
    ):
        assert render(opening * fine + "x" + closing * fine, {}, Budget()) == "x"
        got = render(opening * deep + "x" + closing * deep, {}, Budget())
        assert got == Undecided("it nests deeper than is judged here")


def test_rendering_twice_gives_the_same_text() -> None:
    source = "{{ strftime_now('%Y-%m-%d %H:%M:%S.%f') }}"
    assert render(source, {}, Budget()) == render(source, {}, Budget()) == "2025-01-01 12:00:00.000000"
