"""Whose accelerators a build is made for: ``vendors.toml``."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from canserve.rules.table import Row, load

FILE = "vendors.toml"


def by_torch(version: str) -> Row | None:
    """The vendor whose software this torch was built with, by the local part of its version."""
    local = version.partition("+")[2]
    return next(
        (row for row in load(FILE).rows("vendor") if any(map(local.startswith, row.texts("torch")))), None
    )


def for_processors(version: str) -> Row | None:
    """What says that this torch was built without any accelerator's software; None: nothing does."""
    local = version.partition("+")[2]
    rows = load(FILE).rows("processors")
    return next((row for row in rows if any(map(local.startswith, row.texts("torch")))), None)


def by_requirements(lines: Iterable[str]) -> tuple[Row, str] | None:
    """The vendor whose packages these ``Requires-Dist`` lines need, extras left out, and one such line."""
    rows = load(FILE).rows("vendor")
    for line in lines:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        if requirement.marker is not None and "extra" in str(requirement.marker):
            continue
        name = canonicalize_name(requirement.name)
        for row in rows:
            if any(fnmatchcase(name, pattern) for pattern in row.texts("requires")):
                return row, line
    return None


def by_package(module: str) -> Row | None:
    """The vendor whose accelerators a module was written for, by the package of its source that it lies in."""
    names = module.split(".")
    return next((row for row in load(FILE).rows("vendor") if set(row.texts("packages")) & set(names)), None)
