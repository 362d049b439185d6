"""Opening an image that lies on this machine as a tree, its layers through the cache."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from canserve.facts import Missing
from canserve.trees.archive.blob import Blob
from canserve.trees.archive.remote import Place
from canserve.trees.image.layer import Layer, load, read_files, read_layer
from canserve.trees.image.manifest import Config
from canserve.trees.image.overlay import ImageTree
from canserve.trees.image.saved import ArchiveStore, FolderStore, open_saved
from canserve.trees.names import unavailable
from canserve.trees.tree import TreeError


@dataclass(frozen=True, slots=True)
class Image:
    """An opened image."""

    tree: ImageTree
    digest: str
    config: Config


def open_image(target: str, place: Place, packages: Collection[str], arch: str | None) -> Image:
    """``oci:FOLDER[:TAG]``, ``oci-archive:FILE[:TAG]``, ``docker-archive:FILE[:TAG]``. Raises TreeError.

    ``packages``: import packages whose files will be asked for.
    """
    kind, _, rest = target.partition(":")
    path, tag = _split(rest, target)
    store = FolderStore(path, target) if path.is_dir() else ArchiveStore(path, target)
    saved = open_saved(store, tag, arch)
    layers = [_layer(blob, digest, target, place, packages) for digest, blob in saved.layers]

    def fetch(number: int, paths: Sequence[str]) -> Mapping[str, bytes | Missing]:
        return read_files(saved.layers[number][1], target, paths)

    origin = f"image in an {kind.replace('-', ' ')}" if kind != "docker-archive" else "saved image"
    return Image(ImageTree(target, origin, layers, fetch), saved.digest, saved.config)


def _layer(blob: Blob, digest: str, subject: str, place: Place, packages: Collection[str]) -> Layer:
    # What is kept depends on the packages; the listing alone would do, but not for the same bytes.
    key = f"{digest}-{'-'.join(sorted(packages))}"[:200] if digest else ""
    kept = load(place.cache.get("layers", key)) if key else None
    if kept is not None:
        return kept
    if blob.size > 64 << 20:
        place.tell(f"{subject}: reading a layer of {blob.size / 1e6:.0f} MB")
    found = read_layer(blob, subject, packages, digest or None)
    if isinstance(found, Missing):
        raise TreeError(found)
    if key:
        place.cache.put("layers", key, found.dump())
    return found


def _split(rest: str, target: str) -> tuple[Path, str | None]:
    """``/images/vllm.tar:vllm:0.17`` -> the file and the image's name; a name may hold colons, a path too."""
    path = Path(rest).expanduser()
    if path.exists():
        return path, None
    at = rest.find(":")
    while at >= 0:
        path = Path(rest[:at]).expanduser()
        if path.exists():
            return path, rest[at + 1 :] or None
        at = rest.find(":", at + 1)
    raise TreeError(unavailable(target, "", f"{target}: no such file or folder"))
