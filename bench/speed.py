"""Predicted against measured tokens a second, per row of the public measurements.

Usage: python bench/speed.py
Decode of one sequence, of sixteen, and prefill, with the interval and the physical bound. The measurements used
random weights: sixteen sequences of a mixture of experts choose the same few experts then, so those rows are
printed and not counted. A prompt whose batch size was met for the first time includes compiling kernels.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from cases import SHARED

from canserve.api import read_machines, read_model
from canserve.facts import Fact, Known
from canserve.layout import Layout, Question, hosts, layouts
from canserve.memory.quantity import Quantity
from canserve.memory.request import Request
from canserve.plan.plan import Speed
from canserve.plan.speed import speed
from canserve.subjects.parallel import Device, Parallel

PUBLISHED = Path(__file__).parent / "speed_published.toml"


def predicted(folder: str, machine: str, tp: int, options: Mapping[str, Any]) -> Fact[Speed]:
    """The speed of one model on a machine, or on as many as the layout needs."""
    model = read_model(str(SHARED / "models" / folder))
    found = read_machines(machine)
    have = found[0].gpus.value if isinstance(found[0].gpus, Known) else 1
    places = hosts(found * max(1, -(-tp // have)))
    layout = layouts(Question(model, places, "vllm", "0.25.1")).at(Parallel(tp))
    if not isinstance(layout, Layout):
        raise SystemExit(f"{folder} at tensor parallel {tp}: {layout[0].because}")
    machines = {host.name: host.machine for host in places}
    devices = tuple(
        Device(machines[rank.machine], 0, 0, 0, None, False, "not asked") for rank in layout.placement.ranks
    )
    return speed(Request(model, "0.25.1", layout.placement, devices, options))


def folder_of(name: str) -> str:
    """The folder whose name ends in the model's."""
    found = [path.name for path in (SHARED / "models").iterdir() if path.name.partition("__")[2] == name]
    if len(found) != 1:
        raise SystemExit(f"{name}: {len(found)} folders of that name")
    return found[0]


def line(what: str, said: Quantity, bound: float, measured: float) -> tuple[float, bool]:
    """Print one comparison; its relative error, and whether the interval holds it."""
    error, inside = said.value / measured - 1, said.low <= measured <= said.high
    interval = f"{said.low:8.0f} to {said.high:8.0f}"
    print(
        f"  {what:12} {measured:9.1f} {said.value:9.1f} {error:+7.0%}  {interval}  {bound:9.0f}  {'in' if inside else 'OUT'}"
    )
    return abs(error), inside


def summary(what: str, results: Sequence[tuple[float, bool]]) -> None:
    """The line of one kind of measurement."""
    share = sum(inside for _, inside in results) / len(results)
    print(
        f"{what}: {len(results)} rows, median error {median(error for error, _ in results):.0%}, inside {share:.0%}"
    )


def main() -> int:
    """Print the tables."""
    one, prompts = list[tuple[float, bool]](), list[tuple[float, bool]]()
    print("                measured predicted   error  interval                  bound")
    for text in (SHARED / "cases" / "h200_measured.jsonl").read_text().splitlines():
        row = json.loads(text)
        print(f"{row['name']} ({row['engine']})")
        said = predicted(folder_of(row["model"]), "profile:h200", row["tp"], row["args"])
        if not isinstance(said, Known):
            print(f"  not known: {said.why}")
            continue
        found = said.value
        one.append(line("decode x 1", found.decode, found.decode_bound, row["decode_bs1_tok_s"]))
        if "decode_bs16_tok_s" in row:
            several = predicted(
                folder_of(row["model"]), "profile:h200", row["tp"], {**row["args"], "max_num_seqs": 16}
            )
            assert isinstance(several, Known)
            line("decode x 16", several.value.saturated, 16 * found.decode_bound, row["decode_bs16_tok_s"])
        prompts.append(line("prefill", found.prefill, found.prefill_bound, row["prefill_tok_s"]))
    others = list[tuple[float, bool]]()
    for row in tomllib.loads(PUBLISHED.read_text())["row"]:
        said = predicted(row["folder"], row["machine"], row["tp"], row.get("options", {}))
        print(
            f"{row['folder']} on {row['machine']} x {row['tp']}{'' if row['held_out'] else ' (not held out)'}"
        )
        if isinstance(said, Known):
            others.append(line("decode x 1", said.value.decode, said.value.decode_bound, row["measured"]))
    summary("decode of one sequence", one)
    summary("prefill", prompts)
    summary("decode of one sequence, as others published it", others)
    return 0


if __name__ == "__main__":
    sys.exit(main())
