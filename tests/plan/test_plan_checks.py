"""context-within-model and launcher-present: yes, no, unknown, and where they do not apply."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from plan_world import build, quantity, serving

from canserve.api import Options, read_machines, read_model
from canserve.checks.case import Case, Deployment
from canserve.checks.layout import context, launcher
from canserve.checks.wish import parse_wish
from canserve.facts import Cause, Evidence, Known, Missing
from canserve.layout import Layout, Question, hosts, layouts
from canserve.subjects.launch import Process, Start
from canserve.subjects.parallel import Parallel
from canserve.subjects.stack import Stack
from canserve.verdict import Finding, No, Skipped, Unknown, Verdict, Yes

LOOK = (Evidence("vllm==1.0", "arg_utils.py:1", "flags"),)
START = Start((Process("head", (0,), ("vllm", "serve")), Process("second", (1,), ("vllm", "serve"))))


@pytest.fixture(scope="module")
def case(root: Path) -> Case:
    model = read_model(str(root / "examples" / "founding" / "model"), Options(offline=True))
    question = Question(model, hosts(read_machines("profile:dgx-spark") * 2), "vllm", "0.25.1")
    found = layouts(question)
    layout = found.at(Parallel(2))
    assert isinstance(layout, Layout)
    made = replace(build(), flags=Known({}, LOOK), launchers=Known(("mp",), LOOK))
    held = Known(serving(2), LOOK)
    return Case(model, made, deployment=Deployment(found.judged, Parallel(2), layout.placement, (), held))


def judged(check: object, case: Case, **changes: object) -> Verdict | Skipped:
    assert case.deployment is not None
    deployment = replace(case.deployment, **changes)  # type: ignore[arg-type]
    found = check.judge(replace(case, deployment=deployment))  # type: ignore[attr-defined]
    return found.verdict if isinstance(found, Finding) else found


def test_a_context_within_the_model(case: Case) -> None:
    assert isinstance(judged(context.CHECK, case), Yes)


def test_a_context_beyond_the_model_gets_the_longest_that_fits(case: Case) -> None:
    beyond = serving(2, context=1_000_000_000, max_context=quantity(200_000))
    verdict = judged(context.CHECK, case, serving=Known(beyond, LOOK))
    assert isinstance(verdict, No)
    assert "1000000000 tokens are more than the 262144" in verdict.because and "200000" in verdict.fix
    wide = serving(2, context=1_000_000, max_context=quantity(5_000_000))
    verdict = judged(context.CHECK, case, serving=Known(wide, LOOK))
    assert isinstance(verdict, No) and "at most 262144" in verdict.fix


def test_what_overrides_the_config_is_not_judged(case: Case) -> None:
    beyond = Known(serving(2, context=1_000_000_000), LOOK)
    wish = parse_wish(("--hf-overrides", '{"x": 1}'))
    assert isinstance(judged(context.CHECK, replace(case, wish=wish), serving=beyond), Skipped)
    unknown = Missing(Cause.UNAVAILABLE, "config.json: num_hidden_layers is missing")
    assert isinstance(judged(context.CHECK, case, serving=unknown), Skipped)


def test_a_layout_that_can_be_started(case: Case) -> None:
    verdict = judged(launcher.CHECK, case, start=Known(START))
    assert isinstance(verdict, Yes) and "2 processes" in verdict.because


def test_what_is_started_with_ray_needs_ray(case: Case) -> None:
    first = Process("head", (), ("ray", "start", "--head"))
    by_ray = Known(Start((first, *START.processes)), LOOK)
    for version, verdict in (("2.60.0", Yes), (None, No)):
        build = replace(case.build, stack=Stack(ray=Known(version, LOOK)))
        found = judged(launcher.CHECK, replace(case, build=build), start=by_ray)
        assert isinstance(found, verdict), found
        assert isinstance(judged(launcher.CHECK, replace(case, build=build), start=Known(START)), Yes)
    unseen = judged(launcher.CHECK, case, start=by_ray)
    assert isinstance(unseen, Yes) and "ray" in unseen.needs[0]
    requiring = replace(case, build=replace(case.build, launchers=Known(("ray",), LOOK)))
    assert judged(launcher.CHECK, requiring, start=by_ray) == replace(unseen, needs=())


def test_one_that_cannot_and_one_that_nobody_wrote_down(case: Case) -> None:
    cannot = Missing(Cause.UNAVAILABLE, "no launcher for several machines", ask="use one machine")
    verdict = judged(launcher.CHECK, case, start=cannot)
    assert isinstance(verdict, No) and verdict.fix == "use one machine"
    unwritten = Missing(Cause.UNREACHED, "how x is started is not written down here")
    assert isinstance(judged(launcher.CHECK, case, start=unwritten), Unknown)
    unread = replace(case, build=build())
    assert isinstance(judged(launcher.CHECK, unread, start=Known(START)), Unknown)
    assert isinstance(judged(launcher.CHECK, case), Skipped)
