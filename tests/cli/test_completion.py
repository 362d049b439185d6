"""Completion as shells ask for it: bash itself on a terminal of its own, zsh and fish where they are, and the values."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from command import COMMAND, environment, run

from canserve.checks import REFERENCE
from canserve.checks.served import CHECKS as SERVED
from canserve.engines import NAMES
from canserve.plan.export.forms import FORMS
from canserve.rules.machines import names
from canserve.store.journal import journal

BREAKS = " \t\n\"'><=;|&(:"
TOLD = {"model": "tiny", "machines": [], "held": []}


def offered(line: str, breaks: str = BREAKS, **variables: str) -> list[str]:
    """What bash is told about a line that is typed so far: kinds and values."""
    done = run(COMP_LINE=line, COMP_WORDBREAKS=breaks, _CANSERVE_COMPLETE="bash_complete", **variables)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.split()


def plain(line: str, breaks: str = BREAKS, **variables: str) -> list[str]:
    return [
        value.removeprefix("plain,")
        for value in offered(line, breaks, **variables)
        if value.startswith("plain,")
    ]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with journal(tmp_path) as kept:
        for run_, state in (("11aa22bb", "down"), ("33cc44dd", "up")):
            kept.begin(run_, "2026-11-30T20:00:00Z", TOLD)
            kept.settle(run_, state)
    return tmp_path


def test_names_of_checks() -> None:
    served = {check.name for check in SERVED}
    assert set(plain("canserve check m --explain ")) == {check.name for check in REFERENCE} - served | {"all"}
    assert set(plain("canserve verify u --explain ")) == served | {"all"}
    assert plain("canserve machine m --explain mtu") == ["mtu-agrees"]


def test_machines_by_their_profiles() -> None:
    assert plain("canserve check m --on profile:dgx") == [n for n in names() if n.startswith("dgx")], (
        "bash has the rest"
    )
    assert plain("canserve check m --on profile:dgx", breaks=" ") == [
        f"profile:{n}" for n in names() if n.startswith("dgx")
    ]
    assert plain("canserve check m --on=profile:dgx-sp") == ["dgx-spark"]
    assert plain("canserve plan m --on 2xprofile:dgx-sp") == ["dgx-spark"]
    assert plain("canserve plan m --on lo") == ["local"]
    assert plain("canserve up m --on ") == ["local"], "nothing is started on a profile"
    assert "file,clu" in offered("canserve plan m --on clu")


def test_builds_engines_and_forms() -> None:
    assert {value.partition("==")[0] for value in plain("canserve check m --build ")} == set(NAMES)
    assert "0.17.1" in plain("canserve check m --build vllm==0.17")
    assert plain("canserve check m --build 'vllm==0.17.1", breaks=" ") == ["vllm==0.17.1"]
    assert plain("canserve matrix --engine sg") == ["sglang"]
    assert "Qwen3NextForCausalLM" in plain("canserve since GptOssForCausalLM Qwen3N")
    assert plain("canserve verify u --model Qwen") == [], "a server's own names are not known"
    assert plain("canserve index update ll") == ["llama.cpp"]
    assert plain("canserve export p --to ") == list(FORMS)
    assert "html" in plain("canserve check m --format ") and plain("canserve check m --format=ht") == ["html"]
    assert "local" not in offered("canserve no-such-command --on ")


def test_runs_of_the_journal(data: Path) -> None:
    here = {"CANSERVE_DATA": str(data)}
    for command in ("status", "logs", "down", "verify", "adopt"):
        assert plain(f"canserve {command} ", **here) == ["33cc44dd"], command
    assert set(plain("canserve history ", **here)) == {"33cc44dd", "11aa22bb"}
    assert plain("canserve diagnose 1", **here) == ["11aa22bb"]


def test_nothing_is_made_and_nothing_is_said_where_there_is_no_journal(tmp_path: Path) -> None:
    assert plain("canserve down ", CANSERVE_DATA=str(tmp_path / "none")) == []
    assert not (tmp_path / "none").exists()
    (tmp_path / "journal.sqlite").write_text("not a database, whatever its name says" * 40)
    assert plain("canserve down ", CANSERVE_DATA=str(tmp_path)) == []


def in_a_terminal(argv: list[str], keys: str, until: str) -> str:
    """What a shell shows, once it is typed so far."""
    reading, writing = pty.openpty()
    path = f"{Path(COMMAND[0]).parent}:{os.environ['PATH']}"
    process = subprocess.Popen(
        argv, stdin=writing, stdout=writing, stderr=writing, start_new_session=True,
        env=environment(PATH=path, TERM="dumb", PS1="> ", COLUMNS="80"),
    )  # fmt: skip
    os.close(writing)
    os.set_blocking(reading, False)
    shown, end, typed = "", time.monotonic() + 60, False
    try:
        while until not in shown and time.monotonic() < end:
            try:
                shown += os.read(reading, 1 << 16).decode("utf-8", "replace")
            except BlockingIOError:
                time.sleep(0.05)
            if not typed and "ready> " in shown:
                typed = bool(os.write(reading, keys.encode()))
    finally:
        process.kill()
        process.wait()
        os.close(reading)
    return shown


def script(shell: str, path: Path) -> Path:
    path.write_text(run("completion", shell).stdout)
    return path


def test_bash_itself(tmp_path: Path) -> None:
    rc = script("bash", tmp_path / "rc")
    rc.write_text(f"{rc.read_text()}\nbind 'set bell-style none'\nPS1='ready> '\n")
    argv = ["bash", "--noprofile", "--rcfile", str(rc), "-i"]
    assert "profile:dgx-spark " in in_a_terminal(
        argv, "canserve check m --on profile:dgx-sp\t", "profile:dgx-spark "
    )
    assert "architecture-registered " in in_a_terminal(
        argv, "canserve check m --explain architecture-reg\t", "architecture-registered "
    )
    assert "vllm==0.17.1 " in in_a_terminal(argv, "canserve check m -b vllm==0.17.1\t", "vllm==0.17.1 ")


@pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh")
def test_zsh_itself(tmp_path: Path) -> None:
    script("zsh", tmp_path / "_canserve")
    (tmp_path / ".zshrc").write_text(
        f"autoload -Uz compinit; compinit -u -D; source {tmp_path}/_canserve; unsetopt beep; PS1='ready> '\n"
    )
    argv = ["env", f"ZDOTDIR={tmp_path}", "zsh", "-i"]
    assert "profile:dgx-spark" in in_a_terminal(
        argv, "canserve check m --on profile:dgx-sp\t", "profile:dgx-spark"
    )


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish")
def test_fish_itself(tmp_path: Path) -> None:
    path = script("fish", tmp_path / "canserve.fish")
    words = f"source {path}; complete -C 'canserve check m --on profile:dgx-sp'"
    path_ = f"{Path(COMMAND[0]).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["fish", "--no-config", "-c", words],
        capture_output=True, text=True, check=False, env=environment(PATH=path_, HOME=str(tmp_path)), timeout=60,
    )  # fmt: skip
    assert done.stdout.split() == ["profile:dgx-spark"], done.stderr
