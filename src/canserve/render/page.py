"""A page of terminal text: columns, hanging indents and colour, or plain long lines when piped."""

from __future__ import annotations

from dataclasses import dataclass, field
from io import StringIO
from typing import TYPE_CHECKING

from canserve.render.escape import visible

if TYPE_CHECKING:  # loaded only where text is wrapped or coloured: most of what it costs to print a page
    from rich.console import Console
    from rich.text import Text

_UNLIMITED = 1 << 20
_LEAST_TEXT = 24
"""Columns that wrapped text needs at least beside what stands before it."""

STYLES = {"yes": "bold green", "no": "bold red", "unknown": "bold yellow"}


@dataclass(frozen=True, slots=True)
class Look:
    """How text output should look."""

    width: int | None = None
    """Columns of the terminal; None: a pipe or file, where every row stays on one line."""
    colour: bool = False
    explain: frozenset[str] = frozenset()
    """Checks whose evidence is shown; ``all`` shows that of every check."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A piece of text in a column."""

    text: str
    width: int = 0
    """The column's width; longer text pushes what follows."""
    style: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """Cells in columns, then text that wraps below itself."""

    text: str = ""
    cells: tuple[Cell, ...] = ()
    indent: int = 0
    style: str = ""
    label: str = ""
    """Bold beginning of the text; wraps with it."""
    cut: bool = False
    """Cut the text at the width instead of wrapping it."""
    pieces: tuple[tuple[str, str], ...] = ()
    """Text and style, side by side before the text, without gaps: a bar."""


@dataclass
class Page:
    """Rows in, one string out. Everything that enters is escaped here."""

    look: Look
    rows: list[Row] = field(default_factory=list)

    def add(self, *rows: Row) -> None:
        """Append rows."""
        self.rows.extend(rows)

    def blank(self) -> None:
        """An empty line, unless the page is empty or ends with one."""
        if self.rows and self.rows[-1] != Row():
            self.rows.append(Row())

    def render(self) -> str:
        """The page as text that ends with a newline; ANSI colours only where the look asks for them."""
        plain = [_plain(row) for row in self.rows] if not self.look.width and not self.look.colour else [None]
        if None not in plain:
            return "".join(f"{line}\n" for line in plain)
        from rich.console import Console

        out = StringIO()
        console = Console(
            file=out,
            width=self.look.width or _UNLIMITED,
            color_system="standard" if self.look.colour else None,
            force_terminal=self.look.colour,
            no_color=not self.look.colour,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )
        for row in self.rows:
            for line in _lines(row, console):
                line.rstrip()
                console.print(line, soft_wrap=True)
        return out.getvalue()


def _plain(row: Row) -> str | None:
    """The row on one line without colour; None: a letter may be wider than one column, which rich knows."""
    text = " " * row.indent
    for cell in row.cells:
        said = visible(cell.text)
        text += said + " " * max(cell.width - len(said), 1)
    text += visible(row.label) + "".join(visible(piece) for piece, _ in row.pieces) + visible(row.text)
    return text.rstrip() if text.isascii() else None


def _lines(row: Row, console: Console) -> list[Text]:
    from rich.text import Text

    lead = Text(" " * row.indent)
    for cell in row.cells:
        piece = Text(visible(cell.text), cell.style)
        piece.pad_right(max(cell.width - piece.cell_len, 1))
        lead.append_text(piece)
    drawn = ((visible(text), style) for text, style in row.pieces)
    body = Text.assemble((visible(row.label), "bold"), *drawn, (visible(row.text), row.style))
    room = console.width - lead.cell_len
    if row.cut:
        body.truncate(max(room, 1), overflow="ellipsis")
        return [lead + body]
    if room >= min(_LEAST_TEXT, body.cell_len):
        first, hang = lead, lead.cell_len
    else:  # what stands before the text is too long: the text goes below it
        hang = min(row.indent + 4, max(console.width - _LEAST_TEXT, 0))
        first = Text(" " * hang)
    wrapped = body.wrap(console, max(console.width - hang, 1)) if body else [Text()]
    lines = [(first if number == 0 else Text(" " * hang)) + line for number, line in enumerate(wrapped)]
    return lines if first is lead else [lead, *lines]
