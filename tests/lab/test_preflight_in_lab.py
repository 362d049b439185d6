"""A preflight on the two hosts of the lab: in images by a real docker, and with a cable pulled.

No image with torch fits here: a shell takes the part of Python in images, and says what torch would. What is tried is what
starts, what reaches it, and that it ends. The real program with a real torch: tests/preflight.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.engine_image import base, packed
from lab.hosts import Host
from lab.two_hosts import Lab
from made_images import PLAIN, docker_archive

pytestmark = pytest.mark.slow
TAG = "candidate/with-torch:1"
PYTHON = b"""#!/bin/busybox sh
[ "$1 $2" = "-u -c" ] && [ ${#3} -gt 10000 ] || exit 9
rank=${4##*'"first": '}; rank=${rank%%,*}
say() { echo "{\\"rank\\": $rank, \\"step\\": \\"$1\\", \\"state\\": \\"$2\\", \\"torch\\": \\"2\\"}"; }
say import begin; say import done; say device begin; say device done; say store begin
[ -z "$STAND" ] && { say store done; say meet begin; say meet done; say end done; exit 0; }
while [ -n "$(/bin/busybox head -c 1)" ]; do :; done
"""
"""Goes on, or stands at the store until its input ends."""


def held(host: Host) -> None:
    archive = docker_archive(
        host.share / "candidate.tar",
        [base(), packed({"usr/bin/python3": PYTHON}, executable={"usr/bin/python3": PYTHON})],
        TAG,
        PLAIN,
    )
    host.docker("load", "-q", "-i", "/lab/candidate.tar")
    archive.unlink()


def words(cluster: str, inside: str, *more: str) -> tuple[str, ...]:
    return ("machine", cluster, "--preflight", "--backend", "gloo", "--in", inside, "-q", *more)


def flown(lab: Lab, *argv: str) -> tuple[dict[str, Any], dict[str, Any]]:
    done = lab.canserve(*argv, "--format", "json", timeout=280)
    assert done.stdout, done.stderr
    told = json.loads(done.stdout)
    return told["preflight"], {each["check"]: each for each in told["findings"]}


def containers(host: Host) -> list[str]:
    return host.docker("ps", "-aq", "--filter", "label=canserve=preflight").split()


def wait_for(what: Callable[[], bool], seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.3)
    return False


def test_in_the_image_that_both_hosts_hold(lab: Lab, cluster: str) -> None:
    for host in (lab.a, lab.b):
        held(host)
    flight, findings = flown(lab, *words(cluster, f"docker://{TAG}", "--step-seconds", "10"))
    assert [(rank["node"], rank["step"], rank["state"]) for rank in flight["ranks"]] == [
        ("head", "end", "done"),
        ("second", "end", "done"),
    ]
    assert flight["master"].startswith("10.77.1.2:")
    assert findings["ranks-start"]["verdict"] == "yes" and findings["ranks-meet"]["verdict"] == "yes"
    assert not containers(lab.a) and not containers(lab.b)
    asked = [path.read_text() for path in (lab.a.share / "oci").glob("*") if path.is_file()]
    assert any("-u" in each and "def supervise" in each for each in asked)


def test_an_image_that_one_host_lacks(lab: Lab, cluster: str) -> None:
    held(lab.a)
    lab.b.docker("rmi", "-f", TAG, check=False)
    _, findings = flown(lab, *words(cluster, f"docker://{TAG}", "--step-seconds", "4"))
    verdict = findings["ranks-start"]
    assert verdict["verdict"] == "no" and "rank 1 on second" in verdict["because"], verdict
    assert "No such image" in verdict["because"] or "Unable to find image" in verdict["because"], verdict


def test_containers_end_with_the_command_that_started_them(lab: Lab, cluster: str) -> None:
    """Both stand for ever as long as their input lasts; the command is killed and says goodbye to nobody."""
    for host in (lab.a, lab.b):
        held(host)
    argv = words(cluster, f"docker://{TAG}", "--env", "STAND=1", "--step-seconds", "60")
    command = threading.Thread(target=lambda: lab.canserve(*argv, timeout=250))
    command.start()
    try:
        assert wait_for(lambda: bool(containers(lab.a)) and bool(containers(lab.b)))
    finally:
        for pid in commands(cluster):
            os.kill(pid, signal.SIGKILL)
        command.join()
    assert wait_for(lambda: not containers(lab.a) and not containers(lab.b), 40)


def commands(cluster: str) -> list[int]:
    """Numbers of canserve's own processes with this cluster file, wherever they run."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            argv = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if cluster.encode() in argv and b"--preflight" in argv and b"nsenter" not in argv[0]:
            found.append(int(entry.name))
    return found


def test_a_cable_that_is_pulled_under_ssh(lab: Lab, cluster: str) -> None:
    """The second host hears nothing any more, not even an end: what runs there ends by its own deadline."""
    for host in (lab.a, lab.b):
        held(host)
    argv = words(cluster, f"docker://{TAG}", "--env", "STAND=1", "--step-seconds", "2")
    said: list[tuple[dict[str, Any], dict[str, Any]]] = []
    command = threading.Thread(target=lambda: said.append(flown(lab, *argv)))
    command.start()
    assert wait_for(lambda: bool(containers(lab.a)) and bool(containers(lab.b)))
    lab.wires.unplug("fabric", "spark-b")
    command.join()
    flight, findings = said[0]
    second = flight["ranks"][1]
    assert second["node"] == "second" and second["state"] == "cut" and second["said"], second
    assert findings["ranks-start"]["verdict"] == "unknown", findings["ranks-start"]
    assert wait_for(lambda: not containers(lab.a) and not containers(lab.b), 90)
