"""``canserve export``: files, notes, exit codes; and what was exported, started again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from canserve.api.exporting import export
from canserve.api.wished import UpWishes
from canserve.render.export_structure import export_text
from canserve.subjects.launch import Process
from made_plans import environment, saved, server

COMMAND = str(Path(sys.executable).with_name("canserve"))
SERVE = ("vllm", "serve", "/models/tiny", "--port", "8000")


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *words], capture_output=True, text=True, check=False, timeout=120)


def plan(folder: Path, build: str = "docker-daemon:engine/serve:1", host: str = "local") -> str:
    return str(saved(folder / "plan.json", [Process(host, (0,), SERVE)], build=build))


def steps(*words: str) -> list[list[str]]:
    """Of a dry run, without the run's name and the moment."""
    done = run("up", *words, "--dry-run", "--format", "json", "--quiet")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    return [
        [word.replace(told["run"], "RUN") for word in step["argv"]]
        for step in told["steps"]
        if step["name"] == "start"
    ]


def test_a_single_file_is_printed_and_notes_go_to_stderr(tmp_path: Path) -> None:
    done = run("export", plan(tmp_path), "--to", "compose", "--accelerators", "nvidia")
    assert done.returncode == 0, done.stderr
    assert "\n    image: engine/serve:1\n" in done.stdout
    assert done.stderr.startswith("note: accelerators are not claimed")
    quiet = run("export", plan(tmp_path), "--to", "compose", "--accelerators", "nvidia", "--quiet")
    assert (quiet.stdout, quiet.stderr) == (done.stdout, "")


def test_what_is_piped_on_is_exact_and_a_terminal_sees_no_control(tmp_path: Path) -> None:
    argv = (*SERVE, "--text", "a\tb\x1b[31mred")
    it = str(saved(tmp_path / "plan.json", [Process("local", (0,), argv)], build="/srv/venv"))
    done = run("export", it, "--to", "shell", "--quiet")
    assert "'a\tb\x1b[31mred'" in done.stdout
    made = export(it, "shell", UpWishes())
    (text,) = made.files.files.values()
    assert done.stdout == text == export_text(made, (), terminal=False)
    shown = export_text(made, (), terminal=True)
    assert "\x1b" not in shown and "a\\tb\\x1b[31mred" in shown


def test_files_are_written_and_named(tmp_path: Path) -> None:
    words = (
        "export",
        plan(tmp_path),
        "--to",
        "systemd",
        "--accelerators",
        "nvidia",
        "--out",
        str(tmp_path / "d"),
    )
    done = run(*words)
    (path,) = done.stdout.splitlines()
    assert Path(path).is_file() and Path(path).parent == tmp_path / "d" / "local"
    assert run(*words).returncode == 0  # the same again
    Path(path).write_text("mine")
    again = run(*words)
    assert again.returncode == 2 and "is there already" in again.stderr and Path(path).read_text() == "mine"


def test_json_holds_files_and_the_runs_name(tmp_path: Path) -> None:
    done = run(
        "export", plan(tmp_path), "--to", "leaderworkerset", "--accelerators", "amd", "--format", "json"
    )
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["form"] == "leaderworkerset" and told["written"] == []
    (file,) = told["files"]
    assert told["run"] in file["text"] and "amd.com/gpu" in file["text"]


def test_profiles_are_enough_where_the_cluster_chooses_machines(tmp_path: Path) -> None:
    it = plan(tmp_path, host="profile:dgx-spark")
    assert run("export", it, "--to", "leaderworkerset", "--quiet").returncode == 0
    assert run("export", it, "--to", "sparkrun", "--quiet").returncode == 0


def test_what_a_form_cannot_say_is_refused_with_a_way_out(tmp_path: Path) -> None:
    done = run("export", plan(tmp_path), "--to", "kuberay", "--accelerators", "nvidia")
    assert done.returncode == 2
    assert "this plan is not" in done.stderr and "hint: export to leaderworkerset" in done.stderr
    folder = run("export", plan(tmp_path, build="/srv/venv"), "--to", "compose")
    assert folder.returncode == 2 and "hint: name an image with --in" in folder.stderr
    secret = str(
        saved(tmp_path / "s.json", [server("local", 8000, "--api-key", "s3cr3t")], build="/srv/venv")
    )
    refused = run("export", secret, "--to", "shell")
    assert refused.returncode == 2 and "s3cr3t" not in refused.stderr + refused.stdout


def test_what_was_exported_is_started_as_the_plan_is(tmp_path: Path) -> None:
    it = plan(tmp_path, build=environment(tmp_path, "vllm"))
    state = ("--state", str(tmp_path / "state"))
    for form in ("shell", "systemd"):
        out = tmp_path / form
        done = run("export", it, "--to", form, "--env", "A=b c", "--out", str(out), *state)
        assert done.returncode == 0, done.stderr
        (path,) = done.stdout.splitlines()
        assert steps(path) == steps(it, "--env", "A=b c", *state)
        text = Path(path).read_text()
        Path(path).write_text(text.replace("/models/tiny --port 8000", "/models/tiny --port 8001"))
        edited = run("up", path, "--dry-run")
        assert edited.returncode == 2 and "was edited since canserve exported it" in edited.stderr
