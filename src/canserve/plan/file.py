"""A saved plan read back. It is the JSON that ``canserve plan`` prints; a file is judged like anything from outside."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.memory.quantity import Quantity
from canserve.memory.request import RankMemory, Serving
from canserve.plan.plan import VERSION, Plan, Plans, Speed, Unread, Variant
from canserve.subjects.launch import Process, Start
from canserve.subjects.parallel import Illegal, Parallel, Placement, Rank
from canserve.verdict import Finding, No, Skipped, Unknown, Verdict, Yes

MAX_BYTES = 64 << 20
"""Largest file that is read."""
T = TypeVar("T")


class PlanError(ValueError):
    """A file that is no plan: one line that says what is wrong, and where in it."""


def read_plans(text: str) -> Plans:
    """Plans from the text of a file. Raises PlanError."""
    if len(text) > MAX_BYTES:
        raise PlanError(f"larger than {MAX_BYTES} bytes")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PlanError(f"not JSON: {error}") from error
    if not isinstance(document, dict) or document.get("version") != VERSION:
        raise PlanError(f"not a plan of version {VERSION}")
    try:
        return _plans(document)
    except KeyError as error:
        raise PlanError(f"{error.args[0]} is missing") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise PlanError(f"not what a plan holds: {error}") from error


def _plans(found: Mapping[str, Any]) -> Plans:
    return Plans(
        model=_text(found["model"]),
        goal=_text(found["goal"]),
        plans=tuple(_plan(_text(found["model"]), plan) for plan in found["plans"]),
        illegal=tuple(
            Illegal(
                _parallel(one["layout"]),
                _text(one["check"]),
                _text(one["because"]),
                _text(one["heals"]),
                bool(one["larger"]),
                one["build"],
            )
            for one in found["illegal"]
        ),
        curve=tuple((int(one["context"]), _quantity(one["sequences"])) for one in found["curve"]),
        what_if=tuple(
            Variant(dict(one["change"]), _plan(_text(found["model"]), one["plan"]))
            for one in found["what_if"]
        ),
        notes=tuple(map(_text, found["notes"])),
        unread=tuple(Unread(*map(_text, (one["build"], one["why"], one["ask"]))) for one in found["unread"]),
    )


def _plan(model: str, found: Mapping[str, Any]) -> Plan:
    layers = tuple(map(int, found["layers"]))
    placed = tuple(_rank(one) for one in found["ranks"])
    return Plan(
        model=model,
        build=_text(found["build"]),
        engine=_text(found["engine"]),
        version=_text(found["engine_version"]),
        placement=Placement(_parallel(found["layout"]), placed, layers),
        options=dict(found["options"]),
        serving=_serving(found),
        speed=_speed(found),
        start=_fact(found["commands"], lambda commands: _start(found, commands)),
        findings=tuple(map(_finding, found["findings"])),
        skipped=tuple(Skipped(**one) for one in found["skipped"]),
        notes=tuple(map(_text, found["notes"])),
    )


def _rank(one: Mapping[str, Any]) -> Rank:
    number, tp, pp, dp, device = (int(one[name]) for name in ("rank", "tp", "pp", "dp", "device"))
    return Rank(number, tp, pp, dp, _text(one["machine"]), device)


def _serving(found: Mapping[str, Any]) -> Fact[Serving]:
    def read(_: object) -> Serving:
        return Serving(
            ranks=tuple(_memory(one) for one in found["ranks"]),
            kv_bytes_per_token=int(found["kv_bytes_per_token"]),
            state_bytes_per_sequence=int(found["state_bytes_per_sequence"]),
            block=int(found["block"]),
            kv_tokens=_quantity(found["kv_tokens"]),
            context=int(found["context"]),
            max_context=_quantity(found["max_context_interval"]),
            max_concurrency=_quantity(found["max_concurrency"]),
            starts=_quantity(found["start_reserve_bytes"]),
            notes=tuple(map(_text, found["memory_notes"])),
            sequences=int(found["sequences"]),
            state_slots=None if found["state_slots"] is None else _quantity(found["state_slots"]),
            refuses=bool(found["refuses_longer"]),
        )

    return _fact(found["context"], read)


def _speed(found: Mapping[str, Any]) -> Fact[Speed]:
    def read(_: object) -> Speed:
        return Speed(
            _quantity(found["decode_tok_s"]),
            float(found["decode_bound_tok_s"]),
            _quantity(found["saturated_tok_s"]),
            _quantity(found["prefill_tok_s"]),
            float(found["prefill_bound_tok_s"] or 0),
            _text(found["limit"]),
        )

    return _fact(found["decode_tok_s"], read)


def _memory(one: Mapping[str, Any]) -> RankMemory:
    figures = {name: _quantity(one[f"{name}_bytes"]) for name in _FIGURES}
    peaks = {name: one[f"{name}_bytes"] for name in ("load_peak", "host")}
    return RankMemory(**figures | {name: _quantity(peak) for name, peak in peaks.items() if peak is not None})


_FIGURES = ("total", "budget", "weights", "activation", "graphs", "non_torch", "kv_available")


def _start(found: Mapping[str, Any], commands: Any) -> Start:
    processes = tuple(
        Process(
            _text(one["machine"]),
            tuple(map(int, one["ranks"])),
            tuple(map(_text, one["argv"])),
            {_text(name): _text(value) for name, value in one["environment"].items()},
        )
        for one in commands
    )
    return Start(processes, {_text(name): _text(what) for name, what in found["placeholders"].items()})


def _finding(one: Mapping[str, Any]) -> Finding:
    verdict: Verdict
    match one["verdict"]:
        case "yes":
            verdict = Yes(_text(one["because"]), tuple(map(_text, one["needs"])))
        case "no":
            verdict = No(_text(one["because"]), _text(one["fix"]))
        case "unknown":
            verdict = Unknown(_text(one["because"]), _text(one["ask"]))
        case other:
            raise ValueError(f"{other!r:.40} is no verdict")
    evidence = tuple(Evidence(**look) for look in one["evidence"])
    return Finding(_text(one["check"]), _text(one["about"]), verdict, evidence)


def _fact(value: Any, read: Callable[[Any], T]) -> Fact[T]:
    if isinstance(value, dict) and "missing" in value:
        return Missing(Cause(value["missing"]), _text(value["why"]), ask=value["ask"])
    return Known(read(value))


def _parallel(one: Mapping[str, Any]) -> Parallel:
    tp, pp, dp, ep = (int(one[name]) for name in ("tp", "pp", "dp", "ep"))
    return Parallel(tp, pp, dp, ep)


def _quantity(one: Mapping[str, Any]) -> Quantity:
    value, low, high = (float(one[name]) for name in ("value", "low", "high"))
    return Quantity(value, low, high, _text(one["why"]))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    return value
