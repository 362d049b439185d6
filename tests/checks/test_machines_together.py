"""Checks of machines: each with what makes it yes, no, unknown, and with what does not concern it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from machine_world import (
    BY_NAME,
    GIB,
    cluster,
    container,
    environment,
    gpu,
    image,
    interface,
    judged,
    known,
    link,
    links,
    machine,
    missing,
    model,
    port,
    said,
)

from canserve.checks.machines import CHECKS, each_alone, for_serving, judge, runs_images
from canserve.checks.machines.pinned import picks
from canserve.facts import Cause
from canserve.rules.machines import profile
from canserve.subjects.cluster import Cluster, Node
from canserve.subjects.host import Container, ContainerEngine, Disk, GpuProcess, Interface, OwnName
from canserve.subjects.links import Passage
from canserve.units import Bytes
from canserve.verdict import Finding, No, Skipped, Unknown, Yes


def engine(state: Any, why: str | None = None, runtimes: tuple[str, ...] = ()) -> tuple[ContainerEngine, ...]:
    return (ContainerEngine("docker", "28.3.3", state, why, False, None, runtimes, ()),)


def shm(size: int, free: int) -> Disk:
    return Disk("shm", "/dev/shm", "/dev/shm", Bytes(size), Bytes(free))


PODMAN = ContainerEngine("podman", "5.4.2", "unknown", "never used", None, None, (), ())
OTHER = "sha256:" + "7d" * 32
CASES: list[tuple[str, dict[str, Any], str, str]] = [
    ("reachable", {}, "yes", "head, second"),
    ("reachable", {"clock_skew": missing("login refused", Cause.UNREACHED)}, "unknown", "second: login refused"),
    ("container-engine-usable", {}, "yes", "docker 28.3.3"),
    ("container-engine-usable", {"container_engines": engine("permission denied")}, "no", "permission denied"),
    ("container-engine-usable", {"container_engines": engine("down")}, "no", "second: docker: down"),
    ("container-engine-usable", {"container_engines": engine("not answering")}, "unknown", "not answering"),
    # Another engine that was not asked may well do.
    ("container-engine-usable", {"container_engines": (*engine("down"), PODMAN)}, "unknown", "podman: unknown (never used)"),
    (
        "container-engine-usable",
        {"container_engines": (*engine("down"), replace(PODMAN, state="permission denied"))},
        "no",
        "docker: down; podman: permission denied",
    ),
    ("container-engine-usable", {"container_engines": engine("usable"), "containers": ()}, "unknown", "neither"),
    ("container-engine-usable", {"container_engines": engine("usable")}, "yes", "a container with accelerators runs"),
    ("container-engine-usable", {"container_engines": ()}, "yes", "docker 28.3.3"),
    ("gpu-visible", {}, "yes", "1 x NVIDIA GB10"),
    ("gpu-visible", {"accelerators": missing("nvidia-smi failed")}, "no", "second: nvidia-smi failed"),
    ("gpu-visible", {"accelerators": missing("did not answer in time", whole=False)}, "unknown", "in time"),
    ("gpu-visible", {"accelerators": missing("unknown form", Cause.UNREADABLE)}, "unknown", "unknown form"),
    ("gpu-free", {}, "yes", "nothing holds much"),
    ("gpu-free", {"accelerators": (gpu(100 * GIB),)}, "no", "second: its accelerator is held by python (pid 7"),
    ("gpu-free", {"accelerators": (gpu(19 << 20),)}, "yes", "nothing holds much"),  # a display server
    ("gpu-free", {"accelerators": (gpu(processes=None),)}, "unknown", "does not say"),
    ("gpu-free", {"accelerators": (gpu(processes=(GpuProcess(9, "x", None),)),)}, "unknown", "does not say"),
    (
        "gpu-free",
        {"accelerators": (gpu(total=Bytes(80 * GIB), free=Bytes(40 * GIB), processes=None),)},
        "no",
        "a process that the driver does not name",
    ),
    ("gpu-free", {"accelerators": (gpu(total=Bytes(80 * GIB), free=Bytes(79 * GIB)),)}, "yes", "nothing"),
    ("interfaces-agree", {}, "yes", "all are on 192.168.100.0/24"),
    ("interfaces-agree", {"interfaces": (interface(address="10.9.0.1/24"),)}, "unknown", "share no network"),
    ("interfaces-agree", {"interfaces": (interface(address="192.168.100.10/24"),)}, "unknown", "share no network"),
    ("interfaces-agree", {"nccl_conf": {"NCCL_SOCKET_IFNAME": "enP7s7"}}, "no", "NCCL_SOCKET_IFNAME=enP7s7"),
    ("interfaces-agree", {"nccl_conf": {"NCCL_SOCKET_IFNAME": "^docker,lo"}}, "yes", "all are on"),
    ("interfaces-agree", {"network_environment": {"GLOO_SOCKET_IFNAME": "enP7s7"}}, "no", "GLOO_SOCKET_IFNAME=enP7s7"),
    ("interfaces-agree", {"network_environment": {"GLOO_SOCKET_IFNAME": "enp1s0f0np0"}}, "yes", "all are on"),
    ("interfaces-agree", {"network_environment": {"NCCL_SOCKET_IFNAME": "", "GLOO_SOCKET_IFNAME": ""}}, "yes", "all are on"),
    ("interfaces-agree", {"network_environment": {"NCCL_SOCKET_IFNAME": "$(first)"}}, "unknown", "a shell fills in"),
    ("rdma-usable", {"network_environment": {"NCCL_IB_HCA": "$HCA"}}, "unknown", "a shell fills in"),
    ("rdma-usable", {"network_environment": {"NCCL_IB_HCA": ""}}, "yes", "rocep1s0f0"),
    ("rdma-usable", {"nccl_conf": {"NCCL_IB_DISABLE": "1"}}, "no", "NCCL_IB_DISABLE=1: ranks talk over TCP"),
    ("rdma-usable", {"nccl_conf": {"NCCL_IB_DISABLE": "0"}}, "yes", "rocep1s0f0"),
    ("gid-agrees", {"network_environment": {"NCCL_IB_GID_INDEX": "${GID:-3}"}}, "unknown", "a shell fills in"),
    ("interfaces-agree", {"network_environment": missing()}, "yes", "all are on"),
    ("gid-agrees", {"network_environment": {"NCCL_IB_GID_INDEX": "0"}}, "no", "the login's environment sets"),
    ("interfaces-agree", {"interfaces": missing()}, "unknown", "it failed"),
    (
        "interfaces-agree",
        {"interfaces": (replace(interface(), addresses=None),)},
        "unknown",
        "does not tell its addresses",
    ),
    ("hostname-not-loopback", {}, "yes", "head: its name stands for 192.168.100.10"),
    ("hostname-not-loopback", {"own_name": OwnName("s", ("127.0.1.1",))}, "no", "second: its own name, s, stands for"),
    ("hostname-not-loopback", {"own_name": OwnName("s", ("::1",))}, "no", "::1"),
    ("hostname-not-loopback", {"own_name": OwnName("s", ())}, "unknown", "no address"),
    # Resolvers give the first one; that a later one leads elsewhere helps nobody.
    ("hostname-not-loopback", {"own_name": OwnName("s", ("127.0.1.1", "192.168.100.11"))}, "no", "127.0.1.1"),
    ("ports-open", {}, "yes", "no rule"),
    ("ports-open", {"firewall_rules": ("INPUT: policy drop",)}, "unknown", "INPUT: policy drop"),
    ("ports-open", {"firewall_rules": missing(), "firewall": ("ufw",)}, "unknown", "ufw is active"),
    ("ports-open", {"firewall_rules": missing()}, "skipped", "nothing was sent"),
    ("mtu-agrees", {}, "yes", "one MTU, 9000"),
    ("mtu-agrees", {"interfaces": (interface(address="192.168.100.11/24", mtu=1500),)}, "no", "second 1500"),
    ("mtu-agrees", {"interfaces": (interface(address="10.9.0.1/24"),)}, "skipped", "see interfaces-agree"),
    (
        "mtu-agrees",
        {"interfaces": (replace(interface(address="192.168.100.11/24"), mtu=None),)},
        "unknown",
        "second not told",
    ),
    ("rdma-usable", {}, "yes", "rocep1s0f0 port 1"),
    ("rdma-usable", {"rdma": ()}, "no", "second: it has no RDMA device"),
    ("rdma-usable", {"rdma": (port(state="DOWN"),)}, "no", "no RDMA port has a link"),
    ("rdma-usable", {"rdma_nodes": ("rdma_cm",)}, "no", "no uverbs device"),
    ("rdma-usable", {"nccl_conf": {"NCCL_IB_HCA": "mlx5"}}, "no", "NCCL_IB_HCA=mlx5"),
    ("rdma-usable", {"nccl_conf": {"NCCL_IB_HCA": "=rocep1s0f0:1"}}, "yes", "rocep1s0f0"),
    ("rdma-usable", {"rdma": missing()}, "unknown", "it failed"),
    ("rdma-in-container", {}, "yes", "server may use the RDMA devices"),
    ("rdma-in-container", {"containers": (container(devices=()),)}, "no", "second: server: no device"),
    ("rdma-in-container", {"containers": (container(devices=(), privileged=True),)}, "yes", "server may"),
    ("rdma-in-container", {"containers": (container(host_network=False),)}, "no", "a network of its own"),
    (
        "rdma-in-container",
        {"containers": (Container("podman", "p", "i", "running", ""),)},
        "unknown",
        "may use is not told",
    ),
    ("gid-agrees", {}, "yes", "at GID 3 on every machine"),
    ("gid-agrees", {"rdma": (port("192.168.100.11", index=5),)}, "yes", "at different GIDs: head 3, second 5"),
    ("gid-agrees", {"rdma": (port(None),)}, "no", "no RoCE v2 GID"),
    ("gid-agrees", {"nccl_conf": {"NCCL_IB_GID_INDEX": "1"}}, "no", "NCCL_IB_GID_INDEX=1"),
    ("gid-agrees", {"nccl_conf": {"NCCL_IB_GID_INDEX": "3"}}, "yes", "at GID 3"),
    ("gid-agrees", {"rdma": missing()}, "unknown", "it failed"),
    ("memlock-unlimited", {}, "yes", "any amount"),
    ("memlock-unlimited", {"memlock": Bytes(8 << 20)}, "no", "second: a process of this login may lock only"),
    ("memlock-unlimited", {"memlock": Bytes(15 * GIB)}, "unknown", "not without limit"),
    ("memlock-unlimited", {"containers": (container(locks=Bytes(65536)),)}, "no", "server may lock only"),
    ("shared-memory-enough", {}, "yes", "64.4 GB free"),
    ("shared-memory-enough", {"shared_memory": shm(64 << 20, 64 << 20)}, "no", "67.1 MB"),
    ("shared-memory-enough", {"shared_memory": shm(60 * GIB, 0)}, "no", "second"),
    ("shared-memory-enough", {"shared_memory": shm(512 << 20, 500 << 20)}, "unknown", "524 MB free"),
    ("shared-memory-enough", {"shared_memory": None}, "no", "no /dev/shm"),
    ("shared-memory-enough", {"containers": (container(shared_memory=Bytes(64 << 20)),)}, "no", "server was started"),
    ("ipc-survives-logout", {}, "yes", "leaves it"),
    ("ipc-survives-logout", {"remove_ipc": None}, "yes", "no systemd-logind"),
    ("ipc-survives-logout", {"remove_ipc": True}, "no", "RemoveIPC=yes"),
    ("ipc-survives-logout", {"remove_ipc": missing()}, "unknown", "it failed"),
    ("collective-library-agrees", {}, "yes", "nvidia_nccl_cu13 2.28.3, torch 2.9.1"),
    (
        "collective-library-agrees",
        {"environments": (environment(nvidia_nccl_cu13="2.27.5", torch="2.8.0"),)},
        "no",
        "nvidia_nccl_cu13 differs: head 2.28.3, second 2.27.5",
    ),
    ("collective-library-agrees", {"environments": (environment(ray="2.49"),)}, "no", "ray differs: head none"),
    ("collective-library-agrees", {"environments": ()}, "skipped", "no environment"),
    ("collective-library-agrees", {"environments": missing()}, "unknown", "it failed"),
    ("image-same-digest", {}, "yes", "engine:1 is sha256:5c5c"),
    ("image-same-digest", {"images": (image(OTHER),)}, "no", "engine:1 is not the same everywhere"),
    ("image-same-digest", {"images": (image(OTHER, "other:1"),)}, "skipped", "on one machine only"),
    ("image-same-digest", {"images": missing()}, "unknown", "it failed"),
    # An engine that keeps manifests names the same image otherwise.
    ("image-same-digest", {"images": (replace(image(OTHER), layers=image().layers),)}, "unknown", "the same layers everywhere"),
    ("image-same-digest", {"images": (replace(image(OTHER), layers=(OTHER,)),)}, "no", "is not the same everywhere"),
    ("image-same-digest", {"images": (replace(image(OTHER), repository_digests=image().repository_digests),)}, "yes", "was pulled as sha256:5c"),
    ("weights-same-content", {}, "yes", "Qwen/Qwen3-8B"),
    ("weights-same-content", {"cached_models": (model("def"),)}, "no", "different revisions: head abc, second def"),
    ("weights-same-content", {"cached_models": (model(why="1 files missing: b"),)}, "no", "1 files missing: b on second"),
    ("weights-same-content", {"cached_models": (model(None),)}, "unknown", "no revision"),
    ("weights-same-content", {"cached_models": (model(None, size=5),)}, "no", "different sizes"),
    ("weights-same-content", {"cached_models": ()}, "skipped", "no model lies on more than one"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "facts", "word", "because"), CASES)
def test_a_second_machine_that_differs(name: str, facts: dict[str, Any], word: str, because: str) -> None:
    found = said(name, cluster(second=machine(11, **facts)))
    assert found[0] == word and because in found[1], found


LINKED: list[tuple[str, dict[str, Any], str, str]] = [
    ("addresses-advertised-reach", {}, "yes", "second 192.168.100.11, head 192.168.100.10"),
    ("addresses-advertised-reach", {"reaches": known(False)}, "no", "head does not reach second at 192.168.100.11"),
    ("addresses-advertised-reach", {"reaches": missing("no ping")}, "unknown", "head to second (192.168.100.11): no"),
    ("mtu-agrees", {}, "yes", "packets of 9000 bytes pass"),
    ("mtu-agrees", {"mtu": known(1500)}, "no", "packets of 9000 bytes do not pass from head to second"),
    ("mtu-agrees", {"mtu": missing("no ping")}, "unknown", "could not be tried"),
    ("ports-open", {}, "yes", "every port that was tried passes"),
    ("ports-open", {"ports": known({29500: Passage.SILENT, 6379: Passage.OPEN})}, "no", "in on none of 29500"),
    ("ports-open", {"ports": known({29500: Passage.TURNED_AWAY})}, "no", "in on none of 29500"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "facts", "word", "because"), LINKED)
def test_what_passes_between_them(name: str, facts: dict[str, Any], word: str, because: str) -> None:
    found = said(name, cluster(links=links(**facts)))
    assert found[0] == word and because in found[1], found


def test_one_address_of_several_that_answers_is_enough() -> None:
    both = known((link(reaches=known(False)), link(last=99), link("second", "head", 10)))
    unsettled = machine(11, interfaces=(interface(address="10.9.0.1/24"),))
    found = judged("addresses-advertised-reach", cluster(second=unsettled, links=both))
    assert isinstance(found, Finding) and isinstance(found.verdict, Yes)
    assert found.verdict.needs == ("192.168.100.11 of second not advertised: head does not reach it",)


def test_what_the_cluster_file_states_of_the_network() -> None:
    fine = cluster(ip="192.168.100.10", interface="enp1s0f0np0")
    assert said("interfaces-agree", fine)[0] == "yes"
    absent = cluster(interface="eth9")
    assert said("interfaces-agree", absent) == ("no", "head has no interface eth9")
    other = cluster(ip="192.168.100.77")
    assert said("interfaces-agree", other) == ("no", "no interface of head has the address 192.168.100.77")
    swapped = cluster(ip="172.17.0.1", interface="enp1s0f0np0")
    assert said("interfaces-agree", swapped) == ("no", "enp1s0f0np0 of head has not the address 172.17.0.1")
    down = cluster(machine(10, interfaces=(interface(up=False),)), ip="192.168.100.10")
    assert said("interfaces-agree", down) == ("no", "enp1s0f0np0 of head is down")


def test_a_name_that_leads_to_itself_matters_not_where_addresses_are_stated() -> None:
    lost = machine(10, own_name=OwnName("spark", ("127.0.1.1",)))
    stated = cluster(lost, ip="192.168.100.10", interface="enp1s0f0np0")
    assert said("hostname-not-loopback", stated) == ("yes", "second: its name stands for 192.168.100.11")
    assert said("hostname-not-loopback", cluster(lost))[0] == "no"


def test_bridges_to_containers_join_no_machines() -> None:
    bridge = Interface("docker0", True, None, 1500, ("172.17.0.1/16",), physical=False)
    elsewhere = replace(bridge, addresses=("172.17.0.2/16",))
    two = cluster(machine(10, interfaces=(bridge,)), machine(11, interfaces=(elsewhere,)))
    assert said("interfaces-agree", two)[0] == "unknown"


def test_the_fastest_common_network_is_taken() -> None:
    slow = Interface("enP7s7", True, 1000, 1500, ("10.0.0.{}/24",), physical=True)
    ends = [replace(slow, addresses=(f"10.0.0.{n}/24",)) for n in (1, 2)]
    two = cluster(
        machine(10, interfaces=(ends[0], interface())),
        machine(11, interfaces=(ends[1], interface(address="192.168.100.11/24"))),
    )
    assert "192.168.100.0/24" in said("interfaces-agree", two)[1]


def test_a_setting_chooses_among_common_networks() -> None:
    def ends(n: int) -> tuple[Interface, ...]:
        bond = Interface("bond0", True, 25000, 9000, (f"10.0.0.{n}/24",), physical=False)
        return bond, interface(address=f"192.168.100.{n}/24")

    pinned = {"NCCL_SOCKET_IFNAME": "bond0"}
    two = cluster(
        machine(10, interfaces=ends(10), nccl_conf=pinned), machine(11, interfaces=ends(11), nccl_conf=pinned)
    )
    assert "10.0.0.0/24" in said("interfaces-agree", two)[1] and said("interfaces-agree", two)[0] == "yes"
    stated = replace(two.nodes[0], ip="192.168.100.10", interface="enp1s0f0np0")
    other = replace(two.nodes[1], ip="192.168.100.11", interface="enp1s0f0np0")
    found = said("interfaces-agree", replace(two, nodes=(stated, other)))
    assert found[0] == "no" and "NCCL_SOCKET_IFNAME=bond0" in found[1]


def test_without_rdma_nothing_is_asked_of_it() -> None:
    plain = {"rdma": ()}
    two = cluster(machine(10, **plain), machine(11, **plain))
    for name in ("rdma-usable", "rdma-in-container", "gid-agrees", "memlock-unlimited"):
        assert said(name, two)[0] == "skipped", name


def test_a_machine_that_was_not_reached_makes_no_yes() -> None:
    gone = missing("it does not answer", Cause.UNREACHED)
    away = machine(11, **dict.fromkeys(("clock_skew", "interfaces", "rdma", "memlock", "images"), gone))
    findings, _ = judge(cluster(second=away))
    verdicts = {finding.check: finding.verdict for finding in findings}
    assert not [name for name, verdict in verdicts.items() if isinstance(verdict, Yes | No)]
    because = {v.because for n, v in verdicts.items() if n != "reachable" and not isinstance(v, Yes)}
    assert because == {"second: not reached, so that nothing is known of it"}
    bad = machine(10, remove_ipc=True)
    assert (
        said("ipc-survives-logout", cluster(bad, away))[0] == "no"
    )  # what is known of the other one stays so


def test_profiles_and_machines_alone_are_asked_little() -> None:
    spark = profile("dgx-spark")
    assert spark is not None
    findings, skipped = judge(
        Cluster("p", (Node("a", spark, None, None, None), Node("b", spark, None, None, None)))
    )
    assert not findings and {each.because for each in skipped} == {
        "known from a profile or a file alone: only a look at the machine says it"
    }
    alone = Cluster("local", (Node("local", machine(), "local", None, None),))
    findings, skipped = judge(alone)
    assert {f.check for f in findings} == {c.name for c in CHECKS if not c.of_several}
    assert all(each.because == "one machine serves alone" for each in skipped)
    assert all("head" not in f.verdict.because and "local:" not in f.verdict.because for f in findings)
    mixed = Cluster("c", (Node("a", machine(), "a", None, None), Node("b", spark, None, None, None)))
    assert isinstance(BY_NAME["interfaces-agree"].judge(mixed), Skipped)


def test_every_yes_read_something_and_every_other_says_what_to_do() -> None:
    for name, facts, _, _ in CASES:
        found = judged(name, cluster(second=machine(11, **facts)))
        if isinstance(found, Finding):
            assert found.evidence or isinstance(found.verdict, Unknown), name
            match found.verdict:
                case No(fix=text) | Unknown(ask=text):
                    assert text.strip(), (name, facts)
                case Yes():
                    pass


def test_what_runs_now_decides_no_plan() -> None:
    busy = machine(11, accelerators=(gpu(100 * GIB),), containers=(container(devices=()),))
    findings, _ = for_serving(cluster(second=busy))
    assert all(isinstance(finding.verdict, Yes) for finding in findings)
    assert {"gpu-free", "rdma-in-container", "container-engine-usable"}.isdisjoint(f.check for f in findings)


def test_of_one_machine_nothing_is_said_together() -> None:
    both = cluster(second=machine(11, own_name=OwnName("s", ("127.0.1.1",))))
    findings, _ = for_serving(both)
    verdicts = {finding.check: finding.verdict for finding in findings}
    assert isinstance(verdicts["hostname-not-loopback"], No) and findings[0].about == "head, second"
    assert "container-engine-usable" not in verdicts
    assert for_serving(replace(both, nodes=both.nodes[1:])) == ((), ())


def test_without_degrees_it_is_said_that_machines_were_not_judged_together() -> None:
    nodes = cluster(second=machine(11, own_name=OwnName("s", ("127.0.1.1",)))).nodes
    findings, skipped = each_alone(nodes, image=True)
    assert [each.check for each in findings] == ["container-engine-usable"]
    assert {"interfaces-agree", "hostname-not-loopback", "rdma-usable"} <= {each.check for each in skipped}
    assert all("--tensor-parallel-size" in each.because for each in skipped)
    assert each_alone(nodes[1:]) == ((), ())


def test_an_image_needs_something_that_runs_it() -> None:
    bare = machine(11, container_engines=())
    (finding,), _ = for_serving(Cluster("c", (cluster(second=bare).nodes[1],)), image=True)
    assert finding.check == "container-engine-usable" and isinstance(finding.verdict, No)
    assert "no container engine is installed" in finding.verdict.because
    (finding,), _ = runs_images(cluster(second=machine(11, container_engines=engine("down"))).nodes)
    assert isinstance(finding.verdict, No) and finding.verdict.because == "second: docker: down"
    spark = profile("dgx-spark")
    assert spark is not None
    assert not runs_images((Node("a", spark, None, None, None),))[0]


def test_lists_of_names_in_settings() -> None:
    assert picks("enp1", "enp1s0f0np0") and not picks("=enp1", "enp1s0f0np0")
    assert picks("^docker,lo", "enp1s0") and not picks("^enp", "enp1s0")
    assert picks("=mlx5_0:1,mlx5_1:1", "mlx5_1") and not picks("^=mlx5_0", "mlx5_0")
    assert picks("mlx5_1", "mlx5_10")  # a beginning, as the library takes it


def test_names_of_checks_are_of_the_design() -> None:
    assert set(BY_NAME) == {
        "reachable", "container-engine-usable", "gpu-visible", "gpu-free", "interfaces-agree",
        "addresses-advertised-reach", "hostname-not-loopback", "ports-open", "rdma-usable", "rdma-in-container",
        "gid-agrees", "mtu-agrees", "shared-memory-enough", "memlock-unlimited", "ipc-survives-logout",
        "collective-library-agrees", "image-same-digest", "weights-same-content",
    }  # fmt: skip
