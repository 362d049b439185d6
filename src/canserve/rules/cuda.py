"""CUDA, drivers and torch: what ``cuda_drivers.toml`` says."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from canserve.rules.table import Row, load

FILE = "cuda_drivers.toml"
NO_CUDA = "none"

Numbers = tuple[int, ...]


def numbers(text: str) -> Numbers | None:
    """``580.95.05`` -> (580, 95, 5), for comparing; None for anything else.

    >>> numbers("13.0"), numbers("580"), numbers("R580")
    ((13, 0), (580,), None)
    """
    return (
        tuple(int(part) for part in text.split("."))
        if re.fullmatch(r"\d{1,6}(\.\d{1,6}){0,3}", text)
        else None
    )


def family(cuda: str) -> Row | None:
    """The row with the oldest driver on which anything built with that CUDA's major release starts."""
    return next((row for row in _rows("family") if cuda.partition(".")[0] == str(row.values["cuda"])), None)


def toolkit(cuda: str) -> Row | None:
    """The row with the driver that this very CUDA release was published with."""
    return next((row for row in _rows("toolkit") if row.values["cuda"] == cuda), None)


def ptx(isa: str) -> Row | None:
    """The row with the CUDA release whose driver first compiles this version of PTX."""
    return next((row for row in _rows("ptx") if row.values["isa"] == isa), None)


def torch(specifier: str) -> tuple[Row, ...]:
    """The releases of torch that a requirement allows, oldest first; empty: none that the table knows."""
    try:
        allowed = SpecifierSet(specifier)
    except InvalidSpecifier:
        return ()
    return tuple(row for row in _rows("torch") if allowed.contains(row.text("version")))


def local_cuda(version: str) -> str | None:
    """The CUDA that a version's local part names.

    >>> local_cuda("2.9.1+cu130"), local_cuda("0.14.0+cu129.g1"), local_cuda("2.9.1+cpu"), local_cuda("2.9.1")
    ('13.0', '12.9', 'none', None)
    """
    local = version.partition("+")[2]
    if re.match(r"cpu\b", local):
        return NO_CUDA
    found = re.match(r"cu(\d{2})(\d)\b", local)
    return f"{found[1]}.{found[2]}" if found else None


@cache
def _rows(section: str) -> tuple[Row, ...]:
    return ordered(load(FILE).rows(section), _ORDERED[section])


_ORDERED: dict[str, tuple[str, ...]] = {
    "family": ("cuda", "driver"),
    "toolkit": ("cuda", "driver"),
    "ptx": ("isa", "cuda"),
    "torch": ("version", "x86_64", "aarch64"),
}


def ordered(rows: tuple[Row, ...], keys: tuple[str, ...]) -> tuple[Row, ...]:
    """The rows, if no key ever falls: newer CUDA needs no older driver, and torch never goes back in CUDA."""
    for earlier, later in pairwise(rows):
        if any(_number(earlier, key) > _number(later, key) for key in keys):
            raise later.wrong(f"out of order after {dict(earlier.values)}")
    return rows


def _number(row: Row, key: str) -> Numbers:
    text = str(row.values.get(key, ""))
    found = (0,) if text == NO_CUDA else numbers(text)
    if found is None:
        raise row.wrong(f"{key} = {text!r} is not a version")
    return found
