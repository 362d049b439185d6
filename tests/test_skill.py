"""The skill file for coding agents: every command and option in it exists, and what it says of them is so."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
import yaml

from canserve.cli import COMMANDS, root

SKILL = Path(__file__).parent.parent / "skills" / "canserve" / "SKILL.md"
TEXT = SKILL.read_text()
LINES = sorted(
    set(re.findall(r"`(canserve [^`\n]+)`", TEXT) + re.findall(r"^    (canserve .+)$", TEXT, re.MULTILINE))
)
CHANGING = {"up", "down", "adopt", "distribute"}


def options(command: click.Command) -> set[str]:
    return {name for one in command.params for name in (*one.opts, *one.secondary_opts)} | {"--help"}


@pytest.mark.parametrize("line", LINES)
def test_its_commands_exist(line: str) -> None:
    words = line.partition(" -- ")[0].split()
    assert words[1] in COMMANDS
    command = root.get_command(click.Context(root), words[1])
    assert command is not None
    for word in words[2:]:
        if word.startswith("-"):
            assert word in options(command), word


def test_its_options_in_passing_exist() -> None:
    known = {
        name
        for each in COMMANDS
        if (command := root.get_command(click.Context(root), each))
        for name in options(command)
    }
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", TEXT)) - {"--flag"}
    assert named <= known


def test_it_names_all_that_changes_machines() -> None:
    from canserve.mcp.changes import CHANGES

    assert {tool.name for tool in CHANGES} == CHANGING
    section = TEXT.partition("## What changes machines")[2].partition("##")[0]
    for name in CHANGING:
        assert f"`canserve {name}`" in section


def test_it_is_short_and_of_the_usual_form() -> None:
    head = yaml.safe_load(TEXT.split("---")[1])
    assert head["name"] == SKILL.parent.name
    assert 50 < len(head["description"]) <= 1024
    assert len(TEXT.splitlines()) < 80
