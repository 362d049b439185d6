"""A registry on the loopback interface with one image, ``me/i:1``, that the tests make and break."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from canserve.facts import Missing
from canserve.trees.archive.remote import Place
from canserve.trees.cache import Cache
from canserve.trees.image.early import Sought
from canserve.trees.image.opening import Image, open_image
from canserve.trees.tree import TreeError
from canserve.trees.web.client import Web
from canserve.trees.web.settings import Settings
from made_images import Member, config_of, layer, packed, sha
from web_server import Behaviour, Handler, Site, page, ranged

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
FILES: dict[str, Member] = {f"vllm/m{number}.py": b"x = %d\n" % number * 5000 for number in range(60)}
"""A small package."""
INDEX = "application/vnd.oci.image.index.v1+json"


class Shop:
    """The registry, and a user who reads from it."""

    def __init__(self, site: Site, cache: Path, sought: Sought) -> None:
        self.site = site
        self.cache = cache
        self.sought = sought
        self.sizes: list[int] = []
        self.blobs: list[bytes] = []
        self.settings = Settings()
        self.paused: list[float] = []

    @property
    def host(self) -> str:
        """With its port."""
        return self.site.url.partition("://")[2]

    def put(
        self, layers: Sequence[Mapping[str, Member] | bytes], how: str = "gzip", **config: object
    ) -> None:
        """Hold this image, its layers lowest first, and nothing else; those that are bytes are packed already."""
        self.blobs = [each if isinstance(each, bytes) else packed(layer(each), how) for each in layers]
        self.sizes = [len(blob) for blob in self.blobs]
        self.site.routes.clear()
        described = json.dumps(json.loads(config_of([])) | {"config": config or {}}).encode()
        pointers = [self.blob(each) for each in self.blobs]
        self.manifest({"schemaVersion": 2, "config": self.blob(described), "layers": pointers})

    def blob(self, data: bytes, **more: object) -> dict[str, Any]:
        """Hold a blob; its descriptor."""
        self.site.put(self.place(data), ranged(data))
        return {"digest": f"sha256:{sha(data)}", "size": len(data), "mediaType": "x", **more}

    def manifest(self, told: Mapping[str, Any] | bytes, kind: str = MANIFEST, tag: str = "1") -> str:
        """Hold a manifest; its digest."""
        data = told if isinstance(told, bytes) else json.dumps(told).encode()
        digest = f"sha256:{sha(data)}"
        for name in (tag, digest):
            self.site.put(f"/v2/me/i/manifests/{name}", page(data, kind))
        return digest

    def place(self, blob: bytes) -> str:
        """The path of a blob."""
        return f"/v2/me/i/blobs/sha256:{sha(blob)}"

    def lock(self, wanted: str, challenge: str) -> None:
        """Let in only who brings this authorization."""
        for path, behaviour in list(self.site.routes.items()):
            if path.startswith("/v2/"):
                self.site.routes[path] = _guarded(behaviour, lambda told: told == wanted, challenge)

    def open(self, sought: Sought | None = None, tag: str = ":1", arch: str | None = None) -> Image:
        """Read the image. Raises TreeError."""
        web = Web(replace(self.settings), pause=self.paused.append)
        target = f"docker://{self.host}/me/i{tag}"
        return open_image(target, Place(web, Cache(self.cache)), sought or self.sought, arch)

    def missing(self, tag: str = ":1", arch: str | None = None) -> Missing:
        """Why it cannot be read."""
        with pytest.raises(TreeError) as error:
            self.open(tag=tag, arch=arch)
        return error.value.missing


def _guarded(behaviour: Behaviour, fits: Callable[[str | None], bool], challenge: str) -> Behaviour:
    def behave(handler: Handler) -> None:
        if fits(handler.headers.get("Authorization")):
            behaviour(handler)
        else:
            handler.answer(401, b"", WWW_Authenticate=challenge)

    return behave
