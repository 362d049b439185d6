"""Builds with several engines in them: which of those that serve an architecture the flags leave."""

from __future__ import annotations

from canserve.checks.case import Case
from canserve.checks.reader import Reader
from canserve.checks.wish import normalized
from canserve.subjects.build import Registered


def given(case: Case, flag: str) -> bool:
    """Whether the user gave this flag with this value (``--backend pytorch``)."""
    name, _, value = flag.partition(" ")
    return any(normalized(key) == name and said == value for key, said in case.wish.flags.items())


def forced(reader: Reader, case: Case) -> tuple[str, str] | None:
    """The engine that a flag makes the only one, and that flag; None: none does."""
    flags = reader.try_read(case.build.engine_flags) or {}
    return next(((engine, flag) for engine, flag in flags.items() if given(case, flag)), None)


def left(reader: Reader, case: Case, row: Registered) -> tuple[str, ...]:
    """The engines that may serve a registered architecture, the one that is tried first in front."""
    only = forced(reader, case)
    if only is None:
        return row.backends
    return tuple(engine for engine in row.backends if engine == only[0])
