"""How vLLM is started: one server, its further nodes by its own launcher or by Ray.

Which of these a build can do is read from its flags and launchers, never from its version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from canserve.engines.argv import Flags, Words, address, network, options, placeholders
from canserve.engines.parsers import parser_options
from canserve.engines.placing import by_host, even, visible_devices
from canserve.facts import Cause, Fact, Known, Missing
from canserve.subjects.launch import Host, Launch, Process, Start

OPTIONS = {
    "context": "max_model_len",
    "utilisation": "gpu_memory_utilization",
    "sequences": "max_num_seqs",
    "step": "max_num_batched_tokens",
}
"""What a plan sets, under vLLM's names."""
DEGREES = frozenset({
    "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "enable_expert_parallel",
})  # fmt: skip
"""Options that the layout decides."""
RAY_PORT, MASTER_PORT, DATA_PORT = 6379, 29501, 13345
BACKEND = "distributed_executor_backend"


@dataclass(frozen=True, slots=True)
class Vllm:
    """One launch, with the build's flags at hand."""

    launch: Launch
    flags: Flags
    launchers: tuple[str, ...] | None
    """None: not read."""

    def server(self, *more: str) -> Words:
        """``vllm serve`` with everything that every process of one deployment is told alike."""
        parallel = self.launch.placement.parallel
        degrees: list[str] = []
        for degree, flag in (
            (parallel.tp, "--tensor-parallel-size"),
            (parallel.pp, "--pipeline-parallel-size"),
            (parallel.dp, "--data-parallel-size"),
        ):
            if degree > 1:
                degrees += self.flags.set(degree, flag)
        if parallel.ep > 1 and self.flags.first("--enable-expert-parallel"):
            degrees.append("--enable-expert-parallel")
        chosen = _parsers(self) | dict(self.launch.options)
        return (
            "vllm", "serve", self.launch.model.subject, *degrees, *more,
            *options(self.flags, chosen, leave=DEGREES | {BACKEND}),
        )  # fmt: skip

    def can(self, launcher: str) -> bool:
        """Whether the build has a way to start further nodes."""
        return self.launchers is None or launcher in self.launchers


def start(launch: Launch) -> Fact[Start]:
    """Every process in the order in which it is started; Missing where the build has no way to do it."""
    launchers = launch.build.launchers
    it = Vllm(launch, Flags.of(launch.build.flags), launchers.value if isinstance(launchers, Known) else None)
    if len(launch.hosts) == 1:
        return Known(_single(it))
    parallel = launch.placement.parallel
    wants_ray = launch.options.get(BACKEND) == "ray"
    if parallel.dp > 1:
        return _replicas(it)
    if it.can("mp-multinode") and even(launch.placement) and not wants_ray:
        return Known(_nodes(it))
    if it.can("ray") or it.can("ray-optional"):
        return Known(_ray(it))
    return Missing(
        Cause.UNAVAILABLE,
        f"{launch.build.identity.subject} has no launcher for several machines (looked for nnodes and ray)",
        launchers.evidence,
        "use a build that has one, or one machine",
    )


def _parsers(it: Vllm) -> dict[str, object]:
    """The parsers that suit; vLLM calls the tool parser only where ``auto`` is allowed as a tool choice."""
    found = parser_options(it.launch)
    if "tool_call_parser" in found and it.flags.has("--enable-auto-tool-choice"):
        found["enable_auto_tool_choice"] = True
    return found


def _environment(it: Vllm, host: Host) -> dict[str, str]:
    known = {"VLLM_HOST_IP": host.ip} if host.ip is not None and len(it.launch.hosts) > 1 else {}
    return {**known, **network(it.launch.hosts, host), **visible_devices(it.launch, host)}


def _single(it: Vllm) -> Start:
    host = it.launch.hosts[0]
    ranks = tuple(rank.number for rank in it.launch.placement.ranks)
    backend = _chosen_backend(it)
    return Start((Process(host.name, ranks, it.server(*backend), _environment(it, host)),))


def _chosen_backend(it: Vllm) -> Words:
    chosen = it.launch.options.get(BACKEND)
    return it.flags.set(chosen, "--distributed-executor-backend") if isinstance(chosen, str) else ()


def _nodes(it: Vllm) -> Start:
    """``--nnodes``: the same command on every machine, the further ones without an API."""
    hosts, ranks = it.launch.hosts, by_host(it.launch.placement)
    head = address(hosts[0])
    processes = []
    for number, host in enumerate(hosts):
        more = (
            *it.flags.set("mp", "--distributed-executor-backend"),
            "--nnodes", str(len(hosts)), "--node-rank", str(number),
            "--master-addr", head, "--master-port", str(MASTER_PORT),
            *(("--headless",) if number else ()),
        )  # fmt: skip
        processes.append(Process(host.name, ranks[host.name], it.server(*more), _environment(it, host)))
    return Start(tuple(processes), placeholders(hosts[:1]))


def _ray(it: Vllm) -> Start:
    """A Ray cluster over all machines, then one server on the head."""
    hosts, ranks = it.launch.hosts, by_host(it.launch.placement)
    head = address(hosts[0])
    processes = []
    for number, host in enumerate(hosts):
        count = ("--num-gpus", str(len(ranks[host.name])))
        join = ("--address", f"{head}:{RAY_PORT}") if number else ("--head", "--port", str(RAY_PORT))
        argv = ("ray", "start", *join, "--node-ip-address", address(host), *count)
        processes.append(Process(host.name, (), argv, _environment(it, host)))
    everything = tuple(rank.number for rank in it.launch.placement.ranks)
    server = it.server(*it.flags.set("ray", "--distributed-executor-backend"))
    processes.append(Process(hosts[0].name, everything, server, _environment(it, hosts[0])))
    optional = it.launchers is not None and "ray-optional" in it.launchers
    notes = ("the build uses Ray but does not bring it: install ray on every machine",) if optional else ()
    return Start(tuple(processes), placeholders(hosts), notes)


def _replicas(it: Vllm) -> Fact[Start]:
    """Data parallel replicas over machines: each lies on one machine, the head serves the API."""
    launch = it.launch
    parallel = launch.placement.parallel
    homes: dict[int, set[str]] = {}
    for rank in launch.placement.ranks:
        homes.setdefault(rank.dp, set()).add(rank.machine)
    if any(len(machines) > 1 for machines in homes.values()):
        return Missing(
            Cause.UNAVAILABLE,
            "data-parallel replicas that span machines are started by hand",
            ask=f"start {parallel.dp} deployments behind one load balancer, or choose dp 1",
        )
    if not it.can("headless") or it.flags.first("--data-parallel-size-local") is None:
        return Missing(
            Cause.UNAVAILABLE,
            f"{launch.build.identity.subject} cannot spread data-parallel replicas over machines",
            launch.build.flags.evidence,
            "use one machine, or a build with --data-parallel-size-local",
        )
    return Known(_replica_start(it, homes))


def _replica_start(it: Vllm, homes: Mapping[int, set[str]]) -> Start:
    hosts, ranks = it.launch.hosts, by_host(it.launch.placement)
    processes = []
    for number, host in enumerate(hosts):
        mine = sorted(replica for replica, machines in homes.items() if host.name in machines)
        more = (
            "--data-parallel-size-local", str(len(mine)),
            *(("--data-parallel-start-rank", str(mine[0]), "--headless") if number else ()),
            "--data-parallel-address", address(hosts[0]), "--data-parallel-rpc-port", str(DATA_PORT),
        )  # fmt: skip
        processes.append(Process(host.name, ranks[host.name], it.server(*more), _environment(it, host)))
    return Start(tuple(processes), placeholders(hosts[:1]))
