"""Builds heard of beside the machines, from everywhere the user names; and what their registries say of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from canserve.facts import Missing
from canserve.plan.offers.held import merged
from canserve.plan.offers.offer import Gathered, Offer
from canserve.probes.offers.candidates_file import CandidatesFile, read_candidates_file
from canserve.probes.offers.hubs import search
from canserve.probes.offers.tags import measured, read_tags
from canserve.rules.hubs import Hub, hubs, words
from canserve.trees.archive.remote import Place
from canserve.trees.cache import Cache
from canserve.trees.fanout import fanout
from canserve.trees.image.registry import PREFIX
from canserve.trees.index.pip_config import pip_config
from canserve.trees.web.client import Web
from canserve.trees.web.settings import Settings
from canserve.units import Bytes

_AS_IMAGES_SAY = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Named:
    """What the user names."""

    builds: tuple[str, ...] = ()
    file: str | None = None
    """A file of candidates."""
    tags: tuple[str, ...] = ()
    """``docker://HOST/REPOSITORY[:GLOB]`` each."""
    search: tuple[str, ...] | None = None
    """Words to search public hubs for; None: no hub is asked; empty: the usual words."""
    hubs: tuple[Hub, ...] | None = None
    """Those to search; None: those of the file, else the public ones."""


@contextmanager
def way_out(offline: bool, tell: Callable[[str], None]) -> Iterator[Place]:
    """The network as pip is configured for it, and the cache."""
    config = pip_config()
    web = Web(Settings() if isinstance(config, Missing) else config.settings, offline)
    try:
        yield Place(web, Cache(), tell)
    finally:
        web.close()


def gather(named: Named, place: Place, archs: Sequence[str], most: int) -> Gathered:
    """All that was named. Raises CandidatesFileError; what cannot be asked is said in a line.

    ``archs``: CPU architectures of the machines, as they say it themselves; ``most``: tags of one repository.
    """
    file = read_candidates_file(Path(named.file)) if named.file is not None else CandidatesFile()
    found = Gathered((*(Offer(target, "named") for target in named.builds), *file.offers))
    for spec in (*named.tags, *file.tags):
        place.tell(f"listing {spec}")
        found = found.and_(read_tags(spec, place, most))
    if named.search is not None:
        wanted = frozenset(_AS_IMAGES_SAY.get(arch, arch) for arch in archs)
        asked = named.search or words()
        chosen = named.hubs or file.hubs or hubs()
        place.tell(f"searching {', '.join(hub.address for hub in chosen)} for {', '.join(asked)}")
        for answer in fanout(lambda hub: search(hub, asked, place, wanted), chosen):
            found = found.and_(answer)
    return replace(found, offers=merged(found.offers))


def sized(offer: Offer, place: Place, arch: str | None) -> Offer:
    """The same with its size: as its registry says, or of the file that it is."""
    if offer.target.startswith(PREFIX) and offer.source in {"named", "file", "tag", "search"}:
        return measured(offer, place, arch)
    if offer.source not in {"named", "file"}:
        return offer
    path = Path(offer.target.partition(":")[2] if "-archive:" in offer.target else offer.target)
    try:
        size = path.stat().st_size if path.is_file() else None
    except (OSError, ValueError):
        return offer
    return replace(offer, size=Bytes(size)) if size else offer
