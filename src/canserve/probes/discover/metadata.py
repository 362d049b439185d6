"""What a distribution says of itself: version, Python, requirements; from whichever file says it first.

In order: METADATA of the installation, PKG-INFO of a source distribution, literals in the code,
pyproject.toml, requirements files. A version that would have to be computed (from git tags, say) is
Missing, never guessed.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from packaging.version import InvalidVersion, Version

from canserve.engines.static.parsing import parsed
from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.probes.discover.environment import Place
from canserve.probes.discover.look import Look
from canserve.probes.discover.requirement_files import from_egg_info, from_files
from canserve.trees.names import below, unreadable

MAX_REQUIRES = 5_000
MAX_LINES = 20_000
_VERSION_FILES = ("_version.py", "version.py", "__init__.py")
_VERSION_NAMES = frozenset({"__version__", "version"})


@dataclass(frozen=True, slots=True)
class Metadata:
    """A distribution in its own words."""

    version: Fact[str]
    requires_python: Fact[str | None]
    requires: Fact[tuple[str, ...]]


def read_metadata(package: Place, info: Place | None) -> Metadata:
    """Of the package in this folder, with this metadata folder if it has one."""
    root = Place(package.look, package.path.rpartition("/")[0])
    core = _core(root, info)
    project = _project(root)
    return Metadata(
        _version(package, core, project),
        _requires_python(core, project),
        _requires(root, info, core, project),
    )


def of_checkout(tree: Place, engine: str) -> Metadata:
    """Of a source tree that is no Python package: it requires no Python, and states no version."""
    seen = (tree.look.seen(tree.path, f"a source tree of {engine}"),)
    why = f"a source tree of {engine} does not state its version: builds count the commits before it"
    ask = "note which commit it is"
    return Metadata(Missing(Cause.UNAVAILABLE, why, seen, ask), Known(None, seen), Known((), seen))


@dataclass(frozen=True, slots=True)
class _Core:
    """Core metadata: the headers of METADATA or PKG-INFO, their names in lower case."""

    headers: Mapping[str, list[str]]
    evidence: Evidence

    def first(self, name: str) -> str | None:
        return self.headers.get(name, [None])[0]


def core_headers(data: bytes) -> dict[str, list[str]]:
    """Headers up to the first empty line; every line of a repeated one. Standard: Core metadata, PEP 566.

    Read here, for the standard library's mail parser takes longer to load than everything else together.
    """
    headers: dict[str, list[str]] = {}
    last: list[str] = []
    for line in data.decode("utf-8", "replace").splitlines()[:MAX_LINES]:
        if not line:  # a line of blanks only is part of a folded header: licences have them
            break
        name, colon, value = line.partition(":")
        if line[0] in " \t|":
            if last:
                last[-1] += f" {line.strip()}"
        elif colon:
            last = headers.setdefault(name.strip().lower(), [])
            last.append(value.strip())
    return headers


def _core(root: Place, info: Place | None) -> _Core | Missing | None:
    """The first core metadata there are."""
    places = [(info, "METADATA"), (info, "PKG-INFO")] if info else []
    if info is not None:  # the reader will ask for the entry points: they lie beside it
        info.look.together([below(info.path, name) for name in ("METADATA", "entry_points.txt")])
    trouble: Missing | None = None
    for place, name in [*places, (root, "PKG-INFO")]:
        assert place is not None
        path = below(place.path, name)
        found = place.look.file(path)
        if isinstance(found, Missing):
            trouble = trouble or found
        elif found.value is not None:
            headers = core_headers(found.value)
            if "version" in headers:
                return _Core(headers, place.look.seen(path, f"version {headers['version'][0][:60]}"))
            trouble = trouble or unreadable(place.look.tree.subject, path, "core metadata without a version")
    return trouble


def _project(root: Place) -> tuple[Mapping[str, Any], Evidence] | Missing | None:
    """The ``[project]`` table of pyproject.toml, of the import root or of the folder above it."""
    for folder in dict.fromkeys((root.path, root.path.rpartition("/")[0])):
        path = below(folder, "pyproject.toml")
        found = root.look.file(path)
        if isinstance(found, Missing):
            return found
        if found.value is None:
            continue
        import tomllib

        try:
            table = tomllib.loads(found.value.decode("utf-8", "replace")).get("project")
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            return unreadable(root.look.tree.subject, path, str(error)[:200])
        if isinstance(table, dict):
            return table, root.look.seen(path, "[project]")
    return None


def _version(
    package: Place, core: _Core | Missing | None, project: tuple[Mapping[str, Any], Evidence] | Missing | None
) -> Fact[str]:
    if isinstance(core, _Core):
        return Known((core.first("version") or "")[:200], (core.evidence,))
    for name in _VERSION_FILES:
        if (found := literal_version(package.look, below(package.path, name))) is not None:
            return found
    stated = project[0].get("version") if isinstance(project, tuple) else None
    if isinstance(project, tuple) and isinstance(stated, str) and _usable(stated):
        return Known(stated, (project[1],))
    root = package.path.rpartition("/")[0]
    if (written := _setup_version(package.look, root)) is not None:
        return written
    if isinstance(core, Missing):
        return core
    where = package.path or "the package"
    why = "its version is not written in any of its files; it is computed when it gets built"
    return unreadable(package.look.tree.subject, where, why, "build or install it, and name the result")


def _setup_version(look: Look, root: str) -> Known[str] | None:
    """``version`` as a literal in setup.cfg, or in the call of ``setup`` in setup.py."""
    path = below(root, "setup.cfg")
    metadata = re.search(r"^\[metadata\]$(.*?)(?=^\[|\Z)", look.text(path) or "", re.MULTILINE | re.DOTALL)
    stated = re.search(r"^version\s*=\s*(\S+)\s*$", metadata[1], re.MULTILINE) if metadata else None
    if stated and _usable(stated[1]):
        return Known(stated[1], (look.seen(path, stated[0].strip()),))
    path = below(root, "setup.py")
    tree = _parsed(look.text(path))
    for node in ast.walk(tree) if tree else ():
        match node:
            case ast.Call(func=ast.Name(id="setup") | ast.Attribute(attr="setup"), keywords=words):
                version = next((word.value for word in words if word.arg == "version"), None)
            case _:
                continue
        match version:
            case ast.Constant(value=str(text), lineno=line) if _usable(text):
                return Known(text, (look.seen(f"{path}:{line}", repr(text)),))
            case _:
                pass
    return None


def _parsed(text: str | None) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return None if text is None else parsed(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def literal_version(look: Look, path: str) -> Known[str] | None:
    """``__version__ = "1.2"`` at the top level of a module, unconditionally; None: not there like this."""
    tree = _parsed(look.text(path))
    for node in tree.body if tree else []:
        match node:
            case ast.Assign(targets=targets, value=ast.Constant(value=str(version))):
                names = targets
            case ast.AnnAssign(target=target, value=ast.Constant(value=str(version))):
                names = [target]
            case _:
                continue
        if any(isinstance(n, ast.Name) and n.id in _VERSION_NAMES for n in names) and _usable(version):
            return Known(version, (look.seen(f"{path}:{node.lineno}", f"{version!r}"),))
    return None


def _usable(version: str) -> bool:
    """A version, and not the stand-in that tools write where they do not know it."""
    try:
        return len(version) < 200 and bool(Version(version).release.count(0) < len(Version(version).release))
    except InvalidVersion:
        return False


def _requires_python(
    core: _Core | Missing | None, project: tuple[Mapping[str, Any], Evidence] | Missing | None
) -> Fact[str | None]:
    if isinstance(core, _Core):
        python = core.first("requires-python")
        return Known(python[:200] if python else None, (core.evidence,))
    if isinstance(project, tuple):
        stated = project[0].get("requires-python")
        return Known(stated[:200] if isinstance(stated, str) else None, (project[1],))
    for trouble in (core, project):
        if isinstance(trouble, Missing):
            return trouble
    return Known(None)


def _requires(
    root: Place,
    info: Place | None,
    core: _Core | Missing | None,
    project: tuple[Mapping[str, Any], Evidence] | Missing | None,
) -> Fact[tuple[str, ...]]:
    installed = info is not None and info.path.endswith(".dist-info")
    if isinstance(core, _Core) and (installed or core.first("requires-dist")):
        lines = tuple(line[:1_000] for line in core.headers.get("requires-dist", [])[:MAX_REQUIRES])
        return Known(lines, (core.evidence,))
    if isinstance(core, Missing):
        return core
    if isinstance(project, tuple) and (stated := tuple(_static(project[0]))):
        return Known(stated, (project[1],))
    found = from_files(root)
    if found is None and info is not None:
        found = from_egg_info(info)
    if found is not None:
        return found
    if isinstance(project, Missing):
        return project
    why = "no file of it says what it requires"
    return unreadable(root.look.tree.subject, str(root), why, "build or install it, and name the result")


def _static(project: Mapping[str, Any]) -> Iterator[str]:
    """Dependencies of a ``[project]`` table as ``Requires-Dist`` lines."""
    if isinstance(lines := project.get("dependencies"), list):
        yield from (line for line in lines[:MAX_REQUIRES] if isinstance(line, str))
    extras = project.get("optional-dependencies")
    for extra, lines in extras.items() if isinstance(extras, dict) else ():
        if isinstance(lines, list) and re.fullmatch(r"[A-Za-z0-9._-]+", extra):
            yield from (with_extra(line, extra) for line in lines[:MAX_REQUIRES] if isinstance(line, str))


def with_extra(line: str, extra: str) -> str:
    """The line as it stands in METADATA when it belongs to an extra."""
    requirement, semicolon, marker = line.partition(";")
    condition = f'extra == "{extra}"'
    return (
        f"{requirement.strip()}; ({marker.strip()}) and {condition}" if semicolon else f"{line}; {condition}"
    )
