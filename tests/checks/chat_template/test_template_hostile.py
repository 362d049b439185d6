"""Templates that attack: each ends soon, in a rendering, and none of their text is ever executed."""

from __future__ import annotations

import subprocess
import sys
import time
import tracemalloc

import pytest

from canserve.checks.chat_template.budget import MAX_TEXT, Budget, BudgetExceeded, depth, weight
from canserve.checks.chat_template.check import judge, renderings
from canserve.checks.chat_template.render import Failed, Undecided, render
from canserve.verdict import Unknown

SECONDS = 5
"""Far more than any of these takes; an attack that works takes minutes or ends in a killed process."""
BYTES = 64 << 20

NAMES = (
    "{% set ns = namespace() %}{% set ns.x = [1] %}"
    "{% for i in range(60) %}{% set n = namespace(x=ns.x) %}{% set ns.x = [n, n] %}{% endfor %}"
)
"""Namespaces that hold each other: written out they would be 2 to the 60th."""

WORK = {
    "searching from the right": "{% set t = 'a' * 200000 %}{% set p = 'a' * 60000 ~ 'b' ~ 'a' * 60000 %}"
    "{% for i in range(99) %}{{ t.rfind(p) }}{{ t.rsplit(p) | length }}{% endfor %}",
    "stripping many characters": "{% set t = 'a' * 200000 %}{% set p = 'b' * 200000 ~ 'a' %}"
    "{% for i in range(99) %}{% set u = t.strip(p) %}{% endfor %}",
    "trimming many characters": "{% set t = 'a' * 200000 %}{% set p = 'b' * 200000 ~ 'a' %}"
    "{% for i in range(30) %}{% set u = t | trim(p) %}{% endfor %}",
    "names in names": NAMES + "{{ ns.x }}",
    "names in an error": NAMES + "{{ raise_exception(ns.x) }}",
    "many macros": "{% for i in range(99999) %}" + "{% macro m() %}{% endmacro %}" * 2000 + "{% endfor %}",
    "nested loops": "{% for i in range(90000) %}{% for j in range(90000) %}x{% endfor %}{% endfor %}",
    "long loop without output": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "forking macro": "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(40) }}",
    "sort again and again": "{% set t = ('ab' * 9000) | list %}{% for i in range(9999) %}{% set u = t | sort %}{% endfor %}",
    "search again and again": "{% set t = 'ab' * 90000 %}{% for i in range(99999) %}{{ 'x' if (t ~ i) in t }}{% endfor %}",
    "long sum": "{{ 1" + " + 1" * 50000 + " }}",
    "long filter chain": "{{ 'a'" + " | upper" * 20000 + " }}",
}
"""Templates that want too much time."""

BOMBS = {
    "printing again and again": "{% set t = 'a' * 200000 %}{% for i in range(99999) %}{{ t }}{% endfor %}",
    "string times": "{{ 'a' * 1000000000 }}",
    "times string": "{{ 1000000000 * 'a' }}",
    "list times": "{{ [1] * 1000000000 }}",
    "power": "{{ 2 ** 1000000000 }}",
    "tower of powers": "{{ 10 ** 10 ** 10 ** 10 ** 10 ** 10 }}",
    "squares": "{% set ns = namespace(x=3) %}{% for i in range(60) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
    "doubling text": "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
    "adding text": "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
    "doubling list": "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}",
    "doubling dict": "{% set ns = namespace(s={}) %}{% for i in range(99) %}{% set ns.s = {'a': ns.s, 'b': ns.s} %}{% endfor %}",
    "list of a long text": "{% set t = 'a' * 200000 %}{% set ns = namespace(s=[t]) %}{% for i in range(30) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
    "join of long texts": "{% set t = 'a' * 200000 %}{{ ([t] * 200) | join(t) }}",
    "method join": "{% set t = 'a' * 200000 %}{{ t.join([t, t, t]) }}",
    "replace by long text": "{{ ('a' * 200000) | replace('a', 'b' * 200000) }}",
    "method replace": "{{ ('a' * 200000).replace('a', 'b' * 200000) }}",
    "replace the empty text": "{{ ('a' * 200000).replace('', 'b' * 200000) }}",
    "percent width": "{{ '%1000000000d' % 1 }}",
    "percent star": "{{ '%*d' % (1000000000, 1) }}",
    "percent precision": "{{ '%.1000000000f' % 1 }}",
    "filter format": "{{ '%1000000000d' | format(1) }}",
    "format width": "{{ '{:1000000000}'.format(1) }}",
    "format nested width": "{{ '{:{w}}'.format(1, w=1000000000) }}",
    "center": "{{ 'x'.center(1000000000) }}",
    "filter center": "{{ 'x' | center(1000000000) }}",
    "ljust": "{{ 'x'.ljust(1000000000) }}",
    "zfill": "{{ 'x'.zfill(1000000000) }}",
    "expandtabs": "{{ ('\t' * 10000).expandtabs(10000) }}",
    "indent": "{{ 'a\n' | indent(1000000000) }}",
    "indent with text": "{{ ('a\n' * 10000) | indent('b' * 10000) }}",
    "batch": "{{ [1] | batch(1000000000, 'x') | list }}",
    "slice": "{{ [1] | slice(1000000000) | list }}",
    "round": "{{ 1 | round(1000000000, 'ceil') }}",
    "json indent": "{{ [[1]] | tojson(indent=1000000000) }}",
    "json separators": "{% set s = 'a' * 200000 %}{{ ([1] * 9999) | tojson(separators=(s, s)) }}",
    "endless macro": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "two endless macros": "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
    "endless recursive loop": "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "list of a long word": "{{ ('é' * 260000) | list }}",
    "split of a long text": "{{ ('a ' * 100000).split() }}",
    "deep brackets": "{{ " + "(" * 50000 + "1" + ")" * 50000 + " }}",
    "deep statements": "{% if 1 %}" * 5000 + "{% endif %}" * 5000,
    "deep loops": "{% for x in [1] %}" * 40 + "{% endfor %}" * 40,
    "long text": "x" * 300_000,
    "list that holds itself": "{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns.x }}",
    "huge sum of lists": "{{ ([[1]] * 9999) | sum(start=[]) }}",
    "percent widths": "{{ ('%9999d' * 9000) % (([1] * 9000) | map('int') | list) }}",
    "percent of one long text": "{{ ('%(k)s' * 9000) % {'k': 'a' * 200000} }}",
    "filter format of one long text": "{{ ('%(k)s' * 9000) | format(k='a' * 200000) }}",
    "format of one long text": "{{ ('{0}' * 9000).format('a' * 200000) }}",
    "format widths": "{{ ('{0:9999}' * 9000).format('a') }}",
    "long concatenation": "{% set t = 'a' * 200000 %}{{ t" + "~t" * 4000 + " }}",
    "many indented lines": "{{ ('\n' * 200000) | indent(9999) }}",
    "many lines indented by width": "{{ ('\n' * 200000) | indent(width=9999) }}",
    "replace by keyword": "{{ ('a' * 200000) | replace(old='a', new='b' * 9999) }}",
    "many short texts by longer ones": "{{ ('a' * 200000) | replace('a', 'b' * 5000) }}",
    "method that does so": "{{ ('a' * 200000).replace('a', 'b' * 5000) }}",
    "long glue": "{{ range(40000) | join('b' * 5000) }}",
    "method with long glue": "{{ ('b' * 5000).join(('a,' * 20000).split(',')) }}",
    "lipsum": "{{ lipsum(n=1000000000) }}",
}


@pytest.mark.parametrize("name", WORK)
def test_endless_work_ends_undecided_soon(name: str) -> None:
    start = time.process_time()
    assert isinstance(render(WORK[name], {}, Budget()), Undecided)
    assert time.process_time() - start < SECONDS


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_end_undecided_soon_and_small(name: str) -> None:
    tracemalloc.start()
    start = time.process_time()
    try:
        got = render(BOMBS[name], {}, Budget())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert isinstance(got, Undecided), got
    assert time.process_time() - start < SECONDS
    assert peak < BYTES


def test_all_conversations_share_one_budget() -> None:
    source = "{% for i in range(99999) %}{{ messages }}{% endfor %}"
    start = time.process_time()
    verdict = judge(renderings(source, source))
    assert isinstance(verdict, Unknown)
    assert time.process_time() - start < SECONDS


REFUSED = [
    NAMES + "{{ [1].index(ns) }}",
    NAMES + "{{ [1][ns.x[0]].more }}",
    NAMES + "{{ {}[ns.x[0]].more }}",
    NAMES + "{{ ns.x | tojson }}",
    NAMES + "{{ [1] + ns.x[0] }}",
    "{{ range(1000000000) }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ messages.__init__.__globals__ }}{{ messages.__init__.__globals__.x }}",
    "{{ cycler.__init__.__globals__.os.popen('true').read() }}",
    "{{ raise_exception.__globals__.x.y }}",
    "{{ strftime_now.__self__.x }}",
    "{{ '{0.__class__.__init__.__globals__}'.format(messages).x.y }}",
    "{{ (messages | attr('__class__')).x.y }}",
    "{{ ([messages] | map(attribute='__class__') | first).x.y }}",
    "{{ namespace.__init__.__globals__.x }}",
    "{{ 9" + "9" * 5000 + " }}",
]


@pytest.mark.parametrize("source", REFUSED)
def test_nothing_behind_a_value_can_be_reached(source: str) -> None:
    assert isinstance(render(source, {"messages": []}, Budget()), Failed | Undecided)


AUDIT = """
import sys
from canserve.checks.chat_template.check import judge, renderings

TEMPLATES = {templates!r}
for source in TEMPLATES:
    judge(renderings(source, source))  # imports happen here, before we listen
seen = []
sys.addaudithook(lambda event, args: seen.append(event))
for source in TEMPLATES:
    judge(renderings(source, source))
print(" ".join(sorted(set(seen))))
"""

AUDITED = [
    "{% for m in messages %}{{ m.role | upper }}: {{ m.content }}{% endfor %}{{ 1.5 is float }}",
    "{% macro m(a=1) %}{{ a | tojson }}{% endmacro %}{{ m() }}{% set x = 1 + 2 %}{{ [x] | map('string') | list }}",
    "{% if %}",
    "{{ nothing.more }}",
    "{{ raise_exception('x') }}",
    "{% generation %}{{ strftime_now('%Y') }}{% endgeneration %}{{ '{}'.format(1) }}",
]


def test_no_part_of_a_template_is_compiled_or_executed() -> None:
    code = AUDIT.format(templates=AUDITED)
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    # A decimal number is read with ast.literal_eval, which parses it into a tree and runs nothing.
    assert set(done.stdout.split()) <= {"compile"}


def test_a_template_without_decimals_does_not_even_parse_python() -> None:
    code = AUDIT.format(templates=[AUDITED[0].replace("1.5 is float", "1"), *AUDITED[1:]])
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == []


def test_weight_counts_what_is_shared_each_time() -> None:
    inner = ["a" * 640] * 3
    assert weight("a" * 640) == 11
    assert weight(inner) == 1 + 3 * 11
    assert weight({"a": inner, "b": inner}) > 2 * weight(inner)
    with pytest.raises(BudgetExceeded):
        weight([inner] * 20_000)
    assert weight("a" * MAX_TEXT) == 1 + MAX_TEXT // 64
    with pytest.raises(BudgetExceeded):
        weight("a" * (MAX_TEXT + 1))
    assert weight(2**4000) == 1
    with pytest.raises(BudgetExceeded):
        weight(2**5000)


def test_depth() -> None:
    assert depth("x") == 1
    assert depth([[], {"a": [1]}]) == 4
