"""Questions that the release index answers alone: which release serves it, and the whole table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from canserve.api import Options, SpecError, read_model
from canserve.facts import Known, Missing

if TYPE_CHECKING:
    from canserve.index.matrix import Matrix
    from canserve.index.names import Names
    from canserve.index.runs import Column
    from canserve.index.since import Answers
    from canserve.subjects.model import Model


class UnknownNameError(LookupError):
    """No release in the index knows the name. ``nearest`` are names that look like it."""

    def __init__(self, name: str, nearest: Sequence[str]) -> None:
        super().__init__(f"no indexed release knows {name!r}")
        self.nearest = tuple(nearest)


@dataclass(frozen=True, slots=True)
class SinceReport:
    """Which releases of each engine serve a name."""

    name: str
    answers: tuple[Answers, ...]
    """One for each thing that the name stands for."""
    columns: tuple[Column, ...]
    """The engines that were asked, with every indexed release."""


def since(name: str, options: Options | None = None) -> SinceReport:
    """Every release of every engine, judged for an architecture, model type, GGUF architecture or model.

    Names of the index win over paths; a Hub id has a slash. Raises UnknownNameError, and SpecError where a
    model's config cannot be read.
    """
    from canserve.index import projects, release_history
    from canserve.index.names import Names, of_model
    from canserve.index.rebuild import build_at
    from canserve.index.runs import column_of
    from canserve.index.since import LEFT_OUT, Answers, Question
    from canserve.index.since import since as ask

    options = options or Options()
    history = release_history()
    shelves = [shelf for engine in projects() if (shelf := history.shelf(engine)) is not None]
    names = Names(history, [shelf.project for shelf in shelves])
    subjects = names.subjects(name) or (of_model(_model(name, names, options)),)
    columns = tuple(map(column_of, shelves))
    builds = [[build_at(shelf, at, LEFT_OUT) for at in range(len(shelf.releases))] for shelf in shelves]
    answers = tuple(
        Answers(
            subject,
            tuple(
                ask(Question(subject.model, days=names.days), column, of)
                for column, of in zip(columns, builds, strict=True)
            ),
        )
        for subject in subjects
    )
    return SinceReport(name, answers, columns)


def _model(name: str, names: Names, options: Options) -> Model:
    """A model that can be read; else the name is a name, and not a known one."""
    from pathlib import Path

    here = Path(name).expanduser()
    if "/" not in name and not here.exists():
        raise UnknownNameError(name, names.nearest(name))
    model = read_model(name, options)
    for fact in (model.gguf_architecture, model.architectures):
        if isinstance(fact, Known) and fact.value:
            return model
    for fact in (model.architectures, model.model_type):
        if isinstance(fact, Missing):
            raise SpecError(fact.why, fact.ask or "name an architecture, a model type or a model")
    return model


def matrix(
    tables: Sequence[str] = ("architectures",), engines: Sequence[str] = (), names: Sequence[str] = ()
) -> tuple[Matrix, ...]:
    """Tables of the index: which releases list each name.

    ``engines``: only these; ``names``: only rows that one of these patterns fits. Raises SpecError for an
    engine that is not in the index.
    """
    from canserve.index import projects, release_history
    from canserve.index.matrix import matrix as whole
    from canserve.index.matrix import select

    known = projects()
    for engine in engines:
        if engine not in known:
            raise SpecError(f"no release of {engine!r} is in the index", f"it holds {', '.join(known)}")
    chosen = [engine for engine in known if not engines or engine in engines]
    return tuple(select(whole(release_history(), chosen, table), names) for table in tables)
