"""How SGLang is started: the same command on every machine, each with its node rank."""

from __future__ import annotations

from canserve.engines.argv import Flags, Words, address, network, options, placeholders
from canserve.engines.parsers import parser_options
from canserve.engines.placing import by_host, even, visible_devices
from canserve.facts import Cause, Fact, Known, Missing
from canserve.subjects.launch import Host, Launch, Process, Start

OPTIONS = {"context": "context_length", "sequences": "max_running_requests"}
"""What a plan sets, under SGLang's names; its static fraction is of what is free, not of the whole."""
DEGREES = frozenset({
    "tp_size", "tensor_parallel_size", "pp_size", "pipeline_parallel_size", "dp_size", "data_parallel_size",
    "ep_size", "expert_parallel_size", "enable_ep_moe", "nnodes", "node_rank", "dist_init_addr",
    "enable_dp_attention",
})  # fmt: skip
"""Options that the layout decides."""
ATTENTION = "--enable-dp-attention"
PORT = 5000


def start(launch: Launch) -> Fact[Start]:
    """Every process, the head's first; Missing where the build has no way to do it."""
    flags, hosts, parallel = Flags.of(launch.build.flags), launch.hosts, launch.placement.parallel
    subject = launch.build.identity.subject
    for degree, names in (
        (parallel.pp, ("--pipeline-parallel-size", "--pp-size")),
        (parallel.ep, ("--expert-parallel-size", "--ep-size", "--enable-ep-moe")),
        (1 + parallel.joined, (ATTENTION,)),
        (len(hosts), ("--nnodes",)),
    ):
        if degree > 1 and flags.first(*names) is None:
            return Missing(
                Cause.UNAVAILABLE, f"{subject} has no flag {names[0]}", launch.build.flags.evidence,
                "choose a layout without it, or a build that has it",
            )  # fmt: skip
    if len(hosts) > 1 and parallel.dp > 1 and not parallel.joined:
        return Missing(
            Cause.UNAVAILABLE,
            "data-parallel replicas over several machines are deployments of their own",
            ask="start one deployment a machine behind a load balancer, or choose dp 1",
        )
    if not even(launch.placement):
        return Missing(
            Cause.UNAVAILABLE,
            "the launcher wants the same number of accelerators on every machine",
            ask="use as many accelerators on each machine as the smallest has",
        )
    return Known(_start(launch, flags))


def _start(launch: Launch, flags: Flags) -> Start:
    hosts, ranks = launch.hosts, by_host(launch.placement)
    chosen = parser_options(launch) | dict(launch.options)
    processes = []
    for number, host in enumerate(hosts):
        nodes: Words = ()
        if len(hosts) > 1:
            nodes = (
                "--nnodes", str(len(hosts)), "--node-rank", str(number),
                "--dist-init-addr", f"{address(hosts[0])}:{PORT}",
            )  # fmt: skip
        argv = (
            "python3", "-m", "sglang.launch_server", "--model-path", launch.model.subject,
            *_degrees(launch, flags), *nodes, *options(flags, chosen, leave=DEGREES),
        )  # fmt: skip
        environment = {**_announced(hosts, host), **network(hosts, host), **visible_devices(launch, host)}
        processes.append(Process(host.name, ranks[host.name], argv, environment))
    return Start(tuple(processes), placeholders(hosts[:1]) if len(hosts) > 1 else {})


def _announced(hosts: tuple[Host, ...], host: Host) -> dict[str, str]:
    """The address that its queues tell other machines.

    Else that of its own name is taken, often a loopback one: every rank then stands right after its communicator is up.
    """
    return {"SGLANG_HOST_IP": host.ip} if host.ip is not None and len(hosts) > 1 else {}


def _degrees(launch: Launch, flags: Flags) -> Words:
    parallel = launch.placement.parallel
    words: list[str] = []
    # Where only attention is data parallel, the tensor parallel size counts the ranks of all replicas.
    ranks = parallel.tp * parallel.dp if parallel.joined else parallel.tp
    for degree, names in (
        (ranks, ("--tensor-parallel-size", "--tp-size")),
        (parallel.pp, ("--pipeline-parallel-size", "--pp-size")),
        (parallel.dp, ("--data-parallel-size", "--dp-size")),
    ):
        if degree > 1:
            words += flags.set(degree, *names)
    if parallel.ep > 1:
        sized = flags.first("--expert-parallel-size", "--ep-size")
        words += (sized, str(parallel.ep)) if sized is not None else ("--enable-ep-moe",)
    if parallel.joined:
        words.append(ATTENTION)
    return tuple(words)
