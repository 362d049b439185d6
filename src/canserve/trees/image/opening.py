"""Opening an image as a tree: on this machine's disk or in a registry, its layers through the cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from canserve.facts import Missing
from canserve.trees.archive.blob import Blob
from canserve.trees.archive.remote import Place
from canserve.trees.image.early import Sought
from canserve.trees.image.layer import Layer, load, read_layer
from canserve.trees.image.manifest import Config
from canserve.trees.image.overlay import ImageTree
from canserve.trees.image.pulling import Layers, Reading, Source, layer_key, pull
from canserve.trees.image.registry import PREFIX, Registry
from canserve.trees.image.saved import ArchiveStore, FolderStore, open_saved
from canserve.trees.names import unavailable
from canserve.trees.tree import TreeError

_LARGE = 64 << 20


@dataclass(frozen=True, slots=True)
class Image:
    """An opened image."""

    tree: ImageTree
    digest: str
    config: Config
    notes: tuple[str, ...] = ()
    """What the user should know of how it was read."""


def open_image(target: str, place: Place, sought: Sought, arch: str | None) -> Image:
    """Open what the user named as an image. Raises TreeError.

    ``oci:FOLDER[:TAG]``, ``oci-archive:FILE[:TAG]``, ``docker-archive:FILE[:TAG]``,
    ``docker://HOST/REPOSITORY[:TAG]``.
    """
    reading = Reading(target, place, sought)
    if target.startswith(PREFIX):
        registry = Registry(target, place)
        pulled = registry.pull(arch)
        named = frozenset(engine for engine in sought.engines if pulled.config.speaks_of(engine))
        reading = Reading(target, place, replace(sought, named=named))
        layers = pull(reading, registry, pulled.manifest.layers)
        tree = _tree(reading, "image in a registry", layers)
        return Image(tree, pulled.digest, pulled.config, pulled.notes + layers.notes)
    path, tag = _split(target.partition(":")[2], target)
    store = FolderStore(path, target) if path.is_dir() else ArchiveStore(path, target)
    saved = open_saved(store, tag, arch)
    sources = tuple(Source(_packed(reading, blob, digest), blob) for digest, blob in saved.layers)
    return Image(_tree(reading, "image on disk", Layers(sources)), saved.digest, saved.config)


def _packed(reading: Reading, blob: Blob, digest: str) -> Layer:
    """A layer that is passed over once; ``digest``: of the unpacked layer, or of the blob as it is."""
    key = layer_key(digest, reading.sought) if digest else ""
    cache = reading.place.cache
    kept = load(cache.get("layers", key)) if key else None
    if kept is not None:
        return kept
    if blob.size > _LARGE:
        reading.place.tell(f"{reading.subject}: passing over a layer of {blob.size / 1e6:.0f} MB")
    found = read_layer(blob, reading.subject, reading.sought.packages, digest or None)
    if isinstance(found, Missing):
        raise TreeError(found)
    if key:
        cache.put("layers", key, found.dump())
    return found


def _tree(reading: Reading, origin: str, found: Layers) -> ImageTree:
    sources = found.sources

    def fetch(number: int, paths: Sequence[str]) -> Mapping[str, bytes | Missing]:
        return sources[number].files(reading.subject, paths)

    layers = [source.layer for source in sources]
    tree = ImageTree(reading.subject, origin, layers, fetch, lambda: reading.place.web.cost)
    tree.visitor = lambda number, paths, use: sources[number].visit(reading.subject, paths, use)
    tree.unread = found.unread
    tree.seekable = frozenset(n for n, source in enumerate(sources) if source.table is not None)
    return tree


def _split(rest: str, target: str) -> tuple[Path, str | None]:
    """``/images/vllm.tar:vllm:0.17`` -> the file and the image's name; a name may hold colons, a path too."""
    path = Path(rest).expanduser()
    if rest and path.exists():
        return path, None
    at = rest.find(":")
    while at >= 0:
        path = Path(rest[:at]).expanduser()
        if at and path.exists():
            return path, rest[at + 1 :] or None
        at = rest.find(":", at + 1)
    raise TreeError(unavailable(target, "", f"{target}: no such file or folder"))
