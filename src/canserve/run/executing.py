"""Carries out steps: exactly their words, stage by stage, every machine of a stage at the same time."""

from __future__ import annotations

import re
import shlex
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from canserve.plan.steps.step import Step, stages
from canserve.probes.live import Way, asked
from canserve.store.journal import Journal
from canserve.subjects.cluster import Node
from canserve.transport.frames import Section
from canserve.transport.reach import Limits
from canserve.trees.fanout import fanout

WIDTH = 32
_BETWEEN = 0.5
"""Seconds between two attempts of a step that is repeated."""
_OUTPUT = 8000
_ADVICE = re.compile(r"(?:Run|See) '.*--help'")
"""With which container engines end every message."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A step that did not succeed."""

    step: Step
    why: str
    """One line: what the machine said, or why it could not be asked."""
    reached: bool = True
    """False: nobody knows what became of it."""


@dataclass
class Stop:
    """Asks a run to end between two steps; a step that has begun is brought to its end, so that nothing is unknown."""

    event: threading.Event = field(default_factory=threading.Event)

    def __call__(self) -> None:
        """From now on no step begins."""
        self.event.set()

    @property
    def asked(self) -> bool:
        """Whether it is to end."""
        return self.event.is_set()


@dataclass(frozen=True, slots=True)
class Hands:
    """With what steps are carried out."""

    run: str
    nodes: Mapping[str, Node]
    journal: Journal
    way: Way = field(default_factory=Way)
    tell: Callable[[str], None] = lambda _: None
    stop: Stop = field(default_factory=Stop)
    dead: Callable[[Step], str | None] = lambda _: None
    """Asked while a step is repeated: why it is of no use to wait on; None: it is."""


def carry_out(steps: Sequence[Step], doing: str, hands: Hands, whole: bool = False) -> tuple[Failure, ...]:
    """Run the steps; empty: all succeeded, or it was asked to stop.

    After a stage with a failure nothing further begins. ``whole``: it does, on machines where all went well.
    """
    failures: list[Failure] = []
    for stage in stages(steps):
        failed = {failure.step.machine for failure in failures}
        if failures and not whole:
            break
        left = [group for group in stage if group[0].machine not in failed]
        found = fanout(lambda group: _group(group, doing, hands), left, WIDTH)
        failures += [failure for failure in found if failure is not None]
    return tuple(failures)


def _group(steps: Sequence[Step], doing: str, hands: Hands) -> Failure | None:
    """Those of one machine in one stage, up to the first that fails."""
    for step in steps:
        if hands.stop.asked:
            return None
        hands.tell(f"{step.machine}: {step.name}")
        number = hands.journal.step(hands.run, doing, step, now())
        failure, status, output = _patiently(step, hands)
        hands.journal.stepped(number, now(), status, output)
        if failure is not None:
            return failure
    return None


def _patiently(step: Step, hands: Hands) -> tuple[Failure | None, int | None, str]:
    end = time.monotonic() + step.patience
    while True:
        failure, status, output = _once(step, hands)
        if failure is None or not step.patience or not failure.reached or time.monotonic() > end:
            return failure, status, output
        if (why := hands.dead(step)) is not None:
            return Failure(step, why), status, output
        if hands.stop.event.wait(_BETWEEN):
            return None, status, output


def _once(step: Step, hands: Hands) -> tuple[Failure | None, int | None, str]:
    section = Section("step", shlex.join(step.argv), _OUTPUT)
    node = hands.nodes[step.machine]
    look = asked(node, hands.nodes, (section,), hands.way, Limits(whole=step.seconds))
    answer = look.answers.get("step")
    if answer is None:
        why = look.trouble.why if look.trouble is not None else "no answer"
        return Failure(step, why, reached=False), None, why
    output = "\n".join(part for part in (answer.text.strip(), answer.error.strip()) if part)
    if answer.status == 0:
        return None, 0, output
    said = next(
        (line for line in reversed(output.splitlines()) if line.strip() and not _ADVICE.match(line)), ""
    )
    return Failure(step, f"{step.failed}: {said[:300]}" if said else step.failed), answer.status, output


def now() -> str:
    """UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
