"""What programs and libraries say of themselves in their constants: bounded passes over ELF sections.

All of one build that are asked are read together, as in a packed tree each time costs a pass over what it lies in;
what was found is kept where the build's content has a digest.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from canserve.engines.sources import Notes
from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.probes.gpu_code.elf import File, FormError, read_elf
from canserve.trees.names import unreadable
from canserve.trees.positions import Positions, visit
from canserve.trees.tree import Tree

PTXAS = re.compile(rb"Cuda compilation tools, release (\d{1,3}\.\d{1,3}), V(\d{1,3}(?:\.\d{1,4}){1,3})")
NCCL = re.compile(rb"NCCL version (\d{1,3}\.\d{1,3}\.\d{1,3})(?:\+cuda(\d{1,3}\.\d{1,3}))?")
LIBC = re.compile(rb"GNU C Library [^\0\n]{0,120}release version (\d{1,3}\.\d{1,3})")
MAX_CONSTANTS = 64 << 20
"""Bytes of constants that are passed over; NCCL has 7 MB, ptxas 25."""
_STEP = 1 << 20
_OVERLAP = 256
_CONSTANTS = (".rodata", ".rodata.str1.1", ".data.rel.ro.local", ".data")


@dataclass(frozen=True, slots=True)
class Asked:
    """A file that is to say its release."""

    size: int
    pattern: re.Pattern[bytes]


@dataclass(frozen=True, slots=True)
class Means:
    """With what files are read."""

    tree: Tree
    subject: str
    scans: bool
    """Whether large files may be read."""
    content: str | None = None
    """Digest of what they lie in; None: they may change, so nothing is kept."""
    notes: Notes | None = None


def releases(means: Means, asked: Mapping[str, Asked]) -> Mapping[str, Fact[str]]:
    """What each of these files says of its own release, by path."""
    told: dict[str, Fact[str]] = {}
    for path, each in asked.items():
        if (kept := _kept(means, path, each)) is not None:
            told[path] = Known(kept, (Evidence(means.subject, path, f"release {kept}"),))
    sizes = {path: each.size for path, each in asked.items() if path not in told}
    if not means.scans:
        look = "not downloaded"
        for path in sizes:
            seen = (Evidence(means.subject, path, look, whole=False),)
            told[path] = Missing(Cause.UNREACHED, "large files only with --deep", seen, "add --deep")
        return told

    def use(path: str, file: Positions) -> None:
        try:
            release = said(file, asked[path].pattern)
        except FormError as error:
            told[path] = unreadable(means.subject, path, str(error))
            return
        if release is None:
            told[path] = unreadable(means.subject, path, "it does not say its release")
            return
        told[path] = Known(release, (Evidence(means.subject, path, f"release {release}"),))
        if means.notes is not None and (key := _key(means, path, asked[path])):
            means.notes.put(key, release.encode())

    failed = visit(means.tree, sizes, use) if sizes else {}
    for path in sizes:
        told.setdefault(path, failed.get(path) or unreadable(means.subject, path, "it was not read"))
    return told


def _key(means: Means, path: str, each: Asked) -> str | None:
    if means.content is None:
        return None
    text = f"{means.content}\n{path}\n{each.size}\n{each.pattern.pattern!r}"
    return hashlib.sha256(text.encode()).hexdigest()


def _kept(means: Means, path: str, each: Asked) -> str | None:
    key = _key(means, path, each)
    data = means.notes.get(key) if means.notes is not None and key else None
    return data.decode("ascii") if data is not None and re.fullmatch(rb"[\d.]{1,40}", data) else None


def said(file: File, pattern: re.Pattern[bytes]) -> str | None:
    """The last group of the first match that took part; None: it says nothing. Raises FormError, TreeError."""
    left = MAX_CONSTANTS
    sections = read_elf(file).sections
    for section in (each for name in _CONSTANTS for each in sections if each.name == name):
        at = section.start
        while at < section.end:
            end = min(at + _STEP + _OVERLAP, section.end)
            left -= end - at
            if left < 0:
                raise FormError(f"more than {MAX_CONSTANTS} bytes of constants")
            if match := pattern.search(file.read(at, end)):
                return str(match[1 if pattern is not PTXAS else 2], "ascii")
            at += _STEP
    return None
