"""speed-near-bound: what was measured, against the plan's interval and the bound that physics sets."""

from __future__ import annotations

from canserve.checks.reader import NotApplicable, Reader
from canserve.checks.served import rates
from canserve.checks.served.check import LOG, ServedCheck
from canserve.checks.served.words import number
from canserve.rules.speed import named_link
from canserve.subjects.served import NOT_ASKED, Expected, Served
from canserve.verdict import No, Unknown, Verdict, Yes

_CLOSE = 0.95
"""Of the interval's lower end: below it by less is measuring."""
_FAR = 0.5
"""Of the interval's lower end, below which something is wrong."""
_MICRO = 1e-6


def run(reader: Reader, served: Served) -> Verdict:
    """The verdict of ``speed-near-bound``."""
    if served.expected is NOT_ASKED:
        raise NotApplicable("no plan says how fast it should be (--plan FILE)")
    if served.speeds is NOT_ASKED:
        raise NotApplicable("its speed was not measured")
    expected, speeds = reader.read(served.expected), reader.read(served.speeds)
    got = rates.decode(speeds)
    if got is None:
        return Unknown("no stream was long enough to time", "ask for longer answers by hand")
    _, low, high = expected.decode
    bound = expected.decode_bound
    said = f"{number(got.median)} tok/s of at most {number(bound)}"
    between = f"{number(low)} to {number(high)} were expected"
    if got.median > bound / _CLOSE:
        why = f"{said}: more than there can be of one token a step"
        return Unknown(why, "look whether it decodes speculatively, or whether the plan is of something else")
    if got.median >= low * _CLOSE:
        return Yes(f"{said}: {_waits(expected.limit)}, as expected ({between})")
    suspect, would_tell = suspected(expected, got.median)
    if got.median >= low * _FAR:
        return Unknown(f"{said}, {between}", would_tell)
    return No(f"{said}, {_share(got.median / bound)} of the bound: looks like {suspect}", would_tell)


def suspected(expected: Expected, got: float) -> tuple[str, str]:
    """What would make it as slow as it is, and the check that would tell."""
    extra = 1 / got - 1 / expected.decode[0]
    message = extra / (2 * max(expected.layers, 1)) / _MICRO
    if expected.machines > 1 and expected.ranks > 1:
        slow, fast = named_link("Ethernet").latency.value, named_link("RDMA").latency.value
        each = f"{message:.0f} us more for each of {2 * expected.layers} all-reduces a token"
        tell = "canserve machine MACHINES (rdma-usable, gid-agrees, mtu-agrees); NCCL_DEBUG=INFO prints NET/IB or NET/Socket"
        if message >= (slow - fast) / 2:
            return f"TCP instead of RDMA ({each})", tell
        return f"a slow machine or link ({each})", tell
    if expected.ranks > 1:
        tell = "nvidia-smi topo -m, and the log: whether custom all-reduce is on"
        return f"all-reduces through the host's memory ({message:.0f} us more for each)", tell
    return (
        "clocks held down, another program on the accelerator, or eager mode",
        f"nvidia-smi -q -d PERFORMANCE,CLOCK,PIDS; {LOG}",
    )


def _waits(limit: str) -> str:
    return "memory-bound" if limit in {"", "memory bandwidth"} else f"it waits for {limit}"


def _share(share: float) -> str:
    names = {2: "half", 3: "a third", 4: "a quarter", 5: "a fifth", 10: "a tenth", 20: "a twentieth"}
    if share <= 0:
        return "nothing"
    nearest = min(names, key=lambda parts: abs(1 / parts - share) * parts)
    return names[nearest] if abs(share * nearest - 1) < 0.15 else f"{share:.1%}"


CHECK = ServedCheck(
    "speed-near-bound", "One stream is as fast as the plan expects, which knows what physics allows.", run
)
