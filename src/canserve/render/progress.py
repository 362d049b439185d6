"""How far every rank of a start has come: shapes, lines of a report, and the lines that are drawn while it starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from canserve.render.escape import visible
from canserve.render.page import Cell, Row
from canserve.render.progress_shapes import PhaseShape, RankShape
from canserve.subjects.progress import PENDING, WORDS, Outlook, Stage

MOST = 12
"""Ranks that have a line of their own while it starts."""
_LONGEST = 4000


def ranks_output(stages: Sequence[Stage]) -> tuple[RankShape, ...]:
    """Every rank."""
    return tuple(
        RankShape(
            stage.rank, stage.process, stage.machine, stage.phase, stage.words,
            tuple(PhaseShape(phase, round(at, 1)) for phase, at in stage.history if phase != PENDING),
            round(stage.moved, 1), stage.sign, stage.last,
        )
        for stage in stages
    )  # fmt: skip


def phase_rows(ranks: Sequence[RankShape]) -> Iterator[Row]:
    """One row a rank: when it entered which phase."""
    for one in ranks:
        if one.rank is None:
            continue
        steps = (f"{WORDS.get(each.phase, each.phase)} {each.at_s:.0f} s" for each in one.phases)
        yield Row(", ".join(steps), (Cell(f"rank {one.rank}", 12), Cell(one.machine, 12)), indent=2)


def furthest(stages: Iterable[Stage]) -> str:
    """One line of all ranks: ``rank 0: weights 3 of 14; rank 1: ranks joined``."""
    alike: dict[str, list[str]] = {}
    for stage in stages:
        if stage.rank is not None:
            alike.setdefault(stage.words, []).append(str(stage.rank))
    whose = {
        words: f"{len(each)} ranks" if len(each) > 8 else f"rank {','.join(each)}"
        for words, each in alike.items()
    }
    return "; ".join(f"{who}: {words}" for words, who in whose.items())


def live_lines(outlook: Outlook, width: int, most: int = MOST) -> list[str]:
    """One line a rank; where there are many, those that are least far, and the others counted by phase."""
    ranks = [stage for stage in outlook.stages if stage.rank is not None]
    shown, more = ranks, list[str]()
    if len(ranks) > most:
        shown = sorted(ranks, key=lambda stage: (list(WORDS).index(stage.phase), stage.rank or 0))[: most - 1]
        rest = [stage for stage in ranks if stage not in shown]
        counts: dict[str, int] = {}
        for stage in rest:
            counts[stage.words] = counts.get(stage.words, 0) + 1
        more = [f"  {', '.join(f'{count} ranks {words}' for words, count in counts.items())}"]
    lines = [*(_line(stage, outlook.at) for stage in shown), *more]
    return [fitted(visible(line, _LONGEST), width) for line in lines]


def fitted(line: str, width: int) -> str:
    """The line cut so that it takes one row of a terminal; letters may be wider than one column."""
    room = max(width - 1, 20)
    if line.isascii() or len(line) * 2 <= room:
        return line[:room]
    from rich.cells import set_cell_size

    return set_cell_size(line, room).rstrip()


def _line(stage: Stage, at: float) -> str:
    rate = f"  {stage.rate / 1e6:.0f} MB/s" if stage.rate is not None and stage.rate >= 1e6 else ""
    still = f"  still for {at - stage.moved:.0f} s" if at - stage.moved >= 10 else ""
    last = f"  {stage.last}" if stage.last else ""
    return f"  {stage.who:<8} {stage.machine:<12} {stage.words:<22} {at - stage.since:>4.0f} s{rate}{still}{last}"
