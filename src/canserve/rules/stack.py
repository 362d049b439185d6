"""What engines stand on: assemblers, variables of images, kernels made ahead, entrypoints; from ``stack.toml``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from canserve.rules.table import Row, load
from canserve.units import Capability

FILE = "stack.toml"
_PYTHON = re.compile(r"python[\d.]*")


def assembler(version: str) -> Row | None:
    """The row of the CUDA release that a ``ptxas`` belongs to: ``12.8.93`` and ``12.8`` are one."""
    release = ".".join(version.split(".")[:2])
    return next((row for row in load(FILE).rows("assembler") if row.text("cuda") == release), None)


def assembles(row: Row, capability: Capability) -> bool:
    """Whether that release compiles for a compute capability."""
    return str(capability) in row.texts("capabilities")


def first_assembling(capability: Capability) -> str | None:
    """The first CUDA release that compiles for a compute capability."""
    return next(
        (row.text("cuda") for row in load(FILE).rows("assembler") if assembles(row, capability)), None
    )


def assembler_row(name: str) -> Row | None:
    """The row of an assembler that Triton brings, by its file name."""
    return next((row for row in load(FILE).rows("triton") if row.text("assembler") == name), None)


def named_assemblers() -> frozenset[str]:
    """File names of the assemblers that releases of Triton bring."""
    return frozenset(row.text("assembler") for row in load(FILE).rows("triton"))


def assembler_variables() -> tuple[str, ...]:
    """Variables that name another assembler."""
    return tuple(row.text("variable") for row in load(FILE).rows("triton"))


def bound(name: str) -> Row | None:
    """What a variable binds; None: nothing that counts here."""
    rows = load(FILE).rows("variable")
    return next((row for row in rows if any(fnmatchcase(name, each) for each in row.texts("names"))), None)


def heeded(row: Row, engine: str) -> bool:
    """Whether an engine reads a variable."""
    engines = row.texts("engines")
    return not engines or engine in engines


def rows(section: str) -> tuple[Row, ...]:
    """The rows of ``kernels``, ``cache`` or ``compiles``."""
    return load(FILE).rows(section)


def passes(word: str) -> Row | None:
    """The row that says that a program of an entrypoint starts what follows it."""
    name = word.rpartition("/")[2]
    return next((row for row in load(FILE).rows("passes") if name in row.texts("programs")), None)


def starts(words: Sequence[str]) -> tuple[Row, str] | None:
    """How these words start an engine: the row, and the beginning that it knows.

    >>> starts(("/usr/bin/python3", "-m", "vllm.entrypoints.openai.api_server", "--port", "80"))[1]
    'python -m vllm.entrypoints.openai.api_server'
    """
    plain = [_plain(words[0]), *words[1:]] if words else []
    for row in load(FILE).rows("starts"):
        for known in row.texts("words"):
            if known.split(" ") == plain[: known.count(" ") + 1]:
                return row, known
    return None


def begins(words: Sequence[str]) -> Row | None:
    """The row of an engine of which these words are a beginning: ``vllm``, or ``python3`` alone."""
    plain = [_plain(words[0]), *words[1:]] if words else []
    known = ((row, text.split(" ")) for row in load(FILE).rows("starts") for text in row.texts("words"))
    return next((row for row, text in known if plain and text[: len(plain)] == plain), None)


def _plain(word: str) -> str:
    """A program's name without its folder, and Python without its version."""
    name = word.rpartition("/")[2]
    return "python" if _PYTHON.fullmatch(name) else name
