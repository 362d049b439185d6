"""Ray, which engines use to start workers on further machines: words of its command line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise


def starts(argv: Sequence[str]) -> bool:
    """Whether these words make a machine part of a Ray cluster."""
    return tuple(argv[:2]) == ("ray", "start")


def kept(argv: Sequence[str]) -> tuple[str, ...]:
    """The same, staying in the foreground: what watches the process then watches the machine's Ray."""
    return (*argv, "--block") if starts(argv) and "--block" not in argv else tuple(argv)


def works(name: str) -> bool:
    """Whether a process of a cluster works for somebody, by the kernel's name for it."""
    return name.startswith("ray::") and not name.startswith(("ray::IDLE", "ray::Dashboard"))


def accelerators(argvs: Iterable[Sequence[str]]) -> int:
    """How many accelerators a cluster has when all of these have joined."""
    counts = (argv[argv.index("--num-gpus") + 1] for argv in argvs if starts(argv) and "--num-gpus" in argv)
    return sum(int(count) for count in counts if count.isdecimal())


def joined(accelerators: int) -> str:
    """A basic regular expression for the line of ``ray status`` that says so: `` 0.0/2.0 GPU``."""
    return rf"/{accelerators}\.0 GPU"


def address(argvs: Iterable[Sequence[str]]) -> str | None:
    """Where a cluster's head answers: ``10.0.0.1:6379``; None: none of these starts one."""
    for argv in argvs:
        if starts(argv) and "--head" in argv:
            told = dict(pairwise(argv))
            return f"{told.get('--node-ip-address', '127.0.0.1')}:{told.get('--port', '6379')}"
    return None
