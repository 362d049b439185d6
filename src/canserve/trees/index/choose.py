"""Which file of a release is meant: pip's rules, for a machine that need not be this one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.version import InvalidVersion, Version

from canserve.trees.index.pages import File

PREFERRED_ARCH = "x86_64"
"""CPU architecture of the wheel that is read where nobody says which; so that the answer never varies."""
NEAREST = 6
_ARCHS = ("x86_64", "aarch64", "arm64", "ppc64le", "s390x")


@dataclass(frozen=True, slots=True)
class Choice:
    """One file, and what should be said about it."""

    file: File
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoChoice:
    """No file fits, and why; ``near`` are the versions nearest to the wanted one."""

    why: str
    near: tuple[str, ...]


def choose(files: Sequence[File], requirement: Requirement, arch: str | None = None) -> Choice | NoChoice:
    """The file that a usual installation of this requirement would read its code from.

    Yanked files count only where the version is given exactly. Wheels come before source distributions,
    the wanted CPU architecture before others, the highest build tag before lower ones.
    """
    exact = _exact(requirement)
    usable = [file for file in files if exact is not None or file.yanked is None]
    allowed = list(_allowed(usable, requirement))
    if not allowed:
        return NoChoice(_nothing(files, requirement), _nearest(files, exact))
    newest = max(file.version for file in allowed)
    release = [file for file in allowed if file.version == newest]
    good = [file for file in release if file.yanked is None] or release
    best = max(good, key=lambda file: _rank(file, arch or PREFERRED_ARCH))
    return Choice(best, tuple(_notes(best, good, arch)))


def _exact(requirement: Requirement) -> str | None:
    """The version of ``==1.2`` or ``===1.2``; None for anything that may mean several."""
    for spec in requirement.specifier:
        if spec.operator == "===" or (spec.operator == "==" and not spec.version.endswith(".*")):
            return spec.version
    return None


def _allowed(files: Sequence[File], requirement: Requirement) -> Iterable[File]:
    """As pip: pre-releases only where the specifier names one, or where nothing else fits."""
    versions = set(requirement.specifier.filter({file.version for file in files}))
    return (file for file in files if file.version in versions)


def _rank(file: File, arch: str) -> tuple[object, ...]:
    return (
        file.is_wheel,
        _fits(file, arch),
        any("linux" in platform or platform == "any" for platform in file.platforms),
        not any(platform.startswith("musllinux") for platform in file.platforms),
        file.build or (0, ""),
        max((_python(python) for python in file.pythons), default=(0, 0)),
        file.name,
    )


def _fits(file: File, arch: str) -> bool:
    return any(platform == "any" or platform.endswith(f"_{arch}") for platform in file.platforms)


def _python(tag: str) -> tuple[int, int]:
    """``cp311`` -> (3, 11); ``py3`` -> (3, 0); anything else is lower than those."""
    digits = tag[2:]
    if tag[:2] not in {"cp", "py"} or not digits.isdecimal() or len(digits) > 4:
        return 0, 0
    return int(digits[0]), int(digits[1:] or 0)


def _notes(best: File, release: Sequence[File], arch: str | None) -> Iterable[str]:
    if best.yanked is not None:
        reason = f": {best.yanked}" if best.yanked else ""
        yield f"{best.name} is yanked{reason}; it is read because its version was given exactly"
    if arch and not _fits(best, arch):
        kind = "wheel of another architecture" if best.is_wheel else "source distribution"
        yield f"the release has no wheel for {arch}; its {kind} {best.name} is read"
    if best.build and best.build != (0, ""):
        yield f"{best.name} is read for its build tag, the highest of the release"
    if not best.is_wheel:
        yield "the release has no wheel; its source distribution is read"
    others = {arch_of(file) for file in release if file.is_wheel} - {arch_of(best)}
    if arch is None and best.is_wheel and others:
        yield f"the wheel for {arch_of(best)} is read; there are others for {', '.join(sorted(others))}"


def arch_of(file: File) -> str:
    """``x86_64``, ``aarch64`` ...; ``any``; the platform as it is where it names no architecture."""
    platform = file.platforms[0] if file.platforms else "any"
    return next(
        (a for a in ("x86_64", "aarch64", "arm64", "ppc64le", "s390x") if platform.endswith(a)), platform
    )


def _nothing(files: Sequence[File], requirement: Requirement) -> str:
    if not files:
        return f"the index has no file of {requirement.name}"
    if any(True for _ in _allowed(files, requirement)):
        return f"all files of {requirement} are yanked; give the version exactly to have one read"
    return f"the index has no {requirement.name} {requirement.specifier}"


def _nearest(files: Sequence[File], exact: str | None) -> tuple[str, ...]:
    """Versions around the one that was meant, else the newest, oldest first."""
    versions = sorted({file.version for file in files if file.yanked is None})
    try:
        wanted = Version(exact) if exact else None
    except InvalidVersion:
        wanted = None
    if wanted is None:
        return tuple(str(version) for version in versions[-NEAREST:])
    after = next((i for i, version in enumerate(versions) if version > wanted), len(versions))
    start = max(0, min(after - NEAREST // 2, len(versions) - NEAREST))
    return tuple(str(version) for version in versions[start : start + NEAREST])
