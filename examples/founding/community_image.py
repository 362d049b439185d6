"""Lay out, by hand, what the community image of the founding case held, and nothing else of it.

The engine is a source tree under /opt/vllm instead of site-packages, installed by a path file; its version is
that of a development build; beside it lies transformers 4.57.3, which does not know the model's type. The
Python files come from releases on the package index, read by canserve's own trees.

    python examples/founding/community_image.py FOLDER
"""

from __future__ import annotations

import sys
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

ENGINE = "vllm==0.17.1"
BUILD = "0.17.1rc1.dev25+g0123abcde"
LIBRARY = "transformers==4.57.3"
PACKAGES = "usr/local/lib/python3.12/dist-packages"


def release(requirement: str) -> Tree:
    """A release on the package index, as pip is configured to see it."""
    config = pip_config()
    if isinstance(config, Missing):
        sys.exit(config.why)
    place = Place(Web(config.settings), Cache())
    found = Index(config, place).find(Requirement(requirement), "x86_64", requirement)
    if isinstance(found, Missing):
        sys.exit(found.why)
    file = found.value.file
    return open_remote(Remote(file.url, file.name, file.sha256, file.size), place, requirement)


def copy(tree: Tree, prefix: str, to: Path) -> None:
    """Every Python file below a folder of the tree."""
    paths = [path for path in tree.listing(prefix).entries if path.endswith(".py")]
    for path, data in tree.read_many(paths).items():
        if isinstance(data, Missing):
            sys.exit(data.why)
        target = to / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


def describe(tree: Tree, name: str, version: str, to: Path) -> None:
    """The metadata of an installed distribution, with the version it is to have."""
    top = tree.children()
    assert top is not None
    info = next(path for path in top.folders if path.endswith(".dist-info"))
    folder = to / f"{name}-{version}.dist-info"
    folder.mkdir(parents=True)
    lines = tree.read(f"{info}/METADATA").decode().splitlines()
    lines = [f"Version: {version}" if line.startswith("Version: ") else line for line in lines]
    (folder / "METADATA").write_text("\n".join(lines) + "\n")
    (folder / "INSTALLER").write_text("pip\n")


def build(root: Path) -> Path:
    """Lay everything out below ``root``, which gets created."""
    packages = root / PACKAGES
    engine, library = release(ENGINE), release(LIBRARY)
    copy(engine, "vllm", root / "opt" / "vllm")
    describe(engine, "vllm", BUILD, packages)
    (packages / "__editable__.vllm.pth").write_text("/opt/vllm\n")
    copy(library, "transformers", packages)
    describe(library, "transformers", LIBRARY.partition("==")[2], packages)
    return root


if __name__ == "__main__":
    print(build(Path(sys.argv[1])))
