"""A build that could be used, before anything of it is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from canserve.units import Bytes

Source = Literal["named", "running", "image", "environment", "file", "tag", "search", "index"]
"""Where a build was heard of: the command line, what a machine runs or holds, a file, a registry, a hub, the index."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer of an image in a registry."""

    digest: str
    """Of the unpacked layer, as engines count what they hold."""
    size: Bytes
    """Packed, as it travels."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One build that could be used."""

    target: str
    """As ``--build`` takes it."""
    source: Source
    on: tuple[str, ...] = ()
    """Names of the machines that hold it."""
    also: tuple[str, ...] = ()
    """Other names of the very same."""
    digests: frozenset[str] = frozenset()
    """Of the image: by any of them it is known to be the same."""
    size: Bytes | None = None
    """Of all that would be copied to a machine that holds nothing of it; None: not known."""
    layers: tuple[str, ...] | None = None
    """Digests of the image's unpacked layers; None: it is none, or they are not known."""
    packed: tuple[Layer, ...] | None = None
    """Of an image in a registry: the same with their sizes."""
    architecture: str | None = None
    """CPU architecture that it is made for, as images name it."""
    date: str | None = None
    """ISO 8601: when it was made."""
    whole: bool = True
    """False: more of it would travel than is counted, such as a container's own changes."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Gathered:
    """What was heard of, and where one could not listen."""

    offers: tuple[Offer, ...] = ()
    unheard: tuple[str, ...] = ()
    """Places that may hold more, with the reason in a line each."""

    def and_(self, other: Gathered) -> Gathered:
        """Both."""
        return Gathered(self.offers + other.offers, self.unheard + other.unheard)
