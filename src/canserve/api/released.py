"""Questions that the release index answers alone: which release serves it, and the whole table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from canserve.api import Options, SpecError, read_model
from canserve.facts import Known, Missing

if TYPE_CHECKING:
    from canserve.index.matrix import Matrix
    from canserve.index.names import Names, Subject
    from canserve.index.runs import Column
    from canserve.index.since import Answers
    from canserve.subjects.model import Model


_LONGEST = 500
"""Characters of a name that is no path."""


class UnknownNameError(LookupError):
    """No release in the index knows the name. ``nearest`` are names that look like it."""

    def __init__(self, name: str, nearest: Sequence[str]) -> None:
        super().__init__(f"no indexed release knows {name!r}")
        self.nearest = tuple(nearest)


class UnreadModelError(LookupError):
    """The model that was named could not be read: nothing can be said of it. ``missing`` says why."""

    def __init__(self, missing: Missing) -> None:
        super().__init__(missing.why)
        self.missing = missing


@dataclass(frozen=True, slots=True)
class SinceReport:
    """Which releases of each engine serve some names."""

    names: tuple[str, ...]
    """As the user gave them."""
    answers: tuple[Answers, ...]
    """One for each thing that each name stands for, in the order of the names."""
    columns: tuple[Column, ...]
    """The engines that were asked, with every indexed release."""
    not_indexed: tuple[str, ...] = ()
    """Engines of which there is no index: nothing is said of their releases."""


def since(names: str | Sequence[str], options: Options | None = None) -> SinceReport:
    """Every release of every engine, judged for architectures, model types, GGUF architectures or models.

    Names of the index win over paths; a Hub id has a slash. Raises UnknownNameError, and UnreadModelError
    where a model's config cannot be read.
    """
    from canserve.index import not_indexed, projects, release_history
    from canserve.index.names import Names, of_model
    from canserve.index.runs import column_of
    from canserve.index.since import Answers, Question, left_out
    from canserve.index.since import since as ask
    from canserve.index.watched import Indexed

    options = options or Options()
    wanted = (names,) if isinstance(names, str) else tuple(names)
    history = release_history()
    shelves = [shelf for engine in projects() if (shelf := history.shelf(engine)) is not None]
    known = Names(history, [shelf.project for shelf in shelves])
    subjects = [
        (name, subject)
        for name in wanted
        for subject in known.subjects(name) or (of_model(_model(name, known, options)),)
    ]
    columns = tuple(map(column_of, shelves))

    def answers(name: str, subject: Subject) -> Answers:
        asked, without = Question(subject.model, days=known.days), left_out(subject.model)
        pairs = zip(columns, shelves, strict=True)
        told = (ask(asked, column, Indexed(shelf, without)) for column, shelf in pairs)
        return Answers(name, subject, tuple(told))

    return SinceReport(wanted, tuple(answers(*pair) for pair in subjects), columns, not_indexed())


def _model(name: str, names: Names, options: Options) -> Model:
    """A model that can be read; else the name is a name, and not a known one."""
    from pathlib import Path

    try:
        exists = Path(name).exists()
    except (OSError, ValueError):  # longer than any path may be, a NUL inside
        exists = False
    if not exists and ("/" not in name or len(name) > _LONGEST):
        raise UnknownNameError(name[:_LONGEST], names.nearest(name[:_LONGEST]))
    model = read_model(name, options)
    for fact in (model.gguf_architecture, model.architectures):
        if isinstance(fact, Known) and fact.value:
            return model
    for fact in (model.architectures, model.model_type):
        if isinstance(fact, Missing):
            raise UnreadModelError(fact)
    return model


def matrix(
    tables: Sequence[str] = ("architectures",), engines: Sequence[str] = (), names: Sequence[str] = ()
) -> tuple[Matrix, ...]:
    """Tables of the index: which releases list each name.

    ``engines``: only these; ``names``: only rows that one of these patterns fits. Raises SpecError for an
    engine that is not in the index.
    """
    from canserve.index import not_indexed, projects, release_history
    from canserve.index.matrix import matrix as whole
    from canserve.index.matrix import select

    known = projects()
    for engine in engines:
        if engine not in known:
            raise SpecError(f"no release of {engine!r} is in the index", f"it holds {', '.join(known)}")
    chosen = engines or (*known, *not_indexed())
    return tuple(select(whole(release_history(), chosen, table), names) for table in tables)
