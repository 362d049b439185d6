"""Deployments as text. Steps are a shell script: each is one line that can be pasted here, and so can all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from canserve.render.escape import visible
from canserve.render.page import Cell, Look, Page, Row
from canserve.render.progress import phase_rows
from canserve.render.run_shapes import CandidateShape, DownShape, RunningShape, RunShape, StepShape, UpShape
from canserve.verdict import Word

_STYLES: dict[str, str] = {"yes": "bold green", "no": "bold red", "unknown": "bold yellow"}
_WORDS: dict[str, Word] = {
    "up": "yes", "running": "yes", "down": "yes", "nothing": "yes", "failed": "no", "ended": "no", "partly": "no",
    "gone": "no", "left": "no", "stalled": "no", "refused": "no", "skipped": "no", "left-over": "unknown", "starting": "unknown", "interrupted": "unknown", "unknown": "unknown",
}  # fmt: skip


def script(heading: str, steps: Sequence[StepShape], notes: Sequence[str] = ()) -> str:
    """Every step as a line of a POSIX shell, under comments that say what it is, and what is to be known of it."""
    return "".join(f"{line}\n" for line in _script(heading, steps, notes))


def _script(heading: str, steps: Sequence[StepShape], notes: Sequence[str]) -> Iterator[str]:
    yield f"# {visible(heading)}"
    yield from (f"# note: {visible(note, 1000)}" for note in notes)
    yield "set -e"
    before: tuple[int, str] | None = None
    for step in steps:
        if before != (step.stage, step.machine):
            before = (step.stage, step.machine)
            yield ""
            yield f"# {step.stage}. {visible(step.machine)}"
        yield _repeated(step)


def _repeated(step: StepShape) -> str:
    """One line, whatever is in it. A step that is repeated is, until its time is over."""
    line = visible(step.line, 1 << 20)
    if not step.patience_s:
        return line
    return (
        f"n=0; until {line}; do n=$((n + 1)); [ $n -lt {step.patience_s * 2:.0f} ] || exit 1; sleep 0.5; done"
    )


def up_text(it: UpShape, look: Look) -> str:
    """What would be done, or has been."""
    if it.state == "dry-run":
        return script(f"run {it.run}: {it.model} with {it.build}", it.steps, it.notes)
    page = Page(look)
    _heading(page, it.state, f"{it.run}: {it.model} with {it.build}")
    if it.because:
        page.add(Row(it.because, (Cell("because", 9),), indent=2))
    if it.hint:
        page.add(Row(it.hint, (Cell("hint", 9),), indent=2))
    page.add(*(Row(note, (Cell("note", 9),), indent=2) for note in it.notes))
    if it.state == "up" and it.endpoint is not None:
        page.add(Row(it.endpoint, (Cell("answers", 9),), indent=2))
    if it.undone:
        done = (
            "what had begun was taken away again, except:"
            if it.left
            else "what had begun was taken away again"
        )
        page.add(Row(done, indent=2))
    page.add(*(Row(f"{one.machine}: {one.step}: {one.why}", indent=4) for one in it.left))
    if it.left:
        page.add(Row(f"canserve down {it.run}", (Cell("hint", 9),), indent=2))
    page.add(*map(_process, it.processes if not it.undone else ()))
    page.add(*(phase_rows(it.ranks) if not it.undone else ()))
    page.add(*(row for one in it.candidates for row in _candidate(one, len(it.candidates) > 1)))
    return page.render()


def _candidate(it: CandidateShape, several: bool) -> Iterator[Row]:
    """One of several plans. Of a single one only what is not said above."""
    if several:
        what = f"{it.build}, {it.layout}" + (f" (run {it.run})" if it.run else "")
        yield Row(what, (Cell(f"{it.number}", 3), Cell(it.state, 12, _STYLES[_WORDS[it.state]])), indent=2)
        if it.because:
            yield Row(it.because, indent=5)
        if it.hint and it.state != "left-over":
            yield Row(it.hint, (Cell("hint", 9),), indent=5)
    indent = 5 if several else 2
    yield from (Row(line, indent=indent) for line in it.seen)
    if it.evidence is not None:
        yield Row(it.evidence, (Cell("kept", 9),), indent=indent)
    yield from (Row(what, (Cell("not free", 9),), indent=indent) for what in it.not_free)


def down_text(it: DownShape, look: Look) -> str:
    """What would be taken away, or has been."""
    if it.state == "dry-run":
        return script(f"run {it.run}: taken away", it.steps)
    page = Page(look)
    where = f" from {', '.join(it.machines)}" if it.machines and it.state == "down" else ""
    _heading(
        page, it.state, f"{it.run}: nothing of it is there" if it.state == "nothing" else f"{it.run}{where}"
    )
    page.add(*(Row(f"{one.machine}: {one.step}: {one.why}", indent=2) for one in it.left))
    if it.left:
        page.add(Row(f"canserve down {it.run}, once that is settled", (Cell("hint", 9),), indent=2))
    return page.render()


def status_text(runs: Sequence[RunShape], look: Look) -> str:
    """Every deployment, its processes below it."""
    page = Page(look)
    for it in runs:
        page.blank()
        what = f": {it.model} with {it.build}" if it.model else ""
        _heading(page, it.state, f"{it.run}{what}")
        if it.operator:
            page.add(Row(it.operator, (Cell("by", 9),), indent=2))
        if it.endpoint is not None:
            answers = {True: ", listening", False: ", nothing listens yet", None: ""}[it.listens]
            page.add(Row(f"{it.endpoint}{answers}", (Cell("API", 9),), indent=2))
        if it.claims:
            page.add(Row(", ".join(it.claims), (Cell("holds", 9),), indent=2))
        page.add(*map(_process, it.processes))
        page.add(*(Row("not there any more", (Cell(f"process {n}", 12),), indent=2) for n in it.gone))
        page.add(*(Row(one.why, (Cell(f"{one.machine}", 12),), indent=2) for one in it.troubles))
    if not runs:
        page.add(Row("no deployment"))
    return page.render()


def _heading(page: Page, state: str, text: str) -> None:
    page.add(Row(cells=(Cell(state, 12, _STYLES[_WORDS[state]]), Cell(text, 0, "bold")), cut=True))


def _process(one: RunningShape) -> Row:
    ranks = f"rank {one.ranks}" if one.ranks else f"process {one.process}"
    last = f": {one.last_line}" if one.last_line else ""
    phases = f" ({'; '.join(one.phases)})" if one.phases else ""
    return Row(f"{one.state}{phases}{last}", (Cell(ranks, 12), Cell(one.machine, 12)), indent=2)
