"""The founding case, end to end, in one command: from an engine that cannot serve the model to one that serves it.

Two hosts, the second without internet and reached only through the first. The head runs an old build; it also holds a
build that pins an address, and one that does neither, which nobody else has. ``canserve up`` is told all three. The two
that know the model are a real vLLM for processors: what starts, stands still and answers here is the engine itself.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser import looked_over
from canserve.api.story import story
from canserve.store.journal import Journal, journal
from e2e.conftest import fail_or_skip, problem_or_fail
from e2e.founding_images import OLD, PINNED, SERVES, make
from e2e.operators import Operator, containers
from lab.leftovers import there
from lab.two_hosts import Lab, two_hosts
from real.environments import InstallError, place
from real.models import tiny
from real.recipes import VLLM
from real.tiny_models import ANSWERS

pytestmark = [pytest.mark.slow, pytest.mark.network, pytest.mark.xdist_group("real engines")]
PATIENCE = 1500.0
"""Seconds for the one command on a machine that is busy: one start that stands, one that serves."""
ENGINE = ("dtype=bfloat16", "enforce_eager=true", "max_model_len=1024", "kv_cache_memory_bytes=134217728")
ASKED = """\
import json, sys, urllib.request
url, model, questions = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
said = []
for question in questions:
    body = {"model": model, "messages": [{"role": "user", "content": question}], "temperature": 0, "max_tokens": 20}
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        said.append(json.load(answer)["choices"][0]["message"]["content"])
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def engine() -> Path:
    """An environment with the engine that serves, installed where it is not there yet."""
    try:
        return place(VLLM)
    except InstallError as error:
        fail_or_skip(str(error))


@pytest.fixture(scope="module")
def founding(engine: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lab, Path]]:
    """The hosts as they were found: images and weights on the head alone. And where the weights are."""
    problem_or_fail()
    try:
        model = tiny("qwen35-moe", engine)
    except InstallError as error:
        fail_or_skip(str(error))
    there_too = tmp_path_factory.mktemp("models") / "tiny-qwen3.5-moe"
    shutil.copytree(model, there_too)
    with two_hosts() as lab:
        make(lab.a, engine)
        lab.a.copy(model, str(there_too))
        lab.a.run("chmod", "-R", "a+rX", "/tmp")
        yield lab, there_too


def answers(lab: Lab, model: str) -> dict[str, str]:
    """What is answered to every question that the model was taught, as the operator is answered."""
    url = "http://10.77.0.2:8000/v1/chat/completions"
    words = ("python3", "-c", ASKED, url, model, json.dumps(list(ANSWERS)))
    done = lab.operator.run(*words, timeout=PATIENCE)
    return dict(zip(ANSWERS, json.loads(done.stdout), strict=True))


def candidate(up: dict[str, Any], tag: str) -> dict[str, Any]:
    """What became of a build."""
    (found,) = [one for one in up["candidates"] if tag in one["build"]]
    return dict(found)


def images(lab: Lab, tag: str) -> list[str]:
    """Its identifier on both hosts; empty where it is not."""
    words = ("docker", "image", "inspect", "-f", "{{.Id}}", tag)
    return [host.run(*words, check=False).stdout.strip() for host in lab.hosts]


def test_the_founding_story_in_one_command(founding: tuple[Lab, Path], tmp_path: Path) -> None:
    lab, model = founding
    ana = Operator(lab, tmp_path)
    before = [there(host) for host in lab.hosts]
    assert [bool(found) for tag in (OLD, PINNED, SERVES) for found in images(lab, tag)] == [True, False] * 3
    builds = [f"docker-daemon:{tag}@spark-a" for tag in (OLD, PINNED, SERVES)]
    up, code = ana.ask(
        "up", str(model), *(word for build in builds for word in ("--build", build)), "--tp", "2",
        *(word for each in ENGINE for word in ("--engine-arg", each)), "--accelerators", "none", "--wait", "900",
        on=True, patience=PATIENCE,
    )  # fmt: skip
    assert (up["state"], code, up["endpoint"]) == ("up", 0, "head:8000"), json.dumps(
        up["candidates"], indent=1
    )
    the_old_one_is_refused(candidate(up, OLD))
    the_pinned_one_stood_still(candidate(up, PINNED))
    served = candidate(up, SERVES)
    assert (served["state"], served["run"]) == ("up", up["run"])
    assert {one["machine"] for one in up["processes"]} == {"head", "second"}
    # What was taken away is away, on both; what ran before runs on; what was lacking came whole.
    assert [containers(host) for host in lab.hosts] == [
        [f"canserve-{up['run']}-0"],
        [f"canserve-{up['run']}-1"],
    ]
    assert lab.a.docker("inspect", "-f", "{{.State.Status}}", "vllm-head") == "running"
    head, second = images(lab, SERVES)
    assert head and head == second
    assert answers(lab, str(model)) == ANSWERS
    it_is_verified(ana, up["run"])
    its_page_opens(ana, up["run"])
    with journal(Path(ana.env["CANSERVE_DATA"])) as kept:
        the_journal_tells_it(kept, up)
    down, code = ana.ask("down", up["run"])
    assert (down["state"], code, down["left"]) == ("down", 0, [])
    after = [there(host) for host in lab.hosts]
    for host, one, other in zip(lab.hosts, before, after, strict=True):
        assert (other - one, one - other) == ({}, {}), f"{host.name}: more, and less, than before"


def the_old_one_is_refused(it: dict[str, Any]) -> None:
    """Before anything of it is started: its own registry does not list the model's class."""
    assert (it["state"], it["run"]) == ("refused", None), it
    assert "Qwen3_5MoeForConditionalGeneration is not among the" in it["because"], it
    assert it["hint"], it


def the_pinned_one_stood_still(it: dict[str, Any]) -> None:
    """Named, with the variable that heals it, and what was seen of each rank."""
    assert (it["state"], it["cause"]) == ("stalled", "queue-address-unreachable"), it
    assert "127.0.0.1" in it["because"] and "VLLM_HOST_IP" in it["hint"], it
    assert it["not_free"] == [] and len(it["seen"]) == 2, it
    assert {line.split(":")[0] for line in it["seen"]} == {"rank 0 on head", "rank 1 on second"}, it
    assert it["evidence"] is not None and any(Path(it["evidence"]).rglob("*")), it


def it_is_verified(ana: Operator, run: str) -> None:
    """By the checks that do not ask for more knowledge than 24 answers."""
    said, _ = ana.ask("verify", run, "--quick", "--expect", "dummy", patience=PATIENCE)
    found = {one["check"]: one["verdict"] for one in said["findings"]}
    for check in ("ready", "right-model", "answers", "streams", "every-rank-alive"):
        assert found[check] == "yes", (check, said)


def its_page_opens(ana: Operator, run: str) -> None:
    """The story on one page: both attempts, the refused build, every phase; on a phone and on a desk, light and dark."""
    done = ana.lab.canserve("status", run, "--quiet", "--format", "html", env=ana.env, timeout=PATIENCE)
    page = ana.folder / "run.html"
    page.write_text(done.stdout, encoding="utf-8")
    for sign in ("What was tried", "refused", " on second", run):
        assert sign in done.stdout, sign
    assert looked_over(page) == []


def the_journal_tells_it(kept: Journal, up: dict[str, Any]) -> None:
    """Every candidate, every step of both attempts with how it ended, and why the first was given up."""
    told = story(up["run"], kept)
    assert [one.entry.state for one in told.attempts] == ["failed", "up"], told
    first, second = told.attempts
    assert "127.0.0.1" in first.entry.why and second.entry.run == up["run"]
    for attempt in told.attempts:
        starts = [step for step in attempt.steps if step.name == "start"]
        assert [(step.machine, step.status) for step in starts] == [("head", 0), ("second", 0)]
        assert all(step.ended is not None for step in attempt.steps)
    assert any(step.doing == "down" and step.name == "end" for step in first.steps)
    assert {"refused", "evidence"} <= {event.what for event in told.events}, told.events
