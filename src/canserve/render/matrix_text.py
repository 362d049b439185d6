"""The matrix as text and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from canserve.index.matrix import Matrix
from canserve.index.runs import Column, Run
from canserve.render.escape import code, markdown
from canserve.render.page import Cell, Look, Page, Row

_GAP = 2
"""Columns between two columns of a table."""


@dataclass(frozen=True, slots=True)
class Section:
    """How one table is called."""

    title: str
    noun: str
    name: str
    """Heading of the first column."""
    says: str = ""


_SECTIONS = {
    "architectures": Section("Architectures", "architectures", "Architecture"),
    "gguf_architectures": Section(
        "GGUF",
        "GGUF architectures",
        "GGUF architecture",
        "Values of general.architecture in a GGUF file. Engines that leave GGUF files to transformers are not here.",
    ),
    "quantization": Section(
        "Quantization",
        "quantization methods",
        "Method",
        "Names that a checkpoint's config or --quantization may give; from capability 7.5: the least CUDA compute capability "
        "that the method asks for.",
    ),
}


def sections_of(table: Matrix) -> Section:
    """Title and nouns of a table."""
    plain = table.table.replace("_", " ")
    return _SECTIONS.get(table.table) or Section(plain.capitalize(), plain, "Name")


def dated(columns: Sequence[Column]) -> str:
    """``of 2026-11-30``, or from the oldest to the newest date where they differ."""
    dates = sorted({column.built for column in columns})
    return f"of {' to '.join(dict.fromkeys((*dates[:1], *dates[-1:])))}" if dates else "without data"


def spans_of(runs: Sequence[Run], *, current: bool) -> str:
    """``0.8.3, 0.10.1+``: the runs; ``+``: up to the newest indexed release."""
    said = [
        run.first.version if run.count == 1 else f"{run.first.version} to {run.last.version}" for run in runs
    ]
    if current:
        said[-1] = f"{runs[-1].first.version}+"
    return ", ".join(said)


def matrix_text(tables: Sequence[Matrix], look: Look) -> str:
    """A table where it fits the width (or there is none), else the name above what lists it."""
    page = Page(look)
    for table in tables:
        page.blank()
        page.add(*_rows(table, look.width))
        if table.rows and sections_of(table).says:
            page.blank()
            page.add(Row(sections_of(table).says, style="dim"))
    page.blank()
    page.add(Row(_source(tables), style="dim"))
    return page.render()


def _source(tables: Sequence[Matrix]) -> str:
    columns = tables[0].columns if tables else ()
    newest = ", ".join(f"{c.engine} to {c.releases[-1].version}" for c in columns if c.releases)
    said = f"index {dated(columns)}: {newest}; +: up to the newest of these"
    missing = tables[0].not_indexed if tables else ()
    return f"{said}; not in the index: {', '.join(missing)}" if missing else said


def _cells(table: Matrix, name: str) -> list[str]:
    return [_cell(table, name, column.engine) for column in table.columns]


def _cell(table: Matrix, name: str, engine: str) -> str:
    runs = table.rows[name].get(engine, ())
    if not runs:
        return "-"
    said = spans_of(runs, current=table.current(engine, runs))
    least = least_of(table, name, engine)
    return f"{said} ({least})" if least else said


def least_of(table: Matrix, name: str, engine: str) -> str:
    """``from capability 7.5``: the least compute capability of a method; empty: none is set, or none is known."""
    match table.capability(name, engine):
        case None | "none":
            return ""
        case "unread":
            return "minimum unread"
        case text:
            return f"from capability {text}"


def _rows(table: Matrix, width: int | None) -> Iterable[Row]:
    if not table.rows:
        yield Row(f"no {sections_of(table).noun} fit")
        return
    body = [(name, *_cells(table, name)) for name in table.rows]
    head = (sections_of(table).name.lower(), *(column.engine for column in table.columns))
    widths = [max(map(len, texts)) + _GAP for texts in zip(head, *body, strict=True)]
    if width is None or sum(widths) - _GAP <= width:
        for number, line in enumerate((head, *body)):
            style = "dim" if number == 0 else ""
            pairs = zip(line, widths, strict=True)
            yield Row(cells=tuple(Cell(text, wide, style) for text, wide in pairs))
        return
    for name, *texts in body:
        yield Row(label=name)
        said = (f"{c.engine} {t}" for c, t in zip(table.columns, texts, strict=True) if t != "-")
        yield Row("; ".join(said), indent=2)


def matrix_markdown(tables: Sequence[Matrix]) -> str:
    """One Markdown table a table."""
    lines: list[str] = []
    for table in tables:
        head = [sections_of(table).name, *(column.engine for column in table.columns)]
        lines += [f"| {' | '.join(map(markdown, head))} |", "|---" * len(head) + "|"]
        for name in table.rows:
            first = code(name).replace("|", "\\|")
            lines.append(f"| {first} | {' | '.join(markdown(text) for text in _cells(table, name))} |")
        lines.append("")
    lines.append(markdown(_source(tables)))
    return "\n".join(lines) + "\n"
