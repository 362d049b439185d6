"""``up``, ``status``, ``logs``, ``down`` on this machine: real processes, from an environment with an engine that is none."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from canserve.store.journal import journal
from loopback import free_port
from made_plans import environment, saved, server, told
from operator_here import COMMAND, Here, within


def shared_memory(log: str) -> Path:
    """The segment that the engine says it holds."""
    return Path("/dev/shm") / log.rpartition(" memory ")[2].strip()


def test_up_status_logs_down(here: Here) -> None:
    plan = here.plan(SERVE_VARIABLE="a b")
    up, code = here.asked("up", plan)
    assert (up["state"], code, up["endpoint"]) == ("up", 0, f"local:{here.port}"), up
    assert [each["ranks"] for each in up["processes"]] == ["0"]
    run = up["run"]
    status, code = here.asked("status", run)
    (one,) = status["runs"]
    assert (one["state"], one["listens"], one["claims"], code) == (
        "running",
        True,
        ["local: accelerator-0"],
        0,
    )
    (process,) = one["processes"]
    assert process["alive"] is True and process["ranks"] == "0"
    logs = here.run("logs", run).stdout
    assert "local rank 0 | token none variable a b" in logs and f"ready on {here.port}" in logs
    memory = shared_memory(logs)
    assert memory.exists() and any(one.startswith("process ") for one in here.left())
    down, code = here.asked("down", run)
    assert (down["state"], code, down["left"]) == ("down", 0, [])
    assert here.left() == set() and not memory.exists()
    assert here.asked("down", run)[0]["state"] == "nothing"
    audit = (here.state / f"audit-{os.getuid()}.log").read_text().splitlines()
    assert len(audit) == 2 and f" up {run}: " in audit[0] and f" down {run}" in audit[1]
    with journal(here.folder / "ana") as kept:
        steps = kept.steps(run)
        assert {step.status for step in steps} == {0} and all(step.ended for step in steps)
        entry = kept.run(run)
        assert entry is not None and entry.state == "down"


def test_a_dry_run_prints_what_is_run_and_runs_nothing(here: Here) -> None:
    plan = here.plan()
    dry, code = here.asked("up", plan, "--dry-run")
    assert (dry["state"], code) == ("dry-run", 0) and not here.state.exists()
    up, _ = here.asked("up", plan)

    def lines(it: dict[str, Any]) -> list[str]:
        moment = next(step["argv"][3] for step in it["steps"] if step["name"] == "claim").split()[-1]
        return [step["line"].replace(it["run"], "RUN").replace(moment, "NOW") for step in it["steps"]]

    assert lines(dry) == lines(up)
    with journal(here.folder / "ana") as kept:
        assert [list(step.argv) for step in kept.steps(up["run"])] == [step["argv"] for step in up["steps"]]
    dry_down, _ = here.asked("down", up["run"], "--dry-run")
    assert here.asked("status", up["run"])[1] == 0
    here.asked("down", up["run"])
    with journal(here.folder / "ana") as kept:
        taken = [list(step.argv) for step in kept.steps(up["run"]) if step.doing == "down"]
    # The audit's line says when.
    assert [argv[:3] for argv in taken] == [step["argv"][:3] for step in dry_down["steps"]]


def test_what_a_dry_run_prints_can_be_pasted(here: Here) -> None:
    script = here.run("up", here.plan(), "--dry-run").stdout
    run = script.split()[2].rstrip(":")
    done = subprocess.run(["sh"], input=script, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert within(20, lambda: socket.socket().connect_ex(("127.0.0.1", here.port)) == 0)
    found, _ = here.asked("status", "--on", "local", who="ben")
    (one,) = (each for each in found["runs"] if each["run"] == run)
    assert one["state"] == "running" and one["journal"] is None
    assert here.asked("down", run, "--on", "local", who="ben")[1] == 0
    assert here.left() == set()


def test_a_second_operator_is_told_who_was_first(here: Here) -> None:
    first, _ = here.asked("up", here.plan())
    second, code = here.asked("up", here.plan(), who="ben")
    assert (second["state"], code, second["undone"]) == ("failed", 1, True)
    assert second["because"].startswith(f"local: accelerator-0 is held: {first['run']} process ana@")
    assert "\n" not in second["because"] and first["run"] in second["hint"]
    assert here.asked("status", first["run"])[1] == 0, "the first is as it was"
    (seen,) = here.asked("status", "--on", "local", who="ben")[0]["runs"]
    assert seen["operator"].startswith("ana@") and seen["state"] == "running"
    assert here.asked("down", first["run"], "--on", "local", who="ben")[1] == 0
    assert here.left() == set()
    assert here.asked("status", first["run"])[0]["runs"][0]["state"] == "gone"
    assert here.asked("down", first["run"])[0]["state"] == "nothing"


def test_a_port_that_is_taken(here: Here) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", here.port))
        taken.listen()
        up, code = here.asked("up", here.plan())
    assert (up["state"], code) == ("failed", 1)
    assert up["because"] == f"local: port {here.port} is taken: something listens there"
    assert here.left() == set()


def test_an_engine_that_ends_is_seen_and_taken_away(here: Here) -> None:
    up, code = here.asked("up", here.plan("--fail"))
    assert (up["state"], code, up["undone"]) == ("failed", 1, True)
    assert up["because"] == "local: process 0 exited with 7: ValueError: no such model"
    assert here.left() == set()


def test_what_failed_can_be_left_standing(here: Here) -> None:
    up, code = here.asked("up", here.plan("--fail"), "--keep")
    assert (code, up["undone"]) == (1, False)
    assert "ValueError: no such model" in here.run("logs", up["run"]).stdout
    status, code = here.asked("status", up["run"])
    assert status["runs"][0]["state"] == "ended" and code == 1
    assert here.run("down").returncode == 0  # it is the one that is open
    assert here.left() == set()


def test_a_process_that_is_killed_is_said_to_be(here: Here) -> None:
    up, _ = here.asked("up", here.plan())
    pid = int((here.state / up["run"] / "0" / "pid").read_text())
    os.killpg(pid, signal.SIGKILL)
    status, code = here.asked("status", up["run"])
    (process,) = status["runs"][0]["processes"]
    assert (process["alive"], process["state"], code) == (False, "killed", 1)
    assert here.asked("down", up["run"])[1] == 0
    assert here.left() == set()


def test_a_program_that_is_not_there(here: Here) -> None:
    up, code = here.asked("up", here.plan(programs="another"))
    assert code == 1 and up["because"] == f"local: no program {here.folder}/venv/bin/vllm"
    assert here.left() == set()


@pytest.mark.slow
@pytest.mark.parametrize("moment", [0.0, 0.15, 0.3, 0.45, 0.6, 0.8, 1.2])
def test_ctrl_c_at_any_moment_leaves_nothing(here: Here, moment: float) -> None:
    starting = here.begin(here.plan("--never", programs="vllm"), "--wait", "60")
    began = within(20, lambda: starting.poll() is not None or here.state.exists())
    assert began
    time.sleep(moment)
    starting.send_signal(signal.SIGINT)
    out, error = starting.communicate(timeout=60)
    assert starting.returncode in (130, 0), (out, error)
    if starting.returncode == 0:  # it was up before
        assert out.startswith("up ") and here.run("down").returncode == 0
    else:  # else it had not begun
        assert "taken away again" in out or not out, (out, error)
    assert here.left() == set()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_after_the_work_changes_no_outcome(number: int) -> None:
    program = (
        "import os, subprocess, sys\n"
        "from canserve.cli.interrupts import interrupts\n"
        "with interrupts(()):\n"
        '    subprocess.Popen(["sh", "-c", f"while kill -{sys.argv[1]} {os.getpid()}; do :; done"], stdout=subprocess.DEVNULL)\n'
        "print('over'); sys.exit(3)"
    )
    words = [sys.executable, "-c", program, str(int(number))]
    done = subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (3, "over\n"), done


@pytest.mark.parametrize(("pause", "heard"), [(0.0, "first\n"), (1.0, "first\nsecond\n")])
def test_what_is_sent_to_a_process_and_to_its_group_is_one_signal(pause: float, heard: str) -> None:
    program = (
        "import os, signal, sys, time\n"
        "from canserve.cli.interrupts import interrupts\n"
        "with interrupts((lambda: print('first'), lambda: print('second'))):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(float(sys.argv[1]))\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
    )
    words = [sys.executable, "-c", program, str(pause)]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, heard), done


def test_logs_that_are_followed_end_with_who_follows(here: Here) -> None:
    up, _ = here.asked("up", here.plan())
    log = here.state / up["run"] / "0" / "log"
    following = subprocess.Popen(
        [COMMAND, "logs", "-f", "--state", str(here.state)], env=here.environment(), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert following.stdout is not None
    lines = iter(following.stdout.readline, "")
    assert any("ready on" in line for line in lines)
    with log.open("a") as writing:
        writing.write("a later line\n")
    assert next(lines) == "local rank 0 | a later line\n"

    def readers() -> list[Path]:
        found = []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = entry.read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0] == b"tail" and str(log).encode() in words:
                found.append(entry)
        return found

    assert readers()
    following.send_signal(signal.SIGINT)
    following.communicate(timeout=20)
    assert within(5, lambda: not readers())
    here.asked("down", up["run"])
    assert here.left() == set()


def test_logs_of_all_ranks_are_followed_as_their_lines_come(here: Here) -> None:
    other = free_port()
    processes = [server("local", here.port), replace(server("local", other), ranks=(1,))]
    plan = saved(here.folder / "plan.json", processes, build=environment(here.folder, "vllm"))
    up, code = here.asked("up", str(plan))
    assert (up["state"], code) == ("up", 0), up
    logs = [here.state / up["run"] / number / "log" for number in ("0", "1")]
    following = subprocess.Popen(
        [COMMAND, "logs", "-f", "--state", str(here.state)], env=here.environment(), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert following.stdout is not None
    lines = iter(following.stdout.readline, "")
    ready = {next(line for line in lines if "ready on" in line).split(" | ")[0] for _ in logs}
    assert ready == {"local rank 0", "local rank 1"}
    for number, said in ((1, "first"), (0, "second"), (1, "third"), (1, "fourth"), (0, "fifth")):
        with logs[number].open("a") as writing:
            writing.write(f"{said}\n")
        assert next(lines) == f"local rank {number} | {said}\n"
    following.send_signal(signal.SIGINT)
    following.communicate(timeout=20)
    whole = here.run("logs", up["run"], "-n", "2").stdout.splitlines()
    assert whole == [
        "local rank 0 | second", "local rank 0 | fifth", "local rank 1 | third", "local rank 1 | fourth",
    ]  # fmt: skip
    assert here.asked("down", up["run"])[1] == 0 and here.left() == set()


def test_kill_9_of_the_operator_and_down_from_another_process(here: Here) -> None:
    starting = here.begin(here.plan(), "--wait", "60")
    assert within(20, lambda: any(one.startswith("process ") for one in here.left()))
    os.killpg(starting.pid, signal.SIGKILL)
    starting.communicate()
    status, _ = here.asked("status")
    (one,) = status["runs"]
    assert one["journal"] == "starting" and one["processes"]
    assert here.run("down").returncode == 0
    assert here.left() == set()


def test_secrets_come_from_the_machine_and_are_written_nowhere(here: Here) -> None:
    secret = "s3cr3t-of-the-test"
    file = here.folder / "keys"
    file.write_text(f"# keys\nSERVE_TOKEN={secret} with spaces\n")
    done = here.run("up", here.plan(), "--secret-file", str(file), "--format", "json")
    up = told(done.stdout)
    assert up["state"] == "up", up
    assert f"token {secret} with spaces" in here.run("logs", up["run"]).stdout  # the engine itself said it
    assert secret not in done.stdout
    assert secret.encode() not in (here.folder / "ana" / "journal.sqlite").read_bytes()
    for path in here.state.rglob("*"):
        if path.is_file() and path.name != "log":
            assert secret not in path.read_text()
    assert (here.state / up["run"] / "0" / "log").stat().st_mode & 0o077 == 0
    here.asked("down", up["run"])
    refused = here.run("up", here.plan("--api-key", secret))
    assert refused.returncode == 2 and secret not in refused.stderr and "--secret" in refused.stderr


def test_a_process_that_hides_its_environment_is_ended_too(here: Here) -> None:
    program = Path(environment(here.folder, "vllm")) / "bin" / "vllm"
    hiding = '#!/bin/sh\nenv -i sleep 100001 &\nexec env -i python3 -c "import time; time.sleep(100001)"\n'
    plan = here.plan()
    program.write_text(hiding)
    up, code = here.asked("up", plan, "--wait", "0")
    assert (up["state"], code) == ("starting", 3)
    session = int((here.state / up["run"] / "0" / "pid").read_text())

    def mine() -> list[int]:
        found = []
        for entry in Path("/proc").glob("[0-9]*/stat"):
            try:
                words = entry.read_text().rpartition(") ")[2].split()
            except OSError:
                continue
            if words[3] == str(session) and words[0] != "Z":
                found.append(int(entry.parent.name))
        return found

    assert within(5, lambda: len(mine()) >= 3)
    assert here.asked("down", up["run"])[1] == 0
    assert mine() == [] and here.left() == set()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("up", "Qwen/Qwen3-8B"), "is no saved plan"),
        (("up", "PLAN", "--in", "vllm==0.17.1"), "says not where the build lies"),
        (("up", "PLAN", "--on", "profile:h200"), "no machine that can be reached"),
        (("up", "PLAN", "--on", "elsewhere"), "no machine that was given is called so"),
        (("up", "PLAN", "--secret", "A=B"), "is no name of a variable"),
        (
            ("up", "PLAN", "--in", "docker-daemon:i:1", "--accelerators", "none", "--mount", "a:b"),
            "is no mount",
        ),
        (("down",), "there is no deployment"),
        (("down", "../etc"), "is no name of a run"),
        (("status", "0123abcd"), "the journal has no run"),
    ],
)
def test_slips_of_the_user(here: Here, words: tuple[str, ...], said: str) -> None:
    plan = here.plan()
    done = here.run(*(plan if word == "PLAN" else word for word in words))
    assert (done.returncode, done.stdout) == (2, ""), done
    assert said in done.stderr and not here.state.exists()
