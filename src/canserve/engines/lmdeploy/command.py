"""How LMDeploy is started: one server, over several machines by Ray."""

from __future__ import annotations

from canserve.engines.argv import Flags, address, network, options, placeholders
from canserve.engines.parsers import parser_options
from canserve.engines.placing import by_host, visible_devices
from canserve.facts import Cause, Fact, Known, Missing
from canserve.subjects.launch import Launch, Process, Start
from canserve.subjects.model import Model

OPTIONS = {"context": "session_len"}
"""What a plan sets, under LMDeploy's names."""
DEGREES = frozenset({"tp", "dp", "ep", "nnodes", "node_rank"})
"""Options that the layout decides."""
RAY_PORT = 6379


def suits(model: Model) -> bool:
    """Not chosen unasked: what it holds in memory is not known here."""
    del model
    return False


def start(launch: Launch) -> Fact[Start]:
    """Every process; Missing where the build has no way to do it."""
    parallel, launchers = launch.placement.parallel, launch.build.launchers
    if parallel.pp > 1 or parallel.dp > 1:
        return Missing(
            Cause.UNAVAILABLE,
            "one LMDeploy server has neither pipeline stages nor replicas",
            ask="use tensor parallelism, or start one server for each replica",
        )
    if len(launch.hosts) > 1 and isinstance(launchers, Known) and "ray" not in launchers.value:
        return Missing(
            Cause.UNAVAILABLE, f"{launch.build.identity.subject} has no launcher for several machines",
            launchers.evidence, "use one machine, or a build with Ray",
        )  # fmt: skip
    return Known(_start(launch))


def _start(launch: Launch) -> Start:
    flags, hosts, parallel = Flags.of(launch.build.flags), launch.hosts, launch.placement.parallel
    ranks, head = by_host(launch.placement), address(launch.hosts[0])
    processes = []
    for number, host in enumerate(hosts if len(hosts) > 1 else ()):
        join = ("--address", f"{head}:{RAY_PORT}") if number else ("--head", "--port", str(RAY_PORT))
        argv = (
            "ray", "start", *join, "--node-ip-address", address(host),
            "--num-gpus", str(len(ranks[host.name])),
        )  # fmt: skip
        processes.append(Process(host.name, (), argv, network(hosts, host)))
    chosen = parser_options(launch) | dict(launch.options)
    server = (
        "lmdeploy", "serve", "api_server", launch.model.subject,
        *(flags.set("pytorch", "--backend") if len(hosts) > 1 else ()),
        *(flags.set(parallel.tp, "--tp") if parallel.tp > 1 else ()),
        *(flags.set(parallel.ep, "--ep") if parallel.ep > 1 else ()),
        *options(flags, chosen, leave=DEGREES),
    )  # fmt: skip
    environment = {**network(hosts, hosts[0]), **visible_devices(launch, hosts[0])}
    everything = tuple(rank.number for rank in launch.placement.ranks)
    processes.append(Process(hosts[0].name, everything, server, environment))
    return Start(tuple(processes), placeholders(hosts) if len(hosts) > 1 else {})
