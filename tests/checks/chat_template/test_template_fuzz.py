"""Generated templates: whatever jinja2 makes of them, the interpreter makes the same."""

from __future__ import annotations

from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st
from jinja_reference import reference

from canserve.checks.chat_template.budget import Budget
from canserve.checks.chat_template.render import Failed, Undecided, render

VARIABLES: dict[str, Any] = {
    "a": 3,
    "b": "two words",
    "c": ["to", "be", "or"],
    "d": {"name": "ann", "list": [1, 2], "none": None},
    "e": [{"name": "bo", "n": 2}, {"name": "al", "n": 1}],
}
NAMES = st.sampled_from(["a", "b", "c", "d", "e", "x", "y", "z", "ns", "m", "loop"])
LITERALS = st.sampled_from(
    [
        "0",
        "1",
        "-2",
        "1.5",
        "true",
        "false",
        "none",
        "''",
        "'ab'",
        "'A b'",
        "[]",
        "[1, 'b']",
        "{}",
        "{'k': 1}",
    ]
)
ATTRIBUTES = st.sampled_from(
    [
        "name",
        "n",
        "k",
        "list",
        "none",
        "first",
        "last",
        "index",
        "length",
        "previtem",
        "x",
        "_y",
        "items",
        "append",
    ]
)
METHODS = st.sampled_from(
    ["upper()", "strip()", "split()", "split(' ')", "items()", "keys()", "get('name')", "get('q', 1)", "join(c)",
     "startswith('t')", "replace('a', 'b')", "title()", "index('be')", "nothing()"]
)  # fmt: skip
FILTERS = st.sampled_from(
    ["upper", "lower", "trim", "length", "list", "first", "last", "join", "join('-')", "string", "int", "float",
     "tojson", "tojson(indent=1)", "default('q')", "default('q', true)", "items | list", "map('upper') | list",
     "map(attribute='name') | list", "selectattr('n', 'gt', 1) | list", "select('string') | list", "sort", "unique | list",
     "reverse | list", "sum", "max", "min", "replace('t', 'T')", "e", "safe", "indent", "title", "capitalize",
     "dictsort", "round", "abs", "batch(2) | list", "groupby('n') | list", "count", "map('int')"]
)  # fmt: skip
TESTS = st.sampled_from(
    ["defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "number", "integer", "float",
     "boolean", "true", "false", "odd", "even", "divisibleby(2)", "eq('ab')", "equalto 1", "in c", "in 'two'",
     "callable", "sameas a", "gt 1", "lower"]
)  # fmt: skip
BINARY = st.sampled_from(
    [
        "+",
        "-",
        "*",
        "/",
        "//",
        "%",
        "~",
        "~",
        "~",
        "and",
        "or",
        "==",
        "==",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "in",
        "not in",
    ]
)
SLICES = st.sampled_from(["0", "-1", "9", "'name'", "1:", ":-1", "::-1", "::0", "a:", "x"])

EXPRESSIONS = st.recursive(
    NAMES | LITERALS,
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, BINARY, inner),
        st.builds("{}.{}".format, NAMES, ATTRIBUTES),
        st.builds("({}).{}".format, inner, METHODS),
        st.builds("{}[{}]".format, NAMES, SLICES),
        st.builds("({} | {})".format, inner, FILTERS),
        st.builds("({} is {})".format, inner, TESTS),
        st.builds("({} is not {})".format, inner, TESTS),
        st.builds("(not {})".format, inner),
        st.builds("(-{})".format, inner),
        st.builds("({} if {} else {})".format, inner, inner, inner),
        st.builds("({} if {})".format, inner, inner),
        st.builds("[{}, {}]".format, inner, inner),
        st.builds("{{'k': {}, 'l': {}}}".format, inner, inner),
        st.builds("({} < {} <= {})".format, inner, inner, inner),
        st.builds("m({})".format, inner),
        st.builds("m({}, q={})".format, inner, inner),
        st.builds("range({})".format, inner),
        st.builds("namespace(x={})".format, inner),
        st.builds("'%s|%s' % ({}, {})".format, inner, inner),
        st.builds("'{{}}'.format({})".format, inner),
    ),
    max_leaves=6,
)
TARGETS = st.sampled_from(["x", "y", "z", "a", "c", "x, y", "ns.x", "ns.y", "d.name"])
LOOPS = st.sampled_from(["x", "y", "z", "x, y", "a"])

STATEMENTS = st.recursive(
    st.one_of(
        st.builds("{{{{ {} }}}}".format, EXPRESSIONS),
        st.builds("{{% set {} = {} %}}".format, TARGETS, EXPRESSIONS),
        st.builds("{{% set ns = namespace(x={}) %}}".format, EXPRESSIONS),
        st.sampled_from(["text\n", "  ", "{{ x }}", "{{ y }}{{ z }}", "{{ ns.x }}", "{% break %}", "{% continue %}", "{# note #}\n", "{{ caller() }}", "{{ loop.index }}"]),
    ),
    lambda inner: st.one_of(
        st.builds("{}{}".format, inner, inner),
        st.builds("{}\n{}".format, inner, inner),
        st.builds("{{% if {} %}}{}{{% endif %}}".format, EXPRESSIONS, inner),
        st.builds("{{%- if {} %}}{}{{% elif {} -%}}{}{{% else %}}{}{{% endif %}}".format, EXPRESSIONS, inner, EXPRESSIONS, inner, inner),
        st.builds("{{% for {} in {} %}}{}{{% endfor %}}".format, LOOPS, EXPRESSIONS, inner),
        st.builds("{{% for {} in c %}}{}{{{{ loop.last }}}}{{% else %}}{}{{% endfor %}}".format, LOOPS, inner, inner),
        st.builds("{{% for {} in e if {} %}}{}{{% endfor %}}".format, LOOPS, EXPRESSIONS, inner),
        st.builds("{{% for x in [[1, [2]]] recursive %}}{}{{{{ loop(x) if x is iterable }}}}{{% endfor %}}".format, inner),
        st.builds("{{% macro m(x, q={}) %}}{}{{% endmacro %}}".format, EXPRESSIONS, inner),
        st.builds("{{% macro m() %}}{}{{% endmacro %}}{{{{ m() }}}}".format, inner),
        st.builds("{{% call(z) m({}) %}}{}{{% endcall %}}".format, EXPRESSIONS, inner),
        st.builds("{{% set {} %}}{}{{% endset %}}".format, TARGETS, inner),
        st.builds("{{% filter upper %}}{}{{% endfilter %}}".format, inner),
        st.builds("{{% with x = {}, y = x %}}{}{{% endwith %}}".format, EXPRESSIONS, inner),
        st.builds("{{% generation %}}{}{{% endgeneration %}}".format, inner),
    ),
    max_leaves=8,
)  # fmt: skip


SCOPE_NAMES = st.sampled_from(["x", "y", "z", "c", "words", "loop", "caller"])
SIMPLE = SCOPE_NAMES | st.sampled_from(["'lit'", "x ~ y", "z is defined", "words", "[1, 2]"])
SCOPES = st.recursive(
    st.one_of(
        st.builds("{{{{ {} | string | length }}}}{{{{ {} is defined }}}}".format, SIMPLE, SCOPE_NAMES),
        st.builds("<{{{{ {} }}}}>".format, st.sampled_from(["x", "y", "z", "c", "words"])),
        st.builds("{{% set {} = {} %}}".format, st.sampled_from(["x", "y", "z", "c", "words"]), SIMPLE),
        st.sampled_from(["{{ f() if f is callable }}", "{{ g(1) if g is callable }}", "{% set ns.n = x %}{{ ns.n }}"]),
    ),
    lambda inner: st.one_of(
        st.builds("{}{}".format, inner, inner),
        st.builds("{}{}{}".format, inner, inner, inner),
        st.builds("{{% if {} %}}{}{{% endif %}}".format, SIMPLE, inner),
        st.builds("{{% if x is defined %}}{}{{% elif y is defined %}}{}{{% else %}}{}{{% endif %}}".format, inner, inner, inner),
        st.builds("{{% for {} in [3, 4] %}}{}{{% endfor %}}".format, st.sampled_from(["x", "y", "words"]), inner),
        st.builds("{{% for z in words if {} %}}{}{{% else %}}{}{{% endfor %}}".format, SIMPLE, inner, inner),
        st.builds("{{% for z in words %}}{}{{% if loop.first %}}{{% continue %}}{{% endif %}}{}{{% endfor %}}".format, inner, inner),
        st.builds("{{% for z in [[], [[]]] recursive %}}{}({{{{ loop(z) }}}}){}{{% endfor %}}".format, inner, inner),
        st.builds("{{% macro f({}) %}}{}{{% endmacro %}}".format, st.sampled_from(["", "x=y", "y=x, x=z"]), inner),
        st.builds("{{% macro g(x, y=c) %}}{}{{{{ caller() if caller }}}}{{% endmacro %}}".format, inner),
        st.builds("{{% macro g(x) %}}{{{{ caller(x) if caller }}}}{{% endmacro %}}{{% call(y) g(7) %}}{}{{% endcall %}}".format, inner),
        st.builds("{{% set {} %}}{}{{% endset %}}".format, st.sampled_from(["x", "y", "c"]), inner),
        st.builds("{{% filter upper %}}{}{{% endfilter %}}".format, inner),
        st.builds("{{% with x = y, y = x %}}{}{{% endwith %}}".format, inner),
        st.builds("{{% generation %}}{}{{% endgeneration %}}".format, inner),
    ),
    max_leaves=12,
)  # fmt: skip
"""Names set and read in every order and scope: these templates rarely fail, so their text is compared."""


@settings(max_examples=400, deadline=None)
@given(SCOPES)
def test_generated_scopes(source: str) -> None:
    source = "{% set ns = namespace() %}" + source
    variables = {"words": ["to", "be"], "c": "given", "y": 1}
    expected = reference(source, variables)
    got = render(source, variables, Budget())
    event("fails" if isinstance(expected, Exception) else "renders")
    if isinstance(expected, Exception):
        assert isinstance(got, Failed | Undecided), f"{source!r}: jinja2 raised {expected!r}, here {got!r}"
    else:
        assert got == expected or isinstance(got, Undecided), f"{source!r}: jinja2 {expected!r}, here {got!r}"


@settings(max_examples=400, deadline=None)
@given(STATEMENTS)
def test_generated_templates(source: str) -> None:
    expected = reference(source, VARIABLES)
    got = render(source, VARIABLES, Budget())
    if isinstance(got, Undecided):
        event("undecided")
        return
    event("fails" if isinstance(expected, Exception) else "renders")
    if isinstance(expected, Exception):
        assert isinstance(got, Failed), f"{source!r}: jinja2 raised {expected!r}, here {got!r}"
    else:
        assert got == expected, f"{source!r}: jinja2 {expected!r}, here {got!r}"


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="{}%#-+ \n'\"abfor.in()[]|~=*<>!0192set", max_size=60))
def test_arbitrary_text(source: str) -> None:
    expected = reference(source, VARIABLES)
    got = render(source, VARIABLES, Budget())
    assert isinstance(got, Undecided | Failed) or got == expected
    if isinstance(expected, str):
        assert not isinstance(got, Failed), f"{source!r}: jinja2 {expected!r}, here {got!r}"
