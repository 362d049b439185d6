"""Asking a shelf once for neighbours that answer alike gives what asking for each of them gives."""

from __future__ import annotations

import datetime
import random

import pytest
from past import Builds, shelf

from canserve.index import projects, release_history
from canserve.index.names import Names
from canserve.index.rebuild import build_at
from canserve.index.runs import column_of
from canserve.index.since import Question, left_out, since
from canserve.index.watched import Indexed, Watched

SEED = datetime.datetime.now(datetime.UTC).date().toordinal()
"""Another sample every day, the same one all day."""

SMALL = shelf(
    "eng",
    [
        {"a": ("one", "two x"), "b": ("b",)},
        {"a": ("one", "two x"), "b": ("b",)},
        {"a": ("one", "two y"), "b": ()},
        {"a": ("one", "two y", "three"), "b": ("b",)},
    ],
    b="3",
)


def watched() -> Watched:
    small = Indexed(SMALL)._shelf
    small.asked.clear()
    return small


def test_nothing_asked_is_the_same_for_ever() -> None:
    assert watched().changes(0) == 4


def test_it_knows_where_an_answer_changes() -> None:
    small = watched()
    assert small.has("a", "one", 0)
    assert small.changes(0) == 4
    assert small.names("a", 0, "two") == ["two x"]
    assert small.changes(0) == 2
    assert small.names("a", 2) == ["one", "two y"]
    assert small.changes(2) == 3
    assert not small.has("a", "three", 0)
    assert small.changes(0) == 3
    assert not small.has("a", "never", 0)
    assert small.names("none", 0) == []
    assert small.changes(0) == 4


def test_what_could_not_be_read_is_a_change() -> None:
    small = watched()
    assert not small.is_unread("b", 1)
    assert small.changes(1) == 3


def test_questions_are_forgotten_once_answered() -> None:
    small = watched()
    small.names("a", 0, "two")
    small.changes(0)
    assert small.changes(0) == 4


def names(count: int) -> list[str]:
    every = sorted({name for engine in projects() for name in release_history().names(engine)})
    return [
        *random.Random(SEED).sample(every, count),
        "Glm4MoeLiteForCausalLM",
        "gemma4",
        "qwen3",
        "Qwen3Model",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", names(8))
def test_neighbours_that_are_not_asked_would_have_said_the_same(name: str) -> None:
    known = Names(release_history(), projects())
    for subject in known.subjects(name):
        asked = Question(subject.model, days=known.days)
        for engine in projects():
            of = release_history().shelf(engine)
            assert of is not None
            every = Builds([build_at(of, at) for at in range(len(of.releases))])
            each = since(asked, column_of(of), every)
            once = since(asked, column_of(of), Indexed(of, left_out(subject.model)))
            kinds = [(s.run, s.answer.kind, s.transformers) for s in each.stretches]
            assert [(s.run, s.answer.kind, s.transformers) for s in once.stretches] == kinds
            assert once.dropped == each.dropped
