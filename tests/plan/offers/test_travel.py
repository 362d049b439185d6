"""Bytes that would have to travel: what is not known is never counted as nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from holders import LOOK, REFUSED, digest, image, node

from canserve.facts import Known
from canserve.plan.offers.held import on_machines
from canserve.plan.offers.offer import Layer, Offer
from canserve.plan.offers.travel import Travel, of_build, of_weights
from canserve.probes.machine import read_nodes
from canserve.probes.model import read_model
from canserve.subjects.cluster import Node
from canserve.subjects.host import CachedModel, Container
from canserve.subjects.model import Model, Parameters
from canserve.units import Bytes

PACKED = (Layer(digest("a"), Bytes(10)), Layer(digest("b"), Bytes(200)), Layer(digest("c"), Bytes(3000)))


def bounds(travel: Travel) -> tuple[int, int | None]:
    return travel.least.count, None if travel.most is None else travel.most.count


def test_an_image_in_a_registry_by_the_layers_that_are_there() -> None:
    offer = Offer("docker://h/x:1", "tag", packed=PACKED, layers=tuple(layer.digest for layer in PACKED))
    assert bounds(of_build(offer, node("one"))) == (3210, 3210)
    assert bounds(of_build(offer, node("one", [image("base", "a", "b")]))) == (3000, 3000)
    assert bounds(of_build(offer, node("one", [image("x", "a"), image("y", "b", "c")]))) == (0, 0)
    assert bounds(of_build(offer, node("one", [image("y", "d")]))) == (3210, 3210)
    assert bounds(of_build(offer, node("one", [image("unlisted"), image("x", "a")]))) == (0, 3200)
    assert bounds(of_build(offer, node("one", REFUSED))) == (0, 3210)
    assert "could not be read" in of_build(offer, node("one", REFUSED)).why


def test_on_a_kind_of_machine_lies_nothing(model: Model) -> None:
    (profile,) = read_nodes(["profile:dgx-spark"])
    offer = Offer("docker://h/x:1", "tag", packed=PACKED, layers=tuple(layer.digest for layer in PACKED))
    assert bounds(of_build(offer, profile)) == (3210, 3210) and bounds(of_weights(model, profile)) == (
        100,
        100,
    )


def test_an_image_of_another_machine_by_its_size() -> None:
    first = node("one", [image("x:1", "a", "b", size=700)])
    (offer,) = on_machines([first]).offers
    assert of_build(offer, first).there
    assert bounds(of_build(offer, node("two"))) == (700, 700)
    assert bounds(of_build(offer, node("two", [image("y", "a")]))) == (0, 700)
    assert of_build(offer, node("two", [image("y", "a", "b", "c")])).there
    (unsized,) = on_machines([node("one", [image("x:1", "a", size=None)])]).offers
    assert bounds(of_build(unsized, node("two"))) == (0, None)


def test_the_changes_of_a_container_are_not_counted_and_that_is_said() -> None:
    runs = Container("docker", "c", "x:1", "Up", "")
    running, _ = on_machines([node("one", [image("x:1", "a", size=700)], [runs])]).offers
    travel = of_build(running, node("two"))
    assert bounds(travel) == (700, None) and "not counted" in travel.why
    assert not of_build(running, node("two", [image("x:1", "a")])).there, (
        "the image alone is not the container"
    )


@pytest.mark.parametrize("target", ["eng==1.0", "somewhere/venv"])
def test_a_size_that_nobody_knows_is_not_nothing(target: str) -> None:
    travel = of_build(Offer(target, "named"), node("one"))
    assert bounds(travel) == (0, None) and not travel.there and travel.exact is None
    assert bounds(of_build(Offer("a.whl", "named", size=Bytes(5)), node("one"))) == (5, 5)


@pytest.fixture
def model(tmp_path: Path) -> Model:
    (tmp_path / "config.json").write_text('{"architectures": ["A"], "model_type": "a"}')
    read = read_model(str(tmp_path / "config.json"))
    parameters = Parameters({"BF16": 50}, 50, 100, 1, 1)
    return replace(read, subject="team/model", origin="hub", parameters=Known(parameters, LOOK))


def cached(
    bytes_: int | None, complete: bool, revision: str | None = "beef", name: str = "team/model"
) -> Node:
    size = None if bytes_ is None else Bytes(bytes_)
    return node(
        "one", models=[CachedModel(name, revision, size, complete, "" if complete else "1 files missing")]
    )


def test_weights_by_what_the_cache_holds(model: Model) -> None:
    for holder, expected in (
        (node("one"), (100, 100)),
        (cached(100, complete=True), (0, 0)),
        (cached(100, complete=True, name="team/model-2"), (100, 100)),
        (cached(30, complete=False), (70, 100)),
        (cached(None, complete=False), (0, 100)),
        (cached(300, complete=False), (0, 100)),
        (node("one", models=REFUSED), (0, 100)),
    ):
        assert bounds(of_weights(model, holder)) == expected


def test_another_revision_may_be_the_same_or_not(model: Model) -> None:
    wanted = replace(model, revision=Known("f00d", LOOK))
    travel = of_weights(wanted, cached(100, complete=True))
    assert bounds(travel) == (0, 100) and "another revision" in travel.why
    assert of_weights(wanted, cached(100, complete=True, revision="f00d")).there


def test_of_a_model_that_is_a_folder_only_this_machine_knows(model: Model) -> None:
    folder = replace(model, subject="./model", origin="folder")
    assert bounds(of_weights(folder, node("here", address="local"))) == (0, 100), (
        "a config alone has no weights"
    )
    headers = replace(
        folder, weight_format=Known("safetensors", LOOK), files=Known(("model.headers.json",), LOOK)
    )
    assert bounds(of_weights(headers, node("here", address="local"))) == (0, 100), "nor have headers alone"
    folder = replace(headers, files=Known(("model.safetensors",), LOOK))
    assert of_weights(folder, node("here", address="local")).there
    assert bounds(of_weights(folder, cached(100, complete=True))) == (0, 100)
    assert of_weights(folder, cached(100, complete=True), "team/model").there


def test_a_complete_copy_counts_before_a_broken_one(model: Model) -> None:
    both = [
        CachedModel("team/model", "a", None, complete, "" if complete else "cut")
        for complete in (False, True)
    ]
    assert of_weights(model, node("one", models=both)).there
