"""The table of first releases in README.md is what the index says. ``./dev docs`` writes it anew, this compares.

The command stands in the page itself; docs/first-releases.md holds its whole output, with what was read.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
WHOLE = ROOT / "docs" / "first-releases.md"
WRITE = bool(os.environ.get("CANSERVE_WRITE"))
TABLE = re.compile(r"<!-- (canserve since [^\n]*) -->\n(.*?)<!-- end -->", re.DOTALL)


def output(command: str) -> str:
    words = command.split()
    path = str(Path(sys.executable).with_name(words[0]))
    return subprocess.run([path, *words[1:]], capture_output=True, text=True, check=True).stdout


def test_first_releases_are_what_the_index_says() -> None:
    text = README.read_text()
    found = TABLE.search(text)
    assert found is not None
    command, shown = found.groups()
    said = output(command)
    table = said.split("\n\n", maxsplit=1)[0] + "\n"
    page = f"# First releases\n\nWritten by `./dev docs` from the release index: `{command}`.\n\n{said}"
    if WRITE:
        README.write_text(text.replace(found[0], f"<!-- {command} -->\n{table}<!-- end -->"))
        WHOLE.write_text(page)
        return
    assert shown == table, "run ./dev docs and look at the difference"
    assert WHOLE.read_text() == page, "run ./dev docs and look at the difference"
    assert len(command.split()) - len(["canserve", "since", "--format", "md"]) == 20
