"""What a user may name as a build, and opening it as a tree."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import unquote, urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from canserve.commands.ssh import Route
from canserve.engines import LIBRARIES, Engine
from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.probes.container.naming import (
    LOCAL,
    Held,
    NamingError,
    RemoteFolder,
    held,
    remote_folder,
)
from canserve.probes.discover.environment import Outside
from canserve.trees.archive.remote import Place, Remote
from canserve.trees.folder import FolderTree
from canserve.trees.image import SCHEMES
from canserve.trees.image.manifest import Config
from canserve.trees.index.client import Found, Index
from canserve.trees.index.metadata import WithMetadata
from canserve.trees.index.opening import open_archive, open_remote
from canserve.trees.index.pip_config import PipConfig
from canserve.trees.names import printable, unavailable, unreadable
from canserve.trees.secret import shown
from canserve.trees.tree import Tree, TreeError

BESIDE = ("transformers", "torch")
"""Packages that are looked into beside an engine; the files of an image that are kept are chosen by these."""
_CONFIG = re.compile(r"[0-9a-f]{64}\.json")
"""What ``docker save`` called an image's config before it wrote layouts as well."""
TABLE_FILES = {
    "transformers": tuple(
        f"models/auto/{name}.py" for name in ("configuration_auto", "auto_mappings", "modeling_auto")
    )
}
"""Of a package beside an engine, the files by which it is seen that it is as it was released: then no other is read."""
NO_DIGEST = Missing(Cause.UNAVAILABLE, "a folder has no digest of its own")


@dataclass(frozen=True, slots=True)
class Opened:
    """A tree in which an engine is to be found."""

    tree: Tree
    content: Fact[str] = NO_DIGEST
    platforms: Fact[tuple[str, ...]] | None = None
    """From a wheel's file name; None: to be read from inside."""
    wanted: str | None = None
    """Name of the engine that is meant; None: whichever is there."""
    outside: Outside | None = None
    notes: tuple[str, ...] = ()
    remote: bool = False
    """Whether reading large files of it means downloading them."""
    config: Config | None = None
    """Of an image or container."""


@dataclass(frozen=True, slots=True)
class Means:
    """With what targets are opened."""

    place: Place
    config: PipConfig | Missing
    arch: str | None
    engines: Sequence[Engine] = field(default=())
    cpu_named: bool = False
    """Whether the user named the CPU architecture, so that no other one will do."""
    routes: Mapping[str, Route] = field(default_factory=dict)
    """How machines whose names follow an @ are reached; any other name is one of ssh itself."""
    offline: bool = False
    recent: MutableMapping[str, object] = field(default_factory=dict)
    """What was read of containers while this question is answered."""
    stack: bool = False
    """Whether what lies around an engine will be asked for."""
    deep: bool = False
    """Whether everything may be read, however much that is."""
    whole: bool = False
    """Whether all of an image in a registry is wanted, and not only what a verdict on a model needs."""


def open_target(target: str, means: Means) -> Opened | Missing:
    """Open what the user named. Missing, never an exception, when it cannot be."""
    try:
        urlsplit(target)
    except ValueError as error:
        return unreadable(printable(target), "", f"{target}: {error}")
    try:
        return _open(target.strip(), means)
    except TreeError as error:
        return error.missing


def _open(target: str, means: Means) -> Opened | Missing:
    try:
        if (it := held(target)) is not None:
            return _open_held(it, means)
    except NamingError as error:
        return unreadable(printable(target), "", f"{target}: {error}")
    if target.startswith(SCHEMES):
        return _open_image(target, means)
    name, at, rest = target.partition(" @ ")
    if at and (engine := _engine(name, means.engines)) is not None:
        opened = _open(rest.strip(), means)
        return opened if isinstance(opened, Missing) else _meant(opened, engine)
    if target.startswith(("http://", "https://")):
        return _open_url(target, means)
    if (folder := remote_folder(target)) is not None:
        return _open_remote_folder(folder, means)
    requirement = _requirement(target)
    engine = _engine(requirement.name, means.engines) if requirement else None
    is_path = target.startswith((".", "/", "~", "file://")) or os.sep in target
    if requirement is not None and engine is not None and not is_path:
        return _open_release(requirement, engine, means, target)
    return _open_path(_path(target), target, means)


def _path(target: str) -> Path:
    path = Path(unquote(urlsplit(target).path) if target.startswith("file://") else target)
    try:
        return path.expanduser()
    except RuntimeError:  # a user who does not exist
        return path


def _engine(name: str, engines: Sequence[Engine]) -> Engine | None:
    wanted = canonicalize_name(name.strip())
    named = ((canonicalize_name(n), engine) for engine in engines for n in (engine.name, engine.distribution))
    return next((engine for name, engine in named if name == wanted), None)


def _meant(opened: Opened, engine: Engine) -> Opened:
    return replace(opened, wanted=engine.name)


def _requirement(target: str) -> Requirement | None:
    try:
        requirement = Requirement(target)
    except InvalidRequirement:
        return None
    return None if requirement.url else requirement


def _open_release(requirement: Requirement, engine: Engine, means: Means, subject: str) -> Opened | Missing:
    requirement.name = engine.distribution
    found = Index(means.config, means.place).find(requirement, means.arch, subject)
    if isinstance(found, Missing):
        return found
    return _open_found(found.value, engine, means, subject)


def _open_found(found: Found, engine: Engine, means: Means, subject: str) -> Opened:
    file = found.file
    tree = open_remote(Remote(file.url, file.name, file.sha256, file.size), means.place, subject)
    if file.metadata_sha256:
        tree = WithMetadata(tree, file, means.place)
    evidence = (*found.evidence, Evidence(subject, shown(file.url), "; ".join(found.notes) or file.name))
    content: Fact[str] = Missing(Cause.UNAVAILABLE, "the index states no SHA-256 for it", evidence)
    if file.sha256:
        content = Known(f"sha256:{file.sha256}", evidence)
    platforms = Known(file.platforms or ("any",), evidence)
    return Opened(tree, content, platforms, engine.name, None, found.notes, remote=True)


def _open_image(target: str, means: Means) -> Opened:
    from canserve.trees.image.early import Sought
    from canserve.trees.image.manifest import OtherCpuError
    from canserve.trees.image.opening import open_image
    from canserve.trees.image.registry import PREFIX

    beside = frozenset(BESIDE)
    engines = frozenset(engine.package for engine in means.engines) - beside
    sought = Sought(engines, beside, means.whole)
    try:
        image = open_image(target, means.place, sought, means.arch)
    except OtherCpuError as error:
        if means.cpu_named:
            raise
        # The machine's CPU is another one: that is a verdict about an image which can be read.
        image = open_image(target, means.place, sought, error.offered[0])
    subject, machine = image.tree.subject, image.config.architecture
    content = Known(image.digest, (Evidence(subject, "its manifest", image.digest),))
    seen = (Evidence(subject, "its config", f"made for {image.config.platform}"),)
    tags: tuple[str, ...] = (f"linux_{machine}",)
    platforms: Fact[tuple[str, ...]] = Known(tags, seen)
    if not machine:
        platforms = unreadable(subject, "its config", "it names no architecture")
    remote = target.startswith(PREFIX)
    return Opened(image.tree, content, platforms, notes=image.notes, remote=remote, config=image.config)


def _open_held(it: Held, means: Means) -> Opened | Missing:
    """What a container engine holds. An image is known by its identity; a container's files may be other ones."""
    from canserve.probes.container.reading import Sought, open_held
    from canserve.probes.container.way import Way

    packages = frozenset(engine.package for engine in means.engines) | {"transformers"}
    engines = frozenset(engine.package for engine in means.engines if engine.name not in LIBRARIES)
    way = Way(means.routes, means.offline, means.place.tell, means.place.cache, means.recent)
    found = open_held(it, Sought(packages, engines, means.stack, TABLE_FILES, means.deep), way)
    if isinstance(found, Missing):
        return found
    told, subject = found.described, printable(it.subject)
    known_as = f", in registries {', '.join(told.digests[:3])}" if told.digests else ""
    seen = (
        Evidence(
            subject, f"{told.program} {it.kind} inspect", printable(f"image {told.image}{known_as}", 400)
        ),
    )
    content: Fact[str] = Known(told.image, seen)
    if it.kind == "container":
        why = "a container's files may differ from those of its image"
        content = Missing(Cause.UNAVAILABLE, f"{why} {told.image}", seen)
    platforms: Fact[tuple[str, ...]] = Known((f"linux_{told.config.architecture}",), seen)
    if not told.config.architecture:
        platforms = unreadable(subject, "its config", "it names no architecture")
    remote = it.machine != LOCAL
    return Opened(found.tree, content, platforms, notes=found.notes, remote=remote, config=told.config)


def _open_remote_folder(it: RemoteFolder, means: Means) -> Opened | Missing:
    from canserve.probes.container.way import Way
    from canserve.probes.remote_folder import open_remote_folder

    packages = frozenset(engine.package for engine in means.engines) | {"transformers"}
    tree = open_remote_folder(
        it, packages, Way(means.routes, means.offline, means.place.tell, means.place.cache, means.recent)
    )
    return tree if isinstance(tree, Missing) else Opened(tree, remote=True)


def _open_url(url: str, means: Means) -> Opened | Missing:
    parts = urlsplit(url)
    name = unquote(parts.path.rpartition("/")[2])
    match = re.search(r"(?:^|&)sha256=([0-9a-fA-F]{64})", parts.fragment)
    sha256 = match[1].lower() if match else None
    bare = parts._replace(fragment="").geturl()
    tree = open_remote(Remote(bare, name, sha256), means.place, shown(url))
    content: Fact[str] = Missing(Cause.UNAVAILABLE, "its address states no SHA-256")
    if sha256:
        content = Known(f"sha256:{sha256}", (Evidence(shown(url), "its address", "the digest"),))
    return Opened(tree, content, _platforms(name, shown(url)), remote=True)


def _open_path(path: Path, target: str, means: Means) -> Opened | Missing:
    subject = printable(target)
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        names = ", ".join(engine.name for engine in means.engines)
        ask = f"name a release ({names}, as NAME==VERSION), a wheel, an environment or a source tree"
        typed = re.split(r"[^\w-]", target, maxsplit=1)[0]
        near = get_close_matches(typed.lower(), [engine.name for engine in means.engines], n=1)
        if near == [typed]:
            return Missing(Cause.UNAVAILABLE, f"{subject}: no such file or folder, and no release's version",
                           (Evidence(subject, subject, "not there"),), f"write {typed}==VERSION")  # fmt: skip
        if near:
            ask = f"did you mean {near[0]}{target[len(typed) :]}? Or {ask}"
        return Missing(Cause.UNAVAILABLE, f"{subject}: no such file or folder, and no engine of that name",
                       (Evidence(subject, subject, "not there"),), ask)  # fmt: skip
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        return unavailable(subject, "", f"{subject}: {why}")
    if stat.S_ISDIR(mode):
        folder = FolderTree(path, subject)
        return _an_image(folder, target, "oci") or Opened(folder, outside=_outside)
    if not stat.S_ISREG(mode):
        return unreadable(subject, "", f"{subject}: neither a file nor a folder")
    tree = open_archive(path, subject)
    if (image := _an_image(tree, target, "oci-archive")) is not None:
        return image
    return Opened(tree, _digest(path, subject, means), _platforms(path.name, subject))


def _an_image(tree: Tree, target: str, scheme: str) -> Missing | None:
    """An image whose layers are archives within: as a folder of files there is nothing in it."""
    top = tree.children()
    if top is None:
        return None
    if not ("index.json" in top.files and "blobs" in top.folders):
        scheme = "docker-archive"
        if "manifest.json" not in top.files or not any(map(_CONFIG.fullmatch, top.files)):
            return None
    return unreadable(
        printable(target),
        "",
        "an image, whose files lie in its layers",
        f"name it as one: {scheme}:{printable(target)}",
    )


def _outside(folder: str) -> Tree | None:
    """A folder of this machine that an environment names by its absolute path."""
    path = Path(folder)
    return FolderTree(path, printable(folder)) if path.is_dir() else None


def _platforms(name: str, subject: str) -> Fact[tuple[str, ...]] | None:
    try:
        tags = parse_wheel_filename(name)[3]
    except InvalidWheelFilename:
        return None
    seen = Evidence(subject, printable(name), "tags in the file name")
    return Known(tuple(sorted({tag.platform for tag in tags})), (seen,))


def _digest(path: Path, subject: str, means: Means) -> Fact[str]:
    """SHA-256 of a local file, computed once for as long as it does not change."""
    try:
        with path.open("rb") as handle:
            status = os.fstat(handle.fileno())
            stamp = (path.absolute(), status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev)
            key = hashlib.sha256(os.fsencode(repr(stamp))).hexdigest()
            kept = means.place.cache.get("digests", key)
            digest = kept.decode() if kept else hashlib.file_digest(handle, "sha256").hexdigest()
    except OSError as error:
        return unavailable(subject, "", f"{subject}: {error.strerror}")
    if not kept:
        means.place.cache.put("digests", key, digest.encode())
    return Known(f"sha256:{digest}", (Evidence(subject, "the whole file", "its SHA-256"),))
