"""A file of candidates, in TOML.

    [[candidate]]
    build = "docker://registry.example/team/engine:2026-03"
    note = "what the other cluster runs"

    [[candidate]]
    tags = "docker://registry.example/team/engine:2026-*"

    [[hub]]
    kind = "docker-hub"
    address = "https://hub.example"
    registry = "registry.example"

A ``build`` is whatever ``--build`` takes, relative paths as there; ``tags`` is what ``--tags`` takes. A ``hub`` is
asked by ``--search``, instead of the public ones; ``kind`` is the form in which it answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from canserve.plan.offers.offer import Offer
from canserve.probes.toml_file import file_bytes, parsed
from canserve.rules.hubs import KINDS, Hub
from canserve.trees.names import printable

MAX_ENTRIES = 1000
_KEYS = {"candidate": ("build", "tags", "note"), "hub": ("kind", "address", "registry")}


class CandidatesFileError(ValueError):
    """A file of candidates that cannot be used: one line that says what is wrong and where."""


@dataclass(frozen=True, slots=True)
class CandidatesFile:
    """What such a file names."""

    offers: tuple[Offer, ...] = ()
    tags: tuple[str, ...] = ()
    hubs: tuple[Hub, ...] = ()


def read_candidates_file(path: Path) -> CandidatesFile:
    """The file. Raises CandidatesFileError: unreadable, malformed, or of an unknown form."""
    return parse_candidates(file_bytes(path, CandidatesFileError), str(path))


def parse_candidates(data: bytes, name: str) -> CandidatesFile:
    """The same from its bytes. Raises CandidatesFileError."""
    _, told = parsed(data, name, CandidatesFileError)
    for key in told:
        if key not in _KEYS:
            raise CandidatesFileError(f"{name}: {_unknown(key, tuple(_KEYS), 'table')}")
    candidates = list(_entries(told, "candidate", name))
    hubs = tuple(_hub(entry, where) for entry, where in _entries(told, "hub", name))
    offers, tags = [], []
    for entry, where in candidates:
        if ("build" in entry) == ("tags" in entry):
            raise CandidatesFileError(f"{where}: a candidate has either build or tags")
        if "build" in entry:
            offers.append(Offer(entry["build"], "file", note=entry.get("note", "")))
        else:
            tags.append(entry["tags"])
    return CandidatesFile(tuple(offers), tuple(tags), hubs)


def _entries(told: Mapping[str, Any], table: str, name: str) -> Iterator[tuple[Mapping[str, str], str]]:
    listed = told.get(table, [])
    if not isinstance(listed, list):
        raise CandidatesFileError(f"{name}: write [[{table}]], with two brackets: there may be several")
    if len(listed) > MAX_ENTRIES:
        raise CandidatesFileError(f"{name}: {len(listed)} times [[{table}]]; at most {MAX_ENTRIES}")
    for number, entry in enumerate(listed, 1):
        where = f"{name}: {table} {number}"
        if not isinstance(entry, dict):
            raise CandidatesFileError(f"{where}: it is no table")
        for key, value in entry.items():
            if key not in _KEYS[table]:
                raise CandidatesFileError(f"{where}: {_unknown(key, _KEYS[table], 'key')}")
            if not isinstance(value, str) or not value.strip() or len(value) > 2000:
                raise CandidatesFileError(f"{where}: {key} is no text")
        yield entry, where


def _hub(entry: Mapping[str, str], where: str) -> Hub:
    lacking = [key for key in _KEYS["hub"] if key not in entry]
    if lacking:
        raise CandidatesFileError(f"{where}: {lacking[0]} is missing")
    kind = next((kind for kind in KINDS if kind == entry["kind"]), None)
    if kind is None:
        raise CandidatesFileError(f"{where}: {_unknown(entry['kind'], KINDS, 'kind of hub')}")
    try:
        scheme, host = urlsplit(entry["address"])[:2]
    except ValueError:
        scheme = host = ""
    if scheme not in {"http", "https"} or not host:
        raise CandidatesFileError(f"{where}: {printable(entry['address'], 80)} is no address of a web server")
    return Hub(kind, entry["address"].rstrip("/"), entry["registry"])


def _unknown(name: str, known: tuple[str, ...], what: str) -> str:
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    return f"no {what} is called {printable(name, 40)!r}; {hint}"
