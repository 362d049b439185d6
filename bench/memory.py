"""Compare what the memory rules say with what engines printed: public start-up logs, and runs on H200s.

    python bench/memory.py [SHARED] [--rows]

Prints, per source and pooled: error of the weights; tokens of the cache from the printed bytes (the exact part);
available cache and concurrency from our own weights; how often the printed value lies inside the interval; starts
called impossible, and refusals said to fit. Rows outside are listed with what was expected; rows without a config are listed as not judged.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from memory_cases import FIXED, SHARED, Case, logged, measured, ours, refused

from canserve.api import read_model
from canserve.engines import Engine, engine_named
from canserve.facts import Cause, Known, Missing
from canserve.memory.device import one_device
from canserve.memory.layers import layers
from canserve.memory.quantity import GIB, Quantity
from canserve.memory.request import Request, Serving
from canserve.rules.machines import profile
from canserve.subjects.model import Model
from canserve.subjects.parallel import Parallel, Placement, Rank


@dataclass
class Score:
    """Errors of one figure, over rows."""

    errors: list[float] = field(default_factory=list)
    inside: list[bool] = field(default_factory=list)

    def add(self, value: float, printed: float, quantity: Quantity | None = None, step: float = 0.0) -> None:
        """One row; ``step``: by how much the printed figure is rounded."""
        self.errors.append(abs(value - printed) / printed)
        if quantity is not None:
            self.inside.append(quantity.low - step <= printed <= quantity.high + step)

    def __str__(self) -> str:
        if not self.errors:
            return "no rows"
        ordered = sorted(self.errors)
        p90 = ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))]
        inside = f", inside {sum(self.inside)}/{len(self.inside)}" if self.inside else ""
        return f"median {median(ordered):.2%}, p90 {p90:.2%}, {len(ordered)} rows{inside}"


def request(case: Case, model: Model, options: Mapping[str, Any]) -> Request | Missing:
    """The case as the engine's rules are asked it."""
    machine = profile(case.machine)
    if machine is None:
        return Missing(Cause.UNAVAILABLE, "no profile of its machine")
    device = one_device(machine)
    if isinstance(device, Missing):
        return device
    placement = placed(case.parallel, _depth(model))
    return Request(model, case.version, placement, (device,) * case.parallel.ranks, options, case.server)


def placed(parallel: Parallel, layers: int) -> Placement:
    """The layout on one machine, stages as even as can be."""
    ranks, number = [], 0
    for dp in range(parallel.dp):
        for pp in range(parallel.pp):
            for tp in range(parallel.tp):
                ranks.append(Rank(number, tp, pp, dp, "host", number))
                number += 1
    base, more = divmod(layers, parallel.pp)
    return Placement(parallel, tuple(ranks), tuple(base + (at < more) for at in range(parallel.pp)))


def _depth(model: Model) -> int:
    found = layers(model)
    return len(found.value) if isinstance(found, Known) else 1


def own_weights(case: Case, model: Model) -> tuple[Quantity, ...] | Missing:
    """What every rank holds by the engine's own rules, from the config alone."""
    asked, engine = request(case, model, case.options), engine_named(case.engine)
    if isinstance(asked, Missing) or engine is None:
        return asked if isinstance(asked, Missing) else Missing(Cause.UNAVAILABLE, "no such engine")
    found = engine.weights(asked)
    return found if isinstance(found, Missing) else found.value


@dataclass
class Tally:
    """All figures of one source."""

    scores: dict[str, Score] = field(default_factory=lambda: defaultdict(Score))
    rows: list[str] = field(default_factory=list)
    unjudged: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def judge(case: Case, tally: Tally) -> None:
    """One start, compared with all that its log printed."""
    engine = engine_named(case.engine)
    if case.config is None or engine is None:
        tally.unjudged.append(f"{case.id} {case.engine} {case.version} {case.model}: no config here")
        return
    model = read_model(str(case.config.parent))
    asked = request(case, model, case.options)
    if isinstance(asked, Missing):
        tally.unjudged.append(f"{case.id} {case.model}: {asked.why}")
        return
    weights = _weights(case, model, tally)
    if weights is None:
        return
    _cache(case, engine, asked, weights, tally)
    found = engine.memory(asked, weights)
    if isinstance(found, Missing):
        tally.unjudged.append(f"{case.id} {case.engine} {case.version} {case.model}: {found.why}")
        return
    _figures(case, found.value, tally)
    if case.started and impossible(found.value):
        tally.wrong.append(f"{case.id}: it started, and is called impossible")
    if not case.started:
        words = "impossible" if impossible(found.value) else "fits" if certain(found.value) else "uncertain"
        tally.rows.append(
            f"{case.id} {case.version} {case.model} tp{case.parallel.tp} {case.machine}: {words}"
        )
        if words == "fits":
            tally.wrong.append(f"{case.id}: it was refused for memory, and is said to fit")


def impossible(serving: Serving) -> bool:
    """Whether the start is ruled out, rather than uncertain."""
    refused = serving.refuses and serving.max_context.high < serving.context
    return serving.starts.high < 0 or refused or any(rank.kv_available.high <= 0 for rank in serving.ranks)


def certain(serving: Serving) -> bool:
    """Whether it is sure to start and to hold one sequence."""
    room = all(rank.kv_available.low > 0 for rank in serving.ranks)
    return room and serving.starts.low >= 0 and serving.max_context.low >= serving.context


def _weights(case: Case, model: Model, tally: Tally) -> Sequence[Quantity] | None:
    printed = case.printed.get("weights")
    if case.own_config:
        own = own_weights(case, model)
        if not isinstance(own, Missing):
            first = max(own, key=lambda each: each.value)
            lost = case.printed.get("free memory lost in loading")
            if lost:  # on shared memory other processes and the page cache move it as well
                tally.scores["free memory lost in loading"].add(first.value / GIB, lost, _gib(first), 0.01)
            if printed:
                tally.scores["weights"].add(first.value / GIB, printed, _gib(first), 0.01)
                _note(case, tally, "weights", _gib(first), printed, 0.01)
            return own
        tally.rows.append(f"{case.id}: weights {own.why}; as printed")
    printed = printed or case.printed.get("free memory lost in loading")
    if not printed:
        tally.unjudged.append(f"{case.id} {case.model}: weights neither computed nor printed")
        return None
    return (Quantity.exact(printed * GIB, "printed"),) * case.parallel.ranks


def _cache(case: Case, engine: Engine, asked: Request, weights: Sequence[Quantity], tally: Tally) -> None:
    """The part that is exact: from the printed bytes to the printed tokens and sequences."""
    room = case.printed.get("available")
    if not room:
        return
    fixed = dict(asked.options) | {FIXED.get(case.engine, ""): int(room * GIB)}
    found = engine.memory(replace(asked, options=fixed), weights)
    if isinstance(found, Missing):
        return
    for name, quantity in (("tokens", found.value.kv_tokens), ("concurrency", found.value.max_concurrency)):
        if printed := case.printed.get(name):
            tally.scores[f"{name} of the printed bytes"].add(quantity.value, printed)
            if abs(quantity.value - printed) > 0.002 * printed + 0.01 * (name == "concurrency"):
                tally.rows.append(
                    f"{case.id}: {name} of {room} GiB: {quantity.value:.6g}, printed {printed:.6g}"
                )


def _figures(case: Case, serving: Serving, tally: Tally) -> None:
    worst = min(serving.ranks, key=lambda each: each.kv_available.value)
    pairs = (
        ("available", _gib(worst.kv_available), 0.01),
        ("activation", _gib(worst.activation), 0.01),
        ("outside torch", _gib(worst.non_torch), 0.01),
        ("tokens", serving.kv_tokens, 1),
        ("concurrency", serving.max_concurrency, 0.01),
    )
    for name, quantity, step in pairs:
        if printed := case.printed.get(name):
            tally.scores[name].add(quantity.value, printed, quantity, step)
            _note(case, tally, name, quantity, printed, step)


def _note(case: Case, tally: Tally, name: str, quantity: Quantity, printed: float, step: float) -> None:
    inside = quantity.low - step <= printed <= quantity.high + step
    if not inside or abs(quantity.value - printed) > 0.08 * printed:
        words = "outside" if not inside else "far"
        tally.rows.append(
            f"{case.id} {case.version} {case.model} tp{case.parallel.tp} {case.machine}: {name} {words}:"
            f" {quantity.value:.5g} [{quantity.low:.5g}, {quantity.high:.5g}], printed {printed:.6g}"
        )


def _gib(quantity: Quantity) -> Quantity:
    return quantity.times(1 / GIB)


def main(arguments: Sequence[str]) -> int:
    """Print the table; 1 when a start is called impossible."""
    shared = next((Path(each) for each in arguments if not each.startswith("--")), SHARED)
    tallies: dict[str, Tally] = defaultdict(Tally)
    for case in (*logged(shared), *measured(shared), *refused(shared)):
        for source in (case.source, "pooled"):
            judge(case, tallies[source])
    for case in ours(shared):
        judge(case, tallies[case.source])
    for source, tally in tallies.items():
        print(f"== {source}")
        for name, score in sorted(tally.scores.items()):
            print(f"  {name:32} {score}")
        print(f"  {len(tally.unjudged)} rows not judged, {len(tally.wrong)} wrong verdicts")
    told = [*tallies["pooled"].wrong, *tallies["pooled"].rows, *tallies["ours"].wrong, *tallies["ours"].rows]
    for line in told:
        print(line)
    for line in tallies["pooled"].unjudged:
        print("not judged:", line)
    return 1 if tallies["pooled"].wrong or tallies["ours"].wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
