"""The matrix as one HTML page that needs nothing else: no network, no fonts, no other files."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Sequence
from datetime import date

from canserve.index.matrix import Matrix
from canserve.index.runs import Column, Run
from canserve.render.html.frame import asset, head
from canserve.render.html.frame import text as _text
from canserve.render.matrix_text import dated, least_of, sections_of

_FORM = """<form role="search" class="js">
<div class="find">
<label for="q" class="vh">Name</label>
<input type="search" id="q" name="q" placeholder="Search a name (press /)" autocomplete="off" \
autocapitalize="off" spellcheck="false">
<p id="count" role="status"></p>
</div>
<div class="by">
<fieldset><legend class="vh">Listed by</legend>{engines}</fieldset>
<label for="listed" class="vh">Which releases</label>
<select id="listed" name="listed"><option value="">in any release</option>\
<option value="now">in the newest release</option><option value="gone">no longer</option></select>
<label for="order" class="vh">Order</label>
<select id="order" name="order"><option value="name">by name</option>\
<option value="new">newest first</option></select>
</div>
</form>
"""
_BREAK = re.compile(r"(?<=[a-z0-9_])(?=[A-Z])")


def matrix_page(tables: Sequence[Matrix]) -> str:
    """The page. All tables have the same engines."""
    script = asset("matrix.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    columns = tables[0].columns if tables else ()
    engines = "".join(
        f'<label><input type="checkbox" name="engine" value="{at}">{_text(column.engine)}</label>'
        for at, column in enumerate(columns)
    )
    parts = [
        head("Which release serves it? - canserve", asset("matrix.css"), f"sha256-{digest}"),
        "<body>\n<header>\n<h1>Which release serves it?</h1>\n",
        f"<p>{_text(_about(columns))}</p>\n{_links(tables)}</header>\n<main>\n",
        _FORM.format(engines=engines),
        *(part for table in tables for part in _section(table, _span(columns))),
        f"</main>\n<footer>\n{_notes(tables)}</footer>\n",
        f"<script>{script}</script>\n</body>\n</html>\n",
    ]
    return "".join(parts)


def _about(columns: Sequence[Column]) -> str:
    count = sum(len(column.releases) for column in columns)
    start, end = (date.fromordinal(max(day, 1)).strftime("%Y-%m") for day in _span(columns))
    return (
        f"Read from the files of {count:,} releases of {len(columns)} engines, with canserve's index"
        f" {dated(columns)}. A bar shows when the releases that list a name came out, {start} to {end}."
    )


def _links(tables: Sequence[Matrix]) -> str:
    if len(tables) < 2:
        return ""
    links = (f'<a href="#{table.table}">{_text(sections_of(table).title)}</a>' for table in tables)
    return f'<nav aria-label="Tables">{"".join(links)}</nav>\n'


def _notes(tables: Sequence[Matrix]) -> str:
    notes = [
        "An engine may serve a name that it does not list, through its Transformers back end, and may list one "
        "whose config it cannot parse: <code>canserve since NAME</code> answers both, "
        "<code>canserve check MODEL</code> the whole question for one model."
    ]
    for table in tables:
        for engine, runs in table.unread.items():
            said = ", ".join(_from_to(run) for run in runs)
            notes.append(f"{_text(table.table)} of {_text(engine)} could not be read in {_text(said)}.")
    if tables and tables[0].not_indexed:
        notes.append(f"Not in the index: {_text(', '.join(tables[0].not_indexed))}.")
    return "".join(f"<p>{note}</p>\n" for note in notes)


def _from_to(run: Run) -> str:
    return run.first.version if run.count == 1 else f"{run.first.version} to {run.last.version}"


def _section(table: Matrix, span: tuple[int, int]) -> Iterable[str]:
    about = sections_of(table)
    yield f'<section data-noun="{_text(about.noun)}" aria-labelledby="{table.table}">\n'
    yield f'<h2 id="{table.table}">{_text(about.title)}<small>{len(table.rows)}</small></h2>\n'
    if about.says:
        yield f'<p class="say">{_text(about.says)}</p>\n'
    yield f'<p class="none">No {_text(about.noun)} fit.</p>\n<table role="table">\n'
    yield f'<thead role="rowgroup"><tr role="row"><th role="columnheader" scope="col">{_text(about.name)}</th>'
    for column in table.columns:
        newest = column.releases[-1] if column.releases else None
        said = f"{newest.version}, {newest.date}" if newest else "no release"
        yield f'<th role="columnheader" scope="col">{_text(column.engine)}<small>{_text(said)}</small></th>'
    yield '</tr></thead>\n<tbody role="rowgroup">\n'
    for name, row in table.rows.items():
        first = min(runs[0].first.date for runs in row.values())
        ever = [str(at) for at, column in enumerate(table.columns) if column.engine in row]
        now = [at for at in ever if _current(table, int(at), row[table.columns[int(at)].engine])]
        yield f'<tr role="row" data-d="{_text(first)}" data-e="{" ".join(ever)}" data-n="{" ".join(now)}">'
        yield f'<th role="rowheader" scope="row">{_name(name)}</th>'
        for at in range(len(table.columns)):
            yield _cell(table, at, name, span)
        yield "</tr>\n"
    yield "</tbody></table>\n</section>\n"


def _current(table: Matrix, at: int, runs: Sequence[Run]) -> bool:
    return table.current(table.columns[at].engine, runs)


def _cell(table: Matrix, at: int, name: str, span: tuple[int, int]) -> str:
    engine = table.columns[at].engine
    runs = table.rows[name].get(engine, ())
    if not runs:
        return '<td role="cell"></td>'
    current = _current(table, at, runs)
    said = [_from_to(run) for run in runs]
    if current:
        said[-1] = f"since <b>{_text(runs[-1].first.version)}</b>"
        said[:-1] = [_text(text) for text in said[:-1]]
    else:
        said = [f"<b>{_text(text)}</b>" for text in said]
    bars = "".join(_bar(run, span, current and run is runs[-1]) for run in runs)
    gone = "" if current else ' class="x"'
    least = least_of(table, name, engine)
    more = f"<em>{_text(least)}</em>" if least else ""
    return (
        f'<td role="cell" data-e="{_text(engine)}"{gone}><span>{", ".join(said)}</span>'
        f'<small>{_text(runs[0].first.date)}</small>{more}<i aria-hidden="true">{bars}</i></td>'
    )


def _bar(run: Run, span: tuple[int, int], current: bool) -> str:
    start, end = span
    first = _day(run.first.date) or start
    last = end if current else (_day(run.last.date) or first)
    scale = 100 / max(end - start, 1)
    left = min(max(first - start, 0) * scale, 99)
    width = max(last - max(first, start), 0) * scale
    return f'<u style="left:{left:.1f}%;width:{width:.1f}%"></u>'


def _span(columns: Sequence[Column]) -> tuple[int, int]:
    """First and last day that bars show, the same for all engines, so that they can be compared.

    They begin with the second engine that there was: one that is years older than all others would leave them
    no room. What is older is drawn at the edge.
    """
    days = [[day for release in column.releases if (day := _day(release.date))] for column in columns]
    starts = sorted(min(found) for found in days if found)
    if not starts:
        return 0, 1
    return starts[min(1, len(starts) - 1)], max(max(found) for found in days if found)


def _day(text: str) -> int | None:
    try:
        return date.fromisoformat(text).toordinal()
    except ValueError:
        return None


def _name(name: str) -> str:
    """A name that may be broken before its capitals, where a line is too short for it."""
    return _BREAK.sub("<wbr>", _text(name)) if name.isidentifier() else _text(name)
