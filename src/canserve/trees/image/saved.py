"""Images on this machine's disk: what ``docker save`` writes, OCI archives, and OCI layouts.

``docker-archive:FILE[:TAG]``, ``oci-archive:FILE[:TAG]``, ``oci:FOLDER[:TAG]``, as containers-transports(5)
writes them. An archive may hold either form, or both, whatever it is called.
"""

from __future__ import annotations

import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from canserve.trees.archive.blob import Blob, FileBlob, Span
from canserve.trees.archive.stream import BROKEN, Stream, told
from canserve.trees.image.manifest import (
    Config,
    Descriptor,
    FormError,
    Manifest,
    choose,
    config,
    document,
    is_index,
    lifted,
    manifest,
    manifests,
)
from canserve.trees.names import inside, unavailable, unreadable
from canserve.trees.tree import Cost, TreeError

MAX_MEMBERS = 100_000
MAX_JSON = 8 << 20
MAX_NESTED = 4
"""Indexes within indexes."""


class Store(Protocol):
    """Files by name, of a folder or of an archive."""

    subject: str

    def has(self, name: str) -> bool:
        """Whether it is there."""
        ...

    def blob(self, name: str) -> Blob:
        """One of them. Raises TreeError."""
        ...


@dataclass(frozen=True, slots=True)
class Saved:
    """One image of an archive or layout."""

    digest: str
    """Of the manifest; of the config where there is no manifest."""
    config: Config
    layers: tuple[tuple[str, Blob], ...]
    """Name for the cache (its digest, or empty) and bytes, lowest first."""


class FolderStore:
    """A folder on this machine."""

    def __init__(self, root: Path, subject: str) -> None:
        self.subject = subject
        self._root = root

    def has(self, name: str) -> bool:
        """Whether it is there."""
        return inside(name) is not None and (self._root / name).is_file()

    def blob(self, name: str) -> Blob:
        """One file."""
        if inside(name) is None:
            raise TreeError(unreadable(self.subject, name, "a name that leads out of the folder"))
        return FileBlob(self._root / name, self.subject)


class ArchiveStore:
    """A tar archive on this machine, not packed itself; its members are read where they lie."""

    def __init__(self, path: Path, subject: str) -> None:
        """Raises TreeError."""
        self.subject = subject
        self._blob = FileBlob(path, subject)
        self._spans: dict[str, Span] = {}
        links: dict[str, str] = {}
        try:
            with tarfile.open(fileobj=Stream(self._blob), mode="r:", errorlevel=1) as archive:  # type: ignore[call-overload]
                while (member := archive.next()) is not None:
                    archive.members.clear()
                    name = member.name.removeprefix("./").rstrip("/")
                    if member.isreg() and member.size >= 0:
                        self._spans[name] = (member.offset_data, member.offset_data + member.size)
                    elif member.issym() or member.islnk():
                        links[name] = _beside(name, member.linkname) if member.issym() else member.linkname
                    if len(self._spans) + len(links) > MAX_MEMBERS:
                        raise TreeError(unreadable(subject, "", f"more than {MAX_MEMBERS} members"))
        except BROKEN as error:
            ask = "unpack the archive itself first: gunzip or zstd -d" if _is_packed(self._blob) else None
            raise TreeError(unreadable(subject, "", f"no tar archive: {told(error)}", ask)) from None
        for name, target in links.items():  # old engines link layers that several images share
            if target in self._spans:
                self._spans.setdefault(name, self._spans[target])

    def has(self, name: str) -> bool:
        """Whether it is there."""
        return name in self._spans

    def blob(self, name: str) -> Blob:
        """One member."""
        span = self._spans.get(name)
        if span is None:
            raise TreeError(unavailable(self.subject, name, "no such member of the archive"))
        return Window(self._blob, span, self.subject, name)


class Window:
    """A run of bytes of another blob, as a blob."""

    def __init__(self, whole: Blob, span: Span, subject: str, name: str) -> None:
        self._whole = whole
        self._start, self._end = span
        self._subject = subject
        self._name = name
        self.size = self._end - self._start

    @property
    def cost(self) -> Cost:
        """Of the whole."""
        return self._whole.cost

    def held(self, span: Span) -> bool:
        """As the whole says."""
        return self._whole.held((self._start + span[0], self._start + span[1]))

    def tail(self, count: int) -> bytes:
        """The last bytes."""
        return self.spans([(max(0, self.size - count), self.size)])[0]

    def spans(self, wanted: Sequence[Span]) -> list[bytes]:
        """Runs of bytes, within the window."""
        if any(end > self.size for _, end in wanted):
            raise TreeError(unreadable(self._subject, self._name, f"it ends at byte {self.size}"))
        return self._whole.spans([(self._start + start, self._start + end) for start, end in wanted])

    def forget(self, span: Span) -> None:
        """As the whole does."""
        self._whole.forget((self._start + span[0], self._start + span[1]))


def open_saved(store: Store, tag: str | None, arch: str | None) -> Saved:
    """The image that is meant. Raises TreeError, also when several are there and none was named."""
    try:
        if store.has("index.json"):
            return _of_layout(store, tag, arch)
        if store.has("manifest.json"):
            return _of_docker(store, tag, arch)
    except FormError as error:
        raise lifted(error, store.subject) from None
    why = "neither index.json nor manifest.json is in it: no image that docker, podman or skopeo saved"
    raise TreeError(unreadable(store.subject, "", why))


def _of_layout(store: Store, tag: str | None, arch: str | None) -> Saved:
    found = manifests(_document(store, "index.json"))
    named = [each for each in found if tag is not None and _is_called(each, tag)]
    if tag is not None and not named:
        names = ", ".join(sorted({each.name or each.digest[:19] for each in found})) or "none"
        raise FormError(f"no image called {tag}; there are {names}")
    chosen = choose(named or found, arch)
    for _ in range(MAX_NESTED):
        listed = _document(store, _place(chosen))
        if not is_index(listed):
            return _image(store, manifest(listed), chosen.digest, arch)
        chosen = choose(manifests(listed), arch)
    raise FormError(f"indexes nested more than {MAX_NESTED} deep")


def _is_called(each: Descriptor, tag: str) -> bool:
    full = each.annotations.get("io.containerd.image.name", "")
    return tag in {each.name, full, each.digest} or full.endswith((f"/{tag}", f":{tag}"))


def _image(store: Store, found: Manifest, digest: str, arch: str | None) -> Saved:
    described = config(_document(store, _place(found.config)))
    if arch is not None and described.architecture not in {"", arch}:
        raise FormError(f"an image for {described.architecture}, not for {arch}", (described.architecture,))
    layers = []
    for layer in found.layers:
        blob = store.blob(_place(layer))
        if blob.size != layer.size:
            raise FormError(f"layer {layer.digest[:19]} has {blob.size} bytes, not {layer.size}")
        layers.append((layer.hexadecimal, blob))
    return Saved(digest, described, tuple(layers))


def _of_docker(store: Store, tag: str | None, arch: str | None) -> Saved:
    """The older form: a list of images, each with the file of its config and those of its layers."""
    import json

    try:
        listed = json.loads(_bytes(store, "manifest.json"))
    except (ValueError, RecursionError) as error:
        raise FormError(f"manifest.json is no JSON: {error}") from None
    images = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    chosen = _called(images, tag)
    name, layers = chosen.get("Config"), chosen.get("Layers")
    if not isinstance(name, str) or not isinstance(layers, list):
        raise FormError("manifest.json names no config or no layers")
    data = _bytes(store, name)
    described = config(document(data, name))
    if arch is not None and described.architecture not in {"", arch}:
        raise FormError(f"an image for {described.architecture}, not for {arch}", (described.architecture,))
    identity = document(data, name).get("rootfs", {})
    diffs = identity.get("diff_ids") if isinstance(identity, dict) else None
    keys = [str(each).partition(":")[2] for each in diffs] if isinstance(diffs, list) else []
    if len(keys) != len(layers):
        keys = [""] * len(layers)
    import hashlib

    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    return Saved(
        digest,
        described,
        tuple((key, store.blob(str(each))) for key, each in zip(keys, layers, strict=True)),
    )


def _called(images: list[dict[str, Any]], tag: str | None) -> Mapping[str, Any]:
    tags = {str(t): each for each in images for t in each.get("RepoTags") or ()}
    if tag is not None:
        found = next((each for name, each in tags.items() if name == tag or name.endswith(f"/{tag}")), None)
        if found is None:
            raise FormError(
                f"no image called {tag}; there are {', '.join(sorted(tags)) or 'none with a name'}"
            )
        return found
    if len(images) != 1:
        raise FormError(f"{len(images)} images ({', '.join(sorted(tags))}): name one, as FILE:NAME:TAG")
    return images[0]


def _document(store: Store, name: str) -> Mapping[str, Any]:
    return document(_bytes(store, name), name)


def _bytes(store: Store, name: str) -> bytes:
    blob = store.blob(name)
    if blob.size > MAX_JSON:
        raise FormError(f"{name} has {blob.size} bytes")
    return blob.spans([(0, blob.size)])[0]


def _place(descriptor: Descriptor) -> str:
    return f"blobs/sha256/{descriptor.hexadecimal}"


def _beside(name: str, target: str) -> str:
    """``a/layer.tar`` with ``../b/layer.tar`` -> ``b/layer.tar``."""
    parts = name.split("/")[:-1]
    for part in target.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in {"", "."}:
            parts.append(part)
    return "/".join(parts)


def _is_packed(blob: Blob) -> bool:
    start = blob.spans([(0, min(blob.size, 6))])[0]
    return start.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0", b"BZh"))
