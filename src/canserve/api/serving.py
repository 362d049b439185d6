"""Deployments from Python: put into service, looked at, taken over, taken away. The same as the commands of these names.

from canserve.api.serving import down, status, up

story = up("plan.json", on=("cluster.toml",))
if story.report.state == "up":
print(story.report.prepared.deployment.run)
for each in status():
print(each.run, each.word)
down(story.report.prepared.deployment.run)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from canserve.api import Options, SpecError, adopting, running
from canserve.api.adopting import Adopted
from canserve.api.deploying import Doing, UpReport
from canserve.api.falling_back import Candidate, Manner, Story, bring_up
from canserve.api.planning import Asked
from canserve.api.running import Downing, DownReport, Found, Sought
from canserve.api.wished import UpWishes, candidate_plans, completed
from canserve.plan.wishes import Wishes
from canserve.run.executing import Stop
from canserve.store.journal import journal

__all__ = [
    "Adopted", "Candidate", "DownReport", "Found", "How", "SpecError", "Story", "UpReport", "UpWishes",
    "adopt", "down", "status", "up",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class How:
    """How deployments are changed."""

    wait: float = 600.0
    """Seconds that each candidate has until it answers; 0: it is not waited for."""
    tries: int = 3
    """Candidates that are started at most."""
    keep: bool = False
    """Whether what failed is left standing."""
    distribute: bool = True
    """Whether image and weights are brought to machines that lack them."""
    data: Path | None = None
    """Folder of the journal and of evidence; None: the user's own."""
    tell: Callable[[str], None] = lambda _: None
    """Told in a few words what is being done."""
    stop: Stop = field(default_factory=Stop)
    """To be called from another thread: what has begun is brought to its end, then taken away."""


def up(
    what: str,
    *,
    on: Sequence[str] = (),
    builds: Sequence[str] = (),
    wishes: UpWishes | None = None,
    how: How | None = None,
) -> Story:
    """Put a saved plan, or a model, into service: candidates one after the other until one answers requests.

    ``what``: the file of a plan, or a model, which then needs ``on``. ``on``: machines or cluster files. ``builds``:
    for a model. ``wishes``: whatever else ``canserve up`` has options for; ``on`` and ``builds`` are added to them.
    The story's ``report`` is of the last candidate that was started, with its ``state``: ``up``, ``starting``,
    ``failed``, ``stalled`` or ``interrupted``; each of ``candidates`` says what has become of it. What failed is
    taken away again before the next begins, and before this returns. Raises SpecError where nothing can be started.
    """
    how = how or How()
    chosen = replace(wishes or UpWishes(), on=tuple(on) or (wishes.on if wishes else ()))
    if chosen.asked is None and chosen.on:
        chosen = replace(chosen, asked=Asked(chosen.on, tuple(builds), None, Wishes()))
    chosen = completed(what, chosen)
    options = Options(progress=how.tell)
    plans = candidate_plans(what, chosen, options)
    with journal(how.data) as kept:
        doing = Doing(kept, how.wait, how.keep, how.stop, tell=how.tell)
        return bring_up(plans, chosen, doing, options, Manner(how.tries, how.distribute))


def status(
    run: str | None = None, *, on: Sequence[str] = (), state: str | None = None, data: Path | None = None
) -> tuple[Found, ...]:
    """Deployments as they are now: all that the journal has open, or one, or with ``on`` all that machines hold.

    Machines are only looked at; one that does not answer is a ``trouble`` of what is found, never an exception.
    ``state``: the machines' folder of claims, where it is another than usual. Raises SpecError for a run that nothing
    is known of.
    """
    with journal(data) as kept:
        return running.status(Sought(run, tuple(on), state), kept)


def adopt(
    run: str | None, *, on: Sequence[str], state: str | None = None, data: Path | None = None
) -> Adopted:
    """Take over a deployment that another operator started: from now on this journal knows it.

    Nothing that runs is touched; every machine notes who took it over. Raises SpecError where nothing of it is there.
    """
    with journal(data) as kept:
        return adopting.adopt(Sought(run, tuple(on), state), kept)


def down(
    run: str | None = None,
    *,
    on: Sequence[str] = (),
    state: str | None = None,
    dry: bool = False,
    how: How | None = None,
) -> DownReport:
    """Take a deployment away: what ``up`` made, and nothing else. Processes are asked to end, then made to.

    ``run`` may be left out where there is one. ``dry``: nothing is done; the report has the steps. What is not there
    any more is no error; what could not be taken away is in ``left``. Raises SpecError where it is not clear what is
    meant.
    """
    how = how or How()
    with journal(how.data) as kept:
        return running.down(Sought(run, tuple(on), state), kept, Downing(dry, how.stop, how.tell))
