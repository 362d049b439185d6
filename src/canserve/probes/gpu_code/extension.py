"""One ELF shared object as an ``Extension``."""

from __future__ import annotations

from collections import Counter

from canserve.probes.gpu_code import elf, fatbin, offload
from canserve.probes.gpu_code.elf import File
from canserve.subjects.gpu_code import Extension, Unit


def read_extension(file: File, package: str) -> Extension:
    """What its headers say. Raises FormError, and TreeError where bytes cannot be had."""
    headers = elf.read_elf(file)
    counted: Counter[tuple[str, ...]] = Counter()
    ptx: dict[str, str] = {}
    for section in headers.named(fatbin.SECTION):
        for entries in fatbin.units(file, section):
            counted[tuple(sorted({entry.target for entry in entries}))] += 1
            for entry in entries:
                if entry.isa is not None:
                    ptx[entry.target] = max(ptx.get(entry.target, entry.isa), entry.isa, key=_numbers)
    for section in headers.named(offload.SECTION):
        counted.update(offload.units(file, section))
    del counted[()]  # a unit without device code
    rpath, runpath = elf.searched(headers, file)
    return Extension(
        package=package,
        cpu=headers.cpu,
        units=tuple(Unit(targets, count) for targets, count in sorted(counted.items())),
        ptx=dict(sorted(ptx.items())),
        needed=elf.needed(headers, file),
        libc=elf.libc(headers, file),
        rpath=rpath,
        runpath=runpath,
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
