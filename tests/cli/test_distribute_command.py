"""``canserve distribute``: what may be asked, from plans as well, and what it gives back on this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import run


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--to", "local"), "Nothing to distribute"),
        (("--image", "me/x:1"), "Missing option '--to'"),
        (("--image", "oci:folder", "--to", "local"), "load it first"),
        (("--image", "container://x", "--to", "local"), "is no image"),
        (("--image", "a b", "--to", "local"), "a b"),
        (("--image", "me/x:1", "--to", "nowhere.toml"), "nowhere.toml"),
    ],
)
def test_what_cannot_be_meant_is_refused(words: tuple[str, ...], said: str) -> None:
    done = run("distribute", *words)
    assert done.returncode == 2, done.stdout
    assert said in done.stderr


def test_a_file_that_is_no_plan_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{}")
    done = run("distribute", str(tmp_path / "plan.json"), "--to", "local")
    assert done.returncode == 2
    assert "not a plan" in done.stderr


def test_weights_that_are_here_need_no_copy(tmp_path: Path) -> None:
    done = run("distribute", "--weights", str(tmp_path), "--to", "local", "--format", "json", "--quiet")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["carried"] == []


def test_a_machine_that_is_not_reached_is_a_problem(tmp_path: Path) -> None:
    words = ("--weights", str(tmp_path), "--to", "no-such-machine.invalid", "--quiet", "--format", "json")
    done = run("distribute", *words)
    assert done.returncode == 1
    (one,) = json.loads(done.stdout)["carried"]
    assert one["there"] is False
    assert "no-such-machine.invalid" in one["problem"]
