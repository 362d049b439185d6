"""A small engine for tests: its package is ``eng``, its only fact a list of names in ``eng/registry.py``."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path

from canserve.engines import Checkout
from canserve.engines.requirements import requirement
from canserve.engines.sources import Sources
from canserve.engines.unmodelled import Unmodelled
from canserve.facts import Fact, Known, Missing
from canserve.subjects.build import Build, Identity, Registered, Site, Transformers, Want

REGISTRY = "registry.py"
CODE = {"__init__.py": "", "version.py": '__version__ = "1.2"\n', REGISTRY: 'MODELS = ["Alpha", "Beta"]\n'}


class SmallEngine(Unmodelled):
    """Reads nothing but its registry."""

    def __init__(self, name: str = "eng") -> None:
        self.name = name
        self.distribution = name
        self.package = name
        self.checkout: Checkout | None = None

    def first_files(self, sources: Sources, want: Want) -> Sequence[str]:
        return [f"{self.package}/{REGISTRY}"]

    def read(self, sources: Sources, identity: Identity, transformers: Transformers, want: Want) -> Build:
        return Build(identity, transformers, self._registry(sources))

    def requirement(self, requires: Sequence[str], name: str) -> str | None:
        return requirement(requires, name)

    def _registry(self, sources: Sources) -> Fact[Mapping[str, Registered]]:
        path = f"{self.package}/{REGISTRY}"
        tree = sources.tree(path)
        if isinstance(tree, Missing):
            return tree
        names: list[str] = []
        for node in tree.value.body if tree.value else []:
            if isinstance(node, ast.Assign):
                names = ast.literal_eval(node.value)
        at = Site(path, 1)
        return Known(
            {name: Registered(name, self.package, name, "text", at) for name in names}, tree.evidence
        )


ENGINES = (SmallEngine("eng"), SmallEngine("second"))


def lay(root: Path, files: Mapping[str, str]) -> Path:
    """Write files below a folder."""
    for path, text in files.items():
        assert not path.startswith("/")
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def package(folder: str, name: str = "eng", **changed: str) -> dict[str, str]:
    """The engine's package in a folder; dots in ``changed`` names are written as underscores."""
    files = {**CODE, **{f"{key}.py": text for key, text in changed.items()}}
    return {f"{folder}/{name}/{path}".lstrip("/"): text for path, text in files.items()}


def installed(site: str, name: str, version: str, requires: Sequence[str] = ()) -> dict[str, str]:
    """What an installer leaves beside a package."""
    info = f"{site}/{name}-{version}.dist-info".lstrip("/")
    lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {line}" for line in requires)]
    return {
        f"{info}/METADATA": "Metadata-Version: 2.1\n" + "\n".join(lines) + "\n",
        f"{info}/RECORD": "",
        f"{info}/WHEEL": "Tag: cp38-abi3-manylinux_2_28_x86_64\nTag: cp38-abi3-manylinux_2_28_aarch64\n",
    }


def library(site: str, name: str, version: str) -> dict[str, str]:
    """Another installed package."""
    return {f"{site}/{name}/__init__.py".lstrip("/"): "", **installed(site, name, version)}
