"""Plans as the shapes of the JSON output, which is what a saved plan holds."""

from __future__ import annotations

from canserve.facts import Fact, Missing, derive
from canserve.memory.quantity import Quantity
from canserve.memory.request import RankMemory
from canserve.plan.plan import Plan, Plans, Variant
from canserve.render.plan_shapes import (
    CommandShape,
    CurvePointShape,
    IllegalShape,
    LayoutShape,
    PlanShape,
    PlansShape,
    RankShape,
    WhatIfShape,
)
from canserve.render.shell import line
from canserve.render.structure import finding_output
from canserve.subjects.launch import Start
from canserve.subjects.parallel import Illegal, Parallel, Rank
from canserve.verdict import Yes, word


def plans_output(plans: Plans) -> PlansShape:
    """The whole answer."""
    verdict = plans.verdict
    return PlansShape(
        version=1,
        model=plans.model,
        goal=plans.goal,
        verdict=word(verdict),
        because=because(plans.plans[0]) if plans.plans and isinstance(verdict, Yes) else verdict.because,
        plans=tuple(plan_output(plan) for plan in plans.plans),
        illegal=tuple(_illegal(one) for one in plans.illegal),
        curve=tuple(CurvePointShape(tokens, _whole(count)) for tokens, count in plans.curve),
        what_if=tuple(_variant(one) for one in plans.what_if),
        unread=plans.unread,
        notes=plans.notes,
    )


def plan_output(plan: Plan) -> PlanShape:
    """One plan."""
    serving, speed = plan.serving, plan.speed
    placed = plan.placement.ranks
    memory = (None,) * len(placed) if isinstance(serving, Missing) else serving.value.ranks
    return PlanShape(
        build=plan.build,
        engine=plan.engine,
        engine_version=plan.version,
        layout=_layout(plan.parallel),
        verdict=word(plan.verdict),
        because=because(plan),
        ranks=tuple(map(_rank, placed, memory)),
        kv_bytes_per_token=derive(serving, lambda s: s.kv_bytes_per_token),
        state_bytes_per_sequence=derive(serving, lambda s: s.state_bytes_per_sequence),
        block=derive(serving, lambda s: s.block),
        kv_tokens=derive(serving, lambda s: _whole(s.kv_tokens)),
        context=derive(serving, lambda s: s.context),
        max_context=derive(serving, lambda s: int(s.max_context.value)),
        max_context_interval=derive(serving, lambda s: _whole(s.max_context)),
        max_concurrency=derive(serving, lambda s: _whole(s.max_concurrency)),
        sequences=derive(serving, lambda s: s.sequences),
        state_slots=derive(serving, lambda s: None if s.state_slots is None else _whole(s.state_slots)),
        refuses_longer=derive(serving, lambda s: s.refuses),
        memory_notes=derive(serving, lambda s: s.notes),
        start_reserve_bytes=derive(serving, lambda s: _whole(s.starts)),
        decode_tok_s=derive(speed, lambda s: _whole(s.decode)),
        decode_bound_tok_s=derive(speed, lambda s: _number(s.decode_bound)),
        saturated_tok_s=derive(speed, lambda s: _whole(s.saturated)),
        prefill_tok_s=derive(speed, lambda s: _whole(s.prefill)),
        prefill_bound_tok_s=derive(speed, lambda s: _number(s.prefill_bound) or None),
        limit=derive(speed, lambda s: s.limit),
        layers=plan.placement.layers,
        options=plan.options,
        findings=tuple(finding_output(finding) for finding in plan.findings),
        skipped=plan.skipped,
        commands=_commands(plan.start),
        placeholders={} if isinstance(plan.start, Missing) else plan.start.value.placeholders,
        notes=plan.notes,
    )


def because(plan: Plan) -> str:
    """The reason in one line; for a yes how much was checked."""
    if isinstance(plan.verdict, Yes):
        return f"all {len(plan.findings)} checks"
    return plan.verdict.because


def _rank(rank: Rank, memory: RankMemory | None) -> RankShape:
    def figure(name: str) -> Quantity | None:
        found: Quantity | None = getattr(memory, name, None)
        return None if found is None else _whole(found)

    return RankShape(
        rank=rank.number,
        machine=rank.machine,
        device=rank.device,
        tp=rank.tp,
        pp=rank.pp,
        dp=rank.dp,
        total_bytes=figure("total"),
        budget_bytes=figure("budget"),
        weights_bytes=figure("weights"),
        activation_bytes=figure("activation"),
        graphs_bytes=figure("graphs"),
        non_torch_bytes=figure("non_torch"),
        kv_available_bytes=figure("kv_available"),
        load_peak_bytes=figure("load_peak"),
        host_bytes=figure("host"),
    )


def _commands(start: Fact[Start]) -> Fact[tuple[CommandShape, ...]]:
    return derive(
        start,
        lambda found: tuple(
            CommandShape(
                process.host, process.ranks, process.environment, process.argv,
                line(process, found.placeholders),
            )
            for process in found.processes
        ),
    )  # fmt: skip


def _illegal(one: Illegal) -> IllegalShape:
    rule = f"{one.rule}: {one.because}"
    return IllegalShape(_layout(one.parallel), one.build, one.rule, one.because, rule, one.heals, one.larger)


def _variant(one: Variant) -> WhatIfShape:
    return WhatIfShape(one.change, plan_output(one.plan))


def _layout(parallel: Parallel) -> LayoutShape:
    return LayoutShape(parallel.tp, parallel.pp, parallel.dp, parallel.ep)


def _whole(quantity: Quantity) -> Quantity:
    """Bytes and tokens as whole numbers where they are; a fraction stays one."""
    value, low, high = map(_number, (quantity.value, quantity.low, quantity.high))
    return Quantity(value, low, high, quantity.why)


def _number(number: float) -> float:
    short = round(number) if abs(number) >= WHOLE else round(float(number), 4)
    return int(short) if float(short).is_integer() else short


WHOLE = 1e6
"""From here on no fraction says anything."""
