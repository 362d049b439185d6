"""Answers of the index as text and Markdown: what they say, and what a hostile name cannot do."""

from __future__ import annotations

import re

import pytest

from canserve.api.released import SinceReport
from canserve.index.matrix import Matrix
from canserve.index.names import Subject, named
from canserve.index.runs import Column, Release, Run
from canserve.index.since import Answer, Answers, Dropped, Since, Stretch
from canserve.render.matrix_page import matrix_page
from canserve.render.matrix_text import matrix_markdown, matrix_text, spans_of
from canserve.render.page import Look
from canserve.render.since_text import since_markdown, since_text

HOSTILE = "evil\x1b[2J\x1b]0;owned\x07 \u202eline\nbreak [red]x[/red] <script> | `tick` @someone #12 \udc80"
RELEASES = tuple(
    Release(version, f"2026-0{at + 1}-01", file=f"eng-{version}.whl", sha256=f"{at}" * 64)
    for at, version in enumerate(("1.0rc1", "1.0", "1.1", "1.2", "1.3"))
)
COLUMN = Column("eng", "2026-12-01", RELEASES)


def stretch(first: int, last: int, answer: Answer, transformers: tuple[str, str] | None = None) -> Stretch:
    return Stretch(Run(RELEASES[first], RELEASES[last], last - first + 1), answer, transformers)


def report(
    *stretches: Stretch, name: str = "SmallForCausalLM", names: int = 1, says: str = ""
) -> SinceReport:
    one = Since(COLUMN, stretches, (Dropped(Run(RELEASES[4], RELEASES[4], 1), name, "1.2"),) if says else ())
    subject = Subject("architecture", named(name, name, "small"), f"{name}, model type small")
    return SinceReport((name,) * names, (Answers(name, subject, (one,)),), (COLUMN,))


NO = Answer("none", None, "no", "")
YES = Answer("native", "SmallForCausalLM", "yes", "")
NEEDS = Answer("native", "SmallForCausalLM", "yes", "", needs=("transformers>=5.0.0",))
CANNOT = Answer("native", "SmallForCausalLM", "no", "model type small is unknown", "config-parsable")
BORROWED = Answer("fallback", "TransformersForCausalLM", "yes", "")


def test_first_listed_then_usable() -> None:
    text = since_text(
        report(
            stretch(0, 1, NO),
            stretch(2, 2, CANNOT),
            stretch(3, 3, NEEDS),
            stretch(4, 4, YES, ("5.0.0", "5.2.0")),
        ),
        Look(),
    )
    assert "eng: since 1.2 (2026-04-01)\n" in text
    assert "lists     from 1.1 (2026-03-01) on\n" in text
    assert "serves    1.2 (2026-04-01) with transformers>=5.0.0\n" in text
    assert "from 1.3 (2026-05-01) on with any transformers they allow (5.0.0 to 5.2.0)\n" in text
    assert "cannot    1.1 (2026-03-01): model type small is unknown\n" in text
    assert "read      eng-1.2.whl sha256:3333333333333333 for 1.2\n" in text


@pytest.mark.parametrize(
    ("stretches", "headline"),
    [
        ((stretch(0, 4, NO),), "no release serves it"),
        ((stretch(0, 3, NO), stretch(4, 4, CANNOT)), "listed, but no release can serve it"),
        ((stretch(0, 2, YES), stretch(3, 4, NO)), "1.0rc1 to 1.1 (2026-01-01 to 2026-03-01), no longer, first final "
         "release 1.0 (2026-02-01)"),
        ((stretch(0, 0, NO), stretch(1, 1, YES), stretch(2, 2, NO), stretch(3, 4, YES)),
         "since 1.0 (2026-02-01), with gaps"),
        ((stretch(0, 1, NO), stretch(2, 4, BORROWED)),
         "through its Transformers back end since 1.1 (2026-03-01)"),
        ((stretch(0, 1, NO), stretch(2, 2, BORROWED), stretch(3, 4, YES)),
         "since 1.2 (2026-04-01); before that through its Transformers back end, from 1.1 (2026-03-01) on"),
        ((stretch(0, 1, NO), stretch(2, 2, YES), stretch(3, 4, BORROWED)),
         "1.1 (2026-03-01), no longer; now through its Transformers back end"),
        ((stretch(0, 4, Answer("unknown", None, "unknown", "cut short")),), "unknown"),
    ],
)  # fmt: skip
def test_headlines(stretches: tuple[Stretch, ...], headline: str) -> None:
    text = since_text(report(*stretches), Look())
    assert f"eng: {headline}\n" in text


def test_what_builds_say_of_dropped_names() -> None:
    text = since_text(report(stretch(0, 3, YES), stretch(4, 4, NO), says="dropped"), Look())
    assert "says      from 1.3 (2026-05-01) on name 1.2 as the last that served SmallForCausalLM\n" in text


def test_several_names_give_first_releases_only() -> None:
    both = report(stretch(0, 1, NO), stretch(2, 2, CANNOT), stretch(3, 4, YES), names=2)
    assert "  eng           1.2 (2026-04-01), listed since 1.1 (2026-03-01)\n" in since_text(both, Look())
    page = since_markdown(both)
    assert "| `SmallForCausalLM` | 1.2 (2026-04-01), listed since 1.1 (2026-03-01) |" in page
    assert "- `eng==1.1`: eng-1.1.whl sha256:2222222222222222" in page


@pytest.mark.parametrize("names", [1, 2])
def test_hostile_names_do_nothing(names: int) -> None:
    it = report(stretch(0, 3, YES), stretch(4, 4, NO), name=HOSTILE, names=names, says="dropped")
    for width in (None, 80, 30):
        text = since_text(it, Look(width))
        assert "\x1b" not in text
        assert "\x07" not in text
        assert "\u202e" not in text
    page = since_markdown(it)
    assert "\x1b" not in page
    table = [line for line in page.splitlines() if line.startswith("|")]
    assert len({line.replace("\\|", "").count("|") for line in table}) == 1


def rows(name: str) -> Matrix:
    return Matrix("architectures", (COLUMN,), {name: {"eng": (Run(RELEASES[1], RELEASES[4], 4),)}}, {})


def test_hostile_names_in_the_matrix() -> None:
    for width in (None, 80, 20):
        text = matrix_text((rows(HOSTILE),), Look(width))
        assert "\x1b" not in text
        assert "\u202e" not in text
    page = matrix_markdown((rows(HOSTILE),))
    assert (
        len({line.replace("\\|", "").count("|") for line in page.splitlines() if line.startswith("|")}) == 1
    )


def test_a_table_that_does_not_fit_is_stacked() -> None:
    assert matrix_text((rows("SmallForCausalLM"),), Look(80)).splitlines()[1].split() == [
        "SmallForCausalLM",
        "1.0+",
    ]
    narrow = matrix_text((rows("SmallForCausalLM" * 3),), Look(40)).splitlines()
    assert narrow[-4].strip() == "eng 1.0+" or "  eng 1.0+" in narrow


def test_runs_are_told_as_they_are() -> None:
    runs = (Run(RELEASES[0], RELEASES[0], 1), Run(RELEASES[2], RELEASES[3], 2))
    assert spans_of(runs, current=False) == "1.0rc1, 1.1 to 1.2"
    assert spans_of(runs, current=True) == "1.0rc1, 1.1+"


def test_bars_stay_inside_their_track() -> None:
    """An engine that is years older than all others begins at the edge."""
    old = Column("old", "2026-12-01", (Release("0.1", "2019-01-01"), Release("0.2", "2020-01-01"), *RELEASES))
    rows = {
        "Old": {"old": (Run(old.releases[0], old.releases[1], 2),)},
        "Long": {
            "old": (Run(old.releases[0], old.releases[-1], 7),),
            "eng": (Run(RELEASES[4], RELEASES[4], 1),),
        },
    }
    page = matrix_page((Matrix("architectures", (old, COLUMN), rows, {}),))
    bars = [tuple(map(float, found)) for found in re.findall(r"left:([\d.]+)%;width:([\d.]+)%", page)]
    assert bars == [(0.0, 0.0), (0.0, 100.0), (99.0, 0.0)]
    assert "2026-01 to 2026-05" in page
