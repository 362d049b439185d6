"""Where a model lies on a machine, as the login there finds it, and who will read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from canserve.facts import Fact
from canserve.subjects.deployment import Mount

Who = Literal["login", "lone", "root", "other", "confined"]
"""``login``: a process of the user that looked; ``lone``: the same in a container, without the user's further groups;
``root``: one that no permission bars; ``other``: somebody else; ``confined``: whoever it is, labels decide as well."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A model's folder or file."""

    path: str
    state: Literal["there", "absent", "dangling", "barred"]
    """``dangling``: a link on the way leads nowhere; ``barred``: the login may not go there, or not list it."""
    user: int
    """Who looked, by number."""
    at: str = ""
    """What decides where it is not there: the first part of the way that is missing, or that bars it."""
    mode: str = ""
    """Of what bars it: permissions, owner and group, as ``ls`` says them."""
    system: str = ""
    """Kind of its file system, as ``stat`` names it; empty: not known."""
    files: int = 0
    """Of those that a model is made of."""
    barred: tuple[str, ...] = ()
    """Files that the login may not read; the first few."""
    dangling: tuple[str, ...] = ()
    """Files that are links to nothing; the first few."""
    links: tuple[tuple[str, str], ...] = ()
    """Files, and folders on the way below what a container is given, that are links: their paths, and what they say."""
    shy: tuple[str, ...] | None = None
    """What not everybody may read; the first few. None: that was not seen."""
    lent: tuple[str, ...] | None = None
    """What of it the login reads neither as its owner nor by its own group; the first few. None: that was not seen."""


@dataclass(frozen=True, slots=True)
class ModelRead:
    """A deployment, as far as it reads a model that lies on its machines."""

    model: str
    """As its processes are told it."""
    placed: Mapping[str, Fact[Placed]]
    """By machine."""
    who: Mapping[str, Fact[Who]]
    """Who reads it there."""
    program: str
    """``docker``, ``podman`` or ``process``."""
    mounts: tuple[Mount, ...] = ()
    """Of its containers."""
    fetched: bool = False
    """Whether it is fetched where it is not there."""
    coming: frozenset[str] = field(default_factory=frozenset)
    """Machines to which it is brought before anything is started."""
