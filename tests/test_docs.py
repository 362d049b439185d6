"""What the papers show is what the tool prints. ``./dev docs`` writes it anew, this compares.

In README.md and docs/ every ``console`` block is one command and what it shows on an 80-column terminal: all of it, or
its beginning where the block ends with a line ``...``. Every ``python`` block runs, every link leads somewhere.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from canserve.checks import REFERENCE as CHECKS
from canserve.cli.completing import NAMES_FILE
from terminal import on_terminal

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = (README, *sorted((ROOT / "docs").glob("*.md")))
REFERENCE = ROOT / "docs" / "checks.md"
WRITE = bool(os.environ.get("CANSERVE_WRITE"))
BLOCK = re.compile(r"```console\n\$ (canserve (?:[^\n]*\\\n)*[^\n]*)\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
CUT = "...\n"
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)


def shown(command: str) -> str:
    words = command.replace("\\\n", " ").split()
    _, stdout, stderr = on_terminal(
        [str(Path(sys.executable).with_name(words[0])), *words[1:]], environment={"NO_COLOR": "1"}
    )
    assert "canserve failed" not in stderr, stderr
    return stdout


def beginning(real: str, block: str) -> str:
    """As much of what a command shows as the page does."""
    if not block.endswith(f"\n{CUT}"):
        return real
    lines = real.splitlines(keepends=True)
    count = block.count("\n") - 1
    assert count < len(lines), "nothing is left out any more: take the last line away"
    return "".join([*lines[:count], CUT])


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.parametrize(
    ("page", "command"),
    [(page, match[1]) for page in PAGES for match in BLOCK.finditer(page.read_text())],
    ids=lambda value: value.name if isinstance(value, Path) else value,
)
def test_pages_show_real_output(page: Path, command: str) -> None:
    text = page.read_text()
    block = next(match for match in BLOCK.finditer(text) if match[1] == command)
    real = beginning(shown(command), block[2])
    if WRITE:
        page.write_text(text.replace(block[0], f"```console\n$ {command}\n{real}```"))
        return
    assert block[2] == real, "run ./dev docs and look at the difference"


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.parametrize("code", PYTHON.findall(README.read_text()))
def test_readme_code_runs(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name
)
def test_every_link_leads_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for link in LINK.findall(text):
        target, _, anchor = link.partition("#")
        where = page if not target else page.parent / target
        assert target.startswith("https:") or where.is_file(), f"{page.name}: {link}"
        if anchor:
            names = {re.sub(r"[^\w\- ]", "", line.lstrip("# ")).lower().replace(" ", "-")
                     for line in where.read_text().splitlines() if line.startswith("#")}  # fmt: skip
            assert anchor in names, f"{page.name}: {link}"


def test_the_readme_is_read_in_a_few_minutes() -> None:
    assert len(README.read_text().splitlines()) < 350


def test_check_reference_is_the_generated_one() -> None:
    command = [str(Path(sys.executable).with_name("canserve")), "checks", "--format", "md"]
    table = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    page = f"# Checks\n\nWritten by `./dev docs`. A name is a claim and never changes its meaning.\n\n{table}"
    if WRITE:
        REFERENCE.parent.mkdir(exist_ok=True)
        REFERENCE.write_text(page)
    assert REFERENCE.read_text() == page, "run ./dev docs and look at the difference"


def test_the_list_of_names_is_that_of_the_checks() -> None:
    path = ROOT / "src" / "canserve" / "checks" / NAMES_FILE
    lines = "".join(f"{check.name}\t{check.when}\t{check.claim}\n" for check in CHECKS)
    if WRITE:
        path.write_text(lines)
    assert path.read_text() == lines, "run ./dev docs"


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_needs_no_other_host(tmp_path: Path) -> None:
    mkdocs = str(Path(sys.executable).with_name("mkdocs"))
    done = subprocess.run([mkdocs, "build", "--strict", "--site-dir", str(tmp_path)], capture_output=True, text=True, check=False, cwd=ROOT)  # fmt: skip
    assert done.returncode == 0, done.stderr
    for page in PAGES[1:]:
        where = tmp_path / "index.html" if page.stem == "index" else tmp_path / page.stem / "index.html"
        text = where.read_text()
        assert not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=\"https?:", text), page.name
    assert "Qwen3_5MoeForConditionalGeneration" in (tmp_path / "founding" / "index.html").read_text()


def test_readme_names_every_command_and_exit_code() -> None:
    text = README.read_text()
    for command in (
        "check",
        "candidates",
        "plan",
        "since",
        "matrix",
        "build",
        "model",
        "machine",
        "checks",
        "schema",
        "cache",
    ):
        assert f"canserve {command}" in text
