"""How llama.cpp is started: one server; accelerators of other machines through its RPC workers."""

from __future__ import annotations

from canserve.engines.argv import Flags, Words, address, options, placeholders
from canserve.engines.placing import by_host, visible_devices
from canserve.facts import Cause, Fact, Known, Missing
from canserve.subjects.launch import Launch, Process, Start
from canserve.subjects.model import Model

OPTIONS = {"context": "ctx_size"}
"""What a plan sets, under llama.cpp's names."""
DECIDED = frozenset({"model", "hf_repo", "rpc", "split_mode", "gpu_layers", "n_gpu_layers"})
"""Options that the model and the layout decide."""
PORT = 50052
WORKER = "rpc-server"
"""The worker's program where the build does not say what it is called."""
API_PORT = 8080
"""Where it answers if nobody says otherwise; written out, as its releases do not keep to one default."""
ALL_LAYERS = 999


def suits(model: Model) -> bool:
    """It loads GGUF alone."""
    return isinstance(model.weight_format, Known) and model.weight_format.value == "gguf"


def start(launch: Launch) -> Fact[Start]:
    """Every process, workers first; Missing where the build has no way to do it."""
    parallel, launchers = launch.placement.parallel, launch.build.launchers
    if parallel.dp > 1 or parallel.ep > 1:
        return _cannot("has no replicas and does not spread experts", "start one server for each replica")
    if parallel.tp > 1 and len(launch.hosts) > 1:
        return _cannot("cuts matrices between accelerators of one machine only", "use pipeline stages")
    known = launchers.value if isinstance(launchers, Known) else ("rpc",)
    if len(launch.hosts) > 1 and "rpc" not in known:
        return _cannot("was found without RPC workers", "use one machine, or a build that has them")
    return Known(_start(launch))


def _cannot(why: str, ask: str) -> Missing:
    return Missing(Cause.UNAVAILABLE, f"this build {why}", ask=ask)


def _start(launch: Launch) -> Start:
    flags, ranks = Flags.of(launch.build.flags), by_host(launch.placement)
    head, *others = launch.hosts
    named = launch.build.rpc_worker
    worker = named.value if isinstance(named, Known) else WORKER
    workers = [
        Process(
            host.name, (), (worker, "--host", address(host), "--port", str(PORT)),
            visible_devices(launch, host),
        )
        for host in others
    ]  # fmt: skip
    rpc: Words = ("--rpc", ",".join(f"{address(host)}:{PORT}" for host in others)) if others else ()
    port = () if "port" in launch.options else flags.set(API_PORT, "--port")
    local = launch.model.origin != "hub"
    argv = (
        "llama-server", "--model" if local else "--hf-repo", launch.model.subject,
        *flags.set(ALL_LAYERS, "--gpu-layers", "--n-gpu-layers"),
        *(flags.set("row", "--split-mode") if launch.placement.parallel.tp > 1 else ()),
        *rpc, *port, *options(flags, launch.options, leave=DECIDED),
    )  # fmt: skip
    everything = tuple(number for numbers in ranks.values() for number in numbers)
    server = Process(head.name, everything, argv, visible_devices(launch, head))
    notes = ("RPC workers trust whoever reaches them: keep their port to this network",) if others else ()
    return Start((*workers, server), placeholders(others), notes)
