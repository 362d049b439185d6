"""In which order machines start, and what a server waits for."""

from __future__ import annotations

import shlex

from canserve.engines import ray
from canserve.plan.steps.starting import starting
from canserve.subjects.deployment import Deployment


def machines_in_order(it: Deployment) -> tuple[str, ...]:
    """Machines by their first process: whom others join comes first."""
    return tuple(dict.fromkeys(step.machine for step in starting(it) if step.name == "start"))


def order_note(it: Deployment) -> tuple[str, ...]:
    """What whoever starts several machines has to know; empty: there is one."""
    names = machines_in_order(it)
    if len(names) < 2:
        return ()
    return (f"start {', then '.join(names)}: one soon after the other, as those that join wait only so long",)


def joined_test(it: Deployment, number: int) -> str | None:
    """A shell's test that all accelerators have joined, for a process that serves over those; None: it need not."""
    argvs = [process.argv for process in it.processes]
    address = ray.address(argvs)
    if address is None or ray.starts(argvs[number]) or not any(map(ray.starts, argvs[:number])):
        return None
    asked = shlex.join(("ray", "status", "--address", address))
    return f'{asked} | grep -q "{ray.joined(ray.accelerators(argvs))}"'
