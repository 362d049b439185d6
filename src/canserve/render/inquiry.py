"""A verification while it is made: the lines that are drawn on a terminal, and those that are written elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from canserve.checks.served.words import number
from canserve.render.escape import visible
from canserve.render.progress import fitted
from canserve.subjects.inquiry import Inquiry, Pace, Part, RankNow

_COLOURS = {"yes": 32, "no": 31, "unknown": 33}
_WORD, _NAME = 9, 15
_GIB = 1 << 30


def inquiry_lines(it: Inquiry, width: int, most: int, colour: bool) -> list[str]:
    """A line for each part and rank; where there is no room, parts that wait and those that are well go first."""
    parts = list(it.parts)
    ranks = _ranks(it.ranks, most // 3)
    room = max(most - len(ranks), 1)
    for expendable in (_waits, _well):
        while len(parts) > room and (one := next(filter(expendable, parts), None)) is not None:
            parts.remove(one)
    lines = [_part(part, width, colour) for part in parts[-room:]]
    return [*lines, *(fitted(line, width) for line in ranks)]


def doing(it: Inquiry) -> str:
    """One line of what is being asked now, and the pace."""
    part = it.current
    return ", ".join(("verifying" if part is None else part.name, *_pace(it.pace)))


def told(part: Part) -> str:
    """One plain line of a part that has ended: ``known answers: yes (answer-correct)``."""
    if part.found == "yes":
        return f"{part.name}: yes ({part.said})"
    return f"{part.name}: {part.found}, {part.said}" if part.found else f"{part.name}: {part.said}"


def rank_told(rank: RankNow) -> str:
    """One plain line of a process that does not run."""
    return f"{rank.who} on {rank.machine}: {rank.state}"


def _waits(part: Part) -> bool:
    return not part.begun


def _well(part: Part) -> bool:
    return part.seconds is not None and part.found in ("yes", None)


def _pace(pace: Pace) -> Iterator[str]:
    if pace.at_once > 1:
        yield f"{pace.at_once} open"
    if pace.tokens is not None:
        yield f"{number(pace.tokens)} tok/s"
    if pace.first is not None:
        yield f"first token {number(pace.first * 1000)} ms"


def _part(part: Part, width: int, colour: bool) -> str:
    if part.seconds is None:
        word = "..." if part.begun else ""
        counted = f"{part.done} of {part.total}" if part.begun and part.total else ""
        said = f"{counted:>7}  {part.detail}"
    else:
        word, said = part.found or "-", f"{part.seconds:>5.1f} s  {part.said}"
    rest = fitted(f"{part.name:<{_NAME}} {visible(said)}", width - _WORD - 2).rstrip()
    shown = f"{word:<{_WORD}}"
    if colour and word in _COLOURS:
        shown = f"\x1b[{_COLOURS[word]}m{shown}\x1b[0m"
    return f"  {shown}{rest}"


def _ranks(ranks: Sequence[RankNow], most: int) -> list[str]:
    """Those that do not run first, where not all of them can be shown."""
    shown = list(ranks)
    if len(shown) > most:
        shown = sorted(ranks, key=lambda one: (one.alive is True, one.process))[: max(most - 1, 0)]
    lines = [_rank(one) for one in sorted(shown, key=lambda one: one.process)]
    if most and (rest := len(ranks) - len(shown)):
        alive = sum(one.alive is True for one in ranks if one not in shown)
        lines.append(f"  {rest} more, {alive} of them running")
    return lines


def _rank(one: RankNow) -> str:
    word = {True: "runs", False: "no", None: "unknown"}[one.alive]
    said = [one.phase.partition(": ")[2] if len(one.ranks) == 1 else one.phase] if one.alive else [one.state]
    if one.processors is not None:
        said.append(f"{one.processors:.1f} processors")
    if one.accelerator:
        said.append(f"{one.accelerator / _GIB:.1f} GiB on accelerators")
    text = visible(", ".join(filter(None, said)))
    return f"  {word:<{_WORD}}{one.who:<{_NAME}} {visible(one.machine):<12} {text}"
