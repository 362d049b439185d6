"""Two hosts without accelerators, with an engine that is none; what is on them is compared before and after each test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from e2e.operators import Operator
from lab.hosts import Host
from lab.leftovers import there
from lab.standin_engine import let_go, load
from lab.two_hosts import Lab, problem, two_hosts

CI = os.environ.get("CI", "").lower() in {"1", "true"}


def fail_or_skip(why: str) -> NoReturn:
    """In continuous integration everything must be there."""
    if CI:
        pytest.fail(why)
    pytest.skip(why)


def problem_or_fail() -> None:
    """Where there can be no lab, tests say why."""
    if (why := problem()) is not None:
        fail_or_skip(f"no lab: {why}")


@pytest.fixture(scope="module")
def hosts() -> Iterator[Lab]:
    """One lab for each file of tests."""
    problem_or_fail()
    with two_hosts() as lab:
        for host in lab.hosts:
            load(host)
        yield lab


def remove(host: Host) -> None:
    """What a test that failed has left, so that the next one is told apart from it."""
    host.run("sh", "-c", "docker rm -f -v $(docker ps -aq --filter label=canserve.run)", check=False)
    host.run("sh", "-c", "docker volume rm $(docker volume ls -q --filter name=canserve-)", check=False)
    host.run("sh", "-c", "rm -rf /var/tmp/canserve", check=False)


@pytest.fixture
def clean(hosts: Lab) -> Iterator[Lab]:
    """The lab, whole. Afterwards both hosts have exactly what they had before: nothing is orphaned, nothing is lost."""
    before = [there(host) for host in hosts.hosts]
    yield hosts
    hosts.heal()
    for host in hosts.hosts:
        let_go(host)
    after = [there(host) for host in hosts.hosts]
    try:
        for host, one, other in zip(hosts.hosts, before, after, strict=True):
            assert (other - one, one - other) == ({}, {}), f"{host.name}: more, and less, than before"
    finally:
        for host in hosts.hosts:
            remove(host)


@pytest.fixture
def ana(clean: Lab, tmp_path: Path) -> Operator:
    """Who deploys."""
    return Operator(clean, tmp_path)


@pytest.fixture
def ben(clean: Lab, tmp_path: Path) -> Operator:
    """Somebody else, who knows nothing but the machines."""
    return Operator(clean, tmp_path, "ben")
