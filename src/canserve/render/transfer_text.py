"""What was distributed, as text."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from canserve.plan.roads import WORDS
from canserve.render.page import Cell, Look, Page, Row
from canserve.run.transfer import Carried


def transfer_text(found: Sequence[Carried], look: Look, dry: bool) -> str:
    """A block for each thing; a line, and what it stands on, for each machine."""
    page = Page(look)
    width = max((len(one.machine) for one in found), default=0) + 2
    for what in dict.fromkeys(one.what for one in found):
        page.add(Row(what, style="bold"))
        for one in found:
            if one.what == what:
                _machine(page, one, width, dry)
    return page.render()


def _machine(page: Page, one: Carried, width: int, dry: bool) -> None:
    state, style = ("no", "bold red") if one.problem is not None else ("there", "bold green")
    if dry and one.problem is None and one.road != "there":
        state, style = "would", "bold yellow"
    cells = (Cell(one.machine, width), Cell(state, 7, style))
    if one.problem is not None:
        page.add(Row(one.problem, cells, indent=2))
    else:
        way = WORDS[one.road] if one.source is None else f"from {one.source}, {WORDS[one.road]}"
        moved = "" if one.road in {"there", "pull"} or dry else f"; {one.moved} moved{_rate(one)}"
        page.add(Row(f"{way}{moved}", cells, indent=2))
        for label, text in (("", one.note), ("verified: ", one.digest or "")):
            if text:
                page.add(Row(f"{label}{text}", indent=2 + width + 7))
    if dry:
        for machine, argv in one.argv:
            page.add(Row(f"{machine}$ {shlex.join(argv)}", indent=2 + width + 7))


def _rate(one: Carried) -> str:
    return f" in {one.seconds:.1f} s" if one.seconds else ""
