"""Shell scripts: read by shells, liked by shellcheck, and really run with an engine that is none."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from canserve.commands.serving import VARIABLE
from canserve.plan.export.exported import Exported
from canserve.plan.export.forms import written
from canserve.plan.steps.starting import starting
from canserve.subjects.deployment import Folder, Site
from canserve.subjects.launch import Process
from exported_cases import CASES, HOSTILE, exported
from loopback import free_port
from made_plans import environment


def scripts(it: Exported) -> Iterator[str]:
    yield from written(it, "shell").files.values()


@pytest.mark.parametrize("name", CASES)
def test_shells_read_it(name: str) -> None:
    for text in scripts(CASES[name]):
        for shell in ("sh", "bash"):
            subprocess.run([shell, "-n"], input=text, text=True, check=True, timeout=20)
        if shutil.which("shellcheck") is None:
            continue  # the other shells have read it
        # SC2016: steps hold scripts of their own, in single quotes on purpose.
        done = subprocess.run(
            ["shellcheck", "--shell", "sh", "--exclude", "SC2016", "-"], input=text, text=True, check=False,
            capture_output=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", CASES)
def test_each_step_stands_in_it_word_by_word(name: str) -> None:
    one = CASES[name].deployment
    whole = "".join(scripts(CASES[name]))
    for step in starting(one):
        assert shlex.join(step.argv) in whole


def recorder(folder: Path) -> None:
    """An engine that writes down how it was started, listens, and stays."""
    program = folder / "venv" / "bin" / "vllm"
    program.write_text(
        "#!/usr/bin/env python3\n"
        "import json, os, socket, sys, time\n"
        f"json.dump([sys.argv, dict(os.environ)], open({str(folder / 'started')!r}, 'w'))\n"
        "s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
        "s.bind(('127.0.0.1', int(sys.argv[sys.argv.index('--port') + 1]))); s.listen()\n"
        "time.sleep(100000)\n"
    )


def made(folder: Path) -> Exported:
    """One host that serves from an environment, with words that have to be quoted."""
    argv = ("vllm", "serve", "/models/tiny", "--port", str(free_port()), *HOSTILE)
    process = Process("local", (0,), argv, {f"V{n}": word for n, word in enumerate(HOSTILE)})
    place = Folder(environment(folder, "vllm"))
    recorder(folder)
    it = exported(place, (Site("local", (0,)),), process, build=place.path, model="/models/tiny")
    return replace(it, state=str(folder / "state"))


def listens(port: int) -> bool:
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", port)) == 0


def variables_of(found: dict[str, str]) -> dict[str, str]:
    """Those that a deployment sets, not the login's."""
    names = {f"V{n}" for n in range(len(HOSTILE))} | {VARIABLE}
    return {name: value for name, value in found.items() if name in names}


def test_the_script_starts_what_up_starts_and_takes_it_away(tmp_path: Path) -> None:
    it = made(tmp_path)
    (text,) = scripts(it)
    script = tmp_path / "serve.sh"
    script.write_text(text)
    port = int(it.start.processes[0].argv[4])
    seen: list[tuple[list[str], dict[str, str]]] = []
    for start in (["sh", str(script), "start"], None):
        if start is None:  # the steps themselves, as `up` runs them
            for step in starting(it.deployment):
                subprocess.run(step.argv, check=True, timeout=60, stdin=subprocess.DEVNULL)
        else:
            subprocess.run(start, check=True, timeout=60, stdin=subprocess.DEVNULL)
        end = time.monotonic() + 30
        while not ((tmp_path / "started").exists() and listens(port)) and time.monotonic() < end:
            time.sleep(0.05)
        words, variables = json.loads((tmp_path / "started").read_text())
        seen.append((words, variables_of(variables)))
        (tmp_path / "started").unlink()
        subprocess.run(["sh", str(script), "stop"], check=True, timeout=60, stdin=subprocess.DEVNULL)
        assert not listens(port)
        assert sorted(path.name for path in Path(it.state).iterdir()) == [f"audit-{os.getuid()}.log"]
    assert seen[0] == seen[1]
    assert seen[0][0][1:] == list(it.start.processes[0].argv[1:])
    assert seen[0][1][VARIABLE] == f"{it.run}." and seen[0][1]["V0"] == HOSTILE[0]


def test_what_fails_says_so_and_how_to_take_it_away(tmp_path: Path) -> None:
    it = made(tmp_path)
    (text,) = scripts(it)
    (tmp_path / "serve.sh").write_text(text)
    (tmp_path / "venv" / "bin" / "vllm").unlink()
    done = subprocess.run(
        ["sh", "serve.sh", "start"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-2:] == [
        f"serve.sh: no program {tmp_path}/venv/bin/vllm",
        "hint: sh serve.sh stop takes away what was started",
    ]
    subprocess.run(["sh", "serve.sh", "stop"], cwd=tmp_path, check=True, timeout=60)
    assert subprocess.run(["sh", "serve.sh"], cwd=tmp_path, capture_output=True, check=False).returncode == 2
