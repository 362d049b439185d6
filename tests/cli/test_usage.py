"""The command line as a newcomer meets it: help, mistakes, exit codes, pipes; all by the real command."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from command import COMMAND, run


def test_version_and_help_go_to_stdout() -> None:
    assert run("--version").stdout.startswith("canserve ")
    done = run("--help")
    assert (done.returncode, done.stderr) == (0, "")
    for command in ("check", "build", "model", "machine", "checks", "schema", "cache"):
        assert f"\n  {command} " in done.stdout
        assert run(command, "--help").returncode == 0
    assert "..." not in done.stdout.split("Commands:")[1], "a short help is cut at 80 columns"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["chek"], "Did you mean check, checks or cache?"),
        (["check"], "Missing argument 'MODEL'"),
        (["check", "m", "--biuld", "x"], "--build"),
        (["check", "m", "x==1"], "Did you mean --build x==1?"),
        (
            ["check", "m", "-b", "x", "--tensor-parallel-size", "2"],
            "flags for the engine stand at the end, after --",
        ),
        (["check", "m", "-b", "x", "--with", "torch==2"], "not of the form transformers==VERSION"),
        (
            ["check", "m", "-b", "x", "--explain", "architecture-registred"],
            "Did you mean architecture-registered or",
        ),
        (["check", "m", "-b", "x", "--format", "jsn"], "'json'"),
        (["machine"], "Name one MACHINE"),
        (["since", " "], "NAME is empty"),
    ],
)
def test_a_mistake_is_usage_and_says_what_was_meant(arguments: list[str], said: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_help_is_instant() -> None:
    run("--help", PYTHONDONTWRITEBYTECODE="")  # compiled files are there from now on
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run("--help")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime) < 0.25


def test_heavy_modules_wait_until_they_are_needed() -> None:
    code = "import canserve.cli.check, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"rich", "httpx", "huggingface_hub", "jinja2", "packaging", "canserve.api"} & set(loaded)


def test_a_reader_that_leaves_early_is_no_error() -> None:
    script = f"set -o pipefail; {COMMAND[0]} schema | head -n 1"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_schema_is_the_shipped_one() -> None:
    done = run("schema", "build")
    assert done.returncode == 0
    assert '"title": "Build"' in done.stdout


def test_cache_is_where_it_was_put(tmp_path: Path) -> None:
    (tmp_path / "1" / "range").mkdir(parents=True)
    (tmp_path / "1" / "range" / "ab").write_bytes(b"x" * 2000)
    assert run("cache", CANSERVE_CACHE=str(tmp_path)).stdout == f"{tmp_path}/1\n1 files, 2 kB\n"
    assert run("cache", "--clear", CANSERVE_CACHE=str(tmp_path)).stdout == "removed 1 files, 2 kB\n"
    assert run("cache", CANSERVE_CACHE=str(tmp_path)).stdout == f"{tmp_path}/1\n0 files, 0 B\n"
