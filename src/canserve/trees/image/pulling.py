"""The layers of an image in a registry: by their tables of contents, or from the top one down until it will do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from canserve.facts import Missing
from canserve.trees.archive.blob import Blob
from canserve.trees.archive.remote import Place
from canserve.trees.fanout import fanout
from canserve.trees.image.ahead import Ahead
from canserve.trees.image.early import Settled, Sought, settled
from canserve.trees.image.layer import Layer, load, read_files, read_layer, visit_files
from canserve.trees.image.manifest import Descriptor
from canserve.trees.image.overlay import Unread
from canserve.trees.image.registry import Registry
from canserve.trees.image.seekable import NoTableError, Seekable, open_seekable
from canserve.trees.names import unreached, unreadable
from canserve.trees.positions import Use
from canserve.trees.tree import TreeError


@dataclass(frozen=True, slots=True)
class Source:
    """One layer, and where its contents are had from."""

    layer: Layer
    blob: Blob
    table: Seekable | None = None

    def files(self, subject: str, paths: Sequence[str]) -> Mapping[str, bytes | Missing]:
        """The contents of these files."""
        if self.table is not None:
            return self.table.files(self.blob, subject, paths)
        return read_files(self.blob, subject, paths, self.layer.twice)

    def visit(self, subject: str, paths: Sequence[str], use: Use) -> Mapping[str, Missing]:
        """Use these files, of any size."""
        if self.table is not None:
            return self.table.visit(self.blob, subject, paths, use)
        once = [path for path in paths if path not in self.layer.twice]
        why = "it stands more than once in its layer"
        failed = {path: unreadable(subject, path, why) for path in paths if path in self.layer.twice}
        return visit_files(self.blob, subject, once, use) | failed if once else failed


@dataclass(frozen=True, slots=True)
class Reading:
    """Whose layers are read, with what, and what for."""

    subject: str
    place: Place
    sought: Sought


@dataclass(frozen=True, slots=True)
class Layers:
    """The layers that were read, lowest first."""

    sources: tuple[Source, ...]
    unread: Unread | None = None
    notes: tuple[str, ...] = ()
    """What the user should know of how they were read."""


def pull(reading: Reading, registry: Registry, layers: Sequence[Descriptor]) -> Layers:
    """Read an image's layers, given lowest first, as far as needed. Raises TreeError."""
    blobs = [registry.blob(each) for each in layers]
    tables = fanout(lambda pair: _table(*pair), list(zip(blobs, layers, strict=True)))
    packed = [number for number, table in enumerate(tables) if table is None]
    sources: list[Source] = []
    plain = _Plain(reading, registry, len(packed), sum(layers[number].size for number in packed))
    for descriptor, blob, table in reversed(list(zip(layers, blobs, tables, strict=True))):
        if table is not None:
            sources.insert(0, Source(table.layer, blob, table))
            continue
        if plain.settled is not None and not plain.whole(layers[: len(layers) - len(sources)]):
            break
        sources.insert(0, plain.read(descriptor, [source.layer for source in sources]))
    return plain.result(sources, layers[: len(layers) - len(sources)])


def _table(blob: Blob, descriptor: Descriptor) -> Seekable | None:
    try:
        return open_seekable(blob, descriptor.annotations)
    except NoTableError:
        return None


@dataclass(slots=True)
class _Plain:
    """Passing over layers without a table, from the top one down."""

    reading: Reading
    registry: Registry
    count: int
    size: int
    """Bytes of all of them."""
    settled: Settled | None = None
    passed: int = 0
    """Bytes of them that were passed over, now or earlier."""
    cut: list[Descriptor] = field(default_factory=list)
    done: int = 0
    moved: int = 0

    def whole(self, layers: Sequence[Descriptor]) -> bool:
        """Whether what is left needs no reading, for it was read before."""
        return all(self._known(each) is not None for each in layers)

    def read(self, descriptor: Descriptor, above: list[Layer]) -> Source:
        """The next layer below those; ``settled`` is set where it will do."""
        self.done += 1
        what = f"reading layer {self.done} of {self.count}"
        blob = Ahead(self.registry.blob(descriptor, kept=False), self.reading.place.tell, what)
        layer = self._kept(descriptor, above) or self._passed(blob, descriptor, above)
        if self.settled is None:
            self._enough(layer, above)
        self.passed += descriptor.size if layer.passed is None else layer.passed
        if layer.passed is not None:
            self.cut.append(descriptor)
        again = Ahead(self.registry.blob(descriptor, kept=False), self.reading.place.tell, f"{what} again")
        return Source(layer, again)

    def result(self, sources: Sequence[Source], below: Sequence[Descriptor]) -> Layers:
        """All of it, with what was not read as what it is: unknown."""
        if not self.count:
            return Layers(tuple(sources))
        if self.settled is None or not (below or self.cut):
            told = f"{self.count} of {len(sources)} layers have no table of contents: "
            told += f"{self.moved / 1e6:.0f} MB were passed over"
            return Layers(tuple(sources), None, (told,) if self.moved else ())
        rest = self.size - self.passed
        why = f"{rest / 1e6:.0f} MB of the image's layers were not read"
        look = f"{len(below)} of {len(below) + len(sources)} layers not read"
        look += f", {len(self.cut)} not to the end" if self.cut else ""
        missing = unreached(self.reading.subject, "", f"{why} ({look})", "add --deep to read all of them")
        told = (
            f"{self.passed / 1e6:.0f} of {self.size / 1e6:.0f} MB of plain layers were read, until the engine's"
            f" installation in {self.settled.site} was whole; another one below it would not have been seen"
            f" (--deep reads all{' and checks every digest' if self.cut else ''})"
        )
        return Layers(tuple(sources), Unread(missing, self.settled.folders), (told,))

    def _enough(self, layer: Layer, above: list[Layer]) -> bool:
        if self.reading.sought.whole:
            return False
        self.settled = settled([layer, *above], self.reading.sought)
        return self.settled is not None

    def _known(self, descriptor: Descriptor) -> Layer | None:
        return load(
            self.reading.place.cache.get("layers", layer_key(descriptor.hexadecimal, self.reading.sought))
        )

    def _kept(self, descriptor: Descriptor, above: list[Layer]) -> Layer | None:
        """From the cache: whole, or as far as it was read when that did."""
        if (whole := self._known(descriptor)) is not None:
            return whole
        cache, key = self.reading.place.cache, layer_key(descriptor.hexadecimal, self.reading.sought)
        cut = None if self.reading.sought.whole else load(cache.get("layers", f"cut-{key}"))
        return cut if cut is not None and self._enough(cut, above) else None

    def _passed(self, blob: Ahead, descriptor: Descriptor, above: list[Layer]) -> Layer:
        reading, key = self.reading, layer_key(descriptor.hexadecimal, self.reading.sought)
        found = read_layer(
            blob,
            reading.subject,
            reading.sought.packages,
            descriptor.hexadecimal,
            None if reading.sought.whole else lambda layer: self._enough(layer, above),
            packed=True,
        )
        self.moved += blob.moved
        if isinstance(found, Missing):
            raise TreeError(found)
        reading.place.cache.put("layers", key if found.passed is None else f"cut-{key}", found.dump())
        return found


def layer_key(digest: str, sought: Sought) -> str:
    """The name of a layer in the cache: what is kept of it depends on the packages."""
    return f"{digest}-{'-'.join(sorted(sought.packages))}"[:200]
