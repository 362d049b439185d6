"""Answers of the release index as the shapes of the JSON output."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from canserve.api.released import SinceReport
from canserve.index.matrix import Matrix
from canserve.index.runs import Column, Run
from canserve.index.since import Answers, Since, Stretch
from canserve.render.released_shapes import (
    AnswerShape,
    DroppedShape,
    EngineSinceShape,
    IndexedShape,
    ListedShape,
    MatrixShape,
    RunShape,
    ServedShape,
    SinceShape,
    TableShape,
)


def since_output(report: SinceReport) -> SinceShape:
    """Which releases serve some names."""
    return SinceShape(
        1, report.names, tuple(map(_answer, report.answers)), _indexed(report.columns), report.not_indexed
    )


def matrix_output(tables: Sequence[Matrix]) -> MatrixShape:
    """The whole table, or several."""
    columns = tables[0].columns if tables else ()
    missing = tables[0].not_indexed if tables else ()
    return MatrixShape(1, {table.table: _table(table) for table in tables}, _indexed(columns), missing)


def _indexed(columns: Iterable[Column]) -> tuple[IndexedShape, ...]:
    return tuple(IndexedShape(column.engine, column.built, column.releases) for column in columns)


def _run(column: Column, run: Run) -> RunShape:
    current = bool(column.releases) and run.last == column.releases[-1]
    return RunShape(run.first.version, run.first.date, run.last.version, run.last.date, run.count, current)


def _answer(answers: Answers) -> AnswerShape:
    subject = answers.subject
    return AnswerShape(answers.name, subject.kind, subject.says, tuple(map(_engine, answers.engines)))


def _engine(one: Since) -> EngineSinceShape:
    runs = one.own or one.borrowed
    return EngineSinceShape(
        engine=one.column.engine,
        verdict=one.word,
        first=runs[0].first.version if runs else None,
        last=runs[-1].last.version if runs else None,
        lists=tuple(_run(one.column, run) for run in one.lists),
        stretches=tuple(_served(one.column, stretch) for stretch in one.stretches),
        dropped=tuple(DroppedShape(_run(one.column, it.run), it.name, it.last) for it in one.dropped),
    )


def _served(column: Column, stretch: Stretch) -> ServedShape:
    answer = stretch.answer
    return ServedShape(
        run=_run(column, stretch.run),
        way=answer.way,
        served_by=answer.served_by,
        usable=answer.usable,
        because=answer.because,
        check=answer.check,
        needs=answer.needs,
        ahead=answer.ahead,
        transformers=stretch.transformers,
    )


def _table(table: Matrix) -> TableShape:
    columns = {column.engine: column for column in table.columns}
    rows = {
        name: {engine: _listed(table, name, columns[engine], runs) for engine, runs in row.items()}
        for name, row in table.rows.items()
    }
    unread = {
        engine: tuple(_run(columns[engine], run) for run in runs) for engine, runs in table.unread.items()
    }
    return TableShape(rows, unread)


def _listed(table: Matrix, name: str, column: Column, runs: Sequence[Run]) -> ListedShape:
    least = table.capabilities.get(name, {}).get(column.engine, {})
    return ListedShape(
        first=runs[0].first.version,
        last=runs[-1].last.version,
        current=table.current(column.engine, runs),
        runs=tuple(_run(column, run) for run in runs),
        min_capability={
            text: tuple(_run(column, run) for run in where) for text, where in sorted(least.items())
        },
    )
