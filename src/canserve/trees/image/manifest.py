"""Documents that describe an image: indexes, manifests and configs, of OCI and of Docker.

Standards: OCI image specification 1.1 (image-index, manifest, config); Docker image manifest version 2,
schema 2; ``manifest.json`` of ``docker save``. All of it comes from outside: sizes, digests and lists are
checked, and what does not fit is an error with its place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from canserve.facts import Missing
from canserve.trees.names import unreadable
from canserve.trees.tree import TreeError

MAX_DOCUMENT = 8 << 20
"""Bytes of one document."""
MAX_LAYERS = 512
MAX_MANIFESTS = 1024
INDEXES = frozenset({
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
})  # fmt: skip
MANIFESTS = frozenset({
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
})  # fmt: skip
ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64", "ppc64le": "ppc64le", "s390x": "s390x"}
"""How images name CPU architectures, and how machines and wheels do."""
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class FormError(ValueError):
    """A document that is not what it should be, or an image that is not there as it was asked for."""

    def __init__(self, message: str, offered: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.offered = offered
        """CPU architectures that there are, where the one that was asked for is none of them."""


class OtherCpuError(TreeError):
    """There is such an image, but not for the CPU architecture that was asked for."""

    def __init__(self, missing: Missing, offered: tuple[str, ...]) -> None:
        super().__init__(missing)
        self.offered = offered


def lifted(error: FormError, subject: str) -> TreeError:
    """The same as an error of the whole image."""
    if error.offered:
        ask = "name an image for that CPU, or say for which one this is meant (--arch)"
        return OtherCpuError(unreadable(subject, "", str(error), ask), error.offered)
    return TreeError(unreadable(subject, "", str(error)))


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A pointer to a blob."""

    digest: str
    """``sha256:...``."""
    size: int
    kind: str
    """Its media type."""
    annotations: Mapping[str, str]
    platform: str | None = None
    """``linux/amd64``, in an index."""
    name: str | None = None
    """The tag that it stands under, in a layout's index."""

    @property
    def hexadecimal(self) -> str:
        """The digest without its algorithm."""
        return self.digest.partition(":")[2]


@dataclass(frozen=True, slots=True)
class Manifest:
    """One image of one platform."""

    config: Descriptor
    layers: tuple[Descriptor, ...]


@dataclass(frozen=True, slots=True)
class Config:
    """What an image's config says beside its layers."""

    platform: str
    """``linux/arm64``."""
    architecture: str
    """As machines name it: ``aarch64``."""
    environment: Mapping[str, str]
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    labels: Mapping[str, str]
    created: str | None = None
    """ISO 8601."""
    diff_ids: tuple[str, ...] = ()
    """Digests of the unpacked layers, the lowest first; empty: not told."""

    def speaks_of(self, word: str) -> bool:
        """Whether what it runs, sets or says of itself holds this word."""
        told = (*self.entrypoint, *self.command, *self.environment, *self.environment.values())
        return any(word in text.lower() for text in (*told, *self.labels.values()))


def document(data: bytes, what: str) -> Mapping[str, Any]:
    """A JSON object. Raises FormError."""
    if len(data) > MAX_DOCUMENT:
        raise FormError(f"{what} has {len(data)} bytes")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormError(f"{what} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise FormError(f"{what} is no JSON object")
    return found


def is_index(found: Mapping[str, Any]) -> bool:
    """Whether a document lists manifests instead of layers."""
    return found.get("mediaType") in INDEXES or ("manifests" in found and "layers" not in found)


def manifests(index: Mapping[str, Any]) -> tuple[Descriptor, ...]:
    """The manifests of an index, attestations left out. Raises FormError."""
    listed = index.get("manifests")
    if not isinstance(listed, list) or len(listed) > MAX_MANIFESTS:
        raise FormError("an index without a list of manifests")
    found = [_descriptor(each, "a manifest in the index") for each in listed]
    listed = (each for each in found if "vnd.docker.reference.type" not in each.annotations)
    return tuple(each for each in listed if not (each.platform or "").startswith("unknown"))


def manifest(found: Mapping[str, Any]) -> Manifest:
    """A manifest. Raises FormError."""
    layers = found.get("layers")
    if found.get("schemaVersion") == 1 or "fsLayers" in found:
        raise FormError("a manifest of schema 1, which no engine writes any more")
    if not isinstance(layers, list) or len(layers) > MAX_LAYERS:
        raise FormError("a manifest without a list of layers")
    listed = tuple(_descriptor(each, "a layer in the manifest") for each in layers)
    told = _descriptor(found.get("config"), "the config in the manifest")
    if told.kind.startswith("application/vnd.") and not re.search("image|container", told.kind):
        raise FormError(f"no image, but an artifact of another kind: {told.kind[:100]}")
    if any(each.kind.endswith("+encrypted") for each in listed):
        raise FormError("its layers are encrypted")
    return Manifest(told, listed)


def config(found: Mapping[str, Any]) -> Config:
    """An image's config; what it does not say is empty."""
    system, machine = str(found.get("os") or "linux"), str(found.get("architecture") or "")
    inner = found.get("config")
    inner = inner if isinstance(inner, dict) else {}
    lines = [line.partition("=") for line in _texts(inner.get("Env"))]
    environment = {name: value for name, _, value in lines}
    labels = inner.get("Labels")
    return Config(
        f"{system}/{machine}"[:80],
        ARCHITECTURES.get(machine, machine)[:40],
        environment,
        _texts(inner.get("Entrypoint")),
        _texts(inner.get("Cmd")),
        {str(k): str(v) for k, v in labels.items()} if isinstance(labels, dict) else {},
        _moment(found.get("created")),
        _diff_ids(found.get("rootfs")),
    )


def _moment(told: Any) -> str | None:
    """Builds that are to be the same every time are dated to the epoch, which says nothing."""
    dated = isinstance(told, str) and re.match(r"20\d\d-\d\d-\d\dT", told)
    return told[:40] if dated and told.isprintable() else None


def _diff_ids(told: Any) -> tuple[str, ...]:
    listed = told.get("diff_ids") if isinstance(told, dict) else None
    if not isinstance(listed, list) or len(listed) > MAX_LAYERS:
        return ()
    found = tuple(each for each in listed if isinstance(each, str) and _DIGEST.fullmatch(each))
    return found if len(found) == len(listed) else ()


def choose(found: Sequence[Descriptor], arch: str | None) -> Descriptor:
    """The manifest of a CPU architecture. Raises FormError where it is not offered, or several are."""
    if not found:
        raise FormError("an index that names no image")
    if len(found) == 1 and found[0].platform is None:
        return found[0]
    found = [each for each in found if (each.platform or "linux").startswith("linux")] or found
    by_machine = {_machine(each.platform): each for each in reversed(found)}
    if arch is not None:
        if arch in by_machine:
            return by_machine[arch]
        offered = tuple(sorted(by_machine))
        raise FormError(f"no image for {arch}; there are {', '.join(offered)}", offered)
    if len(by_machine) == 1:
        return found[0]
    raise FormError(f"images for {', '.join(sorted(by_machine))}: say which with --arch, or name a machine")


def _machine(platform: str | None) -> str:
    name = (platform or "").split("/")[1:2]
    return ARCHITECTURES.get(name[0], name[0]) if name else "no stated platform"


def _descriptor(found: Any, what: str) -> Descriptor:
    if not isinstance(found, dict):
        raise FormError(f"{what} is no object")
    digest, size = found.get("digest"), found.get("size")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise FormError(f"{what} has no SHA-256 digest: {digest!r:.80}")
    if type(size) is not int or not 0 <= size < 1 << 45:
        raise FormError(f"{what} has no size: {size!r:.40}")
    notes = found.get("annotations")
    annotations = {str(k): str(v) for k, v in notes.items()} if isinstance(notes, dict) else {}
    stated = found.get("platform")
    platform = None
    if isinstance(stated, dict):
        platform = "/".join(str(stated[key]) for key in ("os", "architecture", "variant") if stated.get(key))
    return Descriptor(
        digest,
        size,
        str(found.get("mediaType") or ""),
        annotations,
        platform,
        annotations.get("org.opencontainers.image.ref.name"),
    )


def _texts(found: Any) -> tuple[str, ...]:
    if isinstance(found, str):
        return (found,)
    return tuple(str(each) for each in found) if isinstance(found, list) else ()
