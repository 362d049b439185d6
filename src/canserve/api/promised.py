"""What a plan promises of speed and formats: kept by the journal with each run, compared by ``verify``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from typing import Any

from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.memory.quantity import Quantity
from canserve.plan.plan import Plan
from canserve.subjects.served import Expected

WANTS = frozenset({"tools", "reasoning", "dummy"})
"""What flags ask for."""
MOST_WORDS = 2000
"""Characters of a text."""


def expected_of(plan: Plan, name: str) -> Fact[Expected]:
    """What one plan promises of speed and formats. ``name``: of the file or run that it is from."""
    speed = plan.speed
    if isinstance(speed, Missing):
        return Missing(Cause.UNAVAILABLE, f"the plan states no speed: {speed.why}", speed.evidence, speed.ask)
    look = Evidence(name, "decode_tok_s, decode_bound_tok_s", speed.value.decode.why)
    return Known(
        Expected(
            _three(speed.value.decode),
            speed.value.decode_bound,
            _three(speed.value.prefill),
            speed.value.limit,
            len({rank.machine for rank in plan.placement.ranks}),
            plan.parallel.tp,
            sum(plan.placement.layers),
            plan.model,
            frozenset(_wants(plan)),
            plan.parallel.dp,
        ),
        (look,),
    )


def kept(plan: Plan) -> dict[str, Any]:
    """The same as JSON, for the journal."""
    expected = expected_of(plan, "")
    if isinstance(expected, Missing):
        return {"missing": expected.why, "ask": expected.ask}
    return {
        **asdict(expected.value),
        "wants": sorted(expected.value.wants),
        "why": expected.evidence[0].saw,
    }


def from_kept(told: Mapping[str, Any] | None, run: str) -> Fact[Expected]:
    """And back. Missing where nothing of the kind is kept, or in another form.

    That of a run which was adopted comes from a machine, where everybody may write.
    """
    if told is None:
        return Missing(
            Cause.UNAVAILABLE, f"nothing says what was planned for {run}", ask="name it: --plan FILE"
        )
    if "missing" in told:
        return Missing(Cause.UNAVAILABLE, str(told["missing"]), ask=str(told.get("ask") or ""))
    prefill = told.get("prefill")
    try:
        if later := told.keys() - {each.name for each in fields(Expected)} - {"why"}:
            raise ValueError(f"{min(map(str, later))[:80]} is not known here")
        expected = Expected(
            decode=_numbers(told["decode"]),
            decode_bound=_number(told["decode_bound"]),
            prefill=None if prefill is None else _numbers(prefill),
            limit=str(told["limit"])[:MOST_WORDS],
            machines=int(told["machines"]),
            ranks=int(told["ranks"]),
            layers=int(told["layers"]),
            model=str(told["model"])[:MOST_WORDS],
            wants=frozenset(WANTS & set(told["wants"])),
            replicas=int(told.get("replicas", 1)),
        )
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        why = f"what is kept of the plan of {run} is of another form: {error}"
        return Missing(Cause.UNREADABLE, why, ask="name it: --plan FILE")
    how = "decode_tok_s, decode_bound_tok_s of its plan, as they were kept with the run"
    return Known(expected, (Evidence(run, how, str(told.get("why", ""))[:MOST_WORDS]),))


def _numbers(told: Any) -> tuple[float, float, float]:
    value, low, high = map(_number, told)
    return value, low, high


def _number(told: Any) -> float:
    found = float(told)
    if not math.isfinite(found) or found < 0:
        raise ValueError(f"{told!r} is no speed")
    return found


def _three(quantity: Quantity) -> tuple[float, float, float]:
    return quantity.value, quantity.low, quantity.high


def _wants(plan: Plan) -> Iterator[str]:
    """What its options and flags ask for."""
    flags = [word for process in _processes(plan) for word in process if word.startswith("--")]
    names = {word.lstrip("-").partition("=")[0].replace("-", "_") for word in (*flags, *plan.options)}
    if any("tool" in name and "parser" in name for name in names):
        yield "tools"
    if any("reasoning" in name and "parser" in name for name in names):
        yield "reasoning"
    if plan.options.get("load_format") == "dummy":
        yield "dummy"


def _processes(plan: Plan) -> list[tuple[str, ...]]:
    return [process.argv for process in plan.start.value.processes] if isinstance(plan.start, Known) else []
