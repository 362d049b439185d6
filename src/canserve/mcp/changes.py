"""The tools that change machines: the first call shows the steps, a second one with its approval carries them out."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from canserve.api import Options, SpecError
from canserve.mcp import arguments as takes
from canserve.mcp.answers import Address, NoSuchPartError
from canserve.mcp.approvals import VALID
from canserve.mcp.asking import Asking, Done, Tool
from canserve.plan.plan import Plan
from canserve.render.plain import plain
from canserve.render.structure import to_json
from canserve.subjects.deployment import STATE
from canserve.verdict import No

if TYPE_CHECKING:
    from canserve.api.preparing import Prepared

FEW = 5
"""Further plans that are named."""
FORBIDDEN = "nothing was run, and this server runs nothing: a person starts it with --allow-changes"


@dataclass(frozen=True, slots=True)
class Shown:
    """What would be run, and how."""

    value: Any
    """In terms of JSON."""
    carry_out: Callable[[Asking], Done]
    then: str = ""
    """What follows where that fails."""


def _approved(tool: str, it: takes.Approved, asking: Asking, show: Callable[[], Shown]) -> Done:
    """Show, or carry out what was shown."""
    if it.approve is not None:
        if not asking.allow_changes:
            raise SpecError(FORBIDDEN)
        try:
            shown: Shown = asking.approvals.take(tool, it.approve)
        except LookupError as error:
            raise SpecError(
                "nothing that waits for approval has that word",
                f"call {tool} without approve, read its steps",
            ) from error
        return shown.carry_out(asking)
    shown = show()
    if not asking.allow_changes:
        return Done(shown.value, next=FORBIDDEN)
    word = asking.approvals.ask(tool, shown)
    following = f"nothing was run yet: {tool} with approve={word} runs exactly these steps ({VALID:.0f} s){shown.then}"
    return Done(shown.value, next=following, approve=word)


def up(it: takes.Up, asking: Asking) -> Done:
    """``api.falling_back.first``, then ``bring_up``."""
    return _approved("up", it, asking, lambda: _up(it, asking))


def _up(it: takes.Up, asking: Asking) -> Shown:
    from canserve.api.deploying import Doing
    from canserve.api.falling_back import Manner, bring_up, first
    from canserve.api.wished import UpWishes, candidate_plans, completed
    from canserve.probes.live import routes
    from canserve.render.run_structure import story_output, up_output
    from canserve.store.journal import journal

    if it.plan is None:
        raise SpecError("no plan", "the path of a saved plan, or the address of an answer of `plan`")
    how, options = Manner(it.tries, it.distribute), Options(progress=asking.tell)
    wishes = UpWishes(
        tuple(it.on),
        inside=it.inside,
        mounts=tuple(it.mounts),
        hub_cache=it.hub_cache,
        state=it.state or STATE,
    )
    with tempfile.TemporaryDirectory(prefix="canserve-") as folder:
        spec = _saved(it.plan, Path(folder), asking)
        wishes = completed(spec, wishes)
        plans = candidate_plans(spec, wishes, options)
    prepared = first(plans, wishes, options, how)
    shown = plain(up_output(prepared, routes(prepared.nodes), None))

    def carry_out(asking: Asking) -> Done:
        with journal() as kept:
            doing = Doing(kept, it.wait, stop=asking.stop, tell=asking.tell)
            try:
                story = bring_up(plans, wishes, doing, Options(progress=asking.tell), how, prepared)
            except KeyboardInterrupt:
                return Done(shown, "no", "interrupted before anything was started")
        report = story.report
        said = {"up": "yes", "starting": "unknown"}.get(report.state, "no")
        value = plain(story_output(story, routes(report.prepared.nodes)))
        return Done(value, said, report.why, report.hint)

    return Shown(shown, carry_out, _following(plans, prepared, it.tries))


def _following(plans: Sequence[Plan], shown: Prepared, tries: int) -> str:
    """Which plans would be tried where the one that is shown fails."""
    at = next(number for number, plan in enumerate(plans) if plan is shown.plan)
    more = [
        f"{number}. {plan.build} on {', '.join(dict.fromkeys(rank.machine for rank in plan.placement.ranks))}"
        for number, plan in enumerate(plans[at + 1 :], at + 2)
        if not isinstance(plan.verdict, No)
    ]
    if not more or tries == 1:
        return ""
    rest = f", and {len(more) - FEW} more" if len(more) > FEW else ""
    listed = "; ".join(more[:FEW]) + rest
    return f". Where they fail, it is taken away and the next plan tried, {tries} in all: {listed}; tries=1 runs no other"


def _saved(plan: str, folder: Path, asking: Asking) -> str:
    """The plan as a file: its own, or one made of an answer."""
    if "://" not in plan:
        return plan
    try:
        value = asking.answers.part(Address.read(plan))
    except NoSuchPartError as error:
        raise SpecError(str(error), "ask `plan` again") from error
    path = folder / "plan.json"
    path.write_text(to_json(value), encoding="utf-8")
    return str(path)


def down(it: takes.Down, asking: Asking) -> Done:
    """``api.running.down``."""
    return _approved("down", it, asking, lambda: _down(it, asking))


def _down(it: takes.Down, asking: Asking) -> Shown:
    from canserve.api.running import Downing, Sought
    from canserve.api.running import down as api_down
    from canserve.render.run_structure import down_output
    from canserve.store.journal import journal

    with journal() as kept:
        shown = api_down(Sought(it.run, tuple(it.on), it.state), kept, Downing(dry=True, tell=asking.tell))

    def carry_out(asking: Asking) -> Done:
        sought = Sought(
            shown.run, tuple(it.on), it.state
        )  # the very run that was shown, whatever else there is by now
        with journal() as kept:
            report = api_down(sought, kept, Downing(stop=asking.stop, tell=asking.tell))
        said = "no" if report.left else "yes"
        return Done(plain(down_output(report, report.ways, dry=False)), said)

    return Shown(plain(down_output(shown, shown.ways, dry=True)), carry_out)


def adopt(it: takes.Adopt, asking: Asking) -> Done:
    """``api.adopting.adopt``."""
    return _approved("adopt", it, asking, lambda: _adopt(it))


def _adopt(it: takes.Adopt) -> Shown:
    from canserve.api.adopting import adopt as api_adopt
    from canserve.api.adopting import adopting_steps
    from canserve.api.running import Sought, one_of
    from canserve.probes.live import routes
    from canserve.render.run_structure import status_output, steps_output
    from canserve.store.journal import journal

    if not it.on:
        raise SpecError("where it runs is not said", "name its machines in `on`")
    with journal() as kept:
        found = one_of(Sought(it.run, tuple(it.on), it.state), kept)
    shown = {
        "runs": plain(status_output((found,)).runs),
        "steps": plain(steps_output(adopting_steps(found), routes(found.nodes))),
    }

    def carry_out(asking: Asking) -> Done:
        with journal() as kept:
            done = api_adopt(Sought(found.run, tuple(it.on), it.state), kept, asking.tell)
        value = plain(status_output((done.found,)))
        return Done(value, "unknown" if done.left else "yes", "; ".join(one.why for one in done.left))

    return Shown(shown, carry_out)


def distribute(it: takes.Distribute, asking: Asking) -> Done:
    """``api.distributing.distribute``."""
    return _approved("distribute", it, asking, lambda: _distribute(it, asking))


def _distribute(it: takes.Distribute, asking: Asking) -> Shown:
    from canserve.api.distributing import Wanted
    from canserve.api.distributing import distribute as api_distribute
    from canserve.render.transfer_shapes import distribute_output

    if not it.to or (it.image is None and it.weights is None):
        raise SpecError("nothing to distribute", "name `to`, and `image` or `weights`")
    wanted = Wanted(it.image, it.weights, it.into)
    shown = api_distribute(wanted, it.to, Options(progress=asking.tell), dry=True)

    def carry_out(asking: Asking) -> Done:
        found = api_distribute(wanted, it.to, Options(progress=asking.tell))
        problems = [one.problem for one in found if one.problem is not None]
        return Done(
            plain(distribute_output(found, dry=False)), "no" if problems else "yes", "; ".join(problems[:1])
        )

    return Shown(plain(distribute_output(shown, dry=True)), carry_out)


CHANGES = (
    Tool("up", "Put a plan into service. The first call shows every step and runs none.", takes.Up, up, "up", changes=True),
    Tool("down", "Take a deployment away. The first call shows every step and runs none.", takes.Down, down, "down", changes=True),
    Tool("adopt", "Take over a deployment that another operator started. The first call only shows it.", takes.Adopt, adopt, None, changes=True),
    Tool("distribute", "Bring an image and weights to machines. The first call shows what would be copied.", takes.Distribute, distribute, "distribute", changes=True),
)  # fmt: skip
"""In the order in which they are listed."""
