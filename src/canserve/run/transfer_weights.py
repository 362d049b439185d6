"""A folder of weights, or a model of a Hub cache, brought to machines: only files that differ, each by its digest."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from canserve.plan.roads import Leg, Room, Stand, legs
from canserve.run.transfer_hands import WIDTH, Carried, Hands, Job, carried_over
from canserve.run.transfer_talk import TransferError
from canserve.units import Bytes

HUB = "hub:"
"""Stands for the Hub cache of whoever logs in, wherever it lies there."""
_CACHED = re.compile(r"(?:.*/)?(?P<name>models--[^/]+)(?:/snapshots(?:/[^/]+)?)?/*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Folder:
    """What is to be copied, and where to."""

    path: str
    machine: str
    into: str
    """On the other machines."""


def folder(path: str, machine: str, into: str | None) -> Folder:
    """A model of a Hub cache is taken whole, with the links that make it up, and goes into the other machine's cache."""
    cached = _CACHED.fullmatch(path)
    if cached is None:
        return Folder(path, machine, into or path)
    root = path[: cached.end("name")]
    return Folder(root, machine, into or f"{HUB}{cached['name']}")


def bring_weights(it: Folder, targets: Sequence[str], hands: Hands) -> tuple[Carried, ...]:
    """The folder on every target. Never raises for what machines do: what failed says why."""
    work = _Work(it, hands)
    places = [(it.machine, it.path)]
    out: list[Carried] = []
    left = [name for name in targets if name != it.machine]
    while left:
        nodes = hands.nodes
        stands = [Stand(n, nodes[n].ip, None, holds=n in dict(places)) for n in (*dict(places), *left)]
        rounds = legs(stands, left, registry=False)
        if not rounds:
            break
        for each in rounds if hands.dry else rounds[:1]:
            work.places = dict(places)
            done = hands.together(work.leg, each)
            out += done
            places += [(one.machine, it.into) for one in done if one.problem is None]
            left = [name for name in left if name not in {leg.to for leg in each}]
    return tuple(out)


class _Work:
    """One folder on its way to all machines."""

    def __init__(self, it: Folder, hands: Hands) -> None:
        self.it, self.hands = it, hands
        self.places: dict[str, str] = {}
        """Machines that have it, and where."""

    def leg(self, leg: Leg) -> Carried:
        """One machine's way to it."""
        assert leg.source is not None
        begun = time.monotonic()
        root = self.places.get(leg.source, self.it.into)
        steps = tuple(
            (machine, ("python3", "-I", "-c", "...", does, where))
            for machine, does, where in (
                (leg.source, "send-files", root),
                (leg.to, "take-files", self.it.into),
            )
        )
        done = Carried(self.it.path, leg.to, leg.road, leg.source, argv=steps)
        if self.hands.dry:
            return done
        job = Job(
            self.it.path,
            {"do": "send-files", "root": _name(root)},
            {"do": "take-files", "root": _name(self.it.into)},
            lambda first, has: _settled(first, has, leg.to, self.it.into),
            WIDTH if leg.road == "direct" else 1,
        )
        try:
            told, road, remark = carried_over(job, leg, self.hands)
        except TransferError as error:
            return replace(done, problem=str(error), seconds=time.monotonic() - begun)
        said = f"files copied: {told['files']}, the same already: {told['same']}"
        return replace(
            done,
            road=road,
            moved=Bytes(int(told["wire"])),
            digest=str(told["digest"]),
            seconds=time.monotonic() - begun,
            note="; ".join(filter(None, (said, str(told.get("more") or ""), remark))),
        )


def _name(path: str) -> str:
    """As programs over there take it: a character for each byte."""
    return path.encode("utf-8", "surrogateescape").decode("latin-1")


def _settled(
    first: Mapping[str, Any], has: Mapping[str, Any], machine: str, into: str
) -> tuple[dict[str, Any], dict[str, Any], int | None]:
    """What is to be sent: all that is not there, and what may differ. Raises TransferError without room for it."""
    have = has["have"]
    files = []
    lacking = 0
    for name, size, mtime, link in first["files"]:
        if link is not None:
            continue
        there = have.get(name) or {}
        files.append([name, size, mtime, there.get("at", 0), there.get("sha")])
        if "sha" not in there:
            lacking += max(int(size) - int(there.get("at", 0)), 0)
    free = None if has["free"] is None else Bytes(int(has["free"]))
    room = Room(Bytes(lacking), free, f"{into} on {machine}")
    if not room.enough:
        raise TransferError(f"the disk is too small: {room.said}", "Room")
    return {"files": files}, {}, lacking
