"""Records of a preflight, however they were cut, as what its ranks did. Pure: recorded text in, facts out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from canserve.subjects.preflight import Channel, Kernel, Measure, Preflight, Rank
from canserve.units import Bytes

MOST_TEXT = 300
TOLD = ("torch", "python", "cuda", "nccl", "name", "capability", "host")
_VIA = re.compile(
    r"Channel \S+ ?: (\d+)(?:\[\w+\])? -> (\d+)(?:\[\w+\])? (?:\[(?:send|receive)\] )?via ((?:NET/)?\w+)"
)
_CHOSE = re.compile(r"Bootstrap ?: Using ([\w.@-]{1,32}):([0-9A-Fa-f.:]{2,45})<")
_FRAME = re.compile(r'File "(?P<file>[^"]{1,300})", line (?P<line>\d+) in (?P<name>[\w<>]{1,80})')


@dataclass(frozen=True, slots=True)
class Heard:
    """What one machine said: which ranks were to start there, its records, and why there are no more."""

    node: str
    ranks: tuple[int, ...]
    text: str
    trouble: str = ""
    """Why there is no more: its shell's own complaint, or why the look at it ended."""
    lost: bool = False
    """The look ended before the script did: what its ranks did then is not known."""


@dataclass(slots=True)
class _Lines:
    """The records of one rank."""

    step: str = "start"
    state: str = "cut"
    said: str = ""
    stack: tuple[str, ...] = ()
    absent: tuple[int, ...] = ()
    notes: list[str] = field(default_factory=list)
    told: dict[str, str] = field(default_factory=dict)
    address: str | None = None
    interface: str | None = None
    reached: dict[int, str] = field(default_factory=dict)
    ended: float = 0.0


def preflight(heard: Sequence[Heard], inside: tuple[str, ...], backend: str, master: str) -> Preflight:
    """All of them together."""
    world = sum(len(one.ranks) for one in heard)
    ranks: list[Rank] = []
    measures: dict[str, Measure] = {}
    channels: dict[Channel, None] = {}
    kernels: list[Kernel] = []
    for one in heard:
        records = list(_records(one.text))
        for number in one.ranks:
            rank = _rank(one, number, [record for record in records if record.get("rank") == number])
            ranks.append(rank)
            channels.update(dict.fromkeys(_channels(rank.notes)))
        kernels += _kernels(one.node, records)
        for name, measure in _measures(records, world):
            before = measures.get(name)
            measures[name] = _together(before, measure) if before is not None else measure
    done = tuple(measures.values())
    return Preflight(inside, backend, master, tuple(ranks), done, tuple(channels), tuple(kernels))


def complaint(error: str) -> str:
    """The last line of stderr that says what is wrong; container engines end with where to find help."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    telling = [line for line in lines if not re.match(r"(?:Run|See) '", line)]
    return telling[-1][:MOST_TEXT] if telling else ""


def _records(text: str) -> Iterable[dict[str, Any]]:
    for line in text.replace("\0", "").splitlines():
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            yield record


def _rank(one: Heard, number: int, records: Iterable[Mapping[str, Any]]) -> Rank:
    found = _Lines()
    for record in records:
        _take(found, record)
    if found.state == "cut":
        found.said = one.trouble or "nothing more was heard of it"
        found.state = "failed" if found.step == "start" and one.trouble and not one.lost else "cut"
    return Rank(
        number=number,
        node=one.node,
        step=found.step,
        state=found.state,
        said=found.said,
        stack=found.stack,
        absent=found.absent,
        address=found.address,
        interface=found.interface,
        reached=found.reached,
        told=found.told,
        notes=tuple(found.notes),
        ended=found.ended,
    )


def _take(found: _Lines, record: Mapping[str, Any]) -> None:
    """One record of a rank's own steps."""
    if isinstance(note := record.get("note"), str):
        found.notes.append(note[:MOST_TEXT])
        if (chose := _CHOSE.search(note)) is not None:
            found.interface, found.address = chose[1], chose[2]
        return
    step, state = record.get("step"), record.get("state")
    if not isinstance(step, str) or step.startswith("kernel ") or step == "machine" or _over(found):
        return
    if state == "waits":
        found.absent = tuple(n for n in _list(record.get("absent")) if isinstance(n, int))
        return
    found.step, found.state = step[:60], "cut" if state in {"begin", "left out"} else str(state)[:20]
    if state == "done":
        found.told |= {name: str(record[name])[:80] for name in TOLD if name in record}
        if step == "meet":
            found.absent = ()
        if step == "bootstrap":
            found.address, found.interface = (str(record.get(k))[:80] for k in ("address", "interface"))
            found.reached = _reached(record.get("reached"))
        if step != "end":
            found.state = "cut"
    elif state in {"failed", "stalled"}:
        found.ended = _number(record.get("t"))
        found.stack = _stack(_texts(record, "last")) if state == "stalled" else ()
        found.said = _why(record) if state == "failed" else str(record.get("said", ""))[:MOST_TEXT]


def _over(found: _Lines) -> bool:
    return found.state in {"failed", "stalled", "done"}


def _why(record: Mapping[str, Any]) -> str:
    """What the collective library complained of, else the last exception, else the last line that it printed."""
    raised, last = _texts(record, "raised"), [line for line in _texts(record, "last") if line.strip()]
    warned = [line.partition("NCCL WARN ")[2] for line in raised if "NCCL WARN " in line]
    said = str(record.get("said", ""))[:MOST_TEXT]
    return (warned[:1] or raised[-1:] or last[-1:] or [said])[0].strip()


def _texts(record: Mapping[str, Any], name: str) -> list[str]:
    return [str(line)[:MOST_TEXT] for line in _list(record.get(name))]


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _stack(last: Sequence[str]) -> tuple[str, ...]:
    """Names of functions, innermost first, with the file's own name."""
    frames = (match for line in last if (match := _FRAME.search(line)) is not None)
    return tuple(f"{m['name']} ({m['file'].rsplit('/', 1)[-1]}:{m['line']})" for m in frames)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _reached(value: object) -> dict[int, str]:
    pairs = value.items() if isinstance(value, dict) else ()
    return {int(key): str(how)[:40] for key, how in pairs if str(key).isdigit() and len(str(key)) < 6}


def _channels(notes: Iterable[str]) -> Iterable[Channel]:
    for note in notes:
        if (match := _VIA.search(note)) is not None:
            yield Channel(int(match[1]), int(match[2]), match[3])


def _kernels(node: str, records: Iterable[Mapping[str, Any]]) -> list[Kernel]:
    found: dict[str, Kernel] = {}
    for record in records:
        step, state = record.get("step"), record.get("state")
        if not isinstance(step, str) or not step.startswith("kernel "):
            continue
        said = str(record.get("said", ""))[:MOST_TEXT]
        if state == "begin":
            state, said = "cut", "nothing more was heard of it"
        elif state in {"failed", "stalled"}:
            said = _why(record)
        found[step] = Kernel(node, step[7:40], str(state)[:20], said)
    return list(found.values())


def _measures(records: Iterable[Mapping[str, Any]], world: int) -> Iterable[tuple[str, Measure]]:
    for record in records:
        size, each = record.get("bytes"), record.get("each")
        if record.get("state") != "done" or not isinstance(size, int) or not isinstance(each, float):
            continue
        pair = (record.get("from"), record.get("to"))
        match pair:
            case (int() as a, int() as b):
                ends: tuple[int, int] | None = (a, b)
            case _:
                ends = None
        latency = record.get("latency")
        yield (
            str(record.get("step")),
            Measure(
                op=str(record.get("op"))[:20],
                size=Bytes(size),
                seconds=each,
                world=2 if ends else world,
                right=record.get("right") is True,
                pair=ends,
                latency=latency if isinstance(latency, float) else None,
            ),
        )


def _together(one: Measure, other: Measure) -> Measure:
    """The same as two ranks saw it: the one that begins a pair's exchange sees it whole, which takes longer."""
    late = max(one.latency or 0.0, other.latency or 0.0)
    return replace(
        one,
        seconds=max(one.seconds, other.seconds),
        latency=late or None,
        right=one.right and other.right,
    )
