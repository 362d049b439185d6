"""Brings an image and weights to machines, so that all of them can serve: ``distribute``."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from canserve.plan.roads import WORDS
from canserve.probes.container.naming import (
    CONTAINER,
    IMAGES,
    LOCAL,
    PROGRAMS,
    REGISTRY,
    Held,
    NamingError,
    held,
)
from canserve.probes.live import routes
from canserve.run.transfer_hands import Carried, Hands, by_name
from canserve.run.transfer_image import bring_image
from canserve.run.transfer_weights import bring_weights, folder
from canserve.subjects.cluster import Node

__all__ = ["WORDS", "Carried", "Manner", "Wanted", "WantedError", "distribute"]

_FILES = re.compile(r"((?:oci|oci-archive|docker-archive|dir):)")
_THERE = re.compile(r"(?P<machine>[A-Za-z0-9_][A-Za-z0-9._@%\[\]-]*):(?P<path>[/~].*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be on every machine."""

    image: str | None = None
    """As ``--build`` takes it, or a plain name: whichever machine holds it."""
    weights: str | None = None
    """``/PATH`` here or ``MACHINE:/PATH``: a folder, or a model of a Hub cache."""
    into: str | None = None
    """Folder of the weights on the other machines; None: the same, or their Hub cache."""


class WantedError(ValueError):
    """What cannot be distributed; says why."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How it is distributed."""

    tell: Callable[[str], None] = lambda _: None
    dry: bool = False
    """Machines are looked at, and nothing is copied."""
    targets: Collection[str] | None = None
    """Names of the nodes that are to have it; None: all. The others may hold it, or lie on the way."""
    stopped: threading.Event = field(default_factory=threading.Event)
    """Once it is set, what is being copied ends."""

    def hands(self, nodes: Sequence[Node]) -> Hands:
        """With what these are copied to."""
        return Hands(by_name(nodes), routes(nodes), self.tell, self.dry, stopped=self.stopped)


def distribute(wanted: Wanted, nodes: Sequence[Node], how: Manner | None = None) -> tuple[Carried, ...]:
    """Image and weights on every node that has an address, each verified there by its digest.

    Never raises for what machines and networks do: a ``Carried`` with a ``problem`` says what failed, and calling again
    goes on from there. Raises WantedError for names that cannot be meant.
    """
    how = how or Manner()
    live = [node for node in nodes if node.address is not None]
    names = [node.name for node in live if how.targets is None or node.name in how.targets]
    out: list[Carried] = []
    if wanted.image is not None:
        it, registry = _image(wanted.image)
        known = _with(live, it.machine)
        it = replace(it, machine=_called(known, it.machine))
        out += bring_image(it, registry, names, how.hands(known))
    if wanted.weights is not None:
        machine, path = _place(wanted.weights)
        known = _with(live, machine)
        what = folder(path, _called(known, machine), wanted.into)
        out += bring_weights(what, names, how.hands(known))
    return tuple(out)


def _image(target: str) -> tuple[Held, bool]:
    """What is meant, and whether a registry may be asked for it."""
    if (file := _FILES.match(target)) is not None:
        raise WantedError(
            f"{target} is no image that an engine holds; {file[1]} names a file or folder here, load it first"
        )
    try:
        plain = not target.startswith((*IMAGES, REGISTRY, CONTAINER))
        it = held(f"docker-daemon:{target}" if plain else target)
        if it is not None and it.kind == "image":
            return replace(
                it,
                subject=target,
                programs=PROGRAMS,
                machine="" if plain and "@" not in target else it.machine,
            ), False
        name = target.removeprefix(REGISTRY)
        if (
            it is None
            and target.startswith(REGISTRY)
            and (named := held(f"docker-daemon:{name}")) is not None
        ):
            return replace(named, subject=target, programs=PROGRAMS, machine=""), True
    except NamingError as error:
        raise WantedError(f"{target}: {error}") from None
    raise WantedError(f"{target} is no image: name one that a machine holds, or docker://HOST/NAME:TAG")


def _place(weights: str) -> tuple[str, str]:
    found = _THERE.fullmatch(weights)
    if found is not None and not Path(weights).exists():
        return found["machine"], found["path"]
    return LOCAL, str(Path(weights).absolute())


def _with(live: Sequence[Node], machine: str) -> tuple[Node, ...]:
    """The machines, with the one that it comes from, or this one, which may hold it as well."""
    sought = machine or LOCAL
    if not live or any(sought in {node.name, node.address} for node in live):
        return tuple(live)
    record = replace(live[0].machine, subject=sought)
    return (*live, Node(sought, record, sought, None, None))


def _called(nodes: Sequence[Node], machine: str) -> str:
    """The name of the node that has such a name or address."""
    return next((node.name for node in nodes if machine in {node.name, node.address}), machine)
