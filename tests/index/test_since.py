"""Which releases serve a name: listed, usable, dropped, and never anything in between."""

from __future__ import annotations

import pytest
from past import BACK_END, LOOK, NAME, SITE, Library, broken, build, past, told

from canserve.checks.case import Case
from canserve.facts import Cause, Known, Missing
from canserve.index.names import named
from canserve.index.since import GATES, Since
from canserve.subjects.build import Import, ModelClass, QuantMethod
from canserve.subjects.model import Model
from canserve.verdict import Finding, word, worst


def small(architecture: str = NAME, model_type: str | None = "small") -> Model:
    return named(architecture, architecture, model_type)


def answers(one: Since) -> list[tuple[str, str, str, str, tuple[str, ...]]]:
    return [
        (s.run.first.version, s.run.last.version, s.answer.way, s.answer.usable, s.answer.needs)
        for s in one.stretches
    ]


def test_listed_and_usable_are_two_answers() -> None:
    found = past(
        small(),
        build("<5", lists=False),
        build("<5"),
        build(">=4"),
        build(">=4.1"),
        build(">=5"),
    )
    assert answers(found) == [
        ("1.0", "1.0", "none", "no", ()),
        ("1.1", "1.1", "native", "no", ()),
        ("1.2", "1.3", "native", "yes", ("transformers>=5.0.0",)),
        ("1.4", "1.4", "native", "yes", ()),
    ]
    assert found.stretches[1].answer.check == "config-parsable"
    assert found.stretches[3].transformers == ("5.0.0", "5.1.0")
    assert [(run.first.version, run.last.version) for run in found.lists] == [("1.1", "1.4")]
    assert found.word == "yes"


def test_a_gap_is_a_gap() -> None:
    lists = [True, False, True, True, False]
    found = past(small(), *(build(">=5", lists=here) for at, here in enumerate(lists)))
    assert [(run.first.version, run.last.version, run.count) for run in found.lists] == [
        ("1.0", "1.0", 1),
        ("1.2", "1.3", 2),
    ]
    assert not found.current(found.lists[-1])


def test_every_release_is_in_exactly_one_stretch() -> None:
    builds = [Known(build(">=5", lists=at % 3 == 0)) for at in range(7)]
    found = told(small(), *builds, Missing(Cause.UNREADABLE, "cut short"))
    assert sum(stretch.run.count for stretch in found.stretches) == 8
    assert found.stretches[-1].answer.usable == "unknown"
    assert found.stretches[-1].answer.because == "cut short"


def test_fallback_by_the_releases_own_rule_and_what_transformers_has() -> None:
    library = Library(accepted={"4.1.0": frozenset(), "5.0.0": frozenset({"supports_attention_backend"})})
    found = past(
        small(),
        build(">=4", lists=False, library=library),
        build(">=4", lists=False, library=library, fallback=Known(BACK_END, LOOK)),
        build(">=4", library=library, fallback=Known(BACK_END, LOOK)),
    )
    assert answers(found)[1] == ("1.1", "1.1", "fallback", "yes", ("transformers==5.0.0",))
    assert found.stretches[1].answer.served_by == "TransformersForCausalLM"
    assert answers(found)[0][2] == "none"
    assert [run.first.version for run in found.lists] == ["1.2"]


def test_suffix_conversion_is_not_a_listing() -> None:
    found = past(small("SmallForSequenceClassification"), build(">=5", fallback=Known(BACK_END, LOOK)))
    assert answers(found) == [("1.0", "1.0", "converted", "yes", ())]
    assert found.lists == ()
    assert found.stretches[0].answer.served_by == NAME


def test_what_builds_say_of_dropped_names() -> None:
    gone = {"dropped": Known({NAME: "1.0"}, LOOK)}
    found = past(small(), build(">=5"), build(">=5", lists=False, **gone), build(">=5", lists=False))
    assert [(said.run.first.version, said.run.count, said.name, said.last) for said in found.dropped] == [
        ("1.1", 1, NAME, "1.0")
    ]


def test_a_class_that_cannot_be_imported_serves_nobody() -> None:
    needs = ModelClass("eng.small", NAME, SITE, {}, (Import("transformers", "NewName", SITE),))
    found = past(
        small(),
        broken(build(">=5"), "eng.gone (eng/small.py:1)"),
        build(">=4", classes={NAME: Known(needs, LOOK)}),
        build(">=5", classes={NAME: Known(None, LOOK)}),
    )
    assert [(answer.usable, answer.check) for answer in (s.answer for s in found.stretches)] == [
        ("no", "architecture-module-present"),
        ("yes", None),
        ("no", "architecture-module-present"),
    ]
    assert found.stretches[1].answer.needs == ("transformers>=5.0.0",)


def test_what_could_not_be_read_is_unknown() -> None:
    hole = Missing(Cause.UNREADABLE, "unknown form of registry")
    found = past(small(), build(registry=hole), build(lists=False, fallback=hole))
    assert {stretch.answer.usable for stretch in found.stretches} == {"unknown"}
    assert found.word == "unknown"


def test_gguf_needs_the_method_and_the_architecture() -> None:
    method = Known({"gguf": QuantMethod("gguf", None, Known(None), SITE)}, LOOK)
    builds = (build(">=5"), build(">=4", quantization=method), build("<5", quantization=method))
    found = past(named("small", gguf="small"), *builds)
    assert [(way, usable, needs) for _, _, way, usable, needs in answers(found)] == [
        ("gguf", "no", ()),
        ("gguf", "yes", ("transformers>=5.0.0",)),
        ("gguf", "no", ()),
    ]


@pytest.mark.parametrize("requirement", ["<5", ">=4", ">=5"])
@pytest.mark.parametrize("lists", [True, False])
@pytest.mark.parametrize("back_end", [None, BACK_END])
@pytest.mark.parametrize("accepted", [{}, {"5.0.0": frozenset({"supports_attention_backend"})}])
def test_it_says_what_the_checks_say(
    requirement: str, lists: bool, back_end: object, accepted: dict[str, frozenset[str]]
) -> None:
    one = build(requirement, lists=lists, fallback=Known(back_end, LOOK), library=Library(accepted=accepted))
    model = small()
    judged = [check.judge(Case(model, one)) for check in GATES]
    expected = worst(finding for finding in judged if isinstance(finding, Finding))
    assert past(model, one).word == word(expected)


def test_a_pair_that_nobody_can_have_tried_is_told_apart() -> None:
    """5.1.0 came out in mid-June: the release of June was the newest then, that of May was not."""
    library = Library(accepted={"5.1.0": frozenset({"supports_attention_backend"})})
    borrows = build(">=4", lists=False, fallback=Known(BACK_END, LOOK), library=library)
    found = past(small(), build(">=4"), *[borrows] * 6)
    assert [(stretch.answer.way, stretch.answer.ahead, stretch.run.count) for stretch in found.stretches] == [
        ("native", False, 1),
        ("fallback", True, 4),
        ("fallback", False, 2),
    ]
