"""Plans as a page: the best one in full, with memory, lengths, speed and commands; then the others, and why not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from canserve.api.planning import PlanReport
from canserve.facts import Known, Missing
from canserve.memory.quantity import Quantity
from canserve.plan.plan import Plan
from canserve.render.figures import around, change_name, gib, layout_name, rounded, tokens
from canserve.render.html.findings import findings
from canserve.render.html.frame import advised, document, folded, named, notes, said, text, top
from canserve.render.html.memory import memory_bars
from canserve.render.plan_text import COLUMNS, changes, in_one_line, numbers
from canserve.render.plot import STYLE, Point, plot
from canserve.render.shell import lines
from canserve.render.text import describe
from canserve.subjects.parallel import Illegal
from canserve.verdict import Yes, word

WIDTH = 100
"""Columns of a command before it goes on below."""
MOST = 400
"""Plans and illegal layouts that are shown."""


def plans_page(report: PlanReport) -> str:
    """The page."""
    title = f"{report.plans.model}{f' on {report.on}' if report.on else ''}"
    return document(f"{word(report.verdict)}: {title}", _body(report, title), STYLE)


def _body(report: PlanReport, title: str) -> Iterator[str]:
    plans = report.plans
    verdict = plans.verdict
    good = isinstance(verdict, Yes) and plans.plans
    yield top(
        verdict, title, in_one_line(plans.plans[0]) if good else verdict.because, (describe(report.model),)
    )
    if plans.plans:
        yield from _best(plans.plans[0], plans.curve)
        yield from _all(plans.plans, plans.goal)
    yield from _what_if(report)
    yield from _not_read(report)
    yield folded(f"{len(plans.illegal)} layouts are not legal", _illegal(plans.illegal))
    yield f"<footer>{notes(plans.notes)}</footer>"


def _best(plan: Plan, curve: Sequence[tuple[int, Quantity]]) -> Iterator[str]:
    machines = ", ".join(dict.fromkeys(rank.machine for rank in plan.placement.ranks))
    yield f"<h2>{text(plan.build)}, {text(layout_name(plan.parallel))} over {text(machines)}</h2>"
    yield notes(plan.notes)
    if isinstance(plan.serving, Known):
        yield "<h3>Memory of each rank</h3>"
        yield from memory_bars(plan.placement.ranks, plan.serving.value.ranks)
        yield f"<h3>How long, and how many at once</h3>{named(_cache(plan))}{notes(plan.serving.value.notes)}"
        points = [Point(str(length), many.value, many.low, many.high) for length, many in curve]
        yield plot("Sequences at once, by their length in tokens: value, least to most", "sequences", points)
    if isinstance(plan.speed, Known):
        yield f"<h3>How fast</h3>{named(_speed(plan))}"
    yield "<h3>How it is started</h3>"
    yield from _commands(plan)
    yield "<h3>What was judged</h3>"
    yield from findings(plan.findings, ((skip.check, skip.because) for skip in plan.skipped))


def _cache(plan: Plan) -> Iterator[tuple[str, str]]:
    if isinstance(plan.serving, Missing):
        return
    serving = plan.serving.value
    yield "KV cache", f"{serving.kv_bytes_per_token:,} bytes a token on each rank"
    state = serving.state_bytes_per_sequence
    yield "state", f"{state / 1e6:,.3g} MB a sequence" if state else ""
    yield "longest context", f"{around(serving.max_context, tokens)} tokens"
    yield "sequences at once", f"{around(serving.max_concurrency, rounded)} of {serving.context} tokens"


def _speed(plan: Plan) -> Iterator[tuple[str, str]]:
    if isinstance(plan.speed, Missing):
        return
    speed = plan.speed.value
    most = f", at most {rounded(speed.decode_bound)}" if speed.decode_bound else ""
    yield "decode, one sequence", f"{around(speed.decode, rounded)} tok/s{most}"
    yield "it waits for", speed.limit
    yield "decode, all sequences at once", f"{around(speed.saturated, rounded)} tok/s"
    most = f", at most {rounded(speed.prefill_bound)}" if speed.prefill_bound else ""
    yield "prefill", f"{around(speed.prefill, rounded)} tok/s{most}"


def _commands(plan: Plan) -> Iterator[str]:
    if isinstance(plan.start, Missing):
        yield f"<p>unknown: {text(plan.start.why)}</p>"
        return
    start = plan.start.value
    for number, process in enumerate(start.processes):
        shown = "\n".join(text(row, 1 << 16) for row in lines(process, start.placeholders, WIDTH))
        name = f"on {process.host}"
        yield f'<p id="c{number}">{text(name)}</p><pre tabindex="0" role="group" aria-labelledby="c{number}">{shown}</pre>'
    yield named((f"${name}", what) for name, what in start.placeholders.items())
    yield notes(start.notes)


def _all(plans: Sequence[Plan], goal: str) -> Iterator[str]:
    if len(plans) < 2:
        return
    yield f"<h2>All plans, best for {text(goal)} first</h2>"
    heads = ("verdict", "build", *(name for name, _ in COLUMNS[2:]))
    yield f'<table class="stack"><thead><tr>{"".join(f"<th>{text(name)}</th>" for name in heads)}</tr></thead><tbody>'
    for plan in plans[:MOST]:
        said_so = (
            "?" if n is None else say(n)
            for n, say in zip(numbers(plan), (gib, tokens, rounded, rounded), strict=True)
        )
        cells = zip(heads[2:], (layout_name(plan.parallel), *said_so), strict=True)
        row = "".join(f'<td data-h="{text(name)}">{text(value)}</td>' for name, value in cells)
        why = (
            ""
            if isinstance(plan.verdict, Yes)
            else f"<p>{text(plan.verdict.because)}</p>{advised(plan.verdict)}"
        )
        yield f'<tr><td>{said(word(plan.verdict))}</td><th scope="row">{text(plan.build)}{why}</th>{row}</tr>'
    yield "</tbody></table>"


def _what_if(report: PlanReport) -> Iterator[str]:
    plans = report.plans
    if not plans.what_if or not plans.plans:
        return
    heads = ("verdict", "change", *(name for name, _ in COLUMNS[3:]))
    yield f'<h2>What if</h2><table class="stack"><thead><tr>{"".join(f"<th>{text(name)}</th>" for name in heads)}</tr></thead><tbody>'
    for name, plan in (
        ("as planned", plans.plans[0]),
        *((change_name(one.change), one.plan) for one in plans.what_if),
    ):
        cells = zip(heads[2:], changes(plan, plans.plans[0]), strict=True)
        row = "".join(f'<td data-h="{text(head)}">{text(value)}</td>' for head, value in cells)
        yield f'<tr><td>{said(word(plan.verdict))}</td><th scope="row">{text(name)}</th>{row}</tr>'
    yield "</tbody></table>"


def _not_read(report: PlanReport) -> Iterator[str]:
    for one in report.plans.unread:
        yield f'<p>{said("unknown")} {text(one.build)}: {text(one.why)}</p><p class="advice"><b>ask:</b> {text(one.ask)}</p>'


def _illegal(illegal: Sequence[Illegal]) -> str:
    rows = []
    for one in illegal[:MOST]:
        whose = f", {one.build}" if one.build else ""
        larger = " and larger" if one.larger else ""
        why = f"{one.because} ({one.rule}{whose})"
        heals = f"<br>heals: {text(one.heals)}" if one.heals else ""
        rows.append(f"<dt>{text(layout_name(one.parallel))}{larger}</dt><dd>{text(why)}{heals}</dd>")
    return f"<dl>{''.join(rows)}</dl>" if rows else ""
