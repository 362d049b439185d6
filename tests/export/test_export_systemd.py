"""Units: systemd itself reads them, and their words are those of ``up``, in a container or from an environment."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_export_shell import listens, made

from canserve.commands import serving
from canserve.commands.contained import surroundings
from canserve.engines import ray
from canserve.plan.export.exported import Exported
from canserve.plan.export.forms import written
from canserve.subjects.deployment import Folder
from exported_cases import CASES, HOSTILE


def units(it: Exported) -> Iterator[tuple[str, str]]:
    yield from written(it, "systemd").files.items()


def values(text: str, key: str) -> list[str]:
    return [line.partition("=")[2] for line in text.splitlines() if line.startswith(f"{key}=")]


def words(line: str, dollar: bool = True) -> list[str]:
    """As systemd.syntax(7) and systemd.service(5) say: quotes, escapes, specifiers, dollars."""
    found = []
    for quoted, bare in re.findall(r'"((?:[^"\\]|\\.)*)"|(\S+)', line):
        word = re.sub(
            r"\\(x[0-9a-f]{2}|.)",
            lambda at: chr(int(at[1][1:], 16)) if at[1][0] == "x" and len(at[1]) == 3 else at[1],
            quoted,
        )
        word = (word if quoted or not bare else bare).replace("%%", "%")
        assert "%" not in (quoted or bare).replace("%%", "")
        if dollar:
            assert "$" not in word.replace("$$", "")
            word = word.replace("$$", "$")
        found.append(word)
    return found


@pytest.mark.parametrize("name", CASES)
def test_the_words_are_those_of_up(name: str) -> None:
    it = CASES[name]
    one = it.deployment
    for path, text in units(it):
        number = int(re.fullmatch(r".*-(\d+)\.service", path)[1])  # type: ignore[index]
        (start,) = values(text, "ExecStart")
        if isinstance(it.where, Folder):
            argv = ray.kept(one.processes[number].argv)
            assert words(start) == [f"{it.where.path}/bin/{argv[0]}", *argv[1:]]
            told = dict(
                each.split("=", 1)
                for line in values(text, "Environment")
                for each in words(line, dollar=False)
            )
            assert told.pop("PATH").startswith(f"{it.where.path}/bin:/usr/local/sbin:")
            assert told.pop(serving.VARIABLE) == f"{it.run}."
            assert told == surroundings(one, number)
        else:
            argv = serving.start(one, number)
            assert argv[1:5] == ("run", "--detach", "--pull", "never")
            assert words(start) == [argv[0], "run", "--rm", *argv[3:]]
        assert values(text, "PassEnvironment") == list(it.given.secrets)


def test_a_server_over_ray_comes_after_it_and_waits() -> None:
    found = {path.rpartition("-")[2]: text for path, text in units(CASES["ray"])}
    assert re.findall(r"canserve-\w+-0\.service", "".join(values(found["2.service"], "Requires")))
    waits = values(found["2.service"], "ExecStartPre")[-1]
    assert 'ray status --address 10.0.0.1:6379 | grep -q "/2\\.0 GPU"' in words(waits)[2]
    assert values(found["0.service"], "Requires") == ["docker.service"]


def test_systemd_reads_every_unit(tmp_path: Path) -> None:
    """Programs that are not here are stood in for; everything else is as exported."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd is not installed: ./dev test does that")
    programs = tmp_path / "venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("vllm", "ray", "docker", "podman"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    place = tmp_path / "units"
    place.mkdir()
    names = []
    for case in CASES.values():
        for path, exported in units(case):
            name = path.rpartition("/")[2]
            text = exported.replace("/srv/venv/bin/", f"{programs}/")
            text = re.sub(r"^(Exec\w+=-?)(docker|podman) ", rf"\1{programs}/\2 ", text, flags=re.MULTILINE)
            (place / name).write_text(text)
            names.append(str(place / name))
    (place / "docker.service").write_text("[Service]\nExecStart=/bin/true\n")
    done = subprocess.run(
        [analyze, "verify", "--man=no", *names],
        capture_output=True, text=True, check=False, timeout=120, env={**os.environ, "SYSTEMD_UNIT_PATH": f"{place}:"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    broken = Path(names[0])
    broken.write_text(broken.read_text().replace("Restart=on-failure", "Restart=perhaps"))
    done = subprocess.run(
        [analyze, "verify", "--man=no", str(broken)], capture_output=True, text=True, check=False, timeout=120
    )
    assert "perhaps" in done.stderr


def test_a_unit_really_starts_what_up_starts(tmp_path: Path) -> None:
    """Nothing here is systemd's: its words and variables are put into a process, and that says what it was given."""
    it = made(tmp_path)
    ((_, text),) = units(it)
    argv = words(values(text, "ExecStart")[0])
    told = dict(
        each.split("=", 1) for line in values(text, "Environment") for each in words(line, dollar=False)
    )
    port = int(it.start.processes[0].argv[4])
    started = subprocess.Popen(argv, env=told, start_new_session=True)
    try:
        end = time.monotonic() + 30
        while not listens(port) and time.monotonic() < end:
            time.sleep(0.05)
        found, variables = json.loads((tmp_path / "started").read_text())
        assert found[1:] == list(it.start.processes[0].argv[1:])
        assert [variables[f"V{n}"] for n in range(len(HOSTILE))] == list(HOSTILE)
    finally:
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()
