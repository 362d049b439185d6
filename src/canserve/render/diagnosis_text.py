"""A diagnosis as text and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from canserve.render.escape import code, markdown
from canserve.render.page import Cell, Look, Page, Row
from canserve.subjects.diagnosis import Diagnosis, Said, Standing, State

_LABEL = 12
_SHOWN = 8
_LONGEST = 400
_STYLE: dict[State, str] = {
    "failed": "bold red",
    "stalled": "bold red",
    "starting": "bold yellow",
    "stopped": "bold yellow",
    "unknown": "bold yellow",
    "serving": "bold green",
}


def diagnosis_text(found: Diagnosis, look: Look) -> str:
    """State and kind first, then the cause, what to do, where each rank stands, and what only followed."""
    page = Page(look)
    page.add(Row(headline(found), style=_STYLE[found.state]))
    for label, text in _rows(found):
        page.add(Row(text, (Cell(label, _LABEL),)))
    if found.standings:
        page.blank()
        page.add(Row("where each process stands", style="bold"))
        page.add(*(Row(stands(each), indent=2) for each in found.standings[:_SHOWN]))
        page.add(*_more(len(found.standings) - _SHOWN))
    for title, lines in (("only a consequence", found.consequences), ("may matter too", found.also)):
        if lines:
            page.blank()
            page.add(Row(title, style="bold"))
            page.add(*(Row(where(each) + "  " + each.text[:_LONGEST], indent=2) for each in lines[:_SHOWN]))
            page.add(*_more(len(lines) - _SHOWN))
    for problem in found.unread[:_SHOWN]:
        page.add(Row(f"not read: {problem}", style="dim"))
    return page.render()


def _more(count: int) -> tuple[Row, ...]:
    return (Row(f"and {count} more", indent=2, style="dim"),) if count > 0 else ()


def headline(found: Diagnosis) -> str:
    """State, kind and who it is about, in one line."""
    who = " ".join(part for part in (found.engine, found.engine_version) if part) or "engine unknown"
    kind = f": {found.kind}" if found.kind else ""
    name = f" ({found.name})" if found.name else ""
    at = f", phase {found.phase}" if found.phase else ""
    return f"{found.state}{kind}{name} - {who}{at}"


def _rows(found: Diagnosis) -> Sequence[tuple[str, str]]:
    rows = [("because", found.because)]
    if found.cause is not None:
        rows.append(("cause", f"{where(found.cause)}  {found.cause.text[:_LONGEST]}"))
    if found.fix:
        rows.append(("fix", found.fix))
    rows.extend(("look at", text) for text in found.next_look)
    if found.source:
        rows.append(("known from", found.source))
    return rows


def where(line: Said) -> str:
    """File and line, and who said it."""
    who = f" ({line.process})" if line.process else ""
    return f"{line.file}:{line.line}{who}"


def stands(each: Standing) -> str:
    """One process: its rank, how far it came, where its stack stands, its last line."""
    rank = f" rank {each.rank}" if each.rank is not None else ""
    phase = f": {each.phase}" if each.phase else ""
    place = f": {each.place}" if each.place else ""
    last = f"; last: {each.last.text[:_LONGEST]}" if each.last is not None else ""
    return f"{each.file} {each.process or 'main'}{rank}{phase}{place}{last}"


def diagnosis_markdown(found: Diagnosis) -> str:
    """The same as a Markdown page."""
    out = [f"# {markdown(headline(found))}", ""]
    out += [f"- **{label}**: {markdown(text)}" for label, text in _rows(found)]
    if found.standings:
        out += ["", "## Where each process stands", ""]
        out += [f"- {markdown(stands(each))}" for each in found.standings]
    for title, lines in (("Only a consequence", found.consequences), ("May matter too", found.also)):
        if lines:
            out += ["", f"## {title}", ""]
            out += [f"- {markdown(where(each))}: {code(each.text[:_LONGEST])}" for each in lines]
    out += [f"- not read: {markdown(problem)}" for problem in found.unread]
    return "\n".join(out) + "\n"
