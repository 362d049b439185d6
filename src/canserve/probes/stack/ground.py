"""Where the facts of a stack are looked for: the sites of one environment, the system around it, an image's config."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, TypeVar, runtime_checkable

from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.probes.discover import Found
from canserve.probes.discover.environment import Environment, Place
from canserve.probes.discover.look import Look
from canserve.probes.gpu_code.files import is_system
from canserve.subjects.gpu_code import Extension
from canserve.trees.image.manifest import Config
from canserve.trees.names import below, inside, printable
from canserve.trees.positions import Unpacking
from canserve.trees.tree import Entry

T = TypeVar("T")
LIBRARIES = ("usr/lib", "usr/lib64", "usr/local/lib", "lib", "lib64",
             *(f"{folder}/{cpu}-linux-gnu" for folder in ("usr/lib", "lib") for cpu in ("x86_64", "aarch64")))  # fmt: skip
"""Folders that the loader takes libraries from by itself."""
PROGRAMS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""What PATH is where nothing says it."""
MAX_TOOLKITS = 20
MAX_FOLDERS = 200
"""That PATH may name."""
OUTSIDE = "not in the environment, and what is around it was not looked at"


@runtime_checkable
class AtHand(Protocol):
    """A tree in which some small files cost a pass over something large."""

    def at_hand(self, path: str) -> bool:
        """Whether the file can be had without one."""
        ...


@dataclass(frozen=True)
class Ground:
    """One environment and what is around it."""

    found: Found
    environment: Environment
    subject: str
    extensions: Fact[Mapping[str, Fact[Extension]]]
    config: Config | None = None
    """Of an image; None: it is none."""
    scans: bool = True
    """Whether large files may be read."""
    _texts: dict[str, Fact[str | None]] = field(default_factory=dict)

    @cached_property
    def sites(self) -> tuple[Place, ...]:
        """The folders that packages are imported from."""
        return self.environment.places

    @property
    def look(self) -> Look:
        """The tree."""
        return self.sites[0].look

    @property
    def prefix(self) -> str:
        """Of the environment."""
        return self.environment.site.prefix

    @cached_property
    def system(self) -> bool:
        """Whether the tree is a whole root file system; of an image layers may be unread, and so be holes."""
        return self.config is not None or is_system(self.look)

    @property
    def variables(self) -> Mapping[str, str]:
        """What an image sets; empty where whoever starts it says."""
        return self.config.environment if self.config is not None else {}

    def seen(self, path: str, saw: str) -> tuple[Evidence, ...]:
        """A look."""
        return (Evidence(self.subject, path or "the tree", printable(saw, 400)),)

    def text(self, path: str) -> Fact[str | None]:
        """A small file; ``Known(None)``: it is not there."""
        if path not in self._texts:
            self._texts[path] = self._text(path)
        return self._texts[path]

    def _text(self, path: str) -> Fact[str | None]:
        tree = self.look.tree
        if not self.scans and self.look.is_file(path) and isinstance(tree, AtHand) and not tree.at_hand(path):
            why = f"{path} lies in a layer that would have to be read once more for it"
            return Missing(Cause.UNREACHED, why, self.seen(path, "not read"), "add --deep")
        raw = self.look.file(path)
        if isinstance(raw, Missing):
            return raw
        text = None if raw.value is None else raw.value.decode("utf-8", "replace")
        return Known(text, raw.evidence)

    def files(self, folder: str) -> Mapping[str, Entry]:
        """The files of a folder, by name; of one that is not there: none."""
        children = self.look.children(folder)
        return children.files if children else {}

    def folders(self, folder: str) -> tuple[str, ...]:
        """The folders of a folder."""
        children = self.look.children(folder)
        return children.folders if children else ()

    @cached_property
    def toolkits(self) -> tuple[str, ...]:
        """Folders of CUDA's toolkits: below ``usr/local``, those of packages, the environment's own prefix."""
        local = self.look.children("usr/local") if self.system else None
        names = [name for name in local.folders if name.startswith("cuda")] if local else []
        real = [name for name in names if local and name not in local.linked]
        told = [below("usr/local", name) for name in real or names]
        for site in self.sites:
            packed = below(site.path, "nvidia")
            told += [below(packed, name) for name in self.folders(packed)
                     if name == "cuda_nvcc" or name.startswith("cu1")]  # fmt: skip
        return tuple(told[:MAX_TOOLKITS])

    @cached_property
    def programs(self) -> tuple[str, ...]:
        """Folders of programs: the environment's own, and those of the system's PATH."""
        path = self.variables.get("PATH", PROGRAMS if self.system else "")
        named = filter(None, map(self.inner, path.split(":")[:MAX_FOLDERS]))
        return tuple(dict.fromkeys((below(self.prefix, "bin"), *named)))

    def program(self, *names: str) -> Fact[str | None]:
        """The first of these programs that the environment or the system has; Missing: it may be elsewhere."""
        path, folders = self.variables.get("PATH", PROGRAMS), self.programs
        for name in names:
            for folder in folders:
                if self.look.is_file(place := below(folder, name)):
                    return Known(place, self.seen(place, name))
        if not self.system:
            return self.outside()
        gaps = (self.look.gap(below(folder, name)) for folder in folders for name in names)
        found = next((gap for gap in gaps if gap is not None), None)
        return found or Known(None, self.seen(path, f"no {' or '.join(names)}"))

    def inner(self, folder: str) -> str | None:
        """A folder as the system names it, from the root of the tree."""
        if not folder.startswith("/"):
            return None
        parts = inside(posixpath.normpath(folder).lstrip("/"))
        return None if parts is None else "/".join(parts)

    def outside(self, why: str = OUTSIDE) -> Missing:
        """Why something is not known that lies around an environment."""
        return Missing(Cause.UNREACHED, why, self.seen(self.prefix, self.found.origin),
                       "look at the machine that it lies on, or name an image")  # fmt: skip

    def size(self, path: str) -> int | None:
        """Of a file; None: it is not there."""
        folder, _, name = path.rpartition("/")
        entry = self.files(folder).get(name)
        return None if entry is None else entry.size

    def linked(self, path: str) -> bool:
        """Whether a folder on the way to it is a link to another."""
        folder = path.rpartition("/")[0]
        while folder:
            above, _, name = folder.rpartition("/")
            children = self.look.children(above)
            if children is not None and name in children.linked:
                return True
            folder = above
        return False

    def everywhere(self, wanted: str) -> Iterator[str]:
        """Paths of all files of an image whose names begin so; of other trees none: they cost too much to walk."""
        if self.system and isinstance(self.look.tree, Unpacking):
            for path in self.look.tree.listing().entries:
                if path.rpartition("/")[2].startswith(wanted):
                    yield path


def first_known(facts: Iterable[Fact[T | None]]) -> Fact[T | None]:
    """The first that is there; Missing where none is and one could not be read."""
    trouble: Missing | None = None
    seen: list[Evidence] = []
    for fact in facts:
        if isinstance(fact, Missing):
            trouble = trouble or fact
        elif fact.value is not None:
            return fact
        else:
            seen += fact.evidence
    return trouble or Known(None, tuple(seen))
