"""The stacks of a deployment's own processes, while it stands: with py-spy where there is one, without stopping them."""

from __future__ import annotations

import io

from canserve.checks.diagnosis.log import Reading
from canserve.commands import evidence
from canserve.commands.serving import RUN_LABEL
from canserve.probes.live import Way, asked
from canserve.probes.logs.matching import Matcher
from canserve.probes.logs.reading import read_log
from canserve.run.looking import WIDTH
from canserve.run.watching_look import Eyes
from canserve.subjects.deployment import Folder
from canserve.transport.frames import Answer, Section
from canserve.transport.reach import Limits
from canserve.trees.fanout import fanout

_BYTES = 2 << 20
_SECONDS = 60.0


def stacks(eyes: Eyes, matcher: Matcher) -> tuple[Reading, ...]:
    """One reading a machine; of a machine without py-spy it holds no stack."""
    it = eyes.deployment
    if isinstance(it.where, Folder):
        script = evidence.stacks_of_processes(it.run, f"{it.where.path}/bin")
    else:
        script = evidence.stacks_of_containers(it.where.program, f"{RUN_LABEL}={it.run}")
    section = Section("stacks", script, _BYTES)

    def look(name: str) -> Reading | None:
        found = asked(eyes.nodes[name], eyes.nodes, (section,), Way(), Limits(whole=_SECONDS)).section(
            "stacks"
        )
        if not isinstance(found, Answer):
            return None
        text = f"### host {name}\n".encode() + found.out
        return read_log(f"{name} stacks", io.BytesIO(text), matcher)

    names = list(dict.fromkeys(process.host for process in it.processes if process.host in eyes.nodes))
    return tuple(reading for reading in fanout(look, names, WIDTH) if reading is not None)
