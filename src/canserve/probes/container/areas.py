"""Which folders of a container hold its Python packages: from its variables, and from what was found in others. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from canserve.probes.discover.links import direct_url, egg_link, finder_mapping, joined, pth
from canserve.trees.image.layer import FILE, LINK, Layer, worth_keeping
from canserve.trees.image.manifest import Config
from canserve.trees.names import inside

USUAL = ("/usr/local", "/opt/venv")
"""Prefixes of Python in images, beside those that PATH names."""
SMALL = ("etc/os-release", "usr/lib/os-release", "usr/local/cuda/version.json")
"""Files that say what the image is, or links to them."""
MAX_LEADS = 40
_NOT_PYTHON = re.compile(r"/(?:cuda|nvidia|mpi|ucx|hpcx|openmpi|go|cargo|games|node)(?=[-/.0-9]|$)")
_SITE = re.compile(r"(?:^|/)(?:site|dist)-packages$")


@dataclass(frozen=True, slots=True)
class Area:
    """A folder or file that is read whole."""

    path: str
    most: int = 24 << 30
    """Bytes after which its reading ends."""


def keep(packages: Collection[str], first: Mapping[str, Collection[str]] | None = None) -> str:
    """A pattern of the paths whose content is kept, for ``re.search``. ``first``: of these only so many files."""
    first = first or {}
    few = [f"{name}/{path}" for name in sorted(first) for path in sorted(first[name])]
    some = "".join(rf"|(?:^|/){re.escape(path)}$" for path in few)
    all_of = worth_keeping([name for name in packages if name not in first]).pattern
    return rf"{all_of}|/__editable__[^/]*\.py$|^usr/local/cuda/version\.json${some}"


def folder_of(path: str, packages: Collection[str]) -> str | None:
    """The folder of one of these packages in which a path lies."""
    parts = path.split("/")[:-1]
    at = next((number for number, part in enumerate(parts, 1) if part in packages), None)
    return None if at is None else "/".join(parts[:at])


def first_areas(config: Config) -> list[Area]:
    """Where Python packages usually are, and where the variables say they are."""
    environment = config.environment
    paths = environment.get("PATH", "").split(":")
    prefixes = [path.rpartition("/")[0] for path in paths if path.endswith("/bin")]
    named = [environment.get(name, "") for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "UV_PROJECT_ENVIRONMENT")]
    run = [
        word.rpartition("/bin/")[0]
        for word in (*config.entrypoint[:1], *config.command[:1])
        if "/bin/" in word
    ]
    home = environment.get("HOME") or "/root"
    wanted: dict[str, None] = {}
    for prefix in dict.fromkeys([*named, *prefixes, *run, *USUAL]):
        path = _inner(prefix)
        if not prefix.startswith("/") or not path or _NOT_PYTHON.search(prefix):
            continue
        if path == "usr":
            wanted["usr/lib/python3/dist-packages"] = None
        else:
            names = ("lib", "lib64") if path == "usr/local" else ("lib", "pyvenv.cfg")
            wanted.update(dict.fromkeys(f"{path}/{name}" for name in names))
        if "conda" in path:
            wanted[f"{path}/conda-meta"] = None
    wanted[f"{_inner(home)}/.local/lib".lstrip("/")] = None
    for entry in environment.get("PYTHONPATH", "").split(":"):
        if entry.startswith("/") and (path := _inner(entry)):
            wanted[path] = None
    return [Area(path) for path in outermost(wanted)]


def system_areas(config: Config, beside: Collection[str]) -> list[Area]:
    """Where the programs and libraries around Python are, and the script that the image starts with."""
    environment = config.environment
    paths = environment.get("PATH") or "/usr/local/bin:/usr/bin"
    wanted = [_inner(path) for path in paths.split(":") if path.startswith("/")]
    wanted += [_inner(word) for word in config.entrypoint[:1] if word.startswith("/")]
    wanted += [f"usr/lib/{cpu}-linux-gnu" for cpu in ("x86_64", "aarch64")]
    wanted += ["lib", "lib64", "bin", "sbin", "etc/ld.so.conf", "etc/ld.so.conf.d"]
    wanted += ["usr/local/cuda/bin", "usr/local/cuda/compat", *SMALL]
    return [Area(path) for path in outermost(wanted) if not within(path, beside)]


def _inner(path: str) -> str:
    """``/opt/venv/`` -> ``opt/venv``; empty: the root, or nothing that may be asked for."""
    normal = posixpath.normpath(path).lstrip("/") if path else ""
    return normal if normal.isprintable() and inside(normal) and "," not in normal else ""


def outermost(paths: Collection[str]) -> list[str]:
    """Those that do not lie in another of them, in their order."""
    return [path for path in dict.fromkeys(paths) if path and not within(posixpath.dirname(path), paths)]


def within(path: str, areas: Collection[str]) -> bool:
    """Whether a path is, or lies in, one of the areas."""
    here = path
    while here:
        if here in areas:
            return True
        here = posixpath.dirname(here)
    return "" in areas


def further_areas(layer: Layer, read: Collection[str], packages: Collection[str]) -> list[Area]:
    """Folders that what was read leads to: links, and editable installations of these packages."""
    found: dict[str, None] = {}
    for path in _leads(layer, read, packages):
        inner = _inner(path)
        if inner and not within(inner, read):
            found[inner] = None
        if len(found) == MAX_LEADS:
            break
    return [Area(path) for path in outermost(found)]


def _leads(layer: Layer, read: Collection[str], packages: Collection[str]) -> Iterator[str]:
    names = {*packages, "lib", "lib64", "site-packages", "dist-packages", "os-release"}
    for path, node in layer.nodes.items():
        folder, _, name = path.rpartition("/")
        if node.kind == LINK and folder and (name in names or name.startswith("python3") or path in read):
            yield link_target(path, node.target)
        elif node.kind != FILE:
            continue
        elif name == "direct_url.json" and _SITE.search(posixpath.dirname(folder)):
            if posixpath.basename(folder).partition("-")[0].lower() in packages:
                yield direct_url(_text(layer, path)) or ""
        elif name.endswith(_LEADING) and _SITE.search(folder):
            yield from _named_in(folder, name, _text(layer, path), packages)


_LEADING = (".pth", ".egg-link", ".py")


def _text(layer: Layer, path: str) -> str:
    """Empty: it was not kept."""
    return (layer.content(path) or b"").decode("utf-8", "replace")


def _named_in(site: str, name: str, text: str, packages: Collection[str]) -> Iterator[str]:
    if name.endswith(".pth"):
        yield from (joined(f"/{site}", folder) for folder in pth(text).folders)
    elif name.endswith(".egg-link"):
        yield egg_link(text) or ""
    elif name.startswith("__editable__") and name.endswith(".py"):
        mapping = finder_mapping(text)
        yield from (posixpath.dirname(mapping[each]) for each in sorted(packages) if each in mapping)


def link_target(path: str, target: str) -> str:
    """Where a link leads, from the root, other links on the way not followed."""
    return posixpath.normpath(posixpath.join("/", posixpath.dirname(path), target)).lstrip("/")


def holds(layer: Layer, packages: Collection[str]) -> bool:
    """Whether one of the packages is in it."""
    return any(f"{name}/__init__.py" in path for path in layer.nodes for name in packages if path.endswith("/__init__.py")
               and path.rpartition("/")[0].rpartition("/")[2] == name)  # fmt: skip
