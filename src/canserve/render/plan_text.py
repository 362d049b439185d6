"""Plans as text: the verdict, the ranked table, then the best plan in full, then why the others are not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from canserve.api.planning import PlanReport
from canserve.facts import Known, Missing
from canserve.plan.plan import Plan, Plans
from canserve.render.figures import around, change_name, gib, layout_name, rounded, tokens
from canserve.render.page import STYLES, Cell, Look, Page, Row
from canserve.render.plan_memory import curve_rows, memory_rows
from canserve.render.shell import lines
from canserve.render.text import advice_rows, describe, findings_rows
from canserve.subjects.parallel import Illegal
from canserve.verdict import Unknown, Verdict, Yes, word

SHOWN = 8
"""Plans in the table unless all are asked for."""
CHANGED = 13
"""Columns of a figure with its change."""
_SAME = 0.005
"""A smaller share of difference is none."""
WIDEST = 20
"""Columns of a build's name in the table."""
_NUMBER = re.compile(r"\d+")
_PIPE = 10_000
"""Columns of a command in a pipe or file: all of it on one line."""
COLUMNS = (("", 3), ("", 8), ("layout", 12), ("KV GiB", 8), ("context", 9), ("at once", 9), ("tok/s", 6))


def plans_text(report: PlanReport, look: Look, *, whole: bool = False) -> str:
    """The whole answer. ``whole``: every plan and every illegal layout."""
    plans = report.plans
    page = Page(look)
    where = f" on {report.on}" if report.on else ""
    page.add(Row(f"{plans.model}{where}", style="bold"), Row(describe(report.model), indent=2))
    page.blank()
    page.add(*_verdict(plans.verdict, plans.plans))
    if plans.plans:
        page.blank()
        page.add(*_table(plans.plans, plans.goal, whole))
        page.blank()
        page.add(*_details(plans.plans[0], report, look))
    for rows in (_variants(report), _others(plans), _illegal(plans.illegal, whole)):
        page.blank()
        page.add(*rows)
    page.blank()
    page.add(*(Row(note, (Cell("note", 9),), indent=2) for note in plans.notes))
    return page.render().rstrip("\n") + "\n"


def _verdict(verdict: Verdict, plans: Sequence[Plan]) -> Iterable[Row]:
    said = word(verdict)
    text = in_one_line(plans[0]) if isinstance(verdict, Yes) else verdict.because
    yield Row(text, (Cell(said, 9, STYLES[said]),))
    yield from () if isinstance(verdict, Yes) else advice_rows(verdict, 9)


def in_one_line(plan: Plan) -> str:
    """``vllm==0.17.1, TP2: 3.8 sequences of 262144 tokens at once, about 31 tok/s``."""
    holds = ""
    if isinstance(plan.serving, Known):
        serving = plan.serving.value
        holds = f": {rounded(serving.max_concurrency.value)} sequences of {serving.context} tokens at once"
    fast = f", about {rounded(plan.speed.value.decode.value)} tok/s" if isinstance(plan.speed, Known) else ""
    return f"{plan.build}, {layout_name(plan.parallel)}{holds}{fast}"


def _table(plans: Sequence[Plan], goal: str, whole: bool) -> Iterable[Row]:
    shown = plans if whole else plans[:SHOWN]
    width = max(len(_short(plan.build)) for plan in shown) + 2
    heads = (*(Cell(name, columns) for name, columns in COLUMNS[:2]), Cell("build", width))
    yield Row(f"best for {goal} first", style="bold")
    yield Row("", (*heads, *(Cell(name, columns) for name, columns in COLUMNS[2:])), style="dim")
    for number, plan in enumerate(shown, 1):
        said = word(plan.verdict)
        lead = (
            Cell(f"{number:>2}", COLUMNS[0][1]),
            Cell(said, COLUMNS[1][1], STYLES[said]),
            Cell(_short(plan.build), width, "bold"),
        )
        yield Row(_blocked(plan), (*lead, *_figures(plan)), cut=True)
    if len(shown) < len(plans):
        yield Row(f"and {len(plans) - len(shown)} more (--all)", indent=4, style="dim")


def _short(name: str) -> str:
    """The end of a long name: the end of a path says most."""
    return name if len(name) <= WIDEST else f"...{name[3 - WIDEST :]}"


def _figures(plan: Plan) -> tuple[Cell, ...]:
    layout = Cell(layout_name(plan.parallel), COLUMNS[2][1])
    if isinstance(plan.serving, Missing):
        return (layout,)
    pairs = zip(numbers(plan), (gib, tokens, rounded, rounded), COLUMNS[3:], strict=True)
    return (layout, *(Cell("?" if n is None else say(n), width) for n, say, (_, width) in pairs))


def numbers(plan: Plan) -> tuple[float | None, float | None, float | None, float | None]:
    """Bytes for the cache on the rank with the least, context, sequences at once, decode speed."""
    speed = plan.speed.value.decode.value if isinstance(plan.speed, Known) else None
    if isinstance(plan.serving, Missing):
        return None, None, None, speed
    serving = plan.serving.value
    least = min(rank.kv_available.value for rank in serving.ranks)
    return least, serving.context, serving.max_concurrency.value, speed


def _blocked(plan: Plan) -> str:
    return plan.verdict.because if isinstance(plan.serving, Missing) else ""


def _details(plan: Plan, report: PlanReport, look: Look) -> Iterable[Row]:
    machines = ", ".join(dict.fromkeys(rank.machine for rank in plan.placement.ranks))
    yield Row(f" over {machines}", label=f"1: {plan.build}, {layout_name(plan.parallel)}")
    if isinstance(plan.serving, Known):
        yield from memory_rows(plan.placement.ranks, plan.serving.value.ranks, look)
        yield Row()
        yield from _cache(plan)
        yield from curve_rows(report.plans.curve)
    if isinstance(plan.speed, Known):
        yield Row()
        yield from _speed(plan)
    yield Row()
    yield from _commands(plan, look)
    yield Row()
    yield from findings_rows(plan.build, plan.findings, look)
    yield from (Row(note, (Cell("note", 9),), indent=2) for note in plan.notes)


def _cache(plan: Plan) -> Iterable[Row]:
    if isinstance(plan.serving, Missing):
        return
    serving = plan.serving.value
    state = serving.state_bytes_per_sequence
    each = f", and {state / 1e6:,.3g} MB of state a sequence" if state else ""
    yield Row(f"{serving.kv_bytes_per_token:,} bytes a token on each rank{each}", indent=2, label="KV cache ")
    yield Row(f"{around(serving.max_context, tokens)} tokens", indent=2, label="longest context ")
    text = f"{around(serving.max_concurrency, rounded)} of {serving.context} tokens"
    yield Row(text, indent=2, label="sequences at once ")
    yield from (Row(note, (Cell("note", 9),), indent=2) for note in serving.notes)


def _speed(plan: Plan) -> Iterable[Row]:
    if isinstance(plan.speed, Missing):
        return
    speed = plan.speed.value
    most = f", at most {rounded(speed.decode_bound)}" if speed.decode_bound else ""
    waits = f"; it waits for {speed.limit}" if speed.limit else ""
    yield Row(
        f"{around(speed.decode, rounded)} tok/s for one sequence{most}{waits}", indent=2, label="decode "
    )
    yield Row(
        f"{around(speed.saturated, rounded)} tok/s for all sequences at once", indent=2, label="decode "
    )
    most = f", at most {rounded(speed.prefill_bound)}" if speed.prefill_bound else ""
    yield Row(f"{around(speed.prefill, rounded)} tok/s{most}", indent=2, label="prefill ")


def _commands(plan: Plan, look: Look) -> Iterable[Row]:
    if isinstance(plan.start, Missing):
        yield Row(f"unknown: {plan.start.why}", indent=2, label="commands ")
        return
    start = plan.start.value
    for process in start.processes:
        yield Row("", indent=2, label=f"on {process.host}:")
        for text in lines(process, start.placeholders, (look.width or _PIPE) - 4):
            yield Row(text, indent=4)
    for name, what in start.placeholders.items():
        yield Row(what, (Cell(f"${name}", len(name) + 2, "bold cyan"),), indent=2)
    yield from (Row(note, (Cell("note", 9),), indent=2) for note in start.notes)


def _variants(report: PlanReport) -> Iterable[Row]:
    """The best plan, and below it what each change makes of it."""
    plans = report.plans
    if not plans.what_if or not plans.plans:
        return
    base = plans.plans[0]
    yield Row("what if", style="bold")
    yield Row("", (Cell("", 8), *(Cell(name, CHANGED) for name, _ in COLUMNS[3:])), style="dim")
    yield _variant("as planned", base, base)
    for one in plans.what_if:
        yield _variant(change_name(one.change), one.plan, base)


def _variant(name: str, plan: Plan, base: Plan) -> Row:
    said = word(plan.verdict)
    cells = (Cell(text, CHANGED) for text in changes(plan, base))
    return Row(name, (Cell(said, 8, STYLES[said]), *cells), style="bold")


def changes(plan: Plan, base: Plan) -> Sequence[str]:
    """The figures of a plan, each with what it is more or less than that of another one."""
    pairs = zip(numbers(plan), numbers(base), (gib, tokens, rounded, rounded), strict=True)
    return ["?" if new is None else f"{say(new)}{_change(new, old)}" for new, old, say in pairs]


def _change(new: float, old: float | None) -> str:
    """`` +12%``; nothing where it is the same or cannot be compared."""
    if not old or old < 0 or abs(new / old - 1) < _SAME:
        return ""
    return f" {(new / old - 1) * 100:+.0f}%"


def _others(plans: Plans) -> Iterable[Row]:
    """The first blocking reason of every plan that is not a yes; layouts with one reason stand together."""
    groups: dict[tuple[str, Verdict], list[str]] = {}
    for one in plans.unread:
        groups[one.build, Unknown(one.why, one.ask)] = []
    for plan in plans.plans[1:]:
        if not isinstance(plan.verdict, Yes):
            groups.setdefault((plan.build, plan.verdict), []).append(layout_name(plan.parallel))
    if groups:
        yield Row("not these", style="bold")
    for (build, verdict), layouts in groups.items():
        said = word(verdict)
        label = f"{' '.join((build, ', '.join(layouts))).rstrip()}: "
        yield Row(verdict.because, (Cell(said, 9, STYLES[said]),), indent=2, label=label)
        yield from advice_rows(verdict, 11)


def _illegal(illegal: Sequence[Illegal], whole: bool) -> Iterable[Row]:
    """Layouts that break one rule for reasons that differ in the layout's own numbers stand together."""
    groups: dict[tuple[str, str | None, bool], list[Illegal]] = {}
    for one in illegal:
        groups.setdefault((_alike(one), one.build, one.larger), []).append(one)
    if groups:
        yield Row("illegal layouts", style="bold")
    shown = list(groups.items())[: None if whole else SHOWN]
    for (_, build, larger), alike in shown:
        last = " and larger" if larger else ""
        whose = f", {build}" if build else ""
        label = f"{_names(alike, whole)}{last}: "
        yield Row(f"{alike[0].because} ({alike[0].rule}{whose})", indent=2, label=label)
        heals: dict[str, list[Illegal]] = {}
        for one in alike:
            if one.heals:
                heals.setdefault(one.heals, []).append(one)
        texts = [heal if len(heals) == 1 else f"{_names(of, whole)}: {heal}" for heal, of in heals.items()]
        if texts:
            yield Row("; ".join(texts), (Cell("heals:", 7, "bold cyan"),), indent=4)
    if len(shown) < len(groups):
        yield Row(f"and {len(groups) - len(shown)} more rules (--all)", indent=2, style="dim")


def _alike(one: Illegal) -> str:
    """The reason without the layout's own degrees."""
    return f"{one.rule} {_NUMBER.sub('#', one.because)}"


def _names(alike: Sequence[Illegal], whole: bool) -> str:
    names = list(dict.fromkeys(layout_name(one.parallel) for one in alike))
    if whole or len(names) <= SHOWN:
        return ", ".join(names)
    return f"{', '.join(names[:SHOWN])} and {len(names) - SHOWN} more"
