"""Machines as plans see them: where none has an accelerator, each has room for a rank on its processors."""

from __future__ import annotations

from pathlib import Path

import pytest

from canserve.api import Options, SpecError, read_model
from canserve.api.planning import Asked, _kinds, _machines, _notes
from canserve.plan.candidate import Machines

OFFLINE = Options(offline=True)


def cluster(folder: Path, **gpus: int | None) -> str:
    """A cluster file: names, and how many accelerators each is said to have; None: nothing is said."""
    path = folder / "cluster.toml"
    said = "".join(
        f'[nodes.{name}]\naddress = "{name}"\nsource = "made up"\n'
        + ("" if count is None else f"gpus = {count}\n")
        for name, count in gpus.items()
    )
    path.write_text(said)
    return str(path)


def machines(folder: Path, wanted: int | None = None, **gpus: int | None) -> Machines:
    return _machines(Asked((cluster(folder, **gpus),), gpus=wanted), OFFLINE)[0]


def notes(folder: Path, it: Machines) -> str:
    (folder / "config.json").write_text('{"model_type": "llama", "architectures": ["LlamaForCausalLM"]}')
    return "\n".join(_notes(read_model(str(folder), OFFLINE), (), it))


def test_without_any_accelerator_each_machine_has_room_for_one_rank(tmp_path: Path) -> None:
    found = machines(tmp_path, a=0, b=0)
    assert [(host.name, host.gpus, host.stated) for host in found.hosts] == [("a", 1, True), ("b", 1, True)]
    assert "a, b: no accelerator is there, so that a rank is placed on its processors" in notes(
        tmp_path, found
    )


def test_beside_an_accelerator_processors_hold_nothing(tmp_path: Path) -> None:
    found = machines(tmp_path, a=0, b=2)
    assert [(host.name, host.gpus) for host in found.hosts] == [("a", 0), ("b", 2)]
    assert "a: no accelerator is there, so that nothing is placed on it" in notes(tmp_path, found)


def test_what_is_not_known_is_no_processor(tmp_path: Path) -> None:
    """Nobody looked: one accelerator is taken, and that it is a guess is said."""
    found = machines(tmp_path, a=None, b=0)
    assert [(host.name, host.gpus, host.stated) for host in found.hosts] == [("a", 1, False), ("b", 0, True)]
    said = notes(tmp_path, found)
    assert "a: how many accelerators there are is not known" in said
    assert "b: no accelerator is there, so that nothing is placed on it" in said


def test_accelerators_that_are_not_there_cannot_be_asked_for(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="a has 0 accelerators, not 1"):
        machines(tmp_path, 1, a=0, b=0)


def test_machines_of_which_the_same_is_known_are_judged_once(tmp_path: Path) -> None:
    _, nodes = _machines(Asked((cluster(tmp_path, a=0, b=0, c=1),)), OFFLINE)
    assert [one.subject.split(" ")[0] for one in _kinds(nodes)] == ["a", "c"]
