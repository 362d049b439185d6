"""What every released build supports, shipped with the package and kept fresh by ``canserve index update``.

``release_history()``: which release lists what; ``indexed_build()``: a release as a build that checks can judge;
``transformers_table()``: what each release of transformers offers; ``projects()`` and ``built()``: what
there is, and of which date. All work offline and load their data when they are first asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from canserve.facts import Fact
    from canserve.index.history import ReleaseHistory
    from canserve.subjects.build import Build, TransformersTable


def projects() -> tuple[str, ...]:
    """Engines that have an index here, in the order in which engines are tried."""
    from canserve.engines import NAMES

    past = release_history()
    return tuple(name for name in NAMES if past.shelf(name) is not None)


def not_indexed() -> tuple[str, ...]:
    """Engines that canserve reads, but of which no index is here: nothing is said of their releases."""
    from canserve.engines import NAMES

    known = projects()
    return tuple(name for name in NAMES if name not in known)


def release_history() -> ReleaseHistory:
    """The past of all engines: releases, what each lists, first and last."""
    from canserve.index.history import release_history as known

    return known()


def indexed_build(engine: str, version: str) -> Fact[Build]:
    """A release as the index has it; Missing where the index does not have it.

    Its mappings are put together as they are asked for, so that judging many releases is cheap.
    """
    from canserve.index.rebuild import indexed_build as build

    return build(engine, version)


def built(project: str) -> str | None:
    """UTC date (ISO 8601) of the last change of a project's index; None: there is none."""
    shelf = release_history().shelf(project)
    return None if shelf is None else shelf.built


def transformers_table() -> Fact[TransformersTable]:
    """All indexed releases of transformers; Missing when there is no data or it is damaged."""
    from canserve.index.transformers_releases import shipped_table

    return shipped_table()


def problems() -> tuple[str, ...]:
    """One line for each index file here that could not be used, with what helps; of those asked for so far."""
    from canserve.index.places import problems as found

    return found()
