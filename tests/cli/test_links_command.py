"""``canserve machine --links`` between two real network namespaces, each behind a real sshd."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command import run

from namespaces import Cable, cable, problem

CI = os.environ.get("CI", "").lower() in {"1", "true"}
pytestmark = pytest.mark.slow


def _possible() -> None:
    if (why := problem()) is not None:
        if CI:
            pytest.fail(why)
        pytest.skip(why)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Cable]:
    """Two machines on one cable that carries 9000 bytes."""
    _possible()
    with cable(tmp_path / "two") as found:
        yield found


def tried(two: Cable, *options: str, **second: str) -> tuple[list[dict[str, Any]], dict[str, Any], int]:
    done = run("machine", str(two.cluster(**second)), "--links", "--format", "json", *options, PATH=two.path)
    assert done.returncode in {0, 1, 3} and done.stdout, done.stderr
    said = json.loads(done.stdout)
    return said["links"], {each["check"]: each for each in said["findings"]}, done.returncode


def test_a_whole_cable(two: Cable) -> None:
    links, findings, code = tried(two)
    there, back = links
    assert (there["source"], there["target"], there["address"]) == ("head", "second", "10.77.0.2")
    assert (back["source"], back["target"], back["address"]) == ("second", "head", "10.77.0.1")
    assert there["reaches"] is True and there["mtu"] == 9000 and there["interface"] == "to-b"
    assert there["from_address"] == "10.77.0.1" and there["latency"] > 0 and there["rdma"] is None
    assert set(there["ports"].values()) == {"free"} and there["bandwidth"]["missing"] == "unreached"
    for check in ("interfaces-agree", "addresses-advertised-reach", "ports-open", "mtu-agrees"):
        assert findings[check]["verdict"] == "yes", findings[check]
        assert findings[check]["evidence"], check
    assert code == 0  # whatever the findings say: --check was not given


def test_bandwidth_ends_and_leaves_nothing(two: Cable) -> None:
    links, _, _ = tried(two, "--bandwidth")
    assert all(link["bandwidth"] > 1_000_000 for link in links), links
    for space in (two.a, two.b):
        left = subprocess.run(["ip", "netns", "pids", space], capture_output=True, text=True, check=True)
        assert not left.stdout.strip()


def test_a_cable_of_two_sizes(tmp_path: Path) -> None:
    _possible()
    with cable(tmp_path / "two", mtu=(9000, 1500)) as two:
        links, findings, code = tried(two, "--check")
    assert findings["mtu-agrees"]["verdict"] == "no" and "second 1500" in findings["mtu-agrees"]["because"]
    assert links[0]["mtu"] == 1500 and links[1]["mtu"] == 1500 and code == 1


def test_a_port_that_a_packet_filter_swallows(two: Cable) -> None:
    if shutil.which("nft") is None:
        pytest.skip("no nft here (Debian: nftables)")
    rules = (
        "add table inet f; add chain inet f in { type filter hook input priority 0; }; add rule inet f in "
    )
    two.run("b", "nft", f"{rules}tcp dport 29500 drop")
    links, findings, _ = tried(two)
    assert links[0]["ports"]["29500"] == "silent" and links[0]["ports"]["6379"] == "free"
    assert findings["ports-open"]["verdict"] == "no" and "29500" in findings["ports-open"]["because"]
    assert findings["addresses-advertised-reach"]["verdict"] == "yes"


def test_a_way_that_swallows_large_packets(two: Cable) -> None:
    """Both ends say 9000, and what lies between carries less without a word."""
    if shutil.which("nft") is None:
        pytest.skip("no nft here (Debian: nftables)")
    rules = (
        "add table inet f; add chain inet f in { type filter hook input priority 0; }; add rule inet f in "
    )
    two.run("b", "nft", f"{rules}meta length gt 1600 drop")
    links, findings, _ = tried(two)
    assert links[0]["reaches"] is True and links[0]["mtu"] == 1500
    mtu = findings["mtu-agrees"]
    assert (
        mtu["verdict"] == "no" and "packets of 9000 bytes do not pass from head to second" in mtu["because"]
    )


def test_a_cable_that_is_pulled(two: Cable) -> None:
    two.run("b", "ip", "link", "set", "to-a", "down")
    links, findings, _ = tried(two)
    assert links[0]["reaches"] is False and links[1]["reaches"] is False
    assert (
        findings["interfaces-agree"]["verdict"] == "no"
        and "is down" in findings["interfaces-agree"]["because"]
    )
    assert findings["addresses-advertised-reach"]["verdict"] == "no"


def test_an_address_that_is_another_machines(two: Cable) -> None:
    links, findings, _ = tried(two, ip="10.77.0.9")
    assert links[0]["reaches"] is False
    assert findings["interfaces-agree"]["verdict"] == "no"
    assert "not the address 10.77.0.9" in findings["interfaces-agree"]["because"]


def test_what_goes_with_what() -> None:
    assert run("machine", "local", "--bandwidth").returncode == 2
    assert run("machine", "profile:dgx-spark", "--check").returncode == 3  # nothing was looked at
    one = json.loads(run("machine", "local", "--links", "--format", "json").stdout)
    assert one["links"]["missing"] == "unreached"  # there is no other machine
