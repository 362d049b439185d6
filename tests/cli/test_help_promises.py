"""Every command's help says what it needs, what it changes and what its exit codes mean; completion; colour."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from command import COMMAND, environment, run

from canserve.cli import COMMANDS, root
from canserve.cli.promises import PROMISES
from terminal import on_terminal


def every() -> Iterator[tuple[str, ...]]:
    context = click.Context(root)
    for name in COMMANDS:
        yield (name,)
        command = root.get_command(context, name)
        if isinstance(command, click.Group):
            yield from ((name, below) for below in command.commands)


@pytest.mark.parametrize("words", list(every()), ids=" ".join)
def test_help_states_preconditions_side_effects_and_exit_codes(words: tuple[str, ...]) -> None:
    done = run(*words, "--help")
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    for start in ("Needs: ", "Changes: ", "Exit codes: "):
        assert text.count(start) == 1, f"{start} in {done.stdout}"
    codes = text.partition("Exit codes: ")[2]
    assert re.match(r"\d ", codes)
    assert len(done.stdout.splitlines()[2].strip()) > 10, "a first line that says what it answers"


def test_no_command_is_forgotten() -> None:
    assert set(PROMISES) == set(COMMANDS)
    done = run("--help")
    for name in COMMANDS:
        assert re.search(rf"^  {name} +\S", done.stdout, re.MULTILINE), name
    assert "Exit codes: 0 all yes" in done.stdout


def test_promises_are_loaded_with_help_only() -> None:
    code = (
        "import sys; sys.argv = ['canserve', 'checks']\nfrom canserve.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print('canserve.cli.promises' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "False"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_name_the_variable_that_answers(shell: str) -> None:
    done = run("completion", shell)
    assert done.returncode == 0
    assert f"_CANSERVE_COMPLETE={shell}_complete" in done.stdout


@pytest.mark.parametrize(
    ("typed", "expected"),
    [("canserve ca", "candidates"), ("canserve check --o", "--offline"), ("canserve completion z", "zsh")],
)
def test_bash_gets_what_can_follow(typed: str, expected: str) -> None:
    words = {
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(typed.split()) - 1),
        "_CANSERVE_COMPLETE": "bash_complete",
    }
    done = subprocess.run(COMMAND, capture_output=True, text=True, env=environment(**words), check=False)
    assert f"plain,{expected}" in done.stdout.splitlines()


@pytest.mark.parametrize("words", [("checks",), ("machine", "profile:h200"), ("doctor",)], ids=" ".join)
def test_no_color_is_respected(words: tuple[str, ...]) -> None:
    _, plain, _ = on_terminal([*COMMAND, *words], environment={"NO_COLOR": "1", "TERM": "xterm-256color"})
    assert "\x1b[" not in plain
    _, coloured, _ = on_terminal([*COMMAND, *words], environment={"TERM": "xterm-256color"})
    assert "\x1b[" in coloured
