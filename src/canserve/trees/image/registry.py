"""A registry: manifests and blobs of an image over HTTP, by the OCI distribution specification 1.1.

What is fetched is verified by its digest. A token is asked for where the registry says so, and goes to no other
place: what redirects to another host goes there without it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from canserve.facts import Missing
from canserve.trees.archive.remote import Place, Remote, RemoteBlob, missing
from canserve.trees.image.login import Found, login_for
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
    manifest,
    manifests,
)
from canserve.trees.names import unavailable, unreadable
from canserve.trees.secret import Login, Secret
from canserve.trees.tree import TreeError
from canserve.trees.web.client import Page, WebError

PREFIX = "docker://"
MAX_NESTED = 4
_ACCEPT = ", ".join(sorted(INDEXES | MANIFESTS))
_REPOSITORY = re.compile(r"[a-z0-9]+(?:[._/-]+[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_FIELD = re.compile(r'([a-z_]+)="([^"]*)"')


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
        name = self.host.rpartition(":")[0] or self.host
        local = name in {"localhost", "[::1]"} or re.fullmatch(r"127(\.\d{1,3}){3}", name)
        return f"{'http' if local else 'https'}://{self.host}/v2/{self.repository}"


def reference(target: str) -> Reference:
    """``docker://HOST[:PORT]/REPOSITORY[:TAG][@DIGEST]``. Raises TreeError."""
    rest = target.removeprefix(PREFIX)
    host, slash, path = rest.partition("/")
    if not slash or not ("." in host or ":" in host or host == "localhost"):
        ask = "write the registry's host as well: docker://HOST/REPOSITORY:TAG"
        raise TreeError(unreadable(target, "", f"{target}: it names no registry", ask))
    path, _, digest = path.partition("@")
    repository, _, tag = path.partition(":")
    tag = digest or tag or "latest"
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
    """One repository of a registry."""

    def __init__(self, target: str, place: Place) -> None:
        """Raises TreeError."""
        self.subject = target
        self.reference = reference(target)
        self._place = place
        self._login: Found | None = None

    def pull(self, arch: str | None) -> Pulled:
        """Manifest and config of the image for a CPU architecture. Raises TreeError."""
        try:
            digest, found = self._manifest(self.reference.tag)
            for _ in range(MAX_NESTED):
                if not is_index(found):
                    described = manifest(found)
                    told = config(document(self._small(described.config), "the image's config"))
                    if arch is not None and told.architecture not in {"", arch}:
                        raise FormError(f"an image for {told.architecture}, not for {arch}")
                    return Pulled(digest, described, told)
                digest, found = self._manifest(choose(manifests(found), arch).digest)
            raise FormError(f"indexes nested more than {MAX_NESTED} deep")
        except FormError as error:
            raise TreeError(unreadable(self.subject, "", str(error))) from None

    def blob(self, layer: Descriptor, kept: bool = True) -> RemoteBlob:
        """A layer, by ranges; ``kept``: through the cache, which a layer that is passed over would only fill."""
        digest = layer.hexadecimal if kept else None
        remote = Remote(self._address(layer), f"layer {layer.digest[:19]}", digest, layer.size)
        return RemoteBlob(remote, self._place, self.subject)

    def _address(self, blob: Descriptor) -> str:
        return f"{self.reference.base}/blobs/{blob.digest}"

    def _manifest(self, tag: str) -> tuple[str, Mapping[str, Any]]:
        kept = self._place.cache.get("documents", tag.partition(":")[2]) if _DIGEST.fullmatch(tag) else None
        data = kept or self._page(f"{self.reference.base}/manifests/{tag}", _ACCEPT)
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
            if error.status != 401 or error.challenge is None:
                raise TreeError(self._told(error)) from None
            self._authorize(error.challenge)
            try:
                return self._place.web.page(url, accept, MAX_DOCUMENT)
            except WebError as again:
                raise TreeError(self._told(again)) from None

    def _page(self, url: str, accept: str) -> bytes:
        return self.page(url, accept).body or b""

    def _told(self, error: WebError) -> Missing:
        found = missing(error, self.subject, "registry")
        if error.status in {401, 403}:
            trouble = self._login.trouble if self._login else None
            ask = trouble or f"log in: docker login {self.reference.host}"
            return unavailable(self.subject, "", error.why, ask)
        if error.status == 404:
            ask = "check the name: a private image is answered like one that does not exist"
            return unavailable(self.subject, "", error.why, ask)
        return found

    def _authorize(self, challenge: str) -> None:
        """Do what ``WWW-Authenticate`` says: a token of a server it names, or the login itself."""
        web, prefix = self._place.web, f"{self.reference.base}/"
        self._login = found = login_for(self.reference.host)
        scheme, _, rest = challenge.partition(" ")
        if scheme.lower() == "basic":
            if found.login:
                web.authorize(prefix, _basic(found.login))
            return
        fields = dict(_FIELD.findall(rest))
        realm = fields.get("realm", "")
        if scheme.lower() != "bearer" or urlsplit(realm).scheme not in {"http", "https"}:
            raise TreeError(unreadable(self.subject, "", "the registry asks for an unknown kind of login"))
        asked = {"scope": fields.get("scope") or f"repository:{self.reference.repository}:pull"}
        if "service" in fields:
            asked["service"] = fields["service"]
        url = f"{realm}{'&' if '?' in realm else '?'}{urlencode(asked)}"
        if found.login:
            web.authorize(realm, _basic(found.login))
        try:
            page = web.page(url, "application/json", MAX_DOCUMENT)
            told = json.loads(page.body or b"")
            token = told.get("token") or told.get("access_token")
        except WebError as error:
            raise TreeError(self._told(error)) from None
        except (ValueError, AttributeError, RecursionError):
            token = None
        if not isinstance(token, str) or not token.isprintable():
            raise TreeError(unreadable(self.subject, "", "the registry's token server gave no token"))
        web.authorize(prefix, Secret(f"Bearer {token}"))


def _basic(login: Login) -> Secret:
    pair = f"{login[0].reveal()}:{login[1].reveal()}"
    return Secret(f"Basic {base64.b64encode(pair.encode()).decode()}")
