"""``up``, ``status``, ``adopt`` and ``down`` as functions."""

from __future__ import annotations

from pathlib import Path

import pytest

from canserve.api.serving import How, SpecError, UpWishes, adopt, down, status, up
from canserve.plan.steps.starting import kept_up
from canserve.subjects.deployment import Deployment, Image, Site
from made_plans import server
from operator_here import Here


def test_from_a_plan_to_a_deployment_and_back(here: Here) -> None:
    mine, bens, state = How(data=here.folder / "a"), here.folder / "b", str(here.state)
    said: list[str] = []
    story = up(here.plan(), wishes=UpWishes(state=state), how=How(data=mine.data, tell=said.append))
    assert story.report.state == "up" and [one.state for one in story.candidates] == ["tried"]
    assert any("start" in line for line in said)
    run = story.report.prepared.deployment.run
    (found,) = status(data=mine.data)
    assert (found.run, found.word) == (run, "running")
    assert status(data=bens) == ()
    assert adopt(None, on=("local",), state=state, data=bens).found.run == run
    assert [one.run for one in status(data=bens)] == [run]
    dry = down(run, dry=True, how=mine)
    assert dry.steps and here.left()
    done = down(run, how=mine)
    assert (done.state, done.left) == ("down", ()) and here.left() == set()
    assert down(run, how=mine).nothing


def test_what_cannot_be_started_says_why(here: Here, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="is no saved plan"):
        up("Qwen/Qwen3-8B", how=How(data=tmp_path))
    with pytest.raises(SpecError, match="only containers have a restart policy"):
        up(here.plan(), wishes=UpWishes(state=str(here.state), restart="always"), how=How(data=tmp_path))
    with pytest.raises(SpecError, match="is no restart policy"):
        up(here.plan(), wishes=UpWishes(state=str(here.state), restart="now; reboot"), how=How(data=tmp_path))
    assert not here.state.exists()


def test_a_restart_policy_is_set_once_it_serves() -> None:
    sites, processes = (Site("a"), Site("b")), (server("a", 8000), server("b", 8000))
    it = Deployment("r1", "/m", "i", "vllm", Image("docker", "i"), sites, processes, "ana@desk now")
    steps = kept_up(it, "on-failure:3")
    assert [(step.machine, " ".join(step.argv)) for step in steps] == [
        ("a", "docker update --restart on-failure:3 canserve-r1-0"),
        ("b", "docker update --restart on-failure:3 canserve-r1-1"),
    ]
