"""A lab of two machines without accelerators, where everybody sees the engines and the models under ``/mnt``."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab.leftovers import there
from lab.two_hosts import Lab, problem, two_hosts
from real.environments import InstallError, place
from real.models import small, sources, tiny
from real.recipes import LLAMA, SGLANG, VLLM
from real.tiny_models import ANSWERS, KINDS

CI = os.environ.get("CI", "").lower() in {"1", "true"}
PATIENCE = 900.0
"""Seconds that a start may take where everything else is busy, too; no test is about how long it takes."""
CLUSTER = """\
[nodes.head]
address = "spark-a"
ip = "10.77.1.2"
interface = "enp1s0f0np0"

[nodes.second]
address = "spark-b"
ip = "10.77.1.3"
interface = "enp1s0f0np0"
internet = false
"""
URL = "http://10.77.0.2:{port}"
"""Of the head, from the operator's machine."""
TAUGHT_LITTLE = {"answer-correct"}
"""What ``verify`` rightly says no to: a tiny model knows nothing but its 24 answers."""
ASK = """\
import json, sys, urllib.request
url, model, told = sys.argv[1], sys.argv[2], {}
for question in json.load(sys.stdin):
    asked = {"model": model, "temperature": 0, "max_tokens": 24, "messages": [{"role": "user", "content": question}]}
    words = json.dumps(asked).encode(), {"content-type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url + "/v1/chat/completions", *words), timeout=120) as answer:
        told[question] = json.load(answer)["choices"][0]["message"]["content"]
print(json.dumps(told))
"""


@pytest.fixture(scope="session")
def seen() -> Mapping[str, Path]:
    """Path in the lab -> folder here, installed or made where it is not there yet."""
    try:
        vllm = place(VLLM)
        folders = {"/mnt/vllm": vllm, "/mnt/sglang": place(SGLANG), "/mnt/llama": place(LLAMA)}
        models = {f"/mnt/{kind}": tiny(kind, vllm) for kind in KINDS}
        return {**folders, **models, "/mnt/small": small(), "/mnt/sources": sources().parent}
    except InstallError as error:
        if CI:
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def lab(seen: Mapping[str, Path]) -> Iterator[Lab]:
    """The lab. Where there can be none, tests skip and say why; in continuous integration they fail."""
    if (why := problem()) is not None:
        if CI:
            pytest.fail(f"no lab: {why}")
        pytest.skip(f"no lab: {why}")
    with two_hosts(seen=seen) as made:
        yield made


@dataclass
class Operator:
    """Who deploys, with a journal of his own. Everything is done by ``canserve``."""

    lab: Lab
    folder: Path

    @property
    def cluster(self) -> str:
        """Both hosts."""
        path = self.folder / "cluster.toml"
        path.write_text(CLUSTER)
        return str(path)

    def run(self, *words: str) -> tuple[str, int, str]:
        """What a command prints, how it ends, and what it says beside."""
        env = {"CANSERVE_DATA": str(self.folder / "data"), "LOGNAME": "ana"}
        done = self.lab.canserve(*words, env=env, timeout=PATIENCE)
        return done.stdout, done.returncode, done.stderr

    def told(self, *words: str) -> dict[str, Any]:
        """Its JSON."""
        out, _, err = self.run(*words, "--format", "json", "--quiet")
        assert out, err
        return dict(json.loads(out))

    @contextmanager
    def serving(self, model: str, build: str, *words: str, on: str | None = None) -> Iterator[str]:
        """A deployment, and then nothing of it: processes, shared memory, claims and ports are as they were before."""
        before = self._there()
        told = self.told("up", model, "--build", build, "--on", on or self.cluster, "--tries", "1", *words)
        assert told["state"] == "up", json.dumps(told, indent=1)[-6000:]
        run = str(told["run"])
        try:
            yield run
        finally:
            down = self.told("down", run)
        assert (down["state"], down["left"]) == ("down", []), down
        for host, one, other in zip(self.lab.hosts, before, self._there(), strict=True):
            assert (other - one, one - other) == ({}, {}), f"{host.name}: more, and less, than before"

    def _there(self) -> list[Counter[str]]:
        self.lab.disconnect()
        return [there(host) for host in self.lab.hosts]

    def answers(self, port: int, model: str, questions: list[str]) -> dict[str, str]:
        """What is answered over the API, from the operator's machine."""
        words = (sys.executable, "-c", ASK, URL.format(port=port), model)
        said = self.lab.operator.run(*words, given=json.dumps(questions), timeout=PATIENCE)
        return dict(json.loads(said.stdout))

    def wrong(self, port: int, model: str) -> dict[str, str]:
        """Those of the 24 answers that are not the taught words."""
        said = self.answers(port, model, list(ANSWERS))
        return {question: answer for question, answer in said.items() if answer.strip() != ANSWERS[question]}

    def refused(self, port: int) -> set[str]:
        """Checks of ``verify`` that say no."""
        told = self.told("verify", URL.format(port=port), "--quick")
        assert told["findings"], told
        return {str(one["check"]) for one in told["findings"] if one["verdict"] == "no"}

    def seen_running(self, run: str) -> list[tuple[str, str]]:
        """Machine and ranks of each process that lives, as ``status`` says."""
        (one,) = self.told("status", run)["runs"]
        assert (one["state"], one["listens"]) == ("running", True), one
        return [(each["machine"], each["ranks"]) for each in one["processes"] if each["alive"]]

    def serves_over_both(self, run: str, port: int, model: str, rank: str) -> None:
        """A rank on each host, which says ``rank`` with its number in its own log, and what is answered is right."""
        assert self.wrong(port, model) == {}
        assert self.seen_running(run) == [("head", "0"), ("second", "1")]
        logs = self.run("logs", run, "-n", "2000")[0].splitlines()
        for number, host in enumerate(("head", "second")):
            said = [line for line in logs if line.startswith(f"{host} rank {number} | ")]
            assert any(rank.format(number) in line for line in said), logs
        assert self.refused(port) <= TAUGHT_LITTLE


@pytest.fixture
def ana(lab: Lab, tmp_path: Path) -> Operator:
    """Who deploys."""
    return Operator(lab, tmp_path)
