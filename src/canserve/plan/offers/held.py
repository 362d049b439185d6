"""What machines run and hold, as offers, from the facts that were read on them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from canserve.engines import NAMES
from canserve.facts import Fact, Known, Missing
from canserve.plan.offers.offer import Gathered, Offer
from canserve.subjects.cluster import Node
from canserve.subjects.host import Container, Environment, HeldImage
from canserve.subjects.machine import NOT_LOOKED

T = TypeVar("T")

LOCAL = "local"
_STORES = {"docker": "docker-daemon:", "podman": "containers-storage:"}
"""Prefix of an image that an engine holds, as containers-transports(5) names the engines' stores."""
_SITE = re.compile(r"(?P<root>.+)/lib(?:64)?/python3[^/]*/site-packages")
_SYSTEM = ("/usr", "/usr/local")
"""Prefixes that hold more than an environment."""
_HOLDERS = ("containers", "images", "environments")


def on_machines(nodes: Sequence[Node]) -> Gathered:
    """What runs there first, then images, then environments; the same image on several machines is one offer.

    Of each kind those come first that are named after an engine, then the largest: where not all can be read, these
    are.
    """
    running: list[Offer] = []
    images: list[Offer] = []
    environments: list[Offer] = []
    for node in nodes:
        held = _value(node.machine.images)
        running += [_running(node, one, held) for one in _value(node.machine.containers)]
        images += [_image(node, one) for one in held]
        environments += [_environment(node, one) for one in _value(node.machine.environments)]
    unheard = (line for node in nodes for line in _unheard(node))
    found = (*sorted(running, key=_likely), *sorted(merged(images), key=_likely), *environments)
    return Gathered(found, tuple(dict.fromkeys(unheard)))


def _likely(offer: Offer) -> tuple[bool, int]:
    """Whether no engine's name is in its names, and its size, the largest first."""
    said = " ".join((offer.target, *offer.also, offer.note)).lower()
    named = any(name in said for name in NAMES)
    return not named, -offer.size.count if offer.size is not None else 0


def merged(offers: Iterable[Offer]) -> tuple[Offer, ...]:
    """Offers of the same image as one, in the place of the first; its other names and machines are kept."""
    found: list[Offer] = []
    for offer in offers:
        at = next((at for at, other in enumerate(found) if _same(other, offer)), None)
        if at is None:
            found.append(offer)
        else:
            found[at] = _both(found[at], offer)
    return tuple(found)


def _same(one: Offer, other: Offer) -> bool:
    """By its name, a digest, or the same layers made at the same moment: engines number one image in several ways."""
    if one.target == other.target or one.digests & other.digests:
        return True
    alike = one.whole and other.whole and one.layers is not None and one.layers == other.layers
    return alike and one.date is not None and one.date == other.date


def _both(one: Offer, other: Offer) -> Offer:
    names = dict.fromkeys((*one.also, other.target, *other.also))
    names.pop(one.target, None)
    return replace(
        one,
        on=tuple(dict.fromkeys((*one.on, *other.on))),
        also=tuple(names),
        digests=one.digests | other.digests,
        size=one.size if one.size is not None else other.size,
        layers=one.layers if one.layers is not None else other.layers,
        packed=one.packed if one.packed is not None else other.packed,
        architecture=one.architecture or other.architecture,
        date=one.date or other.date,
        note=one.note or other.note,
    )


def place(node: Node) -> str:
    """How a target names a machine: ``@destination`` as ssh takes it, and nothing for this one."""
    return "" if node.address == LOCAL else f"@{node.address or node.name}"


def _running(node: Node, container: Container, held: Sequence[HeldImage]) -> Offer:
    image = next((one for one in held if _is_of(container, one)), None)
    return Offer(
        target=f"container://{container.name}{place(node)}",
        source="running",
        on=(node.name,),
        size=image.size if image else None,
        layers=image.layers if image else None,
        architecture=image.architecture if image else None,
        date=image.created if image else None,
        whole=False,
        note=f"runs {container.image}",
    )


def _is_of(container: Container, image: HeldImage) -> bool:
    """Engines list a container's image by the name it was started with, while that still stands for it."""
    if container.engine != image.engine:
        return False
    named = container.image
    tagged = named if ":" in named.rpartition("/")[2] or "@" in named else f"{named}:latest"
    return tagged in {*image.names, *image.repository_digests} or image.digest in {named, f"sha256:{named}"}


def _image(node: Node, image: HeldImage) -> Offer:
    store = _STORES.get(image.engine, f"{image.engine}:")
    first, *others = image.names or (image.digest,)
    of_registry = (name.rpartition("@")[2] for name in image.repository_digests)
    return Offer(
        target=f"{store}{first}{place(node)}",
        source="image",
        on=(node.name,),
        also=tuple(f"{store}{name}{place(node)}" for name in others),
        digests=frozenset((image.digest, *of_registry)),
        size=image.size,
        layers=image.layers,
        architecture=image.architecture,
        date=image.created,
    )


def _environment(node: Node, environment: Environment) -> Offer:
    site = _SITE.fullmatch(environment.path)
    path = site["root"] if site and site["root"] not in _SYSTEM else environment.path
    return Offer(
        target=path if node.address == LOCAL else f"{node.address or node.name}:{path}",
        source="environment",
        on=(node.name,),
        note=", ".join(f"{name} {version}" for name, version in environment.packages),
    )


def _unheard(node: Node) -> Iterator[str]:
    """Why more may be there than is listed."""
    machine = node.machine
    if node.address is None:
        return  # a kind of machine, on which nothing lies
    facts = {name: getattr(machine, name) for name in _HOLDERS}
    if all(fact is NOT_LOOKED for fact in facts.values()):
        yield f"{node.name}: only a look says what lies there, and none was taken"
        return
    whys: dict[str, list[str]] = {}
    for name, fact in facts.items():
        if isinstance(fact, Missing):
            whys.setdefault(fact.why, []).append(name)
    for why, names in whys.items():
        said = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
        yield f"{node.name}: {said} could not be listed: {why.removeprefix(f'{machine.subject}: ')}"


def _value(fact: Fact[tuple[T, ...]]) -> tuple[T, ...]:
    return fact.value if isinstance(fact, Known) else ()
