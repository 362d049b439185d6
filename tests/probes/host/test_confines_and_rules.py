"""What containers may use, and what the packet filter turns away: documented forms, and what is none of them."""

from __future__ import annotations

import json

import pytest
from replayed import recorded

from canserve.facts import Cause, Known, Missing
from canserve.probes.host.confines import CONFINES
from canserve.probes.host.firewall import FIREWALL_RULES
from canserve.probes.host.limits import REMOVE_IPC
from canserve.probes.host.probe import Probe, Seen
from canserve.subjects.host import Confines
from canserve.transport.frames import Answer
from canserve.units import Bytes


def read(probe: Probe, out: str, status: int = 0, error: str = "") -> object:
    fact = probe.parse(Seen("box", probe.how, None, Answer(status, out.encode(), error, whole=True)))
    return fact.value if isinstance(fact, Known) else fact


def container(**settings: object) -> Confines:
    found = read(CONFINES, json.dumps({"Name": "/a", **settings}) + "\n")
    assert isinstance(found, dict)
    one = found["a"]
    assert isinstance(one, Confines)
    return one


def test_a_container_that_runs_on_the_founding_machine() -> None:
    containers = recorded("gb10").containers
    assert isinstance(containers, Known)
    head, registry = (each.confines for each in containers.value)
    assert head is not None and registry is not None
    assert head.accelerators and head.host_network and head.shared_memory is None and head.locks is False
    assert not registry.accelerators and registry.shared_memory == Bytes(64 << 20)


@pytest.mark.parametrize(
    ("settings", "locks"),
    [
        ({"Ulimits": [{"Name": "memlock", "Soft": -1, "Hard": -1}]}, True),
        ({"Ulimits": [{"Name": "memlock", "Soft": 65536, "Hard": 65536}]}, Bytes(65536)),
        ({"Ulimits": [{"Name": "nofile", "Soft": 1024, "Hard": 1024}]}, False),
        ({"Rights": ["IPC_LOCK"]}, True),
        ({"Rights": ["CAP_IPC_LOCK"]}, True),
        ({"Rights": ["NET_ADMIN"]}, False),
        ({"Privileged": True}, True),
        ({}, False),
    ],
)
def test_how_much_memory_a_container_may_lock(settings: dict[str, object], locks: object) -> None:
    assert container(**settings).locks == locks


def test_ways_to_give_a_container_accelerators() -> None:
    assert container(Runtime="nvidia").accelerators
    assert container(Devices=[{"PathOnHost": "/dev/kfd", "PathInContainer": "/dev/kfd"}]).accelerators
    assert container(Requests=[{"Capabilities": [["gpu"]]}]).accelerators
    assert container(Privileged=True).accelerators
    rdma = container(Devices=[{"PathOnHost": "/dev/infiniband/uverbs0"}])
    assert rdma.devices == ("/dev/infiniband/uverbs0",) and not rdma.accelerators


def test_shared_memory_that_is_not_its_own() -> None:
    assert container(Ipc="host", ShmSize=67108864).shared_memory is None
    assert container(Ipc="container:b", ShmSize=67108864).shared_memory is None
    assert container(Ipc="private", ShmSize=1 << 34).shared_memory == Bytes(1 << 34)


@pytest.mark.parametrize("text", ["[]\n", "{\n", '{"Name": 3}\n', "Error: No such object\n"])
def test_no_form_of_a_container_is_no_empty_list(text: str) -> None:
    assert isinstance(found := read(CONFINES, text), Missing) and found.cause is Cause.UNREADABLE


NFT = """nft
table inet filter {
\tchain input {
\t\ttype filter hook input priority 0; policy drop;
\t\tct state established,related accept
\t\tiifname "lo" accept
\t\tjump ports
\t}
\tchain ports {
\t\ttcp dport 29500 reject with icmpx port-unreachable
\t}
\tchain forward {
\t\ttype filter hook forward priority 0; policy drop;
\t}
}

end
"""


def test_rules_that_turn_packets_away() -> None:
    assert read(FIREWALL_RULES, NFT) == (
        "inet filter input: policy drop",
        "inet filter ports: tcp dport 29500 reject with icmpx port-unreachable",
    )
    legacy = (
        "\niptables\n-P INPUT DROP\n-P FORWARD DROP\n-A INPUT -j ufw-before-input\n"
        "-A ufw-before-input -p tcp -m tcp --dport 6379 -j REJECT --reject-with tcp-reset\n-A other -j DROP\n\nend\n"
    )
    assert read(FIREWALL_RULES, legacy) == (
        "INPUT: policy drop",
        "ufw-before-input: -A ufw-before-input -p tcp -m tcp --dport 6379 -j REJECT --reject-with tcp-reset",
    )
    assert read(FIREWALL_RULES, "nft\n\nend\n") == ()


def test_rules_that_nobody_may_see_are_not_none() -> None:
    hidden = read(FIREWALL_RULES, "nft\n", 1, "Operation not permitted (you must be root)")
    assert isinstance(hidden, Missing) and "privileged" in hidden.why
    assert isinstance(read(FIREWALL_RULES, "", 3), Missing)
    assert isinstance(read(FIREWALL_RULES, "nft\n", 0), Missing)  # cut before its end
    assert isinstance(read(FIREWALL_RULES, "nft\n", 124), Missing)


def test_who_lingers_is_never_logged_out() -> None:
    assert read(REMOVE_IPC, "linger\nend\n") is False and read(REMOVE_IPC, "logind\nend\n") is True
