"""The page of a verification: whole, harmless, with its plots."""

from __future__ import annotations

from html.parser import HTMLParser

from canserve.api.verifying import VerifyReport, judged
from canserve.facts import Evidence, Known
from canserve.render.plot import Point, _ceiling, plot
from canserve.render.verify_page import verify_page
from canserve.subjects.served import Answer, Page, Served, Speeds, Step

LOOK = (Evidence("here", "POST <b>", 'saw "quotes" & </td>'),)
EVIL = '<script>alert(1)</script>" onload="x'


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.opened.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs)


def answer(pace: float) -> Answer:
    times = tuple(0.1 + pace * n for n in range(5))
    return Answer(EVIL, "stop", times[-1], completion_tokens=5, arrivals=times, streamed=True)


def page() -> str:
    return verify_page(report())


def report() -> VerifyReport:
    steps = tuple(Step(width, 1.0, (answer(0.01 * width),) * width) for width in (1, 2, 4))
    served = Served(
        f"http://x/{EVIL}",
        EVIL,
        page=Known(Page(200, "application/json", EVIL), LOOK),
        first=Known(answer(0.1), LOOK),
        speeds=Known(Speeds(alone=(answer(0.1),), ramp=steps, ended=EVIL), LOOK),
    )
    return judged(served)


def test_a_page_is_whole_and_runs_nothing() -> None:
    text = page()
    tags = Tags()
    tags.feed(text)
    assert "script" not in tags.opened
    assert tags.opened.count("svg") == 3
    assert "alert(1)" in text
    assert "&lt;script&gt;" in text
    assert "default-src 'none'" in text
    assert text.rstrip().endswith("</html>")


def test_plots_stay_inside_and_need_two_points() -> None:
    assert plot("x", "ms", [Point("1", 1, 1, 1)]) == ""
    text = plot("x", "ms", [Point("1", 0, 0, 0), Point("2", 1e9, 0, 2e9), Point("3", 5, 1, 9)])
    assert "nan" not in text
    assert "inf" not in text
    assert plot("x", "ms", [Point("1", 0, 0, 0)] * 2)


def test_axes_end_at_round_numbers() -> None:
    assert [_ceiling(value) for value in (0, 1, 1.1, 26, 51, 999, 0.03)] == [1, 1, 2, 50, 100, 1000, 0.05]
