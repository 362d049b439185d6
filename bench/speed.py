"""Predicted against measured tokens a second.

Usage: python bench/speed.py
Decode of one sequence, of 16 and of 128, and prefill, with the interval and the physical bound, from three sources:
the public measurements (the constants of ``rules/speed.toml`` were fitted to their decode of one sequence), our own
(held out), and figures that others published. The first two used random weights: several sequences of a mixture of
experts choose the same few experts then, so such rows are printed and not counted. In the public ones, a prompt
whose size was met for the first time includes compiling kernels.
"""

from __future__ import annotations

import collections
import json
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from cases import SHARED

from canserve.api import read_machines, read_model
from canserve.engines import engine_named
from canserve.facts import Fact, Known
from canserve.layout import Layout, Question, hosts, layouts
from canserve.layout.shape import shape
from canserve.memory.quantity import Quantity
from canserve.memory.request import Request, Serving
from canserve.plan.plan import Speed
from canserve.plan.speed import speed
from canserve.subjects.model import Model
from canserve.subjects.parallel import Device, Parallel

HERE = Path(__file__).parent
FITTED = SHARED / "cases" / "h200_measured.jsonl"
HELD_OUT = HERE / "results" / "2026-11-30-vllm-0.25.1-h200.jsonl"
PUBLISHED = HERE / "speed_published.toml"
TOKENS = 110
"""In a sequence on average, where several were measured at once: 64 of the prompt and half of the answer."""
Results = dict[str, list[tuple[float, bool]]]


def holding(sequences: int) -> Serving:
    """A deployment that runs so many short sequences at once, as the measurements did."""
    nothing, held = Quantity.exact(0, "not asked"), Quantity.exact(sequences, "as measured")
    return Serving((), 0, 0, 16, nothing, 2 * TOKENS, nothing, held, nothing)


def predicted(
    model: Model, machine: str, tp: int, options: Mapping[str, Any], sequences: int = 1
) -> Fact[Speed]:
    """The speed of one model on a machine, or on as many as the layout needs."""
    found = read_machines(machine)
    have = found[0].gpus.value if isinstance(found[0].gpus, Known) else 1
    places = hosts(found * max(1, -(-tp // have)))
    parallel = Parallel(tp, ep=tp if options.get("enable_expert_parallel") else 1)
    layout = layouts(Question(model, places, "vllm", "0.25.1")).at(parallel)
    if not isinstance(layout, Layout):
        raise SystemExit(f"{model.subject} at tensor parallel {tp}: {layout[0].because}")
    machines = {host.name: host.machine for host in places}
    devices = tuple(
        Device(machines[rank.machine], 0, 0, 0, None, False, "not asked") for rank in layout.placement.ranks
    )
    request = Request(model, "0.25.1", layout.placement, devices, options)
    engine = engine_named("vllm")
    assert engine is not None
    return speed(request, holding(sequences), engine.loading(request))


def model_of(row: Mapping[str, Any]) -> Model:
    """A row's model, with what its config was changed to."""
    named = row["model"]
    folders = (SHARED / "models").iterdir()
    found = [path for path in folders if path.name == named or path.name.partition("__")[2] == named]
    if len(found) != 1:
        raise SystemExit(f"{named}: {len(found)} folders of that name")
    if not row.get("config_changes"):
        return read_model(str(found[0]))
    config = json.loads((found[0] / "config.json").read_text()) | row["config_changes"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        path.write_text(json.dumps(config))
        return read_model(str(path))


def line(what: str, said: Quantity, bound: float, measured: float) -> tuple[float, bool]:
    """Print one comparison; its relative error, and whether the interval holds it."""
    error, inside = said.value / measured - 1, said.low <= measured <= said.high
    interval = f"{said.low:8.0f} to {said.high:8.0f}"
    verdict = "in" if inside else "OUT"
    print(f"  {what:12} {measured:9.1f} {said.value:9.1f} {error:+7.0%}  {interval}  {bound:9.0f}  {verdict}")
    return abs(error), inside


def compare(row: Mapping[str, Any], results: Results) -> None:
    """Print one row, and count what can be counted."""
    print(f"{row['name']} ({row['engine']})")
    model, options = model_of(row), row["args"]
    said = predicted(model, "profile:h200", row["tp"], options)
    if not isinstance(said, Known):
        print(f"  not known: {said.why}")
        return
    found = said.value
    results["decode x 1"].append(
        line("decode x 1", found.decode, found.decode_bound, row["decode_bs1_tok_s"])
    )
    known = shape(model)
    experts = not isinstance(known, Known) or known.value.moe
    for batch in (16, 128):
        measured = row.get(f"decode_bs{batch}_tok_s")
        if measured is None or batch > options.get("max_num_seqs", batch):
            continue
        several = predicted(model, "profile:h200", row["tp"], {**options, "max_num_seqs": batch}, batch)
        assert isinstance(several, Known)
        what = f"decode x {batch}"
        one = line(what, several.value.saturated, batch * found.decode_bound, measured)
        if not experts:
            results[what].append(one)
    results["prefill"].append(line("prefill", found.prefill, found.prefill_bound, row["prefill_tok_s"]))


def summary(source: str, results: Results) -> None:
    """The lines of one source."""
    for what, found in results.items():
        share = sum(inside for _, inside in found) / len(found)
        error = median(error for error, _ in found)
        print(f"{source}: {what}: {len(found)} rows, median error {error:.0%}, inside {share:.0%}")


def rows(path: Path) -> Sequence[Mapping[str, Any]]:
    """Rows of a file that started."""
    found = [json.loads(text) for text in path.read_text().splitlines()]
    return [row for row in found if "decode_bs1_tok_s" in row]


def main() -> int:
    """Print the tables."""
    pooled: dict[str, Results] = {}
    print("                measured predicted   error  interval                  bound")
    for source, path in (("public", FITTED), ("ours, held out", HELD_OUT)):
        pooled[source] = collections.defaultdict(list)
        for row in rows(path):
            compare(row, pooled[source])
    others: Results = collections.defaultdict(list)
    for row in tomllib.loads(PUBLISHED.read_text())["row"]:
        model = read_model(str(SHARED / "models" / row["folder"]))
        said = predicted(model, row["machine"], row["tp"], row.get("options", {}))
        kept = "" if row["held_out"] else " (not held out)"
        print(f"{row['folder']} on {row['machine']}, tensor parallel {row['tp']}{kept}")
        if isinstance(said, Known):
            others["decode x 1"].append(
                line("decode x 1", said.value.decode, said.value.decode_bound, row["measured"])
            )
    for source, found in (*pooled.items(), ("published", others)):
        summary(source, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
