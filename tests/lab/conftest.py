"""The lab as fixtures: made for each file of tests that needs it, repaired after every test."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.engine_image import COMMUNITY, RUNNING, saved_image
from lab.hardware import Port, gb10
from lab.two_hosts import Lab, problem, two_hosts

CI = os.environ.get("CI", "").lower() in {"1", "true"}
CLUSTER = """\
[nodes.head]
address = "spark-a"
profile = "dgx-spark"
ip = "10.77.1.2"
interface = "enp1s0f0np0"
source = "the lab"

[nodes.second]
address = "spark-b"
profile = "dgx-spark"
ip = "10.77.1.3"
interface = "enp1s0f0np0"
internet = false
source = "the lab"
"""
RUNNING_TAG = "nvcr.example/vllm:26.01-py3"
COMMUNITY_TAG = "community/vllm-spark:nightly"
EXAMPLES = Path(__file__).parent.parent.parent / "examples"
"""Where hosts see it as well, wherever this checkout lies: their /tmp and home folders are their own."""


@contextmanager
def sparks_up() -> Iterator[Lab]:
    """The lab with recorded GB10s: the engine of the first holds memory of its GPU."""
    with tempfile.TemporaryDirectory() as folder:
        hardware = {
            name: gb10(Path(folder, name), Port("rocep1s0f0", "enp1s0f0np0", address), busy=name == "spark-a")
            for name, address in {"spark-a": "10.77.1.2", "spark-b": "10.77.1.3"}.items()
        }
        with two_hosts(hardware, {str(EXAMPLES): EXAMPLES}) as lab:
            yield lab


def discoverable(lab: Lab) -> None:
    """The founding case: the head runs one engine and holds the image of another. Needs the package index once."""
    for tag, parts in ((RUNNING_TAG, RUNNING), (COMMUNITY_TAG, COMMUNITY)):
        archive = saved_image(lab.a.share / "image.tar", parts, tag)
        lab.a.docker("load", "-q", "-i", "/lab/image.tar")
        archive.unlink()
    lab.a.docker("run", "-d", "--name", "vllm-head", "--network", "host", RUNNING_TAG, "--port", "8000")


@pytest.fixture(scope="module")
def sparks() -> Iterator[Lab]:
    """One for each file of tests: what one of them leaves on the hosts is nothing to another. Where there can be none, tests skip and say why; in continuous integration they fail."""
    if (why := problem()) is not None:
        if CI:
            pytest.fail(f"no lab: {why}")
        pytest.skip(f"no lab: {why}")
    with sparks_up() as lab:
        yield lab


@pytest.fixture
def lab(sparks: Lab) -> Iterator[Lab]:
    """The lab, whole, and made whole again afterwards."""
    sparks.disconnect()
    yield sparks
    sparks.heal()


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    """A cluster file of both hosts; how the second is reached stands in the operator's ssh configuration."""
    path = tmp_path / "cluster.toml"
    path.write_text(CLUSTER)
    return str(path)


@pytest.fixture(scope="module")
def founding(sparks: Lab) -> Lab:
    """The lab with the founding case's engines on its head."""
    discoverable(sparks)
    return sparks
