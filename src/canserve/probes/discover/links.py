"""Files that send Python elsewhere for a package: ``.pth`` lines, editable finders, egg links. Pure."""

from __future__ import annotations

import ast
import json
import posixpath
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from canserve.engines.static.parsing import parsed

MAX_LINES = 2_000


@dataclass(frozen=True, slots=True)
class Leads:
    """Where a ``.pth`` file leads."""

    folders: tuple[str, ...] = ()
    """Added to the import path; absolute, or relative to the site."""
    modules: tuple[str, ...] = ()
    """Modules of the site that it imports, which may redirect imports further."""


def pth(text: str) -> Leads:
    """Read the lines as ``site.addpackage`` does; ``import`` lines are looked at, never run."""
    folders: list[str] = []
    modules: list[str] = []
    for line in text.splitlines()[:MAX_LINES]:
        if line.startswith(("import ", "import\t")):
            modules += re.findall(r"(?:^|;)\s*import\s+([A-Za-z_][A-Za-z0-9_]*)", line)
        elif line.strip() and not line.startswith("#") and line.isprintable():
            folders.append(line.rstrip())
    return Leads(tuple(folders), tuple(modules))


def finder_mapping(text: str) -> dict[str, str]:
    """Package -> its folder, from the ``MAPPING`` of a setuptools editable finder."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = parsed(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found: dict[str, str] = {}
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id="MAPPING")], value=ast.Dict(keys=keys, values=values))
                | ast.AnnAssign(target=ast.Name(id="MAPPING"), value=ast.Dict(keys=keys, values=values))
            ):
                found.update(_pairs(keys, values))
            case _:
                pass
    return found


def _pairs(keys: list[ast.expr | None], values: list[ast.expr]) -> Iterator[tuple[str, str]]:
    for key, value in zip(keys, values, strict=True):
        match key, value:
            case ast.Constant(value=str(package)), ast.Constant(value=str(folder)):
                yield package, folder
            case _:
                pass


def direct_url(text: str) -> str | None:
    """The folder of an editable installation, from PEP 610's ``direct_url.json``; None: it is none."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    match data:
        case {"url": str(url), "dir_info": {"editable": True}} if url.startswith("file:"):
            return unquote(urlsplit(url).path)
        case _:
            return None


def egg_link(text: str) -> str | None:
    """The folder of a ``setup.py develop`` installation: the first line."""
    lines = text.splitlines()
    return lines[0].strip() or None if lines else None


def joined(site: str, folder: str) -> str:
    """A folder named in a site, from the tree's root; it may be absolute, or begin with ``..``."""
    path = posixpath.normpath(posixpath.join(site, folder))
    return "" if path == "." else path
