"""``verify RUN`` and ``diagnose RUN`` where the operator has no route to the machine but ssh through another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from canserve.subjects.launch import Process
from lab.hosts import Host
from lab.test_up_in_lab import Operator
from lab.two_hosts import Lab
from stub_server import program

pytestmark = pytest.mark.slow

ENGINE = "/srv/answers"
SERVER = Process("second", (0,), ("vllm", "serve", "/lab", "--port", "8124"))


@pytest.fixture
def second(lab: Lab, tmp_path: Path) -> Iterator[Host]:
    """The machine behind the other one, with an engine that answers."""
    program(tmp_path / "engine" / "bin" / "vllm")
    lab.b.copy(tmp_path / "engine", ENGINE)
    yield lab.b
    lab.heal()
    lab.b.run("rm", "-rf", ENGINE, "/var/tmp/canserve")


def test_an_endpoint_that_only_ssh_reaches(lab: Lab, cluster: str, second: Host, tmp_path: Path) -> None:
    ana = Operator(lab, cluster, tmp_path)
    up, _ = ana.ask("up", ana.plan((SERVER,), build=ENGINE), "--wait", "60", on=True)
    assert up["state"] == "up", up["because"]
    run = up["run"]
    try:
        found, code = ana.ask("verify", run, "--quick", "--patience", "20", "--time", "100")
        assert (found["verdict"], code) == ("yes", 0), [f for f in found["findings"] if f["verdict"] != "yes"]
        assert found["url"] == f"{run} on second:8124" and found["model"] == "tiny"
        assert not any("unencrypted" in note for note in found["notes"])
        told, code = ana.ask("diagnose", run)
        assert (told["state"], code, told["engine"]) == ("serving", 0, "vllm")
        lab.wires.cut("fabric")
        lab.disconnect()
        done = lab.canserve("verify", run, "--quick", "--quiet", env=ana.env, timeout=120)
        assert done.returncode == 2 and "second" in done.stderr and done.stderr.count("\n") <= 3, done.stderr
        lost = lab.canserve("diagnose", run, "--quiet", env=ana.env, timeout=120)
        assert lost.returncode == 2 and "second" in lost.stderr
    finally:
        lab.heal()
        assert ana.ask("down", run)[1] == 0
