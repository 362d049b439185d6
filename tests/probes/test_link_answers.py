"""What machines say of addresses that they tried: every form of answer, and what proves nothing."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canserve.commands.links import Trial, listen, send, trial
from canserve.facts import Cause, Evidence, Known, Missing
from canserve.probes.links.bandwidth import rate
from canserve.probes.links.reading import SECTION, Pair, links
from canserve.rules.machines import profile
from canserve.subjects.cluster import Node
from canserve.subjects.host import RdmaGid, RdmaPort
from canserve.subjects.links import Link, Passage
from canserve.transport.frames import Answer
from canserve.transport.reach import Look
from canserve.units import Rate

WHEN = "2026-11-30T10:00:00+00:00"
FAR = "10.77.0.2"
ROUTE = f"route {FAR} dev enp1s0f0np0 src 10.77.0.1 uid 1000 \\    cache \n"


def node(name: str, last: int) -> Node:
    machine = profile("dgx-spark")
    assert machine is not None
    gid = RdmaGid(3, f"0000:0000:0000:0000:0000:ffff:0a4d:000{last}", "RoCE v2", "enp1s0f0np0")
    ports = (RdmaPort(f"rocep{last}", 1, "ACTIVE", "Ethernet", "200 Gb/sec", (gid,)),)
    return Node(name, replace(machine, rdma=Known(ports)), name, None, None)


PAIR = Pair(node("head", 1), node("second", 2), (FAR,))


def tried(said: str, *, end: str = "end\n") -> Link:
    out = f"\naddress {FAR}\n{said}{end}".encode()
    look = Look("head", "ssh head", WHEN, {SECTION: Answer(0, out, "", whole=True)})
    (found,) = links(PAIR, look)
    return found


def value(fact: object) -> object:
    return fact.value if isinstance(fact, Known) else fact


def test_a_link_that_is_whole() -> None:
    link = tried(f"{ROUTE}tcp 29500 free\nrtt 0.21\ntcp 22 open\nudp 9000 ok\nping 0 0.087\nicmp 9000 ok\n")
    assert value(link.reaches) is True and value(link.mtu) == 9000 and value(link.latency) == 0.087
    assert value(link.interface) == "enp1s0f0np0" and value(link.from_address) == "10.77.0.1"
    assert value(link.ports) == {22: Passage.OPEN, 29500: Passage.FREE}
    assert link.rdma == ("rocep1:1", "rocep2:1")
    assert str(link) == (
        "head -> second 10.77.0.2: reached, over enp1s0f0np0, MTU 9000, 0.087 ms, RDMA rocep1:1 to rocep2:1"
    )


@pytest.mark.parametrize(
    ("said", "reaches"),
    [
        ("tcp 22 silent\ntcp 29500 silent\nudp 1280 silent\n", False),
        ("tcp 22 away\nping 1 \n", False),
        ("route RTNETLINK answers: Network is unreachable\ntcp 22 away\n", False),
        ("tcp 22 silent\nping 0 1.5\n", True),  # a packet filter that lets only echoes pass
        ("ping 1 \n", False),
        ("tcp 22 unknown\nping 2 \n", None),  # ping could not try, bash said something else
        ("", None),
    ],
)
def test_what_proves_that_an_address_is_reached(said: str, reaches: bool | None) -> None:
    found = tried(said).reaches
    assert (found.value is reaches) if isinstance(found, Known) else reaches is None


@pytest.mark.parametrize(
    ("said", "size"),
    [
        ("udp 9000 silent\nudp 1500 ok\nudp 9000 silent\nudp 9000 silent\n", 1500),
        ("udp 9000 large\nudp 1500 ok\n", 1500),
        ("udp 9000 silent\nudp 1500 silent\nudp 1280 silent\nicmp 9000 ok\n", 9000),
        (
            "udp 9000 silent\nudp 1500 silent\nudp 1280 silent\n",
            None,
        ),  # answers are swallowed, whatever the size
        ("icmp 9000 large\nicmp 1500 unknown\n", None),
        ("ping 0 0.1\n", None),  # a ping that knows no -M, as busybox's
    ],
)
def test_what_proves_a_size(said: str, size: int | None) -> None:
    found = tried(said).mtu
    assert (found.value == size) if isinstance(found, Known) else size is None


def test_a_cut_look_is_marked_and_a_failed_one_says_why() -> None:
    cut = tried("tcp 22 open\n", end="")
    assert isinstance(cut.reaches, Known) and not cut.reaches.evidence[0].whole
    gone = Missing(Cause.UNREACHED, "head: it does not answer", (Evidence("head", "ssh", "x", whole=False),))
    (link,) = links(PAIR, Look("head", "ssh head", WHEN, trouble=gone))
    assert link.reaches is gone and "it does not answer" in str(link)
    other = Look(
        "head", "ssh head", WHEN, {SECTION: Answer(0, b"address 1.2.3.4\ntcp 22 open\nend\n", "", True)}
    )
    assert isinstance(links(PAIR, other)[0].reaches, Missing)


@given(st.text(max_size=80))
def test_no_answer_upsets_it(text: str) -> None:
    assert isinstance(tried(f"{text}\n{ROUTE}{text}\n"), Link)


def test_only_addresses_get_into_a_script() -> None:
    for wrong in ("10.0.0.1; reboot", "$(id)", "head", "10.0.0.1'"):
        with pytest.raises(ValueError, match="does not appear to be"):
            trial(Trial((wrong,), (22,), (1500,)))
        with pytest.raises(ValueError, match="does not appear to be"):
            listen(wrong, 2000, FAR)
        with pytest.raises(ValueError, match="does not appear to be"):
            send(FAR, 2000, wrong)


def test_a_shell_without_python_says_what_it_can(tmp_path: Path) -> None:
    for tool in ("bash", "timeout", "sed", "tr", "head", "ip"):
        if (found := shutil.which(tool)) is not None:
            (tmp_path / tool).symlink_to(found)
    script = 'within() { seconds=$1; shift; "$@"; }\n' + trial(Trial(("127.0.0.1",), (9,), (1500,)))
    done = subprocess.run(
        ["/bin/sh", "-c", script], capture_output=True, text=True, check=True, env={"PATH": str(tmp_path)}
    )
    assert "tcp 9 free" in done.stdout and done.stdout.endswith("end\n"), done.stderr


def stream(out: str, status: int = 0, error: str = "") -> Look:
    return Look("box", "ssh box", WHEN, {"stream": Answer(status, out.encode(), error, whole=True)})


def test_a_rate_is_what_arrived() -> None:
    link = tried(ROUTE)
    sent = stream("sent 2000000000\n")
    assert value(rate(link, stream("received 1900000000 1.9\n"), sent)) == Rate(10**9)
    for taken in ("received 0 0.1\n", "received 5 0\n", "received x\n", "received 5 1e-x\n", ""):
        found = rate(link, stream(taken), sent)
        assert isinstance(found, Missing) and found.cause is Cause.UNREADABLE
    no_python = rate(link, stream("", 127), sent)
    assert isinstance(no_python, Missing) and no_python.why == "second has no python3"
    refused = rate(link, stream("received 0 0\n"), stream("", 1, "TimeoutError: timed out"))
    assert isinstance(refused, Missing) and "TimeoutError" in refused.why
