"""Deployments as a page: how they are, and each one's story on a time line, as the journal has it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from canserve.api.running import Found
from canserve.api.story import PHASE, Attempt, Story
from canserve.render.html.frame import document, named, said, text
from canserve.render.run_shapes import RunningShape, RunShape
from canserve.render.run_structure import run_output
from canserve.store.journal import Event, Kept

VERDICTS = {"running": "yes", "partly": "no", "ended": "no", "gone": "no", "unknown": "unknown"}
ATTEMPTS = {"up": "yes", "starting": "unknown", "stopping": "unknown", "down": "unknown"}
"""What a state in the journal says of an attempt; all others are failures."""
MOST = 1000
"""Rows of a story that are shown, the last ones."""


@dataclass(frozen=True, slots=True)
class Happened:
    """A row of a story: a step, a phase of a rank, or something in between."""

    begun: datetime
    ended: datetime | None
    kind: str
    """Of its bar: ``step``, ``failed``, ``open``, ``phase``, ``event``."""
    where: str
    what: str
    result: str
    """As HTML."""
    more: str = ""


def runs_page(found: Sequence[Found], stories: Mapping[str, Story]) -> str:
    """The page."""
    words = [standing(one)[0] for one in found]
    worst = min(words, key=("no", "unknown", "yes", "skipped").index) if words else None
    title = f"run {found[0].run}" if len(found) == 1 else f"{len(found)} deployments"
    return document(f"{worst}: {title}" if worst in VERDICTS.values() else title, _body(found, stories))


def standing(found: Found) -> tuple[str, str]:
    """The kind of verdict, and the word. Nothing is wrong with what was taken away on purpose."""
    if found.word == "gone" and found.entry is not None and found.entry.state == "down":
        return "skipped", "taken away"
    return VERDICTS[found.word], found.word


def _body(found: Sequence[Found], stories: Mapping[str, Story]) -> Iterator[str]:
    if not found:
        yield '<header class="top"><h1>No deployment is open</h1></header>'
    for number, one in enumerate(found):
        yield from _run(run_output(one), one, stories.get(one.run, Story()), "h1" if number == 0 else "h2")


def _run(shape: RunShape, found: Found, it: Story, level: str) -> Iterator[str]:
    verdict, state = standing(found)
    why = found.entry.why if found.entry is not None else ""
    yield f'<header class="top {verdict}"><p class="word {verdict}">{said(verdict, state)}</p>'
    yield f"<{level}>run {text(shape.run)}: {text(shape.model or 'a model that nobody names')}</{level}>"
    if why:
        yield f'<p class="lead">{text(why)}</p>'
    yield f'<p class="soft">{text(shape.build or "")}</p></header>'
    listens = {True: " (something listens there)", False: " (nothing listens there)", None: ""}[shape.listens]
    yield named(
        (
            ("endpoint", f"{shape.endpoint}{listens}" if shape.endpoint else ""),
            ("operator", shape.operator),
            ("in the journal", shape.journal or ""),
            ("holds", ", ".join(shape.claims)),
        )
    )
    yield from _processes(shape)
    yield from _attempts(it.attempts)
    yield from _story(it)


def _processes(shape: RunShape) -> Iterator[str]:
    if not shape.processes and not shape.gone and not shape.troubles:
        return
    yield "<h2>Processes</h2>"
    yield _table("state", "machine", "ranks", "last line")
    for one in shape.processes:
        yield f'<tr><td>{said(*_alive(one))} {text(one.state)}</td><th scope="row">{text(one.machine)}</th>'
        yield f'<td data-h="ranks">{text(one.ranks or "none")}</td><td>{text(one.last_line)}</td></tr>'
    for number in shape.gone:
        yield f'<tr><td>{said("no", "gone")}</td><th scope="row">process {number}</th><td></td><td></td></tr>'
    for trouble in shape.troubles:
        yield f'<tr><td>{said("unknown", "not seen")}</td><th scope="row">{text(trouble.machine)}</th><td></td>'
        yield f"<td>{text(trouble.why)}</td></tr>"
    yield "</tbody></table>"


def _table(*heads: str, kind: str = "stack") -> str:
    cells = "".join(f'<th scope="col">{head}</th>' for head in heads)
    return f'<table class="{kind}"><thead><tr>{cells}</tr></thead><tbody>'


def _alive(one: RunningShape) -> tuple[str, str]:
    match one.alive:
        case None:
            return "unknown", "not seen"
        case True:
            return "yes", "alive"
        case False:
            return "no", "ended"


def _attempts(attempts: Sequence[Attempt]) -> Iterator[str]:
    """What was tried, one after the other."""
    if len(attempts) < 2:
        return
    yield "<h2>What was tried</h2>"
    yield _table("came to", "build", "run", "because")
    for one in attempts:
        entry = one.entry
        yield f"<tr><td>{said(ATTEMPTS.get(entry.state, 'no'), entry.state)}</td>"
        yield f'<th scope="row">{text(str(entry.told.get("build", "")))}</th>'
        yield f'<td data-h="run">{text(entry.run)}</td><td>{text(entry.why)}</td></tr>'
    yield "</tbody></table>"


def _story(it: Story) -> Iterator[str]:
    """Every step, phase and event on one time line."""
    rows = [row for attempt in it.attempts for one in attempt.steps if (row := _of_step(one)) is not None]
    rows += _of_events(it.events)
    rows = sorted(rows, key=lambda row: row.begun)[-MOST:]
    if not rows:
        return
    first = rows[0].begun
    last = max(max(row.begun, row.ended or row.begun) for row in rows)
    length = max((last - first).total_seconds(), 1.0)
    yield "<h2>What happened</h2>"
    yield f'<p class="soft">{first:%Y-%m-%d %H:%M:%S} UTC, {seconds(length)} in all</p>'
    yield _table("at", "where", "what", "result", "when, and how long", kind="stack story")
    for row in rows:
        yield from _row(row, first, length)
    yield "</tbody></table>"


def _of_step(one: Kept) -> Happened | None:
    begun, ended = moment(one.began), moment(one.ended)
    if begun is None:
        return None
    kind = "step"
    match one.status, ended:
        case _, None:
            kind, result = "open", f"{said('unknown', 'open')} nobody knows whether it ended"
        case None, _:
            kind, result = "open", f"{said('unknown', 'open')} the machine gave no answer"
        case 0, _:
            result = said("yes", "done")
        case status, _:
            kind, result = "failed", f"{said('no', 'failed')} exit {status}"
    more = f"$ {text(shlex.join(one.argv), 1 << 14)}\n{text(one.output)}"
    return Happened(begun, ended, kind, one.machine, f"{one.name} ({one.doing})", result, more)


def _of_events(events: Sequence[Event]) -> Iterator[Happened]:
    """A phase lasts until its rank enters the next one."""
    timed = [(one, at) for one in events if (at := moment(one.at)) is not None]
    for number, (one, at) in enumerate(timed):
        if one.what != PHASE:
            yield Happened(at, None, "event", "", one.what, text(one.said))
            continue
        who, _, phase = one.said.partition(": ")
        later = (
            when for other, when in timed[number + 1 :]
            if other.run == one.run and (other.what != PHASE or other.said.startswith(f"{who}: "))
        )  # fmt: skip
        yield Happened(at, next(later, None), "phase", who, phase.rpartition(", after ")[0] or phase, "")


def _row(row: Happened, first: datetime, length: float) -> Iterator[str]:
    begun = (row.begun - first).total_seconds()
    took = None if row.ended is None else max((row.ended - row.begun).total_seconds(), 0.0)
    left = min(begun / length * 100, 99.0)
    width = took if took is not None else length - begun if row.kind == "open" else 0.0
    bar = f'<u style="left:{left:.2f}%;width:{min(width / length * 100, 100 - left):.2f}%"></u>'
    more = f"<details><summary>command</summary><pre>{row.more}</pre></details>" if row.more else ""
    lasted = "" if took is None else f"<span>{seconds(took)}</span>"
    yield f'<tr class="{row.kind}"><td class="at">+{seconds(begun)}</td><td class="where">{text(row.where)}</td>'
    yield f'<th scope="row">{text(row.what)}{more}</th><td>{row.result}</td>'
    yield f'<td class="line"><span class="track" aria-hidden="true">{bar}</span>{lasted}</td></tr>'


def moment(stamp: str | None) -> datetime | None:
    """A time of the journal."""
    if stamp is None:
        return None
    try:
        found = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def seconds(length: float) -> str:
    """``3.2 s``, ``2 min 10 s``."""
    if length < 60:
        return f"{length:.1f} s"
    return f"{int(length // 60)} min {int(length % 60)} s"
