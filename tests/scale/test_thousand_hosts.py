"""A thousand simulated hosts through ``up``, the watch, failure and ``down``, over a link in place of ssh."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from canserve.api import Options
from canserve.api.deploying import Doing, UpReport, up
from canserve.api.preparing import Prepared, prepared
from canserve.api.running import Downing, Sought, down, status
from canserve.api.wished import UpWishes
from canserve.probes.live import WIDTH
from canserve.store.journal import Journal
from canserve.transport.reach import STARTS
from simulated_hosts import ENDING, Fate, Fleet, fleet, healthy, names, plan

THOUSAND = 1000
ERROR = "ERROR 11-30 14:40:05 [core.py:1] ValueError: a rank of the test that has had enough"


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Journal]:
    """In memory where there is such a place: what a disk takes is not what is looked at here."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="canserve-scale-", dir=memory if memory.is_dir() else None))
    monkeypatch.setenv("CANSERVE_DATA", str(folder))
    kept = Journal(folder)
    yield kept
    kept.close()
    shutil.rmtree(folder)


def made(count: int) -> Prepared:
    wishes = UpWishes(on=names(count), inside="/srv/venv", state="/s")
    return prepared(plan(count), wishes, Options())


def brought_up(hosts: Fleet, journal: Journal, patience: float = 1.0) -> UpReport:
    it = made(len(hosts.hosts))
    return up(it, Doing(journal, wait=300, patience=patience, first_token=False))


def host(number: int) -> str:
    return f"host-{number:04d}"


@pytest.mark.slow
def test_a_thousand_hosts_come_up_and_go_away(journal: Journal) -> None:
    hosts = fleet(THOUSAND)
    with hosts.reached():
        report = brought_up(hosts, journal)
        assert (report.state, report.why) == ("up", "")
        run = report.prepared.deployment.run
        assert all(len(one.sessions) == len(one.locks) == len(one.audit) == 1 for one in hosts.hosts.values())
        assert hosts.counts.most <= WIDTH
        assert {step.status for step in journal.steps(run)} == {0}
        (found,) = status(Sought(run=run), journal, Options())
        assert len(found.held) == THOUSAND and not found.troubles
        done = down(Sought(run=run), journal, Downing())
        assert done.left == () and hosts.left() == {}
        assert all(len(one.audit) == 2 for one in hosts.hosts.values())
        assert hosts.counts.most <= WIDTH
        assert down(Sought(run=run), journal, Downing()).nothing


@pytest.mark.slow
def test_a_rank_of_a_thousand_that_dies_is_named(journal: Journal) -> None:
    hosts = fleet(THOUSAND)
    hosts.hosts[host(0)].fate = healthy(0, THOUSAND)
    lines = (*healthy(517, THOUSAND, until="met").lines, (0.3, ERROR))
    hosts.hosts[host(517)].fate = Fate(lines, dies=0.5)
    with hosts.reached():
        report = brought_up(hosts, journal)
    assert report.state == "failed"
    assert report.why.startswith(f"{host(517)}{ENDING}: process 517 exited with 1")
    assert "a rank of the test that has had enough" in report.why
    assert report.undone and report.left == () and report.still == () and hosts.left() == {}
    assert report.evidence is not None and report.evidence.problems == ()
    (log,) = report.evidence.logs.glob(f"{host(517)}*.log")
    assert ERROR in log.read_text()


def test_a_host_that_is_not_there_is_named_and_nothing_is_left(journal: Journal) -> None:
    hosts = fleet(100)
    hosts.hosts[host(42)].reached = False
    with hosts.reached():
        report = brought_up(hosts, journal)
    assert report.state == "failed"
    assert f"{host(42)}{ENDING}" in report.why and "timed out" in report.why
    assert {failure.step.machine for failure in report.left} <= {f"{host(42)}{ENDING}"}
    assert hosts.left() == {}


@pytest.mark.slow
def test_a_host_that_is_lost_on_the_way_is_named(journal: Journal) -> None:
    hosts = fleet(60)
    hosts.hosts[host(0)].fate = healthy(0, 60)
    it = made(60)

    def lose(_: object) -> None:
        hosts.hosts[host(7)].reached = False

    doing = Doing(journal, wait=300, patience=0.05, first_token=False)
    with hosts.reached():
        report = up(it, replace(doing, show=lose))
    assert report.state == "stalled" and report.name == "machine-lost"
    assert f"{host(7)}{ENDING}" in report.why
    assert {failure.step.machine for failure in report.left} == {f"{host(7)}{ENDING}"}
    assert set(hosts.left()) == {host(7)}


def test_a_rank_that_stands_still_is_named(journal: Journal) -> None:
    hosts = fleet(100)
    hosts.hosts[host(0)].fate = healthy(0, 100, until="connecting")
    for number, one in enumerate(hosts.hosts.values()):
        one.fate = healthy(number, 100, until="connecting" if number == 42 else "met")
    with hosts.reached():
        report = brought_up(hosts, journal, patience=0.02)
    assert report.state == "stalled"
    behind = [said for said in report.told if "ranks joining" in said]
    assert len(behind) == 1 and f"rank 42 on {host(42)}{ENDING}" in behind[0]
    assert report.undone and report.left == () and hosts.left() == {}


def test_hosts_behind_one_jump_host_begin_a_few_at_a_time(journal: Journal) -> None:
    hosts = fleet(80, seconds=0.01)
    it = made(80)
    head = it.nodes[0].name
    behind = replace(it, nodes=(it.nodes[0], *(replace(node, through=head) for node in it.nodes[1:])))
    with hosts.reached():
        report = up(behind, Doing(journal, wait=60, first_token=False))
        assert report.state == "up", report.why
        assert 1 < hosts.counts.most_starting <= STARTS
        assert STARTS < hosts.counts.most <= WIDTH or hosts.counts.most <= STARTS
        down(Sought(run=report.prepared.deployment.run), journal, Downing())


def test_a_second_operator_is_told_by_each_of_them(journal: Journal) -> None:
    hosts = fleet(50)
    with hosts.reached():
        first = brought_up(hosts, journal)
        before = {name: dict(one.locks) for name, one in hosts.hosts.items()}
        second = brought_up(hosts, journal)
        assert (first.state, second.state) == ("up", "failed")
        assert f"accelerator-0 is held: {first.prepared.deployment.run} process" in second.why
        assert {name: dict(one.locks) for name, one in hosts.hosts.items()} == before
        assert all(len(one.sessions) == 1 for one in hosts.hosts.values())
