"""A registry: manifests and blobs of an image over HTTP, by the OCI distribution specification 1.1.

What is fetched is verified by its digest. A token is asked for where the registry says so, and goes to no other
place: what redirects to another host goes there without it.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from canserve.facts import Cause, Missing
from canserve.trees.archive.remote import Place, Remote, RemoteBlob, missing
from canserve.trees.image.guard import Guard
from canserve.trees.image.hosts import HUB, BlockedError, Endpoint, endpoints
from canserve.trees.image.manifest import (
    INDEXES,
    MANIFESTS,
    MAX_DOCUMENT,
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
from canserve.trees.names import unavailable, unreadable
from canserve.trees.tree import TreeError
from canserve.trees.web.client import Page, WebError

PREFIX = "docker://"
MAX_NESTED = 4
_ACCEPT = ", ".join(sorted(INDEXES | MANIFESTS))
_REPOSITORY = re.compile(r"[a-z0-9]+(?:[._/-]+[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Reference:
    """Which image of which registry."""

    host: str
    repository: str
    tag: str
    """A tag or a digest."""

    @property
    def base(self) -> str:
        """Address of the repository. Plain HTTP only on this machine, as container engines do it."""
        return Endpoint(self.host, self.repository).bases[0]


def reference(target: str) -> Reference:
    """``docker://HOST[:PORT]/REPOSITORY[:TAG][@DIGEST]``. Raises TreeError."""
    rest = target.removeprefix(PREFIX)
    host, slash, path = rest.partition("/")
    if not slash or not ("." in host or ":" in host or host == "localhost"):
        ask = f"write the registry's host as well: docker://HOST/REPOSITORY:TAG ({PREFIX}{HUB}/{rest} for Docker Hub)"
        raise TreeError(unreadable(target, "", f"{target}: it names no registry", ask))
    path, _, digest = path.partition("@")
    repository, _, tag = path.partition(":")
    tag = digest or tag or "latest"
    if host in {HUB, f"index.{HUB}"}:
        host, repository = HUB, repository if "/" in repository else f"library/{repository}"
    if not _REPOSITORY.fullmatch(repository) or not (_TAG.fullmatch(tag) or _DIGEST.fullmatch(tag)):
        raise TreeError(unreadable(target, "", f"{target}: not the name of an image"))
    return Reference(host, repository, tag)


@dataclass(frozen=True, slots=True)
class Pulled:
    """What a registry says of one image; its layers are not fetched yet."""

    digest: str
    manifest: Manifest
    config: Config
    notes: tuple[str, ...] = ()


class Registry:
    """One repository of a registry, or of a mirror of it."""

    def __init__(self, target: str, place: Place) -> None:
        """Raises TreeError."""
        self.subject = target
        self.reference = reference(target)
        self._place = place
        self._notes: list[str] = []
        try:
            self._places = endpoints(self.reference.host, self.reference.repository, os.environ)
        except BlockedError as error:
            why = f"this machine's configuration blocks the registry {self.reference.host} ({error})"
            raise TreeError(unavailable(target, "", why, "name another registry")) from None
        self._enter(self._places[-1], self._places[-1].bases[0])

    def _enter(self, endpoint: Endpoint, base: str) -> None:
        """Ask there from now on."""
        if endpoint.authority is not None or endpoint.insecure:
            self._place.web.trust(endpoint.host, endpoint.authority, endpoint.insecure)
        self._host, self.base = endpoint.host, base
        self._guard = Guard(self._place.web, base, endpoint.host, self._told)

    def pull(self, arch: str | None) -> Pulled:
        """Manifest and config of the image for a CPU architecture. Raises TreeError.

        Mirrors are asked first; what one of them does not have or cannot say is asked of the next.
        """
        pinned = _DIGEST.fullmatch(self.reference.tag) is not None
        asked = [(each, base) for each in self._places if pinned or each.tags for base in each.bases]
        for endpoint, base in asked[:-1]:
            self._enter(endpoint, base)
            try:
                return self._pull(arch)
            except TreeError as error:
                if not endpoint.mirror and not _other_protocol(error.missing, base):
                    raise
                if endpoint.mirror:
                    self._notes.append(f"mirror {endpoint.host} did not serve it: {error.missing.why}"[:200])
        self._enter(*asked[-1])
        return self._pull(arch)

    def _pull(self, arch: str | None) -> Pulled:
        try:
            digest, found = self._manifest(self.reference.tag)
            for _ in range(MAX_NESTED):
                if not is_index(found):
                    described = manifest(found)
                    told = config(document(self._small(described.config), "the image's config"))
                    if arch is not None and told.architecture not in {"", arch}:
                        why = f"an image for {told.architecture}, not for {arch}"
                        raise FormError(why, (told.architecture,))
                    return Pulled(digest, described, told, tuple(self._notes))
                digest, found = self._manifest(choose(manifests(found), arch).digest)
            raise FormError(f"indexes nested more than {MAX_NESTED} deep")
        except FormError as error:
            raise lifted(error, self.subject) from None

    def blob(self, layer: Descriptor, kept: bool = True) -> RemoteBlob:
        """A layer, by ranges; ``kept``: through the cache, which a layer that is passed over would only fill."""
        digest = layer.hexadecimal if kept else None
        name = f"layer {layer.digest[:19]}"
        remote = Remote(
            self._address(layer), name, digest, layer.size, lambda error: self._lost(error, layer)
        )
        return RemoteBlob(remote, self._place, self.subject)

    def _address(self, blob: Descriptor) -> str:
        return f"{self.base}/blobs/{blob.digest}"

    def _manifest(self, tag: str) -> tuple[str, Mapping[str, Any]]:
        kept = self._place.cache.get("documents", tag.partition(":")[2]) if _DIGEST.fullmatch(tag) else None
        data = kept or self._page(f"{self.base}/manifests/{tag}", _ACCEPT)
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        if _DIGEST.fullmatch(tag) and digest != tag:
            raise FormError(f"the manifest is not that of its digest {tag[:19]}")
        self._place.cache.put("documents", digest.partition(":")[2], data)
        return digest, document(data, "the manifest")

    def _small(self, blob: Descriptor) -> bytes:
        kept = self._place.cache.get("documents", blob.hexadecimal)
        data = kept or self._page(self._address(blob), "*/*")
        if hashlib.sha256(data).hexdigest() != blob.hexadecimal:
            raise FormError(f"the config is not that of its digest {blob.digest[:19]}")
        self._place.cache.put("documents", blob.hexadecimal, data)
        return data

    def page(self, url: str, accept: str = "application/json") -> Page:
        """A document of this repository, with a login where one is asked for. Raises TreeError."""
        try:
            return self._place.web.page(url, accept, MAX_DOCUMENT)
        except WebError as error:
            raise TreeError(self._told(error)) from None

    def _page(self, url: str, accept: str) -> bytes:
        return self.page(url, accept).body or b""

    def _lost(self, error: WebError, layer: Descriptor) -> Missing:
        """Why a layer cannot be had."""
        if error.status != 404:
            return self._told(error)
        why = f"{error.why}: the registry does not hold a layer that its manifest names"
        ask = "name the image by another tag, or save it where it is whole"
        if "foreign" in layer.kind or "nondistributable" in layer.kind:
            why += ", for it may not be distributed"
            ask = "save the image where it is whole: docker save -o FILE IMAGE"
        return unavailable(self.subject, "", why, ask)

    def _told(self, error: WebError) -> Missing:
        found = missing(error, self.subject, "registry")
        if error.status in {401, 403}:
            login = self._guard.found
            ask = (login.trouble if login else None) or f"log in: docker login {self._host}"
            return unavailable(self.subject, "", error.why, ask)
        if error.status == 404:
            ask = "check the name: a private image is answered like one that does not exist"
            return unavailable(self.subject, "", error.why, ask)
        if "CERTIFICATE_VERIFY_FAILED" in error.why or "certificates cannot be used" in error.why:
            ask = f"put the authority's certificate into /etc/containers/certs.d/{self._host}/ca.crt"
            return replace(found, ask=ask)
        ask = f"try again, or see whether {self._host} can be reached from here"
        return replace(found, ask="try again later" if error.status == 429 else error.ask or ask)


def _other_protocol(missing: Missing, base: str) -> bool:
    """Whether it is as when a server of HTTPS is asked over HTTP, or the other way round."""
    if not missing.why.startswith(f"{base}/") or "refused" in missing.why:
        return False
    return missing.cause is Cause.UNREACHED or "HTTP 400" in missing.why
