"""Shell scripts, one for each machine: exactly the steps of ``up`` and ``down``, in their order."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from canserve.plan.export.exported import OPERATOR, Exported, Files, folders, heading
from canserve.plan.export.order import order_note
from canserve.plan.steps.starting import starting
from canserve.plan.steps.step import Step
from canserve.plan.steps.stopping import stopping
from canserve.subjects.deployment import Deployment

NAME = "serve.sh"
_HEAD = """\
set -eu

failed() {
    printf '%s: %s\\nhint: sh %s stop takes away what was started\\n' "$0" "$1" "$0" >&2
    exit 1
}

# within SECONDS COMMAND ...: again and again until it succeeds
within() {
    end=$(($(date +%s) + $1))
    shift
    until "$@"; do
        [ "$(date +%s)" -lt "$end" ] || return 1
        sleep 1
    done
}
"""
_TAIL = """\
case ${1:-} in
    start) start ;;
    stop) stop ;;
    *)
        echo "usage: $0 start|stop" >&2
        exit 2
        ;;
esac
"""


def write(it: Exported) -> Files:
    """One script a machine: ``sh serve.sh start``, ``sh serve.sh stop``."""
    one = it.deployment
    notes = _notes(one)
    files = {f"{folder}/{NAME}": _script(it, one, machine, notes) for machine, folder in folders(it).items()}
    return Files(files, notes)


def _notes(it: Deployment) -> tuple[str, ...]:
    names = ", ".join(it.given.secrets)
    return (
        *order_note(it),
        *((f"values of {names} are taken from the environment of who runs the script",) if names else ()),
        "nothing restarts what ends: canserve export --to systemd",
    )


def _script(it: Exported, one: Deployment, machine: str, notes: tuple[str, ...]) -> str:
    line = f"{OPERATOR} down {one.run}"
    names = [site.name for site in one.sites]
    start = [step for step in starting(one) if step.machine == machine]
    stop = [
        step for step in stopping(one.run, names, one.program, one.state, line) if step.machine == machine
    ]
    parts = (
        "#!/bin/sh",
        *(f"# {line}" for line in heading(it, "shell", notes)),
        _HEAD,
        "start() {",
        *_body(start),
        "}\n",
        "stop() {",
        *_body(stop),
        "}\n",
        _TAIL,
    )
    return "\n".join(parts)


def _body(steps: Sequence[Step]) -> Iterator[str]:
    for step in steps:
        wait = f"within {step.patience:.0f} " if step.patience else ""
        yield f"    # {_titled(step)}"
        yield f"    {wait}{shlex.join(step.argv)} \\\n        || failed {shlex.quote(step.failed)}"


def _titled(step: Step) -> str:
    return step.name if step.process is None else f"{step.name}: process {step.process}"
