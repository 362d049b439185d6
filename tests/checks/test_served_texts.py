"""Texts of served models: tolerant graders, loops, letters from elsewhere."""

from __future__ import annotations

import pytest

from canserve.checks.served import texts
from canserve.rules.questions import named, questions
from canserve.subjects.served import Answer


def said(text: str, reasoning: str = "") -> Answer:
    return Answer(text, "stop", 1.0, reasoning=reasoning)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("capital-en", "Paris"),
        ("capital-en", "**Paris**."),
        ("capital-en", "The capital of France is PARIS!"),
        ("capital-en", "<think>Lyon? No.</think>\n\nParis"),
        ("capital-de", "Wien"),
        ("capital-fr", "C'est Rome."),
        ("capital-zh", "北京。"),
        ("capital-zh", "Beijing"),
        ("capital-ja", "東京"),
        ("capital-ru", "Москва́"),
        ("capital-ru", "Это Москва."),
        ("add", "42"),
        ("add", "17 + 25 = 42"),
        ("add", "\uff14\uff12"),
        ("add", r"\boxed{42}"),
        ("add", "forty-two"),
        ("week", "Seven days."),
        ("echo", "blue river 7194"),
        ("echo", "Blue river 7,194"),
        ("echo", "`blue river 7194`"),
        ("opposite", "Cold"),
    ],
)
def test_right_in_many_forms(name: str, text: str) -> None:
    assert texts.right(named(name), said(text))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("capital-en", "Parish"),
        ("capital-en", "<think>Paris</think>Lyon"),
        ("add", "142"),
        ("add", "4 2"),
        ("add", "421"),
        ("week", "17"),
        ("capital-fr", "aromatic"),
        ("opposite", "scold"),
        ("echo", "blue river 719"),
        ("capital-zh", "上海"),
    ],
)
def test_wrong_is_wrong(name: str, text: str) -> None:
    assert not texts.right(named(name), said(text))


def test_an_answer_that_only_reasons_is_judged_by_that() -> None:
    assert texts.right(named("add"), said("", "17 + 25, that is 42"))


def test_reasoning_that_never_ends_says_nothing() -> None:
    assert texts.spoken_part(said("<think>Paris? Let me think")) == ""
    assert texts.spoken_part(said("<think>x</think>Paris<|im_end|>")).strip() == "Paris"
    assert texts.spoken_part(said("[THINK]x[/THINK]Paris")) == "Paris"
    assert texts.spoken_part(said("<|channel|>analysis x<|channel|>final Paris")).strip() == "Paris"
    cut = Answer("<think>Paris? Let me", "length", 1.0)
    assert texts.cut(cut)
    assert texts.cut(Answer("", "length", 1.0, reasoning="hm"))
    assert not texts.cut(Answer("Paris", "length", 1.0, reasoning="hm"))
    assert not texts.cut(Answer("", "stop", 1.0))


def test_every_question_has_a_script_and_every_core_one_is_english() -> None:
    for question in (*questions("fact"), *questions("essay")):
        assert question.script in texts.SCRIPTS
        assert question.accept
    assert len([question for question in questions("fact") if question.core]) >= 3


@pytest.mark.parametrize("text", ["!" * 60, "ok " + "a" * 40, "好" * 30])
def test_one_character_over_and_over(text: str) -> None:
    assert texts.endless(text)


@pytest.mark.parametrize(
    "text",
    [
        "-" * 80,
        "=" * 80,
        "wow!!!!!",
        "| --- | --- |" * 9,
        "Hmmmmmmm",
        "." * 99,
        " " * 99,
        "\uff0d" * 60,
        "\u2014" * 60,
    ],
)
def test_lines_and_exclamations_are_no_fault(text: str) -> None:
    assert texts.endless(text) is None


def test_loops() -> None:
    assert texts.loop("First. " + "and so on and on " * 8)
    assert texts.loop("the cat sat. " * 12)
    assert texts.loop("ab" * 40)
    assert texts.loop("One thing. Another thing. A third thing. And a fourth.") is None
    assert texts.loop("1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16") is None
    assert texts.loop("no no no no no no") is None
    assert texts.loop("----------" * 9) is None


def test_strangers() -> None:
    english = "Bread is made of flour and water and time"
    assert texts.strangers(english, "Latin") is None
    assert texts.strangers(f"{english} и потом мы идём дальше", "Latin")
    assert texts.strangers(f"{english} 面包是用面粉和水做成的、很好吃", "Latin")
    assert (
        texts.strangers(
            "一年有四个季节、春天花开 (spring is warm and wet)。夏天很热、秋天凉爽、冬天寒冷", "Han"
        )
        is None
    )
    assert texts.strangers("The angle \u03b1 and the naïve café résumé, π", "Latin") is None
    assert texts.strangers("", "Latin") is None


def test_languages() -> None:
    german = "Das Meer ist salzig, weil die Flüsse Salz in das Meer tragen."
    assert texts.speaks(german, named("meer"))
    assert not texts.speaks("The sea is salty because rivers carry salt.", named("meer"))
    assert texts.speaks("一年有四个季节、春天花开。", named("seasons-zh"))
    assert not texts.speaks("There are four seasons.", named("seasons-zh"))


def test_words_in_common() -> None:
    assert texts.same_words(["a b c", "a b d"]) == 2
    assert texts.same_words(["a", "b"]) == 0


def test_a_schema() -> None:
    from canserve.checks.served.formats import SCHEMA

    good = {"city": "Paris", "country": "France", "capital": True}
    assert texts.fits(good, SCHEMA) is None
    broken: list[object] = [
        [],
        {**good, "more": 1},
        {**good, "city": "Lyon"},
        {**good, "capital": "yes"},
        {"city": "Paris"},
    ]
    for bad in broken:
        assert texts.fits(bad, SCHEMA)
