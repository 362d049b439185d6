"""Images of engines that a real docker loads: Python files of real releases, read by canserve's own trees.

Without compiled code and without a Python interpreter: they can be looked into, and a container of them runs, but
what runs is ``sleep``. Nothing of a release is ever executed.
"""

from __future__ import annotations

import io
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

from canserve.facts import Missing
from canserve.trees.archive.remote import Place, Remote
from canserve.trees.cache import Cache
from canserve.trees.index.client import Index
from canserve.trees.index.opening import open_remote
from canserve.trees.index.pip_config import pip_config
from canserve.trees.tree import Tree
from canserve.trees.web.client import Web
from lab.spaces import LabError
from made_images import PLAIN, docker_archive, layer

PACKAGES = "usr/local/lib/python3.12/dist-packages"
START = b'#!/bin/busybox sh\necho starting "$@"\nexec /bin/busybox sleep 100000\n'


@dataclass(frozen=True, slots=True)
class Part:
    """One package of an image."""

    requirement: str
    package: str
    version: str
    """That its metadata state; a development build has another than the release whose files it holds."""
    folder: str = PACKAGES
    """Where its files lie; elsewhere than in site-packages it is installed by a path file."""

    def members(self) -> dict[str, bytes]:
        """Files by path in the image."""
        tree = release(self.requirement)
        paths = [path for path in tree.listing(self.package).entries if path.endswith(".py")]
        found: dict[str, bytes] = {}
        for path, data in tree.read_many(paths).items():
            if isinstance(data, Missing):
                raise LabError(data.why)
            found[f"{self.folder}/{path}"] = data
        info = f"{PACKAGES}/{self.package}-{self.version}.dist-info"
        found[f"{info}/METADATA"] = self._metadata(tree)
        found[f"{info}/RECORD"] = tree.read(f"{_info(tree)}/RECORD")
        found[f"{info}/INSTALLER"] = b"pip\n"
        if self.folder != PACKAGES:
            found[f"{PACKAGES}/__editable__.{self.package}.pth"] = f"/{self.folder}\n".encode()
        return found

    def _metadata(self, tree: Tree) -> bytes:
        lines = tree.read(f"{_info(tree)}/METADATA").decode().splitlines()
        lines = [f"Version: {self.version}" if line.startswith("Version: ") else line for line in lines]
        return ("\n".join(lines) + "\n").encode()


def _info(tree: Tree) -> str:
    """The folder of a wheel that describes it."""
    top = tree.children()
    assert top is not None
    return next(path for path in top.folders if path.endswith(".dist-info"))


RUNNING = (
    Part("transformers==5.0.0rc3", "transformers", "5.0.0rc3"),
    Part("vllm==0.14.0", "vllm", "0.14.0rc2.dev262+g0123abcde"),
)
"""What the founding case's head was running."""
COMMUNITY = (
    Part("transformers==4.57.3", "transformers", "4.57.3"),
    Part("vllm==0.17.1", "vllm", "0.17.1rc1.dev25+g0123abcde", "opt/vllm"),
)
"""The community image: a source tree under /opt, beside a library that does not know the model."""


def release(requirement: str) -> Tree:
    """A release on the package index, as pip is configured to see it."""
    config = pip_config()
    if isinstance(config, Missing):
        raise LabError(config.why)
    place = Place(Web(config.settings), Cache())
    found = Index(config, place).find(Requirement(requirement), "x86_64", requirement)
    if isinstance(found, Missing):
        raise LabError(found.why)
    file = found.value.file
    return open_remote(Remote(file.url, file.name, file.sha256, file.size), place, requirement)


def saved_image(path: Path, parts: tuple[Part, ...], tag: str) -> Path:
    """The image as ``docker save`` writes it: a base that can run, then a layer for each part."""
    return docker_archive(path, [base(), *(packed(part.members()) for part in parts)], tag, PLAIN)


def base() -> bytes:
    """A layer with one program, which is several, and the engine's command."""
    busybox = shutil.which("busybox", path="/bin:/usr/bin")
    if busybox is None:
        raise LabError("no busybox (Debian: busybox-static)")
    programs = {"bin/busybox": Path(busybox).read_bytes(), "usr/bin/vllm": START}
    release = b'ID=ubuntu\nVERSION_ID="24.04"\nPRETTY_NAME="Ubuntu 24.04.3 LTS"\n'
    return packed({**programs, "etc/os-release": release}, executable=programs)


def packed(members: Mapping[str, bytes], executable: Mapping[str, bytes] | None = None) -> bytes:
    """A layer of plain files."""
    if not executable:
        return layer(dict(members))
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o755 if name in executable else 0o644
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()
