"""Plans as Markdown, for an issue or a page of notes: the table, the best plan, its commands, the rest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from canserve.api.planning import PlanReport
from canserve.facts import Known, Missing
from canserve.plan.plan import Plan
from canserve.render.escape import code, markdown, visible
from canserve.render.figures import around, change_name, gib, layout_name, rounded, tokens
from canserve.render.markdown import advice_markdown
from canserve.render.plan_memory import PARTS
from canserve.render.plan_text import changes
from canserve.render.shell import line
from canserve.render.text import by_advice, describe
from canserve.verdict import Yes, word

_TICKS = "~~~~"
"""Fence of a code block; lines inside are made visible, and none of them begins with it."""


def plans_markdown(report: PlanReport) -> str:
    """The whole answer."""
    plans = report.plans
    where = f" on {code(report.on)}" if report.on else ""
    lines = [f"### {code(plans.model)}{where}: {word(plans.verdict)}", "", markdown(describe(report.model))]
    if plans.plans:
        lines += ["", *_table(plans.plans), "", *_best(plans.plans[0], report)]
    else:
        lines += ["", markdown(plans.verdict.because), *advice_markdown(plans.verdict)]
    if plans.what_if:
        lines += ["", "#### what if", "", "| verdict | change | KV GiB | context | at once | tok/s |"]
        lines += ["|---|---|---:|---:|---:|---:|"]
        for one in plans.what_if:
            name = _cell(change_name(one.change))
            figures = " | ".join(changes(one.plan, plans.plans[0]))
            lines.append(f"| **{word(one.plan.verdict)}** | {name} | {figures} |")
    if plans.illegal:
        lines += ["", "#### illegal layouts", "", "| layout | rule | heals |", "|---|---|---|"]
        for each in plans.illegal:
            name = f"{layout_name(each.parallel)}{' and larger' if each.larger else ''}"
            rule = f"{code(each.rule)}: {markdown(each.because)}".replace("|", "\\|")
            lines.append(f"| {name} | {rule} | {markdown(each.heals)} |")
    lines += [f"\nNote: {markdown(note)}" for note in plans.notes]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return code(text).replace("|", "\\|")  # inside a table even a code span needs it


def _table(plans: Sequence[Plan]) -> Iterable[str]:
    yield "| verdict | build | layout | KV GiB | context | at once | tok/s | because |"
    yield "|---|---|---|---:|---:|---:|---:|---|"
    for plan in plans:
        because = "" if isinstance(plan.verdict, Yes) else markdown(plan.verdict.because)
        yield (
            f"| **{word(plan.verdict)}** | {_cell(plan.build)} | {layout_name(plan.parallel)} "
            f"| {_figures(plan)} | {because} |"
        )


def _figures(plan: Plan) -> str:
    if isinstance(plan.serving, Missing):
        return "? | ? | ? | ?"
    serving = plan.serving.value
    speed = rounded(plan.speed.value.decode.value) if isinstance(plan.speed, Known) else "?"
    least = min(rank.kv_available.value for rank in serving.ranks)
    return " | ".join((gib(least), tokens(serving.context), rounded(serving.max_concurrency.value), speed))


def _best(plan: Plan, report: PlanReport) -> Iterable[str]:
    yield f"#### {code(plan.build)}, {layout_name(plan.parallel)}"
    if isinstance(plan.serving, Known):
        names = " | ".join(name for _, name, _, _ in PARTS)
        yield from ("", f"| rank | machine | total | {names} |", f"|---|---|---:|{'---:|' * len(PARTS)}")
        for rank, part in zip(plan.placement.ranks, plan.serving.value.ranks, strict=True):
            figures = " | ".join(around(getattr(part, field), gib) for _, _, field, _ in PARTS)
            yield f"| {rank.number} | {_cell(rank.machine)} | {gib(part.total.value)} | {figures} |"
        yield from ("", "In GiB, with the interval.")
    if report.plans.curve:
        yield from ("", "| tokens a sequence | sequences at once |", "|---:|---:|")
        yield from (f"| {length} | {around(count, rounded)} |" for length, count in report.plans.curve)
    if isinstance(plan.speed, Known):
        speed = plan.speed.value
        yield ""
        yield (
            f"Decode {around(speed.decode, rounded)} tok/s for one sequence (bound {rounded(speed.decode_bound)}), "
            f"{around(speed.saturated, rounded)} for all at once; prefill {around(speed.prefill, rounded)} tok/s."
        )
    yield from _commands(plan)
    yield ""
    quiet: list[str] = []
    for finding in (finding for group in by_advice(plan.findings) for finding in group):
        verdict = finding.verdict
        if isinstance(verdict, Yes) and not verdict.needs:
            quiet.append(code(finding.check))
            continue
        yield f"- **{word(verdict)}** {code(finding.check)}: {markdown(verdict.because)}"
        yield from advice_markdown(verdict)
    if quiet:
        yield f"- **yes**: {', '.join(quiet)}"
    yield from (f"- note: {markdown(note)}" for note in plan.notes)


def _commands(plan: Plan) -> Iterable[str]:
    if isinstance(plan.start, Missing):
        yield from ("", f"Commands unknown: {markdown(plan.start.why)}")
        return
    start = plan.start.value
    for process in start.processes:
        yield from ("", f"On {code(process.host)}:", "", f"{_TICKS}sh")
        yield visible(line(process, start.placeholders), limit=100_000).removeprefix(_TICKS)
        yield _TICKS
    for name, what in start.placeholders.items():
        yield from ("", f"{code(f'${name}')}: {markdown(what)}")
