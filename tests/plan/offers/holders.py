"""Machines that hold things, for the tests of offers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from canserve.facts import Cause, Evidence, Known, Missing
from canserve.probes.machine import parse_cluster
from canserve.subjects.cluster import Node
from canserve.subjects.host import CachedModel, Container, Environment, HeldImage
from canserve.units import Bytes

LOOK = (Evidence("machine", "a look", "what is there"),)
REFUSED = Missing(Cause.UNAVAILABLE, "docker ps failed: permission denied", LOOK)


def digest(name: str) -> str:
    return f"sha256:{name.encode().hex():0<64}"[:71]


def image(name: str, *layers: str, size: int | None = 1000, **other: Any) -> HeldImage:
    """Of docker; its digest and those of its layers are made of their names."""
    made = HeldImage(
        engine="docker",
        digest=digest(name),
        names=(name,),
        repository_digests=(),
        size=None if size is None else Bytes(size),
        layers=tuple(map(digest, layers)) if layers else None,
        architecture="arm64",
        created="2026-03-08T10:00:00Z",
    )
    return replace(made, **other)


def node(
    name: str,
    images: Sequence[HeldImage] | Missing = (),
    containers: Sequence[Container] | Missing = (),
    environments: Sequence[Environment] = (),
    models: Sequence[CachedModel] | Missing = (),
    address: str | None = "",
) -> Node:
    """A machine that was looked at."""
    (made,) = parse_cluster(f"[nodes.{name}]\n".encode(), "c.toml").nodes
    machine = replace(
        made.machine,
        images=images if isinstance(images, Missing) else Known(tuple(images), LOOK),
        containers=containers if isinstance(containers, Missing) else Known(tuple(containers), LOOK),
        environments=Known(tuple(environments), LOOK),
        cached_models=models if isinstance(models, Missing) else Known(tuple(models), LOOK),
        clock_skew=Known(0, LOOK),
    )
    return replace(made, machine=machine, address=f"ssh-{name}" if address == "" else address)
