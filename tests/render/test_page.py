"""A page that is neither wrapped nor coloured is written without rich, and reads the same."""

from __future__ import annotations

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from canserve.render.page import Cell, Look, Page, Row

WIDE = 1 << 20
TEXTS = st.text(st.characters(max_codepoint=127), max_size=30) | st.text(max_size=5)
CELLS = st.builds(Cell, TEXTS, st.integers(0, 20), st.sampled_from(["", "bold", "dim"]))
ROWS = st.builds(
    Row, TEXTS, st.lists(CELLS, max_size=3).map(tuple), st.integers(0, 6), label=TEXTS, cut=st.booleans()
)


@given(st.lists(ROWS, max_size=4))
def test_both_ways_write_the_same(rows: list[Row]) -> None:
    plain, rich = Page(Look()), Page(Look(WIDE))
    plain.add(*rows)
    rich.add(*rows)
    assert plain.render() == rich.render()


def test_rich_is_not_loaded_for_it() -> None:
    code = (
        "import sys; from canserve.render.page import *; page = Page(Look()); page.add(Row('a', label='b'));"
        "assert page.render() == 'ba\\n'; print('rich' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
