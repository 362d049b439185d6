"""Opening an image as a tree: on this machine's disk or in a registry, its layers through the cache."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from canserve.facts import Missing
from canserve.trees.archive.blob import Blob, Span
from canserve.trees.archive.remote import Place
from canserve.trees.image.layer import Layer, load, read_files, read_layer, visit_files
from canserve.trees.image.manifest import Config, Descriptor
from canserve.trees.image.overlay import ImageTree
from canserve.trees.image.registry import PREFIX, Registry
from canserve.trees.image.saved import ArchiveStore, FolderStore, open_saved
from canserve.trees.image.seekable import NoTableError, Seekable, open_seekable
from canserve.trees.names import unavailable
from canserve.trees.positions import Use
from canserve.trees.tree import Cost, TreeError

AHEAD = 16 << 20
"""Bytes of one request while a remote layer is passed over."""
_LARGE = 64 << 20


@dataclass(frozen=True, slots=True)
class Image:
    """An opened image."""

    tree: ImageTree
    digest: str
    config: Config
    notes: tuple[str, ...] = ()
    """What the user should know of how it was read."""


@dataclass(frozen=True, slots=True)
class _Source:
    """One layer, and where its contents are had from."""

    layer: Layer
    blob: Blob
    table: Seekable | None = None

    def files(self, subject: str, paths: Sequence[str]) -> Mapping[str, bytes | Missing]:
        if self.table is not None:
            return self.table.files(self.blob, subject, paths)
        return read_files(self.blob, subject, paths)

    def visit(self, wanted: _Wanted, paths: Sequence[str], use: Use) -> Mapping[str, Missing]:
        if self.table is not None:
            return self.table.visit(self.blob, wanted.subject, paths, use)
        if self.blob.size > _LARGE:
            wanted.place.tell(
                f"{wanted.subject}: passing once more over a layer of {self.blob.size / 1e6:.0f} MB"
            )
        return visit_files(self.blob, wanted.subject, paths, use)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What layers are read for."""

    subject: str
    place: Place
    packages: Collection[str]


def open_image(target: str, place: Place, packages: Collection[str], arch: str | None) -> Image:
    """Open what the user named as an image. Raises TreeError.

    ``oci:FOLDER[:TAG]``, ``oci-archive:FILE[:TAG]``, ``docker-archive:FILE[:TAG]``,
    ``docker://HOST/REPOSITORY[:TAG]``. ``packages``: import packages whose files will be asked for.
    """
    wanted = _Wanted(target, place, packages)
    if target.startswith(PREFIX):
        return _of_registry(wanted, arch)
    path, tag = _split(target.partition(":")[2], target)
    store = FolderStore(path, target) if path.is_dir() else ArchiveStore(path, target)
    saved = open_saved(store, tag, arch)
    sources = [_Source(_packed(wanted, blob, digest), blob) for digest, blob in saved.layers]
    return Image(_tree(wanted, "image on disk", sources), saved.digest, saved.config)


def _of_registry(wanted: _Wanted, arch: str | None) -> Image:
    registry = Registry(wanted.subject, wanted.place)
    pulled = registry.pull(arch)
    sources, whole = [], 0
    for descriptor in pulled.manifest.layers:
        source = _remote(wanted, registry, descriptor)
        sources.append(source)
        whole += descriptor.size if source.table is None else 0
    tree = _tree(wanted, "image in a registry", sources)
    count = sum(source.table is None for source in sources)
    told = (
        f"{count} of {len(sources)} layers have no table of contents: {whole / 1e6:.0f} MB were passed over"
    )
    notes = (told,) if count else ()
    return Image(tree, pulled.digest, pulled.config, notes)


def _remote(wanted: _Wanted, registry: Registry, descriptor: Descriptor) -> _Source:
    blob = registry.blob(descriptor)
    try:
        table = open_seekable(blob, descriptor.annotations)
    except NoTableError:
        passing = _Ahead(registry.blob(descriptor, kept=False))
        return _Source(_packed(wanted, passing, descriptor.hexadecimal), passing)
    return _Source(table.layer, blob, table)


def _packed(wanted: _Wanted, blob: Blob, digest: str) -> Layer:
    """A layer that is passed over once; ``digest``: of the unpacked layer, or of the blob as it is."""
    # What is kept of it depends on the packages.
    key = f"{digest}-{'-'.join(sorted(wanted.packages))}"[:200] if digest else ""
    cache = wanted.place.cache
    kept = load(cache.get("layers", key)) if key else None
    if kept is not None:
        return kept
    if blob.size > _LARGE:
        wanted.place.tell(f"{wanted.subject}: passing over a layer of {blob.size / 1e6:.0f} MB")
    found = read_layer(blob, wanted.subject, wanted.packages, digest or None)
    if isinstance(found, Missing):
        raise TreeError(found)
    if key:
        cache.put("layers", key, found.dump())
    return found


def _tree(wanted: _Wanted, origin: str, sources: Sequence[_Source]) -> ImageTree:
    def fetch(number: int, paths: Sequence[str]) -> Mapping[str, bytes | Missing]:
        return sources[number].files(wanted.subject, paths)

    layers = [source.layer for source in sources]
    tree = ImageTree(wanted.subject, origin, layers, fetch, lambda: wanted.place.web.cost)
    tree.visitor = lambda number, paths, use: sources[number].visit(wanted, paths, use)
    return tree


class _Ahead:
    """A blob that is read from start to end, in few large requests."""

    def __init__(self, blob: Blob) -> None:
        self._blob = blob
        self._start = 0
        self._data = b""
        self.size = blob.size

    @property
    def cost(self) -> Cost:
        """Of the blob."""
        return self._blob.cost

    def held(self, span: Span) -> bool:
        """As the blob says."""
        return self._blob.held(span)

    def tail(self, count: int) -> bytes:
        """The blob's."""
        return self._blob.tail(count)

    def spans(self, wanted: Sequence[Span]) -> list[bytes]:
        """Runs of bytes, out of the window where they lie in it."""
        return [self._span(start, end) for start, end in wanted]

    def forget(self, span: Span) -> None:
        """As the blob does."""
        self._blob.forget(span)

    def _span(self, start: int, end: int) -> bytes:
        if not self._start <= start <= end <= self._start + len(self._data):
            self._start = start
            self._data = self._blob.spans([(start, min(max(end, start + AHEAD), self.size))])[0]
        return self._data[start - self._start : end - self._start]


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
