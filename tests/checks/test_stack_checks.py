"""Checks about what a build stands on: each with yes, no and unknown, and where they do not apply."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

import pytest
from quant_world import gpu, judged, listing, machine, skipped
from small_world import case, model, seen

from canserve.checks.case import Case, Deployment, Wish
from canserve.checks.machine.collective import COLLECTIVE_LOADS
from canserve.checks.machine.driver import DRIVER
from canserve.checks.machine.entrypoint import ENTRYPOINT
from canserve.checks.machine.environment import ENVIRONMENT
from canserve.checks.machine.jit_toolchain import JIT_TOOLCHAIN
from canserve.checks.machine.triton_compiler import TRITON_COMPILER
from canserve.facts import Cause, Known, Missing
from canserve.rules.stack import FILE
from canserve.rules.table import load
from canserve.subjects.host import Interface
from canserve.subjects.launch import Process, Start
from canserve.subjects.machine import Machine
from canserve.subjects.parallel import Parallel
from canserve.subjects.stack import Kernels, Loaded, Stack, Started, Tool, Triton
from canserve.verdict import No, Unknown, Yes

UNREACHED = Missing(Cause.UNREACHED, "only a distribution, with nothing around it")
UNREADABLE = Missing(Cause.UNREADABLE, "unknown form", ask="look")


def known(value: Any) -> Known[Any]:
    return Known(value, seen(str(value)[:40]))


def standing(
    on: Machine | None = None, engine: str = "eng", version: str = "1.0", flags: str = "", **facts: Any
) -> Case:
    build = listing(engine=engine, version=version)
    stack = Stack(**{k: v if isinstance(v, Known | Missing) else known(v) for k, v in facts.items()})
    origin = "image on disk: Python environment"
    build = replace(build, identity=replace(build.identity, origin=origin), stack=stack)
    wish = Wish(flags={flags: None}) if flags else Wish()
    return case(model(), build, machine=on or gpu("12.1"), wish=wish)


def tool(name: str, version: str | None = "12.8.93") -> Tool:
    return Tool(f"triton/bin/{name}", known(version) if version else UNREADABLE)


def triton(*tools: Tool, newer: Any = None, by_torch: Tool | None = None, **named: Tool) -> Triton:
    newer_from = newer if isinstance(newer, Missing) else known(newer)
    return Triton(known("3.6.0"), tools, named, by_torch, newer_from, known(True))


# triton-compiler-knows-gpu ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capability", "version", "verdict"),
    [
        ("12.1", "12.8.93", No), ("12.0", "12.8.93", Yes), ("10.0", "12.8.93", Yes), ("10.3", "12.8.93", No),
        ("12.1", "12.9.86", Yes), ("10.3", "12.9.86", Yes), ("11.0", "12.9.86", No), ("11.0", "13.0.88", Yes),
        ("9.0", "11.8.89", Yes), ("10.0", "12.6.85", No), ("7.0", "12.9.86", Yes), ("7.0", "13.0.88", No),
        ("12.1", "99.1.0", Unknown),
    ],
)  # fmt: skip
def test_an_assembler_knows_the_gpus_of_its_release(capability: str, version: str, verdict: type) -> None:
    found = standing(gpu(capability), triton=triton(tool("ptxas", version)))
    assert isinstance(judged(TRITON_COMPILER, found), verdict)


def test_newer_gpus_get_the_assembler_that_is_made_for_them() -> None:
    both = triton(tool("ptxas", "12.8.93"), tool("ptxas-blackwell", "12.9.86"), newer=100)
    assert isinstance(judged(TRITON_COMPILER, standing(triton=both)), Yes)
    older = triton(tool("ptxas", "12.9.86"), tool("ptxas-blackwell", "12.8.93"), newer=100)
    verdict = judged(TRITON_COMPILER, standing(triton=older))
    assert isinstance(verdict, No) and "TRITON_PTXAS_BLACKWELL_PATH" in verdict.fix and "12.9" in verdict.fix
    assert isinstance(judged(TRITON_COMPILER, standing(gpu("8.0"), triton=older)), Yes)
    hopper = triton(tool("ptxas", "99.0"), tool("ptxas-blackwell", "13.0.88"), newer=90)
    assert isinstance(judged(TRITON_COMPILER, standing(gpu("9.0"), triton=hopper)), Yes)
    assert isinstance(judged(TRITON_COMPILER, standing(gpu("8.9"), triton=hopper)), Unknown)
    gone = triton(tool("ptxas", "13.0.88"), newer=100)
    assert isinstance(judged(TRITON_COMPILER, standing(triton=gone)), Unknown)


def test_a_choice_that_was_not_understood_decides_nothing_that_the_two_differ_in() -> None:
    def found(one: str, other: str) -> Any:
        both = triton(tool("ptxas", one), tool("ptxas-blackwell", other), newer=UNREADABLE)
        return judged(TRITON_COMPILER, standing(triton=both))

    assert isinstance(found("12.9.86", "13.0.88"), Yes)
    assert isinstance(found("12.8.93", "13.0.88"), Unknown)
    assert isinstance(found("12.8.93", "12.6.85"), No)


def test_torch_may_put_its_own_in_place() -> None:
    own = tool("torch/bin/ptxas", "13.0.88")
    found = standing(triton=triton(tool("ptxas"), by_torch=own))
    assert isinstance(judged(TRITON_COMPILER, found), Unknown)
    older = replace(own, version=known("12.8.61"))
    assert isinstance(judged(TRITON_COMPILER, standing(triton=triton(tool("ptxas"), by_torch=older))), No)


def test_an_assembler_that_a_variable_names_counts() -> None:
    named = {"TRITON_PTXAS_PATH": Tool("usr/local/cuda/bin/ptxas", known("13.0.88"))}
    verdict = judged(TRITON_COMPILER, standing(triton=triton(tool("ptxas"), **named)))
    assert isinstance(verdict, Yes) and "TRITON_PTXAS_PATH" in verdict.because


def test_where_the_assembler_is_not_known() -> None:
    assert isinstance(judged(TRITON_COMPILER, standing(triton=triton())), Unknown)
    assert isinstance(judged(TRITON_COMPILER, standing(triton=triton(tool("ptxas", None)))), Unknown)
    assert isinstance(judged(TRITON_COMPILER, standing(triton=UNREADABLE)), Unknown)
    assert "distribution" in skipped(TRITON_COMPILER, standing(triton=UNREACHED))
    assert "not beside" in skipped(TRITON_COMPILER, standing(triton=None))
    amd = machine(vendor="amd", capability=None)
    assert skipped(TRITON_COMPILER, standing(amd, triton=triton(tool("ptxas"))))


def test_releases_of_the_assembler_are_in_order_and_forget_nothing_but_the_oldest() -> None:
    rows = load(FILE).rows("assembler")
    releases = [tuple(map(int, row.text("cuda").split("."))) for row in rows]
    assert releases == sorted(set(releases))
    for earlier, later in pairwise(rows):
        gone = set(earlier.texts("capabilities")) - set(later.texts("capabilities"))
        assert not gone or earlier.text("cuda")[:2] != later.text("cuda")[:2]


# jit-toolchain-present -------------------------------------------------------------------------------

FLASHINFER = Kernels("flashinfer", "site/flashinfer", Known("0.6.4"), kept=False, files=0, targets=())
AHEAD = replace(FLASHINFER, name="flashinfer_jit_cache", files=300)
WHOLE: dict[str, Any] = {
    "triton": triton(tool("ptxas")),
    "kernels": (FLASHINFER,),
    "nvcc": (Tool("usr/local/cuda/bin/nvcc", known("12.9.86")),),
    "c_compiler": "usr/bin/gcc",
    "python_header": "usr/include/python3.12/Python.h",
    "ninja": "usr/bin/ninja",
}


def test_everything_that_is_called_is_there() -> None:
    verdict = judged(JIT_TOOLCHAIN, standing(**WHOLE))
    assert isinstance(verdict, Yes) and "usr/bin/gcc" in verdict.because and "12.9.86" in verdict.because


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"nvcc": ()}, "nvcc"),
        ({"nvcc": (Tool("nvcc", Known("12.4.131", seen())),)}, "none there compiles for this GPU"),
        ({"nvcc": (Tool("nvcc", UNREADABLE),)}, "unknown form"),
        ({"ninja": None}, "ninja"),
        ({"python_header": None}, "Python.h"),
        ({"c_compiler": None}, "depends on the model"),
        ({"c_compiler": UNREADABLE}, "unknown form"),
    ],
)
def test_what_is_lacking_may_not_be_needed(change: dict[str, Any], words: str) -> None:
    verdict = judged(JIT_TOOLCHAIN, standing(**(WHOLE | change)))
    assert isinstance(verdict, Unknown) and words in verdict.because


def test_kernels_that_were_compiled_ahead_need_no_compiler() -> None:
    ahead = WHOLE | {"kernels": (FLASHINFER, AHEAD), "nvcc": (), "ninja": None}
    assert isinstance(judged(JIT_TOOLCHAIN, standing(**ahead)), Yes)


def test_an_engine_that_compiles_as_it_starts_cannot_without() -> None:
    lacking = WHOLE | {"c_compiler": None}
    verdict = judged(JIT_TOOLCHAIN, standing(engine="vllm", version="0.17.1", **lacking))
    assert isinstance(verdict, No) and "gcc" in verdict.fix
    for version, flags in (
        ("0.17.1", "--enforce-eager"),
        ("0.6.0", ""),
        ("0.17.1", "-O0"),
        ("0.17.1", "-cc.mode"),
    ):
        found = standing(engine="vllm", version=version, flags=flags, **lacking)
        assert isinstance(judged(JIT_TOOLCHAIN, found), Unknown), (version, flags)


def test_what_lies_outside_of_an_environment_is_not_judged() -> None:
    outside = WHOLE | dict.fromkeys(("nvcc", "c_compiler", "python_header", "ninja"), UNREACHED)
    assert "distribution" in skipped(JIT_TOOLCHAIN, standing(**outside))
    half = judged(JIT_TOOLCHAIN, standing(**(WHOLE | {"nvcc": UNREACHED})))
    assert isinstance(half, Yes) and half.needs
    assert "nothing" in skipped(JIT_TOOLCHAIN, standing(triton=None, kernels=()))
    assert skipped(JIT_TOOLCHAIN, standing(machine(vendor="amd"), **WHOLE))


# entrypoint-passes-command ---------------------------------------------------------------------------


def starting(*entry: str, script: Any = None, engine: str = "vllm") -> Case:
    last = script if isinstance(script, Missing) else known(script)
    return standing(engine=engine, started=Started(entry, (), last))


@pytest.mark.parametrize(
    ("entry", "script", "verdict", "needs"),
    [
        ((), None, Yes, ""),
        (("tini", "-g", "--"), None, Yes, ""),
        (("/opt/nvidia/nvidia_entrypoint.sh",), None, Yes, ""),
        (("vllm", "serve"), None, Yes, "flags alone"),
        (("/usr/bin/python3.12", "-m", "vllm.entrypoints.openai.api_server"), None, Yes, "flags alone"),
        (("tini", "--", "vllm", "serve"), None, Yes, "flags alone"),
        (("vllm",), None, Yes, "the rest"),
        (("python3",), None, Yes, "the rest"),
        (("/bin/bash",), None, Yes, "-c"),
        (("/bin/sh", "-c", "vllm serve $MODEL"), None, No, ""),
        (("/bin/bash", "-lc", "exec vllm serve"), None, No, ""),
        (("/bin/sh", "-c", 'exec "$@"', "sh"), None, Unknown, ""),
        (("/start.sh",), '"$@"', Yes, ""),
        (("/start.sh",), 'vllm serve "$@"', Yes, "flags alone"),
        (("/start.sh",), "vllm serve /model", Unknown, ""),
        (("/start.sh",), 'gosu me "$@"', Unknown, ""),
        (("/start.sh",), "'", Unknown, ""),
        (("/start.sh",), None, Unknown, ""),
        (("/start.sh",), UNREADABLE, Unknown, ""),
        (("/start.sh",), UNREACHED, Unknown, ""),
        (("python3", "-m", "sglang.launch_server"), None, Unknown, ""),
    ],
)
def test_entrypoints(entry: tuple[str, ...], script: Any, verdict: type, needs: str) -> None:
    found = judged(ENTRYPOINT, starting(*entry, script=script))
    assert isinstance(found, verdict), found
    if needs:
        assert isinstance(found, Yes) and needs in found.needs[0]


def test_a_shell_command_with_dollar_at_before_its_name_is_read_as_one() -> None:
    verdict = judged(ENTRYPOINT, starting("sh", "-c", "echo"))
    assert isinstance(verdict, No) and "--entrypoint" in verdict.fix
    assert "not an image" in skipped(ENTRYPOINT, standing(started=Missing(Cause.UNREACHED, "not an image")))


# environment-pins-no-address -------------------------------------------------------------------------


def nic(name: str, *addresses: str, up: bool = True) -> Interface:
    return Interface(name, up, 1000, 1500, addresses, True)


HOST = (nic("lo", "127.0.0.1/8"), nic("enp1s0", "192.168.7.2/24", "fe80::1/64"), nic("old0", up=False))


def pinning(interfaces: Any = HOST, **pins: str) -> Case:
    facts = {} if interfaces is None else {"interfaces": interfaces}
    return standing(gpu("12.1", **facts), engine="vllm", pins=pins)


@pytest.mark.parametrize(
    ("pins", "verdict"),
    [
        ({}, Yes),
        ({"LD_LIBRARY_PATH": "/usr/local/cuda/lib64", "NCCL_DEBUG": "INFO"}, Yes),
        ({"VLLM_HOST_IP": "10.1.2.3"}, No),
        ({"MASTER_ADDR": "tcp://10.1.2.3:29500"}, No),
        ({"RAY_ADDRESS": "[fd00::7]:6379"}, No),
        ({"RAY_ADDRESS": "auto", "VLLM_HOST_IP": "0.0.0.0"}, Yes),
        ({"RAY_ADDRESS": "head.example:6379"}, Unknown),
        ({"SGLANG_HOST_IP": "10.1.2.3"}, Yes),
        ({"NCCL_SOCKET_IFNAME": "enp1"}, Yes),
        ({"NCCL_SOCKET_IFNAME": "^docker"}, Yes),
        ({"NCCL_SOCKET_IFNAME": "=enp1"}, No),
        ({"NCCL_SOCKET_IFNAME": ""}, Yes),
        ({"GLOO_SOCKET_IFNAME": "old0"}, No),
        ({"GLOO_SOCKET_IFNAME": "enp1"}, No),  # it takes whole names
        ({"GLOO_SOCKET_IFNAME": "enp1s0"}, Yes),
        ({"OMPI_MCA_btl_tcp_if_include": "192.168.7.0/24"}, Unknown),
        ({"GLOO_SOCKET_IFNAME": "eth0", "VLLM_HOST_IP": "10.9.9.9"}, No),
    ],
)
def test_pinned_addresses_and_interfaces(pins: dict[str, str], verdict: type) -> None:
    assert isinstance(judged(ENVIRONMENT, pinning(**pins)), verdict)


def test_what_is_right_on_one_machine_is_said_to_be() -> None:
    here = judged(ENVIRONMENT, pinning(VLLM_HOST_IP="192.168.7.2"))
    assert isinstance(here, Yes) and "this machine only" in here.needs[0]
    for pins in ({"VLLM_HOST_IP": "127.0.0.1"}, {"NCCL_SOCKET_IFNAME": "lo"}):
        alone = judged(ENVIRONMENT, pinning(**pins))
        assert isinstance(alone, Yes) and "one machine only" in alone.needs[0]


def test_an_interface_that_the_machine_lacks_is_replaced_by_one_that_it_has() -> None:
    lacking = judged(ENVIRONMENT, pinning(NCCL_SOCKET_IFNAME="eth0"))
    assert isinstance(lacking, No) and lacking.fix == "start it with -e NCCL_SOCKET_IFNAME=enp1s0"
    there = judged(ENVIRONMENT, pinning(NCCL_SOCKET_IFNAME="enp1s0"))
    assert isinstance(there, Yes) and there.needs == ("the machine's own network (--network=host)",)
    either = judged(ENVIRONMENT, pinning((nic("eth0", "10.0.0.2/24"),), NCCL_SOCKET_IFNAME="eth0"))
    assert isinstance(either, Yes) and not either.needs


def test_of_a_machine_that_nobody_looked_at_the_condition_is_told() -> None:
    found = judged(ENVIRONMENT, pinning(None, NCCL_SOCKET_IFNAME="eth0"))
    assert isinstance(found, Yes) and "NCCL_SOCKET_IFNAME=eth0 picks on each machine" in found.needs[0]
    unread = Missing(Cause.UNAVAILABLE, "no /sys/class/net")
    assert isinstance(judged(ENVIRONMENT, pinning(unread, NCCL_SOCKET_IFNAME="eth0")), Unknown)


def test_a_machine_whose_interfaces_nobody_saw() -> None:
    unseen = judged(ENVIRONMENT, pinning(None, VLLM_HOST_IP="10.1.2.3"))
    assert isinstance(unseen, Unknown) and "-e VLLM_HOST_IP" in unseen.ask
    untold = (Interface("eth1", True, None, None, None, True),)
    assert isinstance(judged(ENVIRONMENT, pinning(untold, VLLM_HOST_IP="10.1.2.3")), Unknown)
    assert isinstance(judged(ENVIRONMENT, standing(pins=UNREADABLE)), Unknown)
    assert "distribution" in skipped(ENVIRONMENT, standing(pins=UNREACHED))


# collective-library-loads ----------------------------------------------------------------------------

NCCL = "site/nvidia/nccl/lib/libnccl.so.2"


def loading(
    version: Any = "2.27.5", wanted: str | None = "==2.27.5", path: str | None = NCCL, **more: Any
) -> Case:
    release = version if isinstance(version, Missing) else known(version)
    certain = more.pop("certain", True)
    loaded = Loaded(path, release, "RPATH of torch/lib/libtorch_cuda.so", certain)
    copies = () if path is None else (Tool(path, release),)
    facts = {"nccl_loaded": loaded, "nccl": copies, "torch_requires_nccl": wanted} | more
    return standing(engine="vllm", **facts)


def test_the_copy_that_torch_gets() -> None:
    verdict = judged(COLLECTIVE_LOADS, loading())
    assert isinstance(verdict, Yes) and "2.27.5" in verdict.because and "RPATH" in verdict.because
    assert isinstance(judged(COLLECTIVE_LOADS, loading("2.28.9")), Yes)
    assert isinstance(judged(COLLECTIVE_LOADS, loading(wanted=None)), Yes)
    unsure = judged(COLLECTIVE_LOADS, loading(certain=False))
    assert isinstance(unsure, Yes) and "LD_LIBRARY_PATH" in unsure.needs[0]


def test_a_copy_that_may_lack_something() -> None:
    older = judged(COLLECTIVE_LOADS, loading("2.21.5"))
    assert isinstance(older, Unknown) and "2.21.5" in older.because
    assert isinstance(judged(COLLECTIVE_LOADS, loading(UNREADABLE)), Unknown)
    assert isinstance(judged(COLLECTIVE_LOADS, loading(UNREACHED)), Unknown)
    other = loading(pins={"VLLM_NCCL_SO_PATH": "/opt/nccl/libnccl.so.2"})
    verdict = judged(COLLECTIVE_LOADS, other)
    assert isinstance(verdict, Unknown) and "not found" in verdict.because
    foreign = loading(pins={"SGLANG_NCCL_SO_PATH": "/opt/nccl/libnccl.so.2"})
    assert isinstance(judged(COLLECTIVE_LOADS, foreign), Yes)
    same = loading(pins={"VLLM_NCCL_SO_PATH": f"/{NCCL}"})
    assert isinstance(judged(COLLECTIVE_LOADS, same), Yes)


def test_no_copy_at_all() -> None:
    nowhere = judged(COLLECTIVE_LOADS, loading(path=None))
    assert isinstance(nowhere, No) and "install NCCL" in nowhere.fix
    elsewhere = loading(path=None, nccl=(tool("libnccl.so.2"),))
    assert isinstance(judged(COLLECTIVE_LOADS, elsewhere), Unknown)
    partly = Known((), tuple(replace(look, whole=False) for look in seen()))
    assert isinstance(judged(COLLECTIVE_LOADS, loading(path=None, nccl=partly)), Unknown)


def test_where_nothing_links_against_it() -> None:
    assert "no NCCL library" in skipped(COLLECTIVE_LOADS, standing(nccl_loaded=None))
    assert "distribution" in skipped(COLLECTIVE_LOADS, standing(nccl_loaded=UNREACHED))
    assert isinstance(judged(COLLECTIVE_LOADS, standing(nccl_loaded=UNREADABLE)), Unknown)
    assert skipped(COLLECTIVE_LOADS, standing(machine(vendor="amd"), nccl_loaded=None))


# driver-new-enough, with what an image brings ----------------------------------------------------------


def driven(compat: Any) -> Case:
    found = standing(gpu("9.0", driver="525.60.13", cpu_arch="x86_64"), cuda_compat=compat)
    return replace(found, build=replace(found.build, torch=known("2.9.1+cu130")))


def test_a_torch_whose_version_does_not_say_its_cuda_says_it_in_its_files() -> None:
    """NVIDIA's own images: torch 2.9.0a0+50eac811a6.nv25.09, with CUDA 13.0."""
    on = gpu("12.1", driver="580.95.05", cpu_arch="aarch64")
    found = standing(on, torch_cuda="13.0")
    found = replace(found, build=replace(found.build, torch=known("2.9.0a0+50eac811a6.nv25.09")))
    verdict = judged(DRIVER, found)
    assert isinstance(verdict, Yes) and "CUDA 13.0" in verdict.because
    older = replace(found, machine=gpu("12.1", driver="570.86.15", cpu_arch="aarch64"))
    assert isinstance(judged(DRIVER, older), Unknown)
    silent = replace(found, build=replace(found.build, stack=Stack(torch_cuda=known(None))))
    assert not isinstance(judged(DRIVER, silent), Yes)


def test_a_compatibility_package_in_the_image() -> None:
    assert isinstance(judged(DRIVER, driven(None)), No)
    brought = judged(DRIVER, driven("580.95.05"))
    assert (
        isinstance(brought, Unknown) and "580.95.05" in brought.because and "data-center" in brought.because
    )
    assert isinstance(judged(DRIVER, driven("545.23.08")), No)
    assert isinstance(judged(DRIVER, driven(UNREACHED)), Unknown)


@pytest.mark.parametrize(
    ("head", "second", "verdict"),
    [
        (("VLLM_HOST_IP",), ("VLLM_HOST_IP",), Yes),
        (("VLLM_HOST_IP",), (), No),  # one that starts without it stands where the image was made
        (("NCCL_SOCKET_IFNAME",), ("NCCL_SOCKET_IFNAME",), No),
    ],
)
def test_commands_set_anew_what_an_image_pins(
    head: tuple[str, ...], second: tuple[str, ...], verdict: type
) -> None:
    processes = tuple(
        Process(host, (number,), ("vllm",), dict.fromkeys(names, "192.168.7.2"))
        for number, (host, names) in enumerate({"a": head, "b": second}.items())
    )
    deployment = Deployment(cast(Any, None), Parallel(2), start=Known(Start(processes)))
    found = judged(ENVIRONMENT, replace(pinning(VLLM_HOST_IP="10.1.2.3"), deployment=deployment))
    assert isinstance(found, verdict)
    if isinstance(found, Yes):
        assert found.because == "its commands set anew what its variables bind it to: VLLM_HOST_IP"
