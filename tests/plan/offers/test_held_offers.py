"""What machines run and hold, as offers: each once, with every machine that has it."""

from __future__ import annotations

from holders import REFUSED, digest, image, node

from canserve.plan.offers.held import merged, on_machines
from canserve.plan.offers.offer import Offer
from canserve.probes.machine import read_nodes
from canserve.subjects.host import Container, Environment
from canserve.units import Bytes


def test_containers_come_first_and_know_their_image() -> None:
    held = image("team/engine:1", "a", "b")
    runs = Container("docker", "head", "team/engine:1", "Up", "")
    running, offered = merged(on_machines([node("one", [held], [runs])]).offers)
    assert (running.target, running.source, running.on) == ("container://head@ssh-one", "running", ("one",))
    assert running.layers == held.layers and running.size == Bytes(1000) and not running.whole
    assert running.digests == frozenset(), "its own changes make it another build than its image"
    assert offered.target == "docker-daemon:team/engine:1@ssh-one" and offered.digests == {held.digest}


def test_a_container_is_matched_to_its_image_only_where_that_is_certain() -> None:
    held = image("team/engine:latest", "a")
    for name, engine, known in (
        ("team/engine", "docker", True),
        (held.digest, "docker", True),
        (held.digest.removeprefix("sha256:"), "docker", True),
        ("team/engine:2", "docker", False),
        ("host:5000/team/engine", "docker", False),
        ("team/engine", "podman", False),
    ):
        running = on_machines([node("one", [held], [Container(engine, "c", name, "Up", "")])]).offers[0]
        assert (running.layers is not None) is known, name


def test_the_same_image_on_several_machines_is_one_offer() -> None:
    one, two = image("team/engine:1", "a"), image("other/name:x", "a", digest=digest("team/engine:1"))
    (offer,) = on_machines([node("one", [one]), node("two", [two])]).offers
    assert offer.on == ("one", "two")
    assert offer.also == ("docker-daemon:other/name:x@ssh-two",)


def test_engines_that_number_an_image_differently_hold_the_same() -> None:
    docker = image("team/engine:1", "a", "b")
    podman = image("localhost/engine:1", "a", "b", engine="podman", digest=digest("other number"))
    (offer,) = on_machines([node("one", [docker]), node("two", [podman])]).offers
    assert offer.on == ("one", "two") and "containers-storage:localhost/engine:1@ssh-two" in offer.also
    later = image("team/engine:1", "a", "b", digest=digest("rebuilt"), created="2026-03-09T10:00:00Z")
    assert len(on_machines([node("one", [docker]), node("two", [later])]).offers) == 2
    undated = [image("x:1", "a", created=None), image("y:1", "a", created=None)]
    assert len(on_machines([node("one", undated)]).offers) == 2


def test_by_the_digest_of_a_registry() -> None:
    held = image("team/engine:1", "a", repository_digests=(f"host/team/engine@{digest('manifest')}",))
    (offer,) = on_machines([node("one", [held])]).offers
    tag = Offer("docker://host/team/engine:1", "tag", digests=frozenset({digest("manifest")}))
    (both,) = merged([offer, tag])
    assert both.source == "image" and both.on == ("one",) and both.also == (tag.target,)


def test_an_image_without_a_name_goes_by_its_digest() -> None:
    held = image("x", "a", names=())
    (offer,) = on_machines([node("one", [held], address="local")]).offers
    assert offer.target == f"docker-daemon:{held.digest}"


def test_environments_by_the_folder_that_a_user_would_name() -> None:
    packages = (("eng", "1.0"),)
    for path, target in (
        ("/srv/venv/lib/python3.12/site-packages", "/srv/venv"),
        ("/srv/venv/lib64/python3.12/site-packages", "/srv/venv"),
        ("/usr/lib/python3/dist-packages", "/usr/lib/python3/dist-packages"),
        ("/usr/local/lib/python3.12/site-packages", "/usr/local/lib/python3.12/site-packages"),
    ):
        (offer,) = on_machines([node("one", environments=[Environment(path, packages)])]).offers
        assert (offer.target, offer.note) == (f"ssh-one:{target}", "eng 1.0")
        (here,) = on_machines([node("x", environments=[Environment(path, packages)], address="local")]).offers
        assert here.target == target


def test_what_could_not_be_listed_is_said_with_its_reason() -> None:
    found = on_machines([node("one", REFUSED, REFUSED), node("two", [image("a:1")])])
    assert [offer.on for offer in found.offers] == [("two",)]
    (line,) = found.unheard
    assert line == ("one: containers and images could not be listed: docker ps failed: permission denied")


def test_a_profile_holds_nothing_and_a_machine_nobody_looked_at_may() -> None:
    assert on_machines(read_nodes(["profile:h200"])).unheard == ()
    profile = read_nodes(["profile:h200"])[0]
    from dataclasses import replace

    (line,) = on_machines([replace(profile, address="somewhere", name="one")]).unheard
    assert line == "one: only a look says what lies there, and none was taken"


def test_what_is_likely_to_be_an_engine_is_read_first() -> None:
    held = [
        image("small/tool:1", "a", size=10),
        image("large/thing:1", "b", size=9000),
        image("postgres:17", size=None),
        image("host/team/vllm-spark:1", "c", size=20),
    ]
    targets = [offer.target for offer in on_machines([node("one", held, address="local")]).offers]
    assert targets == [
        "docker-daemon:host/team/vllm-spark:1",
        "docker-daemon:large/thing:1",
        "docker-daemon:small/tool:1",
        "docker-daemon:postgres:17",
    ]
