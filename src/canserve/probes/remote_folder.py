"""A folder on another machine as a tree: ``MACHINE:/PATH``, as scp writes it. Read over ssh, thinned out there.

Its Python files come whole with one look; what these lead to (links, editable installations) with further ones.
Nothing is written or started there but tar and the program that passes its output on.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from canserve.commands import folders
from canserve.facts import Cause, Evidence, Missing
from canserve.probes.container.areas import Area, further_areas, keep
from canserve.probes.container.naming import Held, RemoteFolder
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
from canserve.transport.reach import Look
from canserve.trees.container import records
from canserve.trees.image.layer import MAX_KEPT_FILE
from canserve.trees.image.overlay import MAX_READ, ImageTree, Unread
from canserve.trees.names import printable, unavailable, unreached
from canserve.trees.tree import TreeError

MOST = 64 << 30
"""Bytes of an environment that are passed over."""


def open_remote_folder(it: RemoteFolder, packages: frozenset[str], way: Way) -> ImageTree | Missing:
    """Open it. ``packages``: import packages whose files will be asked for. Never raises for what is there."""
    subject = printable(it.subject)
    if not it.path:
        return unavailable(
            subject, "", f"{subject}: a whole machine is not read", "name an environment's folder"
        )
    if way.offline:
        return unreached(subject, "", f"{it.machine} was not looked at: offline", "look without --offline")
    try:
        return _Reader(it, packages, way).open()
    except TreeError as error:
        return error.missing


class _Reader:
    """One folder, round by round."""

    def __init__(self, it: RemoteFolder, packages: frozenset[str], way: Way) -> None:
        self._it = it
        self._packages = packages
        self._way = way
        self._subject = printable(it.subject)
        self._got = Gathered()
        self._read: set[str] = set()

    def open(self) -> ImageTree:
        """The folder itself, then what it leads to."""
        self._way.tell(f"reading {self._it.subject}")
        todo, seen = [Area(self._it.path, MOST)], set[str]()
        for number in range(ROUNDS):
            found = self._skim(todo, keep(self._packages), MAX_KEPT_FILE)
            self._take(todo, found, first=number == 0)
            seen |= {area.path for area in todo}
            todo = further_areas(self._got.layer(), seen, self._packages)
            if not todo:
                break
        tree = ImageTree(self._it.subject, f"folder on {self._it.machine}", [self._got.layer()], self._fetch)
        why = f"only {self._it.path} was read, and what it leads to"
        beside = unreached(self._subject, "", why, "name the folder that holds it")
        tree.unread = Unread(beside, frozenset(self._read))
        return tree

    def _take(self, areas: Sequence[Area], found: records.Skimmed, first: bool) -> None:
        for number, area in enumerate(areas):
            ended = found.areas.get(number)
            absent = ended is not None and ended.status != 0 and "no such file" in ended.error.lower()
            if first and absent:
                raise TreeError(
                    unavailable(self._subject, "", f"{self._subject}: no such folder there", "check its path")
                )
            if absent or (ended is not None and ended.whole):
                self._read.add(area.path)
            else:
                self._got.holes.append((area.path, ended.why if ended is not None else records.UNREAD))
        self._got.add(found.layer)

    def _skim(self, areas: Sequence[Area], kept: str, largest: int) -> records.Skimmed:
        held = Held(self._it.subject, "folder", self._it.path, (), self._it.machine)
        section = Section("files", _script(areas, kept, largest), MAX_OUTPUT)
        look = self._way.look(held, [section], limits(SECONDS))
        answer = look.section("files")
        if isinstance(answer, Missing):
            raise TreeError(answer)
        if answer.status == NO_PYTHON:
            why = f"{self._it.machine} has no Python 3.7 or later, which thins out there what is read"
            raise TreeError(self._refused(look, Cause.UNREACHED, why))
        if not answer.out:
            raise TreeError(self._refused(look, Cause.UNAVAILABLE, _complaint(answer)))
        found = records.read(answer.out)
        if found.trouble is not None and not found.areas:
            why = f"what came of it could not be read: {found.trouble}"
            raise TreeError(self._refused(look, Cause.UNREADABLE, why))
        return found

    def _refused(self, look: Look, cause: Cause, why: str) -> Missing:
        seen = Evidence(self._subject, look.how, printable(why, 300), whole=False, when=look.when)
        ask = f"run canserve there, or copy the folder here: scp -r {shlex.quote(self._it.subject)} ."
        return Missing(cause, printable(f"{self._subject}: {why}", 400), (seen,), printable(ask))

    def _fetch(self, number: int, paths: Sequence[str]) -> Mapping[str, bytes | Missing]:
        """Files that were not kept, whole."""
        del number
        try:
            found = self._skim([Area(path, MAX_READ) for path in paths], "", MAX_READ).layer
        except TreeError as error:
            return dict.fromkeys(paths, error.missing)
        return contents(found, paths, self._subject)


def _script(areas: Sequence[Area], kept: str, largest: int) -> str:
    plan = {
        "areas": [{"argv": folders.archive(area.path), "below": "", "most": area.most} for area in areas],
        "keep": kept,
        "largest": largest,
        "room": ROOM,
        "seconds": SECONDS,
        "width": 2,
    }
    return f"{python_needed('python3')}\n{skim('python3', plan)}"


def _complaint(answer: Answer) -> str:
    return " ".join(answer.error.split())[:300] or answer.complaint
