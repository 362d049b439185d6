"""The founding case's machines, looked at, judged alone and together, and what passes between them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.conftest import RUNNING_TAG
from lab.two_hosts import Lab

pytestmark = pytest.mark.slow


def judged(lab: Lab, cluster: str, *words: str) -> tuple[dict[str, dict[str, Any]], dict[str, Any], int]:
    done = lab.canserve("machine", cluster, "--format", "json", "--quiet", *words)
    assert done.returncode in {0, 1, 3}, done.stderr
    told = json.loads(done.stdout)
    return {finding["check"]: finding for finding in told["findings"]}, told, done.returncode


def test_two_whole_machines_and_the_cable_between_them(lab: Lab, cluster: str) -> None:
    heard = [host.heard() for host in lab.hosts]
    findings, told, code = judged(lab, cluster, "--links", "--check")
    logins = [host.logins(since) for host, since in zip(lab.hosts, heard, strict=True)]
    assert logins == [1, 1]  # also the way to the second, and what is tried between them
    there, back = told["links"]
    assert (there["address"], back["address"]) == ("10.77.1.3", "10.77.1.2")
    for link in (there, back):
        assert link["reaches"] is True and link["mtu"] == 9000 and link["interface"] == "enp1s0f0np0"
        assert link["ports"]["22"] == "open" and link["ports"]["29500"] == "free"
        assert link["rdma"] == ["rocep1s0f0:1", "rocep1s0f0:1"]
    good = ("reachable", "container-engine-usable", "gpu-visible", "interfaces-agree", "addresses-advertised-reach",
            "ports-open", "mtu-agrees", "rdma-usable", "gid-agrees", "shared-memory-enough")  # fmt: skip
    assert {name: findings[name]["because"] for name in good if findings[name]["verdict"] != "yes"} == {}
    assert "VLLM::EngineCore" in findings["gpu-free"]["fix"] and findings["gpu-free"]["verdict"] == "no"
    skipped = {each["check"] for each in told["skipped"]}
    assert "hostname-not-loopback" in skipped  # the file states addresses and interfaces
    assert code == 1


def test_a_smaller_mtu_at_one_end(lab: Lab, cluster: str) -> None:
    lab.b.run("ip", "link", "set", "enp1s0f0np0", "mtu", "1500")
    try:
        findings, told, _ = judged(lab, cluster, "--links")
    finally:
        lab.b.run("ip", "link", "set", "enp1s0f0np0", "mtu", "9000")
    assert findings["mtu-agrees"]["verdict"] == "no" and "second 1500" in findings["mtu-agrees"]["because"]
    assert [link["mtu"] for link in told["links"]] == [1500, 1500]


def test_a_port_that_is_swallowed(lab: Lab, cluster: str) -> None:
    table = "add table inet judged; add chain inet judged in { type filter hook input priority 0; }"
    lab.b.run("nft", f"{table}; add rule inet judged in tcp dport 29500 drop")
    try:
        findings, told, _ = judged(lab, cluster, "--links")
    finally:
        lab.b.run("nft", "delete table inet judged")
    assert told["links"][0]["ports"]["29500"] == "silent"
    assert findings["ports-open"]["verdict"] == "no" and "second" in findings["ports-open"]["because"]
    assert findings["addresses-advertised-reach"]["verdict"] == "yes"


def test_a_machine_that_lost_its_power_makes_no_yes_and_no_no(lab: Lab, cluster: str) -> None:
    lab.b.power_off()
    findings, told, code = judged(lab, cluster, "--links", "--check")
    assert findings["reachable"]["verdict"] == "unknown" and "second" in findings["reachable"]["because"]
    of_both = ("interfaces-agree", "mtu-agrees", "rdma-usable", "gid-agrees", "gpu-visible")
    assert {findings[name]["verdict"] for name in of_both} == {"unknown"}
    (link,) = (link for link in told["links"] if link["source"] == "head")
    assert link["reaches"] is False
    assert code == 1  # the head's accelerator is held, whatever became of the second


@pytest.mark.network
def test_a_container_that_was_started_without_what_ranks_need(founding: Lab, cluster: str) -> None:
    started = ("--gpus", "all", "--shm-size", "64m", "--name", "bare", RUNNING_TAG)
    founding.a.docker("run", "-d", *started)
    try:
        findings, told, _ = judged(founding, cluster)
    finally:
        founding.a.docker("rm", "-f", "bare")
    containers = {each["name"]: each for each in told["machines"][0]["facts"]["containers"]}
    assert (
        containers["bare"]["confines"]["accelerators"]
        and not containers["vllm-head"]["confines"]["accelerators"]
    )
    assert containers["vllm-head"]["confines"]["host_network"]
    assert containers["bare"]["confines"]["shared_memory"] == 64 << 20
    rdma = findings["rdma-in-container"]
    assert rdma["verdict"] == "no" and "bare: no device of /dev/infiniband" in rdma["because"]
    assert "--device=/dev/infiniband" in rdma["fix"]
    assert findings["shared-memory-enough"]["verdict"] == "no"
    assert "bare was started with 67.1 MB" in findings["shared-memory-enough"]["because"]
