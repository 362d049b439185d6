"""Whole machines from recorded answers: each kind, and those whose tools fail, lie or are missing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from replayed import RECORDED, answer, recorded

from canserve.facts import Cause, Fact, Known, Missing
from canserve.memory.device import one_device
from canserve.subjects.parallel import Device
from canserve.transport.frames import Answer
from canserve.units import Bytes, Capability

GIB = 1 << 30
MACHINES = sorted(path.name for path in RECORDED.iterdir() if path.is_dir())


def value(fact: Fact[Any]) -> Any:
    assert isinstance(fact, Known), fact
    return fact.value


def missing(fact: Fact[Any]) -> Missing:
    assert isinstance(fact, Missing), fact
    return fact


def device(name: str, stated: str = "") -> Device:
    found = one_device(recorded(name, stated))
    assert isinstance(found, Device), found
    return found


@pytest.mark.parametrize("name", MACHINES)
def test_every_fact_says_how_it_was_read(name: str) -> None:
    machine = recorded(name)
    assert {machine: 1}[recorded(name)]  # plans keep machines apart by what is known of them
    assert value(machine.cpu_arch) in {"x86_64", "aarch64"} and value(machine.libc).startswith("2.")
    for field in type(machine).__slots__:
        fact = getattr(machine, field)
        if isinstance(fact, Known) and field != "subject":
            assert fact.evidence, field
    assert machine.kernel.evidence[0].how == "uname -r" and machine.kernel.evidence[0].when is not None
    assert value(machine.clock_skew) == 0


def test_gb10_shares_the_systems_memory() -> None:
    machine = recorded("gb10")
    assert (value(machine.gpu), value(machine.gpus), value(machine.vendor)) == ("NVIDIA GB10", 1, "nvidia")
    assert value(machine.capability) == Capability(12, 1) and value(machine.arch_name) == "sm_121"
    assert value(machine.unified_memory) is True
    assert value(machine.visible_memory) == Bytes(127600668 * 1024)
    assert machine.visible_memory.evidence[0].how == "/proc/meminfo"
    assert value(machine.driver) == "580.95.05" and value(machine.cuda) == "13.0"
    # By the name of its accelerator, from the profile of its kind.
    assert value(machine.bandwidth) and machine.bandwidth.evidence[0].subject == "profile:dgx-spark"
    (gpu,) = value(machine.accelerators)
    assert gpu.total is None and gpu.free is None and gpu.mig is None
    assert [process.name for process in gpu.processes] == ["/usr/lib/xorg/Xorg", "VLLM::EngineCore"]
    memory = value(machine.host_memory)
    assert memory.cached == Bytes(54012008 * 1024) and memory.cma_total == Bytes(0)
    found = device("gb10")
    assert found.unified and found.free == 118345600 * 1024 and found.free_low == 58112340 * 1024


def test_gb10_as_a_machine_among_others() -> None:
    machine = recorded("gb10")
    assert value(machine.own_name).addresses == ("127.0.1.1",)
    assert value(machine.remove_ipc) is True and value(machine.firewall) == ("ufw",)
    assert value(machine.nccl_conf) == {"NCCL_SOCKET_IFNAME": "enp1s0f0np0", "NCCL_IB_HCA": "rocep1s0f0"}
    assert value(machine.memlock) == Bytes(16326976 * 1024)
    first, second = value(machine.rdma)
    assert (first.device, first.state, first.link_layer) == ("rocep1s0f0", "ACTIVE", "Ethernet")
    assert [gid.index for gid in first.gids if gid.kind == "RoCE v2"] == [1, 3] and second.state == "DOWN"
    fabric = next(each for each in value(machine.interfaces) if each.name == "enp1s0f0np0")
    assert (fabric.up, fabric.speed, fabric.mtu, fabric.physical) == (True, 200000, 9000, True)
    assert "192.168.100.10/24" in fabric.addresses
    (unplugged,) = (each for each in value(machine.interfaces) if each.name == "enp1s0f1np1")
    assert (unplugged.up, unplugged.speed, unplugged.addresses) == (False, None, ())
    assert "uverbs0" in value(machine.rdma_nodes)
    assert [str(each) for each in value(machine.listening)] == [
        "0.0.0.0:22",
        "[::1]:6379",
        "192.168.100.10:8000",
    ]


def test_gb10_and_what_lies_on_it() -> None:
    machine = recorded("gb10")
    docker, podman = value(machine.container_engines)
    assert (docker.state, docker.version, docker.rootless, docker.root) == (
        "usable",
        "28.3.3",
        False,
        "/var/lib/docker",
    )
    assert "nvidia" in docker.runtimes and "nvidia.com/gpu=all" in docker.devices
    assert podman.version == "4.9.3" and podman.state == "unknown"
    head, registry = value(machine.containers)
    assert head.image == "nvcr.io/nvidia/vllm:26.01-py3" and registry.ports == "0.0.0.0:5000->5000/tcp"
    (environment,) = value(machine.environments)
    assert dict(environment.packages) == {"ray": "2.49.2", "torch": "2.9.1+cu130", "vllm": "0.14.0"}
    models = {model.name: model.why for model in value(machine.cached_models)}
    assert models == {
        "Qwen/Qwen3.5-122B-A10B-FP8": "1 files missing: model-00002-of-00002.safetensors",
        "openai/gpt-oss-20b": "",
        "meta-llama/Llama-3.1-8B": "no snapshot",
        "cut/down": "1 files missing: model.safetensors",
        "/models/local": "",
    }
    assert value(machine.disk) == Bytes(1844551640 * 1024)
    assert value(machine.cluster_files)[0].endswith("run_cluster.sh")


def test_h100_of_which_one_is_in_use() -> None:
    machine = recorded("h100")
    assert value(machine.gpus) == 8 and value(machine.unified_memory) is False
    assert value(machine.reported_memory) == Bytes(81559 << 20)
    assert value(machine.visible_memory) == Bytes.parse("79.19 GiB")  # of its kind: nobody asked CUDA
    assert (
        value(machine.accelerators)[0].processes[0].pid == 5521
        and value(machine.accelerators)[1].processes == ()
    )
    assert device("h100").free == 40211 << 20  # the one with the least decides
    assert value(machine.memlock) is None and value(machine.remove_ipc) is False
    (docker,) = value(machine.container_engines)
    assert docker.state == "permission denied" and "permission denied" in (docker.why or "")
    assert missing(machine.containers).cause is Cause.UNAVAILABLE
    assert value(machine.disk) == Bytes(50000000000 * 1024) and value(machine.rdma) == ()


def test_split_accelerators_are_no_whole_ones() -> None:
    for stated in ("", 'profile = "h200"'):
        machine = recorded("h200-mig", stated)
        for fact in (machine.gpus, machine.memory, machine.visible_memory, machine.reported_memory):
            assert "MIG" in missing(fact).why
        assert value(machine.accelerators)[0].instances == ("3g.71gb", "1g.18gb")
        assert value(machine.capability) == Capability(9, 0)


def test_rtx_4090_with_a_daemon_that_hangs() -> None:
    machine = recorded("rtx-4090")
    (docker,) = value(machine.container_engines)
    assert docker.state == "not answering" and "did not answer in time" in missing(machine.containers).why
    assert value(machine.accelerators)[0].processes[0].memory is None
    found = device("rtx-4090")
    assert found.free == 22105 << 20 and abs(found.total - 23.64 * GIB) < GIB // 100


def test_an_accelerator_of_no_known_kind_goes_by_what_the_driver_prints() -> None:
    gpus = answer("rtx-4090", "gpus")
    unknown = type(gpus)(0, gpus.out.replace(b"GeForce RTX 4090", b"Thing 1"), "", whole=True)
    machine = recorded("rtx-4090", gpus=unknown)
    assert isinstance(machine.visible_memory, Missing) and isinstance(machine.bandwidth, Missing)
    found = one_device(machine)
    assert isinstance(found, Device) and found.total_low <= 23.64 * GIB <= found.total_high


def test_mi300x() -> None:
    machine = recorded("mi300x")
    assert (value(machine.vendor), value(machine.gpus)) == ("amd", 8)
    assert value(machine.gpu) == "AMD Instinct MI300X OAM" and value(machine.arch_name) == "gfx942"
    assert value(machine.capability) is None and value(machine.rocm) == "6.4.1"
    assert value(machine.bandwidth) and value(machine.reported_memory) == Bytes(206141652992)
    assert missing(machine.driver).cause is Cause.UNAVAILABLE
    assert device("mi300x").free == 206141652992 - 150000000000


def test_partitions_of_mi300x_are_no_whole_ones() -> None:
    parts = b"2\t90402\t206141652992\t297918464\tCPX\n3\t90402\t\t\t\n"
    machine = recorded("mi300x", 'profile = "mi300x"', amd=Answer(0, parts, "", whole=True))
    for fact in (machine.gpus, machine.memory, machine.visible_memory, machine.reported_memory):
        assert "compute partitions" in missing(fact).why


def test_a_machine_without_accelerators() -> None:
    for stated in ("", 'profile = "h200"'):
        machine = recorded("cpu-only", stated)
        assert value(machine.gpus) == 0 and value(machine.accelerators) == ()
        for fact in (machine.gpu, machine.capability, machine.memory, machine.bandwidth, machine.fp8):
            assert "has no accelerator" in missing(fact).why
    assert value(machine.container_engines)[0].state == "down"
    assert value(machine.remove_ipc) is None and missing(machine.firewall).cause is Cause.UNAVAILABLE
    assert value(machine.cached_models) == () and value(machine.nccl_conf) is None


def test_a_driver_that_is_not_loaded_proves_nothing() -> None:
    machine = recorded("broken-driver")
    assert "couldn't communicate" in missing(machine.accelerators).why
    assert missing(machine.gpus).cause is Cause.UNAVAILABLE and isinstance(machine.gpu, Missing)
    assert "couldn't communicate" in missing(machine.driver).why and isinstance(machine.cuda, Missing)
    filled = recorded("broken-driver", 'profile = "rtx-4090"')
    assert value(filled.gpu) == "NVIDIA GeForce RTX 4090" and isinstance(filled.accelerators, Missing)


def test_an_accelerator_without_its_tool_is_not_none() -> None:
    found = missing(recorded("no-tool").accelerators)
    assert "nvidia" in found.why and "no tool of its driver describes it" in found.why


def test_accelerators_that_are_not_alike() -> None:
    machine = recorded("mixed", 'profile = "rtx-4090"')
    for fact in (machine.gpu, machine.capability, machine.memory, machine.visible_memory, machine.bandwidth):
        assert "not alike" in missing(fact).why
    assert value(machine.gpus) == 2


def test_what_was_read_wins_and_the_rest_stays_as_stated() -> None:
    stated = 'profile = "dgx-spark"\ndriver = "570.1"\ninter_node = "two cables"\nsource = "the invoice"'
    machine = recorded("gb10", stated)
    assert value(machine.driver) == "580.95.05" and "nvidia" in machine.driver.evidence[0].how
    assert value(machine.inter_node) == "two cables" and "the invoice" in machine.inter_node.evidence[0].saw
    assert value(machine.fp4) is True and machine.fp4.evidence[0].subject == "profile:dgx-spark"


def test_a_profile_of_another_kind_is_not_believed() -> None:
    machine = recorded("h100", 'profile = "dgx-spark"\ncompute = "BF16 1 TFLOP/s"')
    assert value(machine.gpu) == "NVIDIA H100 80GB HBM3"
    assert machine.bandwidth.evidence[0].subject == "profile:h100"
    assert value(machine.fp4) is False and value(machine.unified_memory) is False
    assert str(value(machine.compute)) == "BF16 1 TFLOP/s"  # stated of this machine, not of a kind


def test_another_size_under_the_same_name_is_another_kind() -> None:
    gpus = answer("h100", "gpus")
    larger = type(gpus)(0, gpus.out.replace(b"81559", b"97871"), "", whole=True)
    for stated in ("", 'profile = "h100"'):
        machine = recorded("h100", stated, gpus=larger)
        assert value(machine.reported_memory) == Bytes(97871 << 20)
        for fact in (machine.memory, machine.visible_memory, machine.bandwidth):
            assert isinstance(fact, Missing)
    assert value(recorded("h100", 'profile = "h100"').memory) == Bytes.parse("80 GB")


def test_images_that_the_engine_holds() -> None:
    machine = recorded("gb10")
    old, new, registry, unnamed = value(machine.images)
    assert (old.name, old.size, old.architecture) == (
        "nvcr.io/nvidia/vllm:26.01-py3",
        Bytes(21_500_000_000),
        "arm64",
    )
    assert (
        new.names == ("community/vllm-spark:qwen3.5", "local/vllm:now") and new.layers[:2] == old.layers[:2]
    )
    assert registry.repository_digests[0].startswith("registry@sha256:")
    assert (unnamed.size, unnamed.layers) == (None, None), "no size is told: that is not nothing"
    assert "did not answer in time" in missing(recorded("rtx-4090").images).why
    assert value(recorded("mi300x").images) == ()


@pytest.mark.parametrize("row", ["not JSON", "[1]", '{"Id":"short"}', '{"Id":7,"Tags":[]}'])
def test_a_list_of_images_in_an_unknown_form_is_none(row: str) -> None:
    machine = recorded("gb10", docker_images=Answer(0, f"{row}\n".encode(), "", whole=True))
    assert missing(machine.images).cause is Cause.UNREADABLE


def test_images_of_podman_and_names_from_outside() -> None:
    told = {
        "Id": "a" * 64,
        "Tags": ["localhost/x\x1b[2J:1", "<none>:<none>"],
        "Size": True,
        "Layers": ["sha256:1"],
    }
    machine = recorded(
        "gb10",
        podman_images=Answer(0, json.dumps(told).encode(), "", whole=True),
        docker_images=Answer(3, b"", "", whole=True),
    )
    (image,) = value(machine.images)
    assert image.engine == "podman" and image.digest == f"sha256:{'a' * 64}"
    assert image.names == ("localhost/x\x1b[2J:1",) and image.size is None and image.layers is None


def test_h200_with_a_rail_for_each_accelerator() -> None:
    machine = recorded("h200")
    assert value(machine.gpus) == 8 and value(machine.gpu) == "NVIDIA H200"
    assert value(machine.reported_memory) == Bytes(143771 << 20) and value(machine.memory) == Bytes.parse(
        "141 GB"
    )
    ports = value(machine.rdma)
    rails = [port for port in ports if port.link_layer == "InfiniBand"]
    assert [port.node for port in rails] == [0, 0, 0, 0, 1, 1, 1, 1] and rails[4].pci == "0000:9a:00.0"
    gpus = value(machine.accelerators)
    assert [gpu.node for gpu in gpus] == [port.node for port in rails] and gpus[4].pci == "0000:9d:00.0"
    assert "PCI 0000:9d:00.0, NUMA node 1" in str(gpus[4]) and "NUMA" not in str(
        value(recorded("h100").accelerators)[0]
    )
    (bond,) = (port for port in ports if port.link_layer == "Ethernet")
    assert [gid.ipv4 for gid in bond.gids] == [None, None, "10.20.0.11", "10.20.0.11"]
    assert str(bond).endswith("PCI 0000:29:00.0, NUMA node 0, RoCE v2 at GID 1, 3 (10.20.0.11)")
    assert value(machine.nccl_conf)["NCCL_IB_HCA"] == "^mlx5_bond_0" and value(machine.firewall) == ()
    assert recorded("gb10").rdma != machine.rdma and value(recorded("gb10").rdma)[0].node is None


@pytest.mark.parametrize(
    ("row", "pci", "node"),
    [("0000:1b:00.0\tGPU-a\t-1", "0000:1b:00.0", None), ("0000:1b:00.0\tGPU-b\t0", None, None), ("*\t\t", None, None),
     ("../x\tGPU-a\t0", None, None), ("0000:1b:00.0\tGPU-a", "0000:1b:00.0", None), ("", None, None)],
)  # fmt: skip
def test_where_an_accelerator_sits(row: str, pci: str | None, node: int | None) -> None:
    one = Answer(0, b"0, NVIDIA H200, GPU-a, 143771, 1000, Disabled, 9.0\n", "", whole=True)
    (gpu,) = value(
        recorded("h200", gpus=one, gpu_places=Answer(0, row.encode(), "", whole=True)).accelerators
    )
    assert (gpu.pci, gpu.node) == (pci, node)


def test_a_tool_that_hangs_has_said_nothing_and_one_that_fails_has() -> None:
    late = missing(recorded("gb10", gpus=Answer(124, b"", "", whole=True)).accelerators)
    assert "did not answer in time" in late.why and not late.evidence[0].whole
    failed = missing(recorded("broken-driver").accelerators)
    assert failed.evidence[0].whole


def test_variables_that_every_login_gets() -> None:
    found = value(recorded("gb10").network_environment)
    assert found == {"NCCL_DEBUG": "WARN", "GLOO_SOCKET_IFNAME": "enp1s0f0np0"}
    assert value(recorded("cpu-only").network_environment) == {}
    cut = Answer(0, b"NCCL_DEBUG=WARN\n", "", whole=True)
    assert isinstance(recorded("gb10", network_environment=cut).network_environment, Missing)
    secret = Answer(0, b"NCCL_X=1\nexport API_TOKEN=secret\nend\n", "", whole=True)
    assert value(recorded("gb10", network_environment=secret).network_environment) == {"NCCL_X": "1"}
