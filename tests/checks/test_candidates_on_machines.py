"""Candidates are judged on machines as ``check`` judges builds there: an image needs an engine that runs it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from machine_world import cluster, machine
from quant_world import listing
from small_world import model

from canserve.api import Judged, Options, judge
from canserve.api.candidates import Sought, _Asked, _reports
from canserve.checks.case import Wish
from canserve.probes.build import Reading
from canserve.trees.tree import Cost
from canserve.verdict import No


def reading(origin: str) -> Reading:
    build = listing()
    return Reading("b", replace(build, identity=replace(build.identity, origin=origin)), Cost())


@pytest.mark.parametrize(
    ("origin", "needed"),
    [
        ("image on disk: Python environment, installed in site", True),
        ("container in docker on head (running): Python environment", True),
        ("Python environment, editable install of /srv/images/vllm, named in lib/x.pth", False),
        ("source tree below /srv/containers/vllm", False),
    ],
)
def test_an_image_needs_a_container_engine_and_a_path_that_sounds_like_one_does_not(
    origin: str, needed: bool
) -> None:
    nodes = cluster(second=machine(11, container_engines=())).nodes
    machines = tuple(node.machine for node in nodes)
    asked = _Asked(model(), nodes, "c", Wish(), Sought(), Options(), 0.0)
    (report,) = _reports(((reading(origin), machines),), asked)
    found = {finding.check: finding.verdict for finding in report.findings}
    assert isinstance(found.get("container-engine-usable"), No) is needed
    checked = judge(Judged(model(), reading(origin), machines, "c", Wish(), nodes))
    assert {finding.check: finding.verdict for finding in checked.findings} == found
