"""Which Python of an image runs when it is started, as far as its entrypoint, command and PATH say it."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from canserve.probes.discover.candidates import Candidate
from canserve.trees.image.manifest import Config
from canserve.trees.names import inside
from canserve.trees.tree import Tree

_PYTHON = re.compile(r"python[\d.]*")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SYSTEM = frozenset({"", "usr", "usr/local"})
"""Prefixes that a distribution's Python serves together."""
_MAX_FOLDERS = 50


def prefix_of(tree: Tree, config: Config | None, packages: Collection[str]) -> str | None:
    """The prefix (``opt/venv``) whose ``bin`` holds the Python or the engine's command that is started.

    None: nothing says it; so it is where a script decides, which may activate any environment.
    """
    if config is None:
        return None
    folders = config.environment.get("PATH", _PATH).split(":")[:_MAX_FOLDERS]
    words = (*config.entrypoint, *config.command)
    for word in words:
        name = word.rpartition("/")[2]
        if not _PYTHON.fullmatch(name) and name not in packages:
            continue
        if word.startswith("/"):
            return _prefix(word.rpartition("/")[0])
        if "/" not in word:
            return _first(tree, folders, name)
    scripted = any(word.endswith(".sh") or "entrypoint" in word for word in words)
    return None if scripted else _first(tree, folders, "python3")


def started_first(found: Sequence[Candidate], prefix: str | None, config: Config | None) -> list[Candidate]:
    """The same candidates; of those that are installed in an environment, those of the prefix come first.

    What ``PYTHONPATH`` names comes before everything that is installed.
    """
    places = [at for at, one in enumerate(found) if _site(one) is not None]
    if prefix is None or config is None:
        return list(found)
    ahead = {path.strip("/") for path in config.environment.get("PYTHONPATH", "").split(":") if path}
    ordered = sorted((found[at] for at in places), key=lambda one: _far(_site(one) or "", prefix, ahead))
    out = list(found)
    for at, one in zip(places, ordered, strict=True):
        out[at] = one
    return out


def _site(one: Candidate) -> str | None:
    return one.environment.site.prefix if one.environment is not None and not one.stray else None


def _far(own: str, prefix: str, ahead: Collection[str]) -> int:
    if own in ahead:
        return -1
    if own == prefix:
        return 0
    return 1 if own in _SYSTEM and prefix in _SYSTEM else 2


def _first(tree: Tree, folders: Sequence[str], name: str) -> str | None:
    """As a shell looks for it."""
    for folder in folders:
        parts = inside(folder.lstrip("/"))
        if not parts:
            continue
        children = tree.children("/".join(parts))
        if children is not None and name in {path.rpartition("/")[2] for path in children.files}:
            return _prefix(folder)
    return None


def _prefix(folder: str) -> str | None:
    """``/opt/venv/bin`` -> ``opt/venv``."""
    parts = inside(folder.lstrip("/"))
    return "/".join(parts[:-1]) if parts and parts[-1] in {"bin", "sbin"} else None
