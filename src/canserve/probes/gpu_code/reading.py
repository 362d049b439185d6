"""The GPU code of one build: every extension read, what they link against, and what was looked at."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from canserve.engines.sources import Notes
from canserve.facts import Evidence, Fact, Known, Missing
from canserve.probes.discover import Found
from canserve.probes.gpu_code.elf import FormError, is_elf
from canserve.probes.gpu_code.extension import read_extension
from canserve.probes.gpu_code.files import MAX_EXTENSIONS, Shared, Unlisted, cuda_files, extensions
from canserve.rules.gpu_code import cuda_library
from canserve.subjects.gpu_code import CudaLibrary, Extension, Unit
from canserve.trees.names import printable, unreadable
from canserve.trees.positions import Positions, Unpacking, visit

MAX_READS = 500_000
"""Small reads of all files of a build; torch, an engine and its kernels take 20,000."""
MAX_UNPACKED = 24 << 30
"""Bytes that are unpacked of one archive or image for it."""
FORM = 2
"""Of what is kept of an extension; another one is not read."""
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class GpuCode:
    """Three facts of a build."""

    extensions: Fact[Mapping[str, Fact[Extension]]]
    cuda: Fact[Mapping[str, CudaLibrary]]
    libc: Fact[str | None]


@dataclass(frozen=True, slots=True)
class Means:
    """With what files are read."""

    subject: str
    content: str | None
    """Digest of the wheel or image; None: its files may change, so nothing is kept."""
    notes: Notes
    tell: Callable[[str], None]


def read_gpu_code(found: Found, means: Means) -> GpuCode:
    """Read every extension that the engine may load. Never raises for what the files hold."""
    listed = list(extensions(found))
    shared = [each for each in listed if isinstance(each, Shared)]
    if len(shared) > MAX_EXTENSIONS:
        why = f"{len(shared)} shared libraries, more than the {MAX_EXTENSIONS} that are read"
        trouble = unreadable(means.subject, "", why)
        return GpuCode(trouble, trouble, trouble)
    read: dict[str, Fact[Extension]] = {}
    read.update((each.shown, each.missing) for each in listed if isinstance(each, Unlisted))
    foreign: list[str] = []
    _read_all(shared, means, read, foreign)
    read = dict(sorted(read.items()))
    saw = f"{len(shared) - len(foreign)} shared libraries"
    saw += f"; no ELF files, so not loadable: {', '.join(foreign[:5])}" if foreign else ""
    look = (Evidence(means.subject, "section headers", printable(saw)),)
    return GpuCode(Known(read, look), _cuda(found, shared, read, look), _libc(read, look))


def _read_all(
    shared: Sequence[Shared], means: Means, read: dict[str, Fact[Extension]], foreign: list[str]
) -> None:
    """Read these files tree by tree into ``read``; those that are no ELF files go to ``foreign``."""
    trees: dict[int, dict[str, Shared]] = {}
    for each in shared:
        kept = _kept(means, each)
        if kept is not None:
            read[each.shown] = Known(kept, (_seen(means.subject, each, kept),))
        else:
            trees.setdefault(id(each.tree), {})[each.path] = each
    patience = _Patience()
    for wanted in trees.values():

        def use(path: str, file: Positions, wanted: Mapping[str, Shared] = wanted) -> None:
            each = wanted[path]
            if not is_elf(file):
                foreign.append(each.shown)
                return
            try:
                extension = read_extension(_Counted(file, patience), each.package)
            except FormError as error:
                read[each.shown] = unreadable(means.subject, each.shown, str(error))
                return
            read[each.shown] = Known(extension, (_seen(means.subject, each, extension),))
            _keep(means, each, extension)

        size = sum(each.entry.size for each in wanted.values())
        if size > 64 << 20:
            means.tell(f"{means.subject}: reading GPU code of {len(wanted)} files ({size / 1e6:.0f} MB)")
        tree = next(iter(wanted.values())).tree
        if isinstance(tree, Unpacking) and size > MAX_UNPACKED:
            why = f"{size} bytes of shared libraries, more than the {MAX_UNPACKED} that are unpacked"
            read.update((each.shown, unreadable(means.subject, each.shown, why)) for each in wanted.values())
            continue
        sizes = {path: each.entry.size for path, each in wanted.items()}
        for path, missing in visit(tree, sizes, use).items():
            read[wanted[path].shown] = missing


class _Patience:
    """How many more small reads all files of a build may take."""

    def __init__(self) -> None:
        self.left = MAX_READS


class _Counted:
    """A file whose reads are counted. Raises FormError when there were too many."""

    def __init__(self, file: Positions, patience: _Patience) -> None:
        self._file = file
        self._patience = patience
        self.size = file.size

    def read(self, start: int, end: int) -> bytes:
        self._patience.left -= 1
        if self._patience.left < 0:
            raise FormError(f"more than {MAX_READS} reads for the shared libraries of one build")
        return self._file.read(start, end)


def _seen(subject: str, shared: Shared, extension: Extension) -> Evidence:
    units = sorted(extension.units, key=lambda unit: -unit.count)
    told = [f"{unit.count} x {' '.join(unit.targets)}" for unit in units]
    more = f" and {len(told) - _SHOWN} other sets" if len(told) > _SHOWN else ""
    saw = f"{', '.join(told[:_SHOWN])}{more}" if told else "no GPU code"
    return Evidence(subject, shared.path, printable(saw, 400))


def _cuda(
    found: Found,
    shared: Sequence[Shared],
    read: Mapping[str, Fact[Extension]],
    look: tuple[Evidence, ...],
) -> Fact[Mapping[str, CudaLibrary]]:
    wanted: dict[str, list[str]] = {}
    for shown, fact in read.items():
        for name in fact.value.needed if isinstance(fact, Known) else ():
            if cuda_library(name):
                wanted.setdefault(name, []).append(shown)
    there = cuda_files(found, shared, wanted)
    versions: dict[str, list[str]] = {}
    for name in sorted(there.files):
        if kind := cuda_library(name):
            versions.setdefault(kind[0], []).append(name)
    result = {}
    for name, by in sorted(wanted.items()):
        kind = cuda_library(name)
        others = tuple(other for other in versions.get(kind[0] if kind else "", ()) if other != name)
        result[name] = CudaLibrary(tuple(by), there.files.get(name), others, there.everywhere)
    return Known(result, look)


def _libc(read: Mapping[str, Fact[Extension]], look: tuple[Evidence, ...]) -> Fact[str | None]:
    """The newest libc that one of them needs; Missing where some could not be read."""
    for fact in read.values():
        if isinstance(fact, Missing):
            return fact
    versions = [fact.value.libc for fact in read.values() if isinstance(fact, Known) and fact.value.libc]
    newest = max(versions, key=lambda version: tuple(map(int, version.split("."))), default=None)
    return Known(newest, look)


def _key(means: Means, shared: Shared) -> str | None:
    if means.content is None:
        return None
    text = f"{FORM}\n{means.content}\n{shared.path}\n{shared.entry.size}\n{shared.entry.digest}"
    return hashlib.sha256(text.encode()).hexdigest()


def _keep(means: Means, shared: Shared, extension: Extension) -> None:
    if key := _key(means, shared):
        means.notes.put(key, json.dumps(asdict(extension)).encode())


def _kept(means: Means, shared: Shared) -> Extension | None:
    key = _key(means, shared)
    data = means.notes.get(key) if key else None
    if data is None:
        return None
    try:
        fields = json.loads(data)
        units = tuple(Unit(tuple(unit["targets"]), unit["count"]) for unit in fields.pop("units"))
        lists = {key: tuple(fields.pop(key)) for key in ("needed", "rpath", "runpath")}
        return Extension(**(fields | lists | {"units": units, "package": shared.package}))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
