"""The founding case as its operator meets it: what is on the two machines, why it cannot serve, and what can.

The operator has a cluster file and ssh, no package index and no other network: everything is read on the machines.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from lab.conftest import COMMUNITY_TAG, RUNNING_TAG
from lab.reports import machines, told
from lab.two_hosts import Lab

MODEL = str(Path(__file__).parent.parent.parent / "examples" / "founding" / "model")
RUNNING = "container://vllm-head@spark-a"
COMMUNITY = f"docker-daemon:{COMMUNITY_TAG}@spark-a"

pytestmark = [pytest.mark.slow, pytest.mark.network]


def build_of(report: dict[str, Any], target: str) -> dict[str, Any]:
    (found,) = (build for build in report["builds"] if build["build"] == target)
    assert isinstance(found, dict)
    return found


def finding(build: dict[str, Any], check: str) -> dict[str, Any]:
    found = next(each for each in build["findings"] if each["check"] == check)
    assert isinstance(found, dict)
    return found


def test_both_machines_in_one_command(founding: Lab, lab: Lab, cluster: str) -> None:
    heard = [host.heard() for host in lab.hosts]
    head, second = machines(lab, cluster)
    (running,) = head["containers"]
    assert (running["name"], running["image"]) == ("vllm-head", RUNNING_TAG)
    assert {name for image in head["images"] for name in image["names"]} == {RUNNING_TAG, COMMUNITY_TAG}
    assert second["containers"] == [] and second["images"] == []
    assert second["own_name"]["name"] == "spark-b" and second["gpu"] == "NVIDIA GB10"
    for host, since in zip(lab.hosts, heard, strict=True):
        assert (host.logins(since), host.sessions(since)) == (1, 1)


def test_why_the_running_engine_cannot_and_the_other_image_can(founding: Lab, lab: Lab, cluster: str) -> None:
    heard = [host.heard() for host in lab.hosts]
    builds = ("--build", RUNNING, "--build", COMMUNITY)
    done = lab.canserve("check", MODEL, *builds, "--on", cluster, "--format", "json", "--quiet")
    assert [host.logins(since) for host, since in zip(lab.hosts, heard, strict=True)] == [1, 1]
    report = told(done)
    assert done.returncode == 1
    old, new = build_of(report, RUNNING), build_of(report, COMMUNITY)
    assert old["engine_version"].startswith("0.14.0rc2.dev262") and old["verdict"] == "no"
    for check in ("architecture-registered", "config-parsable"):
        assert finding(old, check)["verdict"] == "no" and "0.17.0" in json.dumps(finding(old, check))
    looks = finding(old, "architecture-registered")["evidence"]
    assert any("registry.py" in look["how"] for look in looks), "it was read, not told by its version"
    assert new["engine_version"].startswith("0.17.1rc1.dev25")
    assert not [each for each in new["findings"] if each["verdict"] == "no"]
    for check in (
        "architecture-registered",
        "config-parsable",
        "quantization-registered",
        "cpu-arch-matches",
    ):
        assert finding(new, check)["verdict"] == "yes"
    assert "opt/vllm" in json.dumps(new), "a source tree beside site-packages is what runs"


def test_which_candidate_can(founding: Lab, lab: Lab, cluster: str) -> None:
    heard = [host.heard() for host in lab.hosts]
    done = lab.canserve("candidates", MODEL, "--on", cluster, "--format", "json", "--quiet")
    assert [host.logins(since) for host, since in zip(lab.hosts, heard, strict=True)] == [1, 1]
    ranked = told(done)["candidates"]
    places = {each["build"]: number for number, each in enumerate(ranked)}
    assert places[COMMUNITY] < places[RUNNING]
    assert ranked[places[COMMUNITY]]["verdict"] == "yes"
    assert ranked[places[RUNNING]]["verdict"] == "no"


def test_nothing_was_started_created_or_written(founding: Lab, lab: Lab, cluster: str) -> None:
    """Whatever lies in the user's home, and every container and image, is as it was before."""

    def state() -> list[str]:
        look = (
            "find /home /tmp /var/tmp /etc /opt -newer /lab/before -not -path '/etc/mtab' 2>/dev/null | sort"
        )
        asked = [host.docker(*words) for host in lab.hosts for words in (("ps", "-aq"), ("images", "-q"))]
        return [host.run("sh", "-c", look).stdout for host in lab.hosts] + [
            " ".join(sorted(rows.split())) for rows in asked
        ]

    for host in lab.hosts:
        host.run("touch", "/lab/before")
    before = state()
    builds = ("--build", RUNNING, "--build", COMMUNITY)
    told(lab.canserve("check", MODEL, *builds, "--on", cluster, "--format", "json", "--quiet"))
    assert state() == before


def test_a_second_host_that_is_dead_hides_nothing_of_the_first(founding: Lab, lab: Lab, cluster: str) -> None:
    lab.wires.drop("fabric")
    done = lab.canserve("check", MODEL, "--build", RUNNING, "--on", cluster, "--format", "json", "--quiet")
    assert build_of(told(done), RUNNING)["verdict"] == "no"


def test_a_container_that_cannot_be_read_is_unknown(founding: Lab, lab: Lab, cluster: str) -> None:
    """Of the image that can serve nothing is denied because docker is refused, hung or cut off."""
    target = f"docker-daemon:{COMMUNITY_TAG}@spark-a"
    words = ("check", MODEL, "--build", target, "--on", cluster, "--format", "json", "--quiet")
    fresh = {"CANSERVE_CACHE": f"{lab.folder}/fresh"}
    lab.a.run("gpasswd", "-d", "spark", "docker")
    try:
        refused = lab.canserve(*words, env=fresh)
    finally:
        lab.a.run("usermod", "-aG", "docker", "spark")
    lab.disconnect()
    lab.a.engine(signal.SIGSTOP)
    hung = lab.canserve(*words, env=fresh)
    lab.heal()
    lab.wires.drop("mgmt")
    cut = lab.canserve(*words, env=fresh)
    lab.heal()
    for done, why in ((refused, "permission denied"), (hung, "did not answer"), (cut, "does not answer")):
        build = build_of(told(done), target)
        assert done.returncode == 3 and build["verdict"] == "unknown", done.stdout
        assert why in json.dumps(build), json.dumps(build)[:2000]


def test_an_operator_whose_disk_is_full_gets_the_same_answer(founding: Lab, lab: Lab, cluster: str) -> None:
    full = f"{lab.folder}/full-disk"
    script = 'mkdir -p "$1"; mount -t tmpfs -o size=8k tmpfs "$1"; dd if=/dev/zero of="$1/fill" bs=4096 2>/dev/null; :'
    lab.operator.run("sh", "-c", script, "sh", full)
    words = ("check", MODEL, "--build", COMMUNITY, "--on", cluster, "--format", "json", "--quiet")
    done = lab.canserve(*words, env={"CANSERVE_CACHE": full, "TMPDIR": full})
    lab.operator.run("umount", "-l", full)
    assert build_of(told(done), COMMUNITY)["verdict"] == "yes"
