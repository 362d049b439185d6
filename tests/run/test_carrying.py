"""Weights that machines lack: on which of them they are looked for, and what of them is brought from where."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from canserve.rules.machines import FIELDS, unstated
from canserve.run.carrying import Carry, lacking
from canserve.subjects.cluster import Node
from canserve.subjects.deployment import Deployment, Folder, Given, Image, Mount, Site
from canserve.subjects.machine import Machine
from made_plans import server
from simulated_hosts import ENDING, Fleet, Host

MODEL = {"config.json": 40, "model-1.safetensors": 6000, "model-2.safetensors": 5000}
HUB = "org/tiny"


class Holding(Host):
    """A host that answers which files a folder of weights has; None: it cannot say."""

    holds: Mapping[str, int] | None = {}

    def look(self, name: str, script: str, now: float) -> tuple[int, str]:
        if name != "weights":
            return super().look(name, script, now)
        if self.holds is None:
            return 127, "no shell of this kind"
        (path,) = re.findall(r"^p=(.*?);", script)
        lines = (f"{size} {file}\n" for file, size in self.holds.items())
        return 0, f"{shlex.split(path)[0]}\n" + "".join(lines)


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    found = Fleet(("a", "b"))
    found.hosts = {name: Holding(name) for name in ("a", "b")}
    with found.reached():
        yield found


def holds(fleet: Fleet, name: str, files: Mapping[str, int] | None) -> None:
    host = fleet.hosts[name]
    assert isinstance(host, Holding)
    host.holds = files


def nodes(internet: bool | None = None) -> tuple[Node, ...]:
    return tuple(
        replace(
            Node(n, Machine(n, **{f: unstated(n, f) for f in FIELDS}), n + ENDING, None, None),
            internet=internet,
        )
        for n in ("a", "b")
    )


def deployment(model: str, mounts: tuple[Mount, ...] = (), image: bool = False) -> Deployment:
    where = Image("docker", "engine:1") if image else Folder("/srv/engine")
    processes = (server("a", 8000), server("b", 8000))
    sites = (Site("a", (0,)), Site("b", (0,)))
    return Deployment(
        "r1", model, "/srv/engine", "vllm", where, sites, processes, "ana@desk now", Given(mounts)
    )


def carried(
    it: Deployment, internet: bool | None = None
) -> list[tuple[str | None, str | None, tuple[str, ...]]]:
    found: tuple[Carry, ...] = lacking(it, nodes(internet), None)
    return [(one.wanted.weights, one.wanted.into, one.to) for one in found]


def here(folder: Path, files: Mapping[str, int] = MODEL) -> str:
    """The model as this machine holds it."""
    folder.mkdir(parents=True)
    for name, size in files.items():
        (folder / name).write_bytes(bytes(size))
    return str(folder)


def test_what_only_this_machine_holds_goes_to_all_that_lack_it(fleet: Fleet, tmp_path: Path) -> None:
    path = here(tmp_path / "it's a model")
    assert carried(deployment(path)) == [(path, path, ("a", "b"))]
    holds(fleet, "a", {"config.json": 40})  # all but the weights
    holds(fleet, "b", {"config.json": 41})  # somebody else's
    assert carried(deployment(path)) == [(path, path, ("a",))]


def test_a_machine_that_holds_it_goes_before_this_one(fleet: Fleet, tmp_path: Path) -> None:
    path = here(tmp_path / "model")
    holds(fleet, "a", MODEL)
    assert carried(deployment(path)) == [(f"a:{path}", path, ("b",))]
    holds(fleet, "b", MODEL)
    assert carried(deployment(path)) == []


def test_a_folder_here_without_weights_is_no_model(fleet: Fleet, tmp_path: Path) -> None:
    """Whatever lies here under the path of a container is not sent."""
    path = here(tmp_path / "data", {"config.json": 40, "letters.txt": 5, "all.iso": 9000})
    assert carried(deployment(path)) == []
    assert carried(deployment(str(tmp_path / "nowhere"))) == []


def test_a_machine_that_cannot_say_what_it_holds_gets_nothing(fleet: Fleet, tmp_path: Path) -> None:
    path = here(tmp_path / "model")
    holds(fleet, "b", None)
    assert carried(deployment(path)) == []


def test_the_path_in_a_container_is_that_of_its_mount(fleet: Fleet, tmp_path: Path) -> None:
    path = here(tmp_path / "models" / "tiny")
    mounts = (Mount(str(tmp_path / "models"), "/models"),)
    (found,) = carried(deployment("/models/tiny", mounts, image=True))
    assert found == (path, path, ("a", "b"))


def test_a_model_of_the_hub_goes_from_this_cache_to_machines_without_internet(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    it = deployment(HUB)
    assert carried(it, internet=False) == []  # it is not here either
    path = here(tmp_path / "hub" / "models--org--tiny" / "snapshots" / "0123").removesuffix("/snapshots/0123")
    assert carried(it, internet=False) == [(path, None, ("a", "b"))]
    assert carried(it, internet=True) == [] == carried(it)  # they fetch it themselves
