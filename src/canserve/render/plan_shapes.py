"""What the JSON of plans looks like; it is the file format of a saved plan as well.

Field names are a promise, as in ``shapes``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from canserve.facts import Fact
from canserve.memory.quantity import Quantity
from canserve.plan.plan import Unread
from canserve.render.shapes import FindingShape
from canserve.verdict import Skipped, Word


@dataclass(frozen=True, slots=True)
class LayoutShape:
    """Degrees of parallelism."""

    tp: int
    pp: int
    dp: int
    ep: int


@dataclass(frozen=True, slots=True)
class RankShape:
    """One accelerator's part, and where its memory goes, in bytes; null where that could not be computed."""

    rank: int
    machine: str
    device: Annotated[int, "Index of the accelerator on its machine."]
    tp: int
    pp: int
    dp: int
    total_bytes: Annotated[Quantity | None, "Of the accelerator, as CUDA reports it."]
    budget_bytes: Annotated[Quantity | None, "What the engine lets itself use of it."]
    weights_bytes: Quantity | None
    activation_bytes: Quantity | None
    graphs_bytes: Quantity | None
    non_torch_bytes: Quantity | None
    kv_available_bytes: Annotated[
        Quantity | None, "For KV cache and recurrent state; negative where the weights alone are too much."
    ]
    load_peak_bytes: Annotated[Quantity | None, "The highest use while loading, where it is higher."]
    host_bytes: Annotated[Quantity | None, "Host memory beside it; on unified memory what the system needs."]


@dataclass(frozen=True, slots=True)
class CommandShape:
    """One process, exactly as it is started."""

    machine: str
    ranks: Annotated[tuple[int, ...], "The ranks that it starts; empty: it only joins the machines."]
    environment: Mapping[str, str]
    argv: tuple[str, ...]
    line: Annotated[str, "The same, to be pasted into a shell."]


@dataclass(frozen=True, slots=True)
class PlanShape:
    """One build on one layout."""

    build: Annotated[str, "As the user named it."]
    engine: str
    engine_version: str
    layout: LayoutShape
    verdict: Annotated[Word, "The worst of its findings."]
    because: str
    ranks: tuple[RankShape, ...]
    kv_bytes_per_token: Annotated[Fact[int], "Of all layers on the rank with the most."]
    state_bytes_per_sequence: Annotated[Fact[int], "Recurrent state and the bounded part of windows."]
    block: Annotated[Fact[int], "Tokens of one block of the KV cache."]
    kv_tokens: Annotated[Fact[Quantity], "As the release prints it."]
    context: Annotated[Fact[int], "Tokens of the longest sequence it is started with."]
    max_context: Annotated[Fact[int], "The longest context that the cache could hold."]
    max_context_interval: Fact[Quantity]
    max_concurrency: Annotated[Fact[Quantity], "Sequences of `context` tokens at once, as printed."]
    sequences: Annotated[Fact[int], "The most that the engine lets run at once; 0: not stated."]
    state_slots: Annotated[
        Fact[Quantity | None], "Sequences whose recurrent state has room, where the release insists on it."
    ]
    refuses_longer: Annotated[
        Fact[bool], "Whether it does not start when one sequence of `context` tokens has no room."
    ]
    memory_notes: Fact[tuple[str, ...]]
    start_reserve_bytes: Annotated[
        Fact[Quantity], "By how much free memory exceeds what the engine demands at start."
    ]
    decode_tok_s: Annotated[Fact[Quantity], "One sequence at a time."]
    decode_bound_tok_s: Annotated[Fact[float], "No build can be faster."]
    saturated_tok_s: Annotated[Fact[Quantity], "All sequences together."]
    prefill_tok_s: Fact[Quantity]
    prefill_bound_tok_s: Annotated[Fact[float | None], "Null: the machine's peak is not known."]
    limit: Annotated[Fact[str], "What decode waits for."]
    layers: Annotated[tuple[int, ...], "Of each pipeline stage."]
    options: Annotated[Mapping[str, Any], "Engine options under the engine's own names."]
    findings: tuple[FindingShape, ...]
    skipped: tuple[Skipped, ...]
    commands: Annotated[Fact[tuple[CommandShape, ...]], "In the order in which they are started."]
    placeholders: Annotated[Mapping[str, str], "What stands in commands as `$NAME` and is not known yet."]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IllegalShape:
    """A layout that cannot be."""

    layout: LayoutShape
    build: Annotated[str | None, "Whose rule it is; null: of every build that was asked."]
    check: Annotated[str, "The claim that it breaks: `heads-divide`."]
    because: str
    rule: Annotated[str, "Both, in one line."]
    heals: Annotated[str, "What would heal it, the nearest legal value included."]
    larger: Annotated[bool, "Whether every larger size is forbidden by the same rule."]


@dataclass(frozen=True, slots=True)
class CurvePointShape:
    """How many sequences of one length fit at once."""

    context: int
    sequences: Quantity


@dataclass(frozen=True, slots=True)
class WhatIfShape:
    """The best plan with something changed."""

    change: Annotated[Mapping[str, Any], "Options, or `build`."]
    plan: PlanShape


@dataclass(frozen=True, slots=True)
class PlansShape:
    """Output of `canserve plan --format json`, and a saved plan."""

    version: Annotated[Literal[1], "Of this format."]
    model: Annotated[str, "As the user named it."]
    goal: Annotated[str, "What plans are ranked for."]
    verdict: Annotated[Word, "Of the best plan."]
    because: str
    plans: Annotated[tuple[PlanShape, ...], "Best first."]
    illegal: Annotated[tuple[IllegalShape, ...], "Layouts that cannot be, with the rule."]
    curve: Annotated[tuple[CurvePointShape, ...], "Of the first plan."]
    what_if: tuple[WhatIfShape, ...]
    unread: Annotated[tuple[Unread, ...], "Builds that could not be read."]
    notes: tuple[str, ...]
