"""Exported scripts and compose files on two hosts with a dockerd each: the containers are those of ``up``."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from canserve.subjects.launch import Process
from lab.hosts import Host
from lab.test_up_in_lab import Operator, ana, ben, clean, launcher, over_ray  # noqa: F401 - fixtures
from lab.two_hosts import Lab

pytestmark = pytest.mark.slow

OURS = ("Entrypoint", "Cmd", "Env", "Image")
HOST = (
    "NetworkMode", "IpcMode", "PidMode", "ShmSize", "Ulimits", "DeviceRequests", "Devices", "CapAdd", "GroupAdd",
)  # fmt: skip


def containers(host: Host, run: str) -> dict[str, Any]:
    """Those of a run by process, as dockerd holds them; names of the run left out."""
    found = {}
    for number in host.docker(
        "ps", "-a", "-q", "--no-trunc", "--filter", f"label=canserve.run={run}"
    ).split():
        (one,) = json.loads(host.docker("inspect", number))
        labels = one["Config"]["Labels"]
        told = {name: one["Config"][name] for name in OURS} | {name: one["HostConfig"][name] for name in HOST}
        told["Env"] = sorted(told["Env"])
        told["Mounts"] = sorted((each["Type"], each["Destination"], each["RW"]) for each in one["Mounts"])
        told["Labels"] = {
            name: value for name, value in labels.items() if name in ("canserve.ranks", "canserve.machine")
        }
        ids = {one["Id"]: "ITSELF"} | dict.fromkeys(
            host.docker("ps", "-a", "-q", "--no-trunc").split(), "ANOTHER"
        )
        text = json.dumps(told, sort_keys=True)
        for other, word in ids.items():
            text = text.replace(other, word)
        found[labels["canserve.process"]] = json.loads(text.replace(run, "RUN").replace("null", "[]"))
    return found


def exported(ana: Operator, processes: tuple[Process, ...], form: str) -> tuple[dict[str, Path], str]:  # noqa: F811
    """Files by machine, and the name of the run."""
    out = ana.folder / form
    done = ana.lab.canserve(
        "export", ana.plan(processes), "--to", form, "--accelerators", "nvidia", "--out", str(out),
        "--on", ana.cluster, "--format", "json", env=ana.env,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert sorted(told["written"]) == sorted(str(path) for path in out.rglob("*") if path.is_file())
    return {Path(path).parent.name: Path(path) for path in told["written"]}, told["run"]


def started_by_up(ana: Operator, processes: tuple[Process, ...]) -> list[dict[str, Any]]:  # noqa: F811
    up, _ = ana.up(processes)
    assert up["state"] == "up", up["because"]
    found = [containers(host, up["run"]) for host in ana.lab.hosts]
    assert ana.ask("down", up["run"])[1] == 0
    return found


def same(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    """Host by host, process by process, and what differs by its name."""
    for mine, theirs in zip(found, wanted, strict=True):
        assert sorted(mine) == sorted(theirs)
        for number, container in theirs.items():
            for name, value in container.items():
                assert mine[number][name] == value, name


def test_scripts_start_the_containers_of_up(ana: Operator, ben: Operator, clean: Lab) -> None:  # noqa: F811
    files, run = exported(ana, over_ray(), "shell")
    pairs = list(zip(clean.hosts, ("head", "second"), strict=True))
    for host, name in pairs:
        host.write("/tmp/serve.sh", files[name].read_text())

    def start(host: Host) -> Any:
        return host.space.run("sh", "/tmp/serve.sh", "start", user="spark", check=False, timeout=150)

    with ThreadPoolExecutor() as pool:  # the head first, which waits until the other has joined
        head = pool.submit(start, clean.a)
        listening = (
            "until grep -qi ':18eb [0-9A-F]*:0000 0A' /proc/net/tcp /proc/net/tcp6; do sleep 0.2; done"
        )
        clean.a.run("timeout", "50", "sh", "-c", listening)
        second = pool.submit(start, clean.b)
        done = [head.result(), second.result()]
    assert [each.returncode for each in done] == [0, 0], [
        (each.stdout[-600:], each.stderr[-900:]) for each in done
    ]
    found = [containers(host, run) for host in clean.hosts]
    assert [sorted(each) for each in found] == [["0", "2"], ["1"]]
    status, _ = ben.ask("status", run, on=True)
    (one,) = status["runs"]
    assert one["state"] == "running" and [each["process"] for each in one["processes"]] == [0, 1, 2]
    for host, _ in reversed(pairs):
        host.run("sh", "/tmp/serve.sh", "stop", user="spark")
    assert ben.ask("status", "--on", ben.cluster)[0]["runs"] == []
    same(found, started_by_up(ana, over_ray()))
    for host, _ in pairs:
        host.run("rm", "/tmp/serve.sh")


def test_another_operator_takes_away_what_scripts_started(ana: Operator, ben: Operator, clean: Lab) -> None:  # noqa: F811
    files, run = exported(ana, launcher(), "shell")
    for host, name in zip(clean.hosts, ("head", "second"), strict=True):
        host.write("/tmp/serve.sh", files[name].read_text())
        host.run("sh", "/tmp/serve.sh", "start", user="spark")
        host.run("rm", "/tmp/serve.sh")
    down, code = ben.ask("down", run, on=True)
    assert (down["state"], code) == ("down", 0), down["left"]


def test_compose_starts_the_containers_of_up(ana: Operator, ben: Operator, clean: Lab) -> None:  # noqa: F811
    if shutil.which("docker-compose") is None:
        pytest.skip("docker-compose is not installed: ./dev test does that")
    files, run = exported(ana, launcher(), "compose")
    for host, name in zip(clean.hosts, ("head", "second"), strict=True):
        # Debian's Compose, 1.29, takes the project's name on the command line alone, and makes no folder anyway.
        text = files[name].read_text().replace(f"name: canserve-{run}\n", "", 1)
        text = text.replace("      bind:\n        create_host_path: false\n", "")
        host.write("/tmp/compose.yaml", text)
        host.run("docker-compose", "-p", f"canserve-{run}", "-f", "/tmp/compose.yaml", "up", "-d")
    found = [containers(host, run) for host in clean.hosts]
    assert [sorted(each) for each in found] == [["0"], ["1"]]
    status, _ = ben.ask("status", run, on=True)
    assert status["runs"][0]["state"] == "running"
    for host in clean.hosts:
        host.run("docker-compose", "-p", f"canserve-{run}", "-f", "/tmp/compose.yaml", "down", "-v")
        host.run("rm", "/tmp/compose.yaml")
    same(found, started_by_up(ana, launcher()))
