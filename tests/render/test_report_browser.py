"""The pages of a check, a plan, a run and a verification in a real browser: what is seen, heard, and cannot happen."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import other_reports
import plan_reports
import pytest
import reports
import run_stories
from playwright.sync_api import Browser, ViewportSize
from test_verify_page import page as verify_page

from browser import DESKTOP, PHONE, chromium, opened, unfold, violations
from canserve.render.html.candidates import candidates_page
from canserve.render.html.check import check_page
from canserve.render.html.diagnosis import diagnosis_page
from canserve.render.html.plan import plans_page
from canserve.render.html.run import runs_page, standing

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
SIZES = {"phone": PHONE, "desktop": DESKTOP}
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u202e\u200b]")


def pages() -> dict[str, str]:
    evil, kept = run_stories.hostile()
    every = reports.report(
        reports.no_report(), reports.yes_report(needs=("transformers>=5",)), reports.unknown_report(),
        reports.unread_report(), reports.hostile_report(),
    )  # fmt: skip
    return {
        "check": check_page(every),
        "check-yes": check_page(reports.report(reports.yes_report())),
        "plan": plans_page(plan_reports.report()),
        "plan-hostile": plans_page(plan_reports.hostile()),
        "run": runs_page([run_stories.found()], {run_stories.RUN: run_stories.story()}),
        "run-hostile": runs_page([evil], {evil.run: kept}),
        "run-none": runs_page([], {}),
        "verify": verify_page(),
        "candidates": candidates_page(other_reports.candidates()),
        "candidates-hostile": candidates_page(other_reports.hostile_candidates()),
        "diagnosis": diagnosis_page(other_reports.stalled()),
        "diagnosis-hostile": diagnosis_page(other_reports.hostile_diagnosis()),
    }


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    yield from chromium()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = Path(os.environ.get("CANSERVE_PAGES") or tmp_path_factory.mktemp("pages"))
    out = {}
    for name, text in pages().items():
        out[name] = folder / f"{name}.html"
        out[name].write_text(text, encoding="utf-8", errors="strict")
    return out


NAMES = sorted(pages())
ALIKE = ("candidates-hostile", "diagnosis-hostile")
"""Pages with the elements of another one: what assistive programs get of them is the same."""


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_wider_than_the_window(
    browser: Browser, files: dict[str, Path], name: str, size: str
) -> None:
    viewport: ViewportSize = SIZES[size]
    with opened(browser, files[name], viewport) as page:
        unfold(page)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        wide = page.evaluate(
            """() => [...document.querySelectorAll('main *')].filter(e => !e.closest('pre, .vh, svg, thead'))
               .filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 90))"""
        )
        assert wide == []
        if os.environ.get("CANSERVE_PAGES"):
            page.reload()
            page.screenshot(path=str(files[name].with_suffix(f".{size}.png")), full_page=True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", [name for name in NAMES if name not in ALIKE])
def test_axe_finds_nothing_serious(browser: Browser, files: dict[str, Path], name: str, scheme: str) -> None:
    for size in SIZES.values():
        with opened(browser, files[name], size, "dark" if scheme == "dark" else "light") as page:
            assert violations(page) == []


@pytest.mark.parametrize("name", ["check", "plan", "run", "verify"])
def test_the_verdict_stands_first(browser: Browser, files: dict[str, Path], name: str) -> None:
    with opened(browser, files[name], PHONE) as page:
        first = page.locator("header.top .word").first
        assert first.inner_text().split()[-1] in ("yes", "no", "unknown")
        box = first.bounding_box()
        assert box is not None
        assert box["y"] < 200
        assert page.get_by_role("heading", level=1).count() == 1


def test_a_check_says_why_and_keeps_its_evidence_folded(browser: Browser, files: dict[str, Path]) -> None:
    with opened(browser, files["check"], DESKTOP) as page:
        rows = page.get_by_role("table").first.get_by_role("row")
        assert rows.count() == 6
        card = page.get_by_role("region", name="no vllm==0.14.0")
        assert card.get_by_text("fix:").first.is_visible()
        look = card.get_by_text("evidence:").first
        looks = card.locator(".looks").first
        assert not looks.is_visible()
        look.focus()
        page.keyboard.press("Enter")
        assert looks.is_visible()


def test_candidates_say_what_would_travel(browser: Browser, files: dict[str, Path]) -> None:
    with opened(browser, files["candidates"], PHONE) as page:
        rows = page.get_by_role("table").first.get_by_role("row").all()[1:]
        assert [row.inner_text().split()[1] for row in rows] == ["yes", "unknown", "no", "unknown"]
        assert "on head; to second: 19.8 GB (14 of 31 layers are there)" in rows[0].inner_text()
        assert page.get_by_text("second: docker gave no list").is_visible()
        assert not page.get_by_text("docker-daemon:busybox@head").is_visible(), "folded"
    none = candidates_page(other_reports.no_candidates())
    assert "no candidate was found" in none and "<table" not in none


def test_a_diagnosis_shows_the_line_that_tells(browser: Browser, files: dict[str, Path]) -> None:
    with opened(browser, files["diagnosis"], PHONE) as page:
        assert page.locator("header.top .word").first.inner_text().split()[-1] == "stalled"
        assert page.get_by_text("CustomAllreduce is disabled because").is_visible()
        assert page.get_by_role("table").get_by_role("row").count() == 3
        follows = page.get_by_text("Watchdog caught collective")
        assert not follows.is_visible()
        page.get_by_text("1 line only a consequence").click()
        assert follows.is_visible()
    assert "unknown: an engine that is not known" in diagnosis_page(other_reports.nothing_told())


def test_memory_is_said_in_words(browser: Browser, files: dict[str, Path]) -> None:
    with opened(browser, files["plan"], PHONE) as page:
        bar = page.get_by_role("img").first
        label = bar.get_attribute("aria-label") or ""
        assert "weights 57.8 (57.2 to 58.4) GiB" in label
        assert "left" in label
        width = page.locator(".memory i.w").first.bounding_box()
        whole = page.locator(".memory").first.bounding_box()
        assert width is not None
        assert whole is not None
        assert abs(width["width"] / whole["width"] - 57.8 / 121.7) < 0.03
        assert page.locator(".key li").first.inner_text().startswith("weights 57.8")


def test_a_story_is_in_order_and_its_bars_are_where_they_belong(
    browser: Browser, files: dict[str, Path]
) -> None:
    with opened(browser, files["run"], DESKTOP) as page:
        rows = page.get_by_role("table").last.get_by_role("row").all()[1:]
        texts = [" ".join(row.inner_text().split()) for row in rows]
        assert texts[0].startswith("+0.0 s refused")
        assert "exit 1" in next(text for text in texts if "listens (up) command ✕ failed" in text)
        (listens,) = (n for n, text in enumerate(texts) if "5 min 7 s" in text)
        (loading,) = (
            n for n, text in enumerate(texts) if text.startswith("+2 min 15 s rank 0 on spark-1 weights")
        )
        assert texts[loading].endswith("3 min 0 s")
        assert "exit 255" in texts[-2]
        assert "nobody knows whether it ended" in texts[-1]
        places = []
        for row in rows:
            track, bar = row.locator(".track").bounding_box(), row.locator(".track u").bounding_box()
            assert track is not None
            assert bar is not None
            assert track["x"] - 1 <= bar["x"]
            assert bar["x"] + bar["width"] <= track["x"] + track["width"] + 5
            places.append(((bar["x"] - track["x"]) / track["width"], bar["width"] / track["width"]))
        whole = 314 + 95
        assert abs(places[listens][0] - 99.5 / whole) < 0.01
        assert abs(places[listens][1] - 307.5 / whole) < 0.02
        assert [left for left, _ in places] == sorted(left for left, _ in places)


def test_what_was_taken_away_on_purpose_is_no_failure() -> None:
    one = run_stories.found()
    assert one.entry is not None
    gone = replace(one, entry=replace(one.entry, state="down"), seen=())
    assert standing(gone) == ("skipped", "taken away")
    assert "taken away" in runs_page([gone], {})
    assert standing(replace(one, seen=())) == ("no", "gone")


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_one_file_that_runs_nothing(files: dict[str, Path], name: str) -> None:
    text = files[name].read_text("utf-8")
    tags = re.findall(r"<[^>]*>", text)  # what is not escaped
    for sign in ("src=", "@import", "url(", "<script", "stylesheet", " on", "javascript:"):
        assert not [tag for tag in tags if sign in re.sub(r'"[^"]*"', '""', tag)], sign
    assert "default-src 'none'" in text
    assert not CONTROL.search(text)
    assert text.isascii() or "\udc80" not in text
