"""Reading what a container engine holds: few looks at its machine, each a batch of archives thinned out there.

A container that runs is read as it is, its changed files included. Of an image a container is created, never
started, and taken away again by the same script, whatever becomes of it.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from canserve.commands import containers
from canserve.facts import Cause, Evidence, Missing
from canserve.probes.container import changes
from canserve.probes.container.areas import (
    Area,
    first_areas,
    folder_of,
    further_areas,
    holds,
    keep,
    outermost,
    system_areas,
    within,
)
from canserve.probes.container.asking import Described, described, sections
from canserve.probes.container.large import visitor
from canserve.probes.container.naming import LOCAL, Held
from canserve.probes.container.skimming import (
    MAX_OUTPUT,
    NO_PYTHON,
    ROOM,
    ROUNDS,
    SECONDS,
    Gathered,
    contents,
    limits,
    python_needed,
    skim,
)
from canserve.probes.container.way import Way
from canserve.transport.frames import Answer, Section
from canserve.transport.reach import Limits, Look
from canserve.trees.container import records, state
from canserve.trees.image.layer import MAX_KEPT_FILE, Layer
from canserve.trees.image.overlay import MAX_READ, ImageTree, Unread
from canserve.trees.names import printable, unreached
from canserve.trees.tree import TreeError

WHOLE_SECONDS = 240
"""For all files of a container, where its Python folders hold no engine."""
MOST = 256 << 30
"""Bytes of all files of a container that are passed over."""
MOUNT = 512 << 20
"""Bytes of a mounted folder that are passed over; what holds more is no source tree."""
WIDTH = 4
_NOT_CREATED = 5
_ABSENT = re.compile(
    r"could not find the file|could not be found on container|not a directory|lstat .*: no such file",
    re.IGNORECASE,
)
_GONE = re.compile(
    r"no such container|no container with|no such object|is marked for removal|removal of container",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Opened:
    """A container or image as a tree."""

    tree: ImageTree
    described: Described
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sought:
    """What it is opened for."""

    packages: frozenset[str]
    """Import packages whose files will be asked for."""
    engines: frozenset[str]
    """Those of them that are looked for: where none is in the Python folders, all files are passed over."""
    stack: bool = False
    """Whether the system around them matters too: programs, libraries."""
    first: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    """Of these of the packages only these files at first, and all of them as soon as another one is asked for."""
    everything: bool = False
    """Whether all files are wanted, however long that takes."""


def open_held(it: Held, sought: Sought, way: Way) -> Opened | Missing:
    """Open it. Never raises for what is there."""
    if way.offline and it.machine != LOCAL:
        why = f"{it.machine} was not looked at: offline"
        return Missing(
            Cause.UNREACHED, why, (Evidence(it.subject, "--offline", "not looked at", whole=False),)
        )
    look = way.look(it, sections(it), Limits(whole=40.0))
    told = described(it, look)
    if isinstance(told, Missing):
        return told
    reader = _Reader(it, told, sought, way)
    try:
        with reader.alone():
            return reader.open()
    except TreeError as error:
        return error.missing


class _Reader:
    """One container or image, round by round."""

    def __init__(self, it: Held, told: Described, sought: Sought, way: Way) -> None:
        self._it = it
        self._told = told
        self._sought = sought
        self._packages = sought.packages
        self._way = way
        self._got = Gathered()
        self._read: set[str] = set()
        self._cut: list[str] = []
        """Areas that were not read to their end."""
        self._fetched: set[str] = set()

    def alone(self) -> AbstractContextManager[None]:
        """An image and the containers of it one after the other: what was read of the first may do for all."""
        return self._way.one_by_one(f"{self._it.machine} {self._told.program} {self._told.image}")

    def open(self) -> Opened:
        """As it was read before, where that still holds; else from the engine."""
        kept = self._kept()
        if kept is None:
            self._from_engine()
            self._keep()
        else:
            self._read, layer = set(kept.read), kept.layer
            self._got = Gathered(dict(layer.nodes), dict(layer.packed), list(layer.holes))
        tree, notes = self._tree(), tuple(self._notes())
        return Opened(tree, self._told, notes)

    def _kept(self) -> state.Kept | None:
        """What was read for this or a wider question: of an image ever, of a container within this question.

        Of a container that changed none of it, what was read of its image will do.
        """
        for sought in dict.fromkeys((self._sought, replace(self._sought, stack=True))):
            recent = self._way.recent.get(self._key(sought))
            if isinstance(recent, state.Kept):
                return recent
            kept = self._of_image(self._key(sought, of_image=True))
            if kept is not None and (self._it.kind == "image" or self._spares(self._it, self._told, kept)):
                return kept
        return None

    def _of_image(self, key: str) -> state.Kept | None:
        """Read of the image itself, or of a container that did not change what was read of it."""
        recent = self._way.recent.get(key)
        if isinstance(recent, changes.Lent):
            if not self._spares(recent.it, recent.described, recent.kept):
                return None
            self._way.recent[key] = recent = recent.kept
        if isinstance(recent, state.Kept):
            return recent
        return None if self._way.cache is None else state.load(self._way.cache.get("layers", key))

    def _spares(self, it: Held, told: Described, kept: state.Kept) -> bool:
        changed = changes.changes(it, told, self._way)
        return changed is not None and changed.spare(kept)

    def _keep(self) -> None:
        if self._cut:
            return
        key, kept = self._key(self._sought), state.Kept(frozenset(self._read), self._got.layer())
        self._way.recent[key] = kept
        if self._it.kind == "container":
            lent = changes.Lent(kept, self._it, self._told)
            self._way.recent.setdefault(self._key(self._sought, of_image=True), lent)
        if self._it.kind == "image" and self._way.cache is not None:
            self._way.cache.put("layers", key, state.dump(kept))

    def _key(self, sought: Sought, of_image: bool = False) -> str:
        """The files of an image never change; those of a container may, and are its own."""
        alone = self._it.kind == "container" and not of_image
        own = f"{self._it.machine} {self._it.name}" if alone else ""
        config = self._told.config
        areas = first_areas(config), system_areas(config, ())
        asked = f"{sorted(sought.packages)} {sought.stack} {sought.everything} {areas}"
        told = f"{self._told.program} {self._told.image} {own} {asked}"
        return f"held-{hashlib.sha256(told.encode()).hexdigest()}"

    def _from_engine(self) -> None:
        """Folders of Python first, then what they lead to; everything only where no engine was seen."""
        if self._sought.everything:
            self._everything()
            return
        todo = first_areas(self._told.config)
        if self._sought.stack:
            todo += system_areas(self._told.config, [area.path for area in todo])
        self._way.tell(f"reading the Python folders of {self._it.subject}")
        for _ in range(ROUNDS):
            if not todo:
                break
            self._take(todo, SECONDS)
            todo = further_areas(self._got.layer(), {*self._read, *self._cut}, self._packages)
        if not holds(self._got.layer(), self._sought.engines):
            self._way.tell(
                f"no engine in the Python folders of {self._it.subject}: passing over all its files"
            )
            self._everything()

    def _everything(self) -> None:
        self._take([Area("", MOST)], WHOLE_SECONDS)
        mounts = [each for each in self._told.mounts if not re.match(r"(?:dev|proc|sys|run)(?:/|$)", each)]
        if mounts:
            self._take([Area(path, MOUNT) for path in outermost(mounts)[:16]], SECONDS)
        for path in mounts:
            if not within(path, self._read - {""}):
                self._got.holes.append((path, "a mounted folder that was not read to its end"))

    def _take(self, areas: Sequence[Area], seconds: int) -> None:
        """Read these areas. Raises TreeError where the engine gave none of them."""
        skimmed = self._skim(areas, seconds, keep(self._packages, self._sought.first), MAX_KEPT_FILE)
        for number, area in enumerate(areas):
            ended = skimmed.areas.get(number)
            if ended is not None and _read_to_its_end(ended):
                self._read.add(area.path)
            else:
                self._cut.append(area.path)
                self._got.holes.append((area.path, ended.why if ended is not None else records.UNREAD))
        self._got.add(skimmed.layer)

    def _skim(self, areas: Sequence[Area], seconds: int, kept: str, largest: int) -> records.Skimmed:
        name = f"canserve-{secrets.token_hex(8)}" if self._it.kind == "image" else self._it.name
        section = Section("files", self._script(areas, seconds, (kept, largest), name), MAX_OUTPUT)
        look = None
        try:
            look = self._way.look(self._it, [section], limits(seconds))
        finally:
            # The script removes what it created; where it was ended from here it could not.
            if self._it.kind == "image" and (look is None or look.trouble is not None):
                self._way.remove(self._it, self._told.program, name)
        answer = look.section("files")
        if isinstance(answer, Missing):
            raise TreeError(answer)
        if answer.status in {NO_PYTHON, _NOT_CREATED} or not answer.out:
            raise TreeError(self._refused(answer, look))
        skimmed = records.read(answer.out)
        gone_midway = next((e.error for e in skimmed.areas.values() if _GONE.search(e.error)), None)
        if gone_midway is not None:
            why = f"{self._it.name} was removed while it was read"
            raise TreeError(Missing(Cause.UNAVAILABLE, why, (self._seen(look, gone_midway),), "look again"))
        ends = list(skimmed.areas.values())
        said = {" ".join(each.error.split()) for each in ends}
        refused = len(ends) == len(areas) and all(e.cut is None and not _read_to_its_end(e) for e in ends)
        if refused and len(said) == 1:
            raise TreeError(self._gave_nothing(said.pop(), look))
        if skimmed.trouble is not None and not skimmed.areas:
            why = f"what {self._told.program} wrote of {self._it.name} could not be read: {skimmed.trouble}"
            raise TreeError(
                Missing(Cause.UNREADABLE, printable(why, 400), (self._seen(look, why),), "look again")
            )
        return skimmed

    def _area(self, area: Area, name: str) -> dict[str, Any]:
        """How one area is read: by an archive; where it lies, if it may be and no mount hides a part of it."""
        program, root = self._told.program, self._told.root
        argv = containers.archive(program, name, area.path) if area.path else containers.export(program, name)
        told = {"argv": argv, "below": area.path.rpartition("/")[0], "most": area.most}
        mounts = self._told.mounts if area.path else ()
        if root is not None and not any(
            within(each, {area.path}) or within(area.path, {each}) for each in mounts
        ):
            told |= {"root": root, "path": area.path}
        return told

    def _script(self, areas: Sequence[Area], seconds: int, kept: tuple[str, int], name: str) -> str:
        program = self._told.program
        plan = {
            "areas": [self._area(area, name) for area in areas],
            "keep": kept[0],
            "largest": kept[1],
            "room": ROOM,
            "seconds": seconds,
            "width": WIDTH,
        }
        python = shlex.quote(sys.executable) if self._it.machine == LOCAL else "python3"
        lines = [python_needed(python)]
        if self._it.kind == "image":
            made = containers.create(program, self._told.image, name)
            gone = shlex.join(containers.remove(program, name))
            lines += [
                f"trap 'within 20 {gone} >/dev/null 2>&1' EXIT",
                "trap 'exit 1' HUP INT TERM PIPE",
                f"within 30 {shlex.join(made)} >/dev/null || exit {_NOT_CREATED}",
            ]
        lines.append(skim(python, plan))
        return "\n".join(lines)

    def _refused(self, answer: Answer, look: Look) -> Missing:
        if answer.status == NO_PYTHON:
            why = (
                f"{self._it.machine} has no Python 3.7 or later, which thins out there what its engine writes"
            )
            return Missing(
                Cause.UNREACHED, why, (self._seen(look, why),),
                f"save it ({self._told.program} save -o FILE IMAGE), copy it here, and name docker-archive:FILE",
            )  # fmt: skip
        return self._gave_nothing(" ".join(answer.error.split())[:300] or answer.complaint, look)

    def _gave_nothing(self, said: str, look: Look) -> Missing:
        why = f"{self._told.program} on {self._it.machine} gave nothing of {self._it.name}: {said}"
        if _GONE.search(said) or "no such image" in said.lower():
            why = f"{self._it.name} was removed while it was read: {said}"
        ask = "make room on its disk" if "no space left" in said.lower() else "look again"
        return Missing(Cause.UNAVAILABLE, printable(why, 400), (self._seen(look, said),), ask)

    def _seen(self, look: Look, saw: str) -> Evidence:
        return Evidence(
            printable(self._it.subject), look.how, printable(saw, 300), whole=False, when=look.when
        )

    def _tree(self) -> ImageTree:
        tree = ImageTree(self._it.subject, self._origin(), [self._got.layer()], self._fetch)
        tree.visitor = visitor(self._it, self._told, self._way)
        if "" not in self._read:
            why = "only its Python folders were read, and what they lead to"
            ask = "add --deep, with which all its files are passed over"
            tree.unread = Unread(unreached(printable(self._it.subject), "", why, ask), frozenset(self._read))
        return tree

    def _origin(self) -> str:
        if self._it.kind == "image":
            return f"image in {self._told.program} on {self._it.machine}"
        state = self._told.state or "unknown state"
        return f"container in {self._told.program} on {self._it.machine} ({state})"

    def _notes(self) -> Sequence[str]:
        cut = [path or "all its files" for path in self._cut]
        return (f"not read to the end: {', '.join(cut[:5])}",) if cut else ()

    def _fetch_folders(self, paths: Sequence[str]) -> None:
        """All of a package of which only the first files were kept: where one more is asked for, others are too."""
        full = re.compile(keep(self._packages))
        folders = {folder_of(path, self._sought.first) for path in paths if full.search(path)}
        todo = [folder for folder in folders if folder is not None and folder not in self._fetched]
        if not todo:
            return
        self._fetched.update(todo)
        with self.alone():
            kept = self._kept()
            if kept is not None and all(path in kept.layer.packed for path in paths):
                self._got.packed.update(kept.layer.packed)
                return
            self._way.tell(f"reading more of {self._it.subject}")
            layer = self._skim([Area(folder) for folder in todo], SECONDS, full.pattern, MAX_KEPT_FILE).layer
            same = {path for path, node in layer.nodes.items() if node == self._got.nodes.get(path)}
            self._got.packed.update({path: data for path, data in layer.packed.items() if path in same})
            self._keep()

    def _fetch(self, number: int, paths: Sequence[str]) -> Mapping[str, bytes | Missing]:
        """Files that were not kept, whole."""
        del number
        try:
            self._fetch_folders(paths)
            rest = [Area(path, MAX_READ) for path in paths if path not in self._got.packed]
            found = self._skim(rest, SECONDS, "", MAX_READ).layer if rest else self._got.layer()
        except TreeError as error:
            return dict.fromkeys(paths, error.missing)
        found = Layer({**self._got.nodes, **found.nodes}, packed={**self._got.packed, **found.packed})
        return contents(found, paths, printable(self._it.subject))


def _read_to_its_end(ended: records.Ended) -> bool:
    """Whether nothing of it is missing, or it is not there."""
    return ended.whole or _ABSENT.search(ended.error) is not None
