"""The matrix page in a real browser: what a person sees, types and hears, and what a hostile name cannot do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from browser import DESKTOP, PHONE, chromium, opened, violations
from canserve.index.matrix import Matrix
from canserve.index.runs import Column, Release, Run
from canserve.render.matrix_page import matrix_page

ATTACKS = (
    "<img src=x onerror='window.owned=1'>",
    '"><script>window.owned=1</script>',
    "</script><script>window.owned=1</script>",
    "javascript:window.owned=1//",
    "evil\u202ename\x1b[2J\x00",
)

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    yield from chromium()


def column(engine: str, count: int = 6) -> Column:
    releases = tuple(Release(f"1.{at}", f"2026-{at + 1:02}-01") for at in range(count))
    return Column(engine, "2026-11-30", releases)


COLUMNS = (column("alpha"), column("beta"), column("gamma-serving"))


def run(first: int, last: int, where: Column = COLUMNS[0]) -> Run:
    return Run(where.releases[first], where.releases[last], last - first + 1)


ROWS: dict[str, dict[str, tuple[Run, ...]]] = {
    "BigForConditionalGeneration": {"alpha": (run(1, 5),), "beta": (run(2, 5),)},
    "ComeAndGoForCausalLM": {"alpha": (run(0, 1), run(3, 5))},
    "GoneForCausalLM": {"alpha": (run(0, 2),), "gamma-serving": (run(0, 5),)},
    **{f"Filler{number}ForCausalLM": {"beta": (run(number % 6, 5),)} for number in range(60)},
    **{name: {"alpha": (run(0, 5),)} for name in ATTACKS},
}
METHODS: dict[str, dict[str, tuple[Run, ...]]] = {
    "fp8": {"alpha": (run(0, 5),)},
    "awq": {"alpha": (run(0, 3),), "beta": (run(0, 5),)},
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    tables = (
        Matrix("architectures", COLUMNS, ROWS, {"beta": (run(0, 0),)}),
        Matrix("quantization", COLUMNS, METHODS, {}, ("other",), {"fp8": {"alpha": {"8.9": (run(0, 5),)}}}),
    )
    path = tmp_path_factory.mktemp("page") / "matrix.html"
    path.write_text(matrix_page(tables), encoding="utf-8")
    return path.as_uri()


@pytest.fixture(params=[PHONE, DESKTOP], ids=["phone", "desktop"])
def page(browser: Browser, address: str, request: pytest.FixtureRequest) -> Iterator[Page]:
    """The page in a window of either size; whatever it asks for or complains of fails the test."""
    with opened(browser, Path(address.removeprefix("file://")), request.param) as page:
        yield page


def settle(page: Page) -> None:
    """The page works through what was typed before it draws again."""
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def shown(page: Page, section: int = 0) -> list[str]:
    settle(page)
    rows = page.locator("section").nth(section).locator("tbody tr:visible th")
    return rows.all_inner_texts()


def count(page: Page) -> str:
    settle(page)
    return page.get_by_role("status").inner_text()


def search(page: Page, text: str) -> None:
    page.get_by_role("searchbox").fill(text)


def test_nothing_is_wider_than_the_window(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    size = page.viewport_size
    assert size is not None
    for box in page.evaluate(
        "[...document.querySelectorAll('th, td, input, select')].map(e => e.getBoundingClientRect().right)"
    ):
        assert box <= size["width"]


def test_search_finds_names_in_both_tables(page: Page) -> None:
    assert count(page) == f"{len(ROWS)} architectures, {len(METHODS)} quantization methods"
    search(page, "big generation")
    assert shown(page) == ["BigForConditionalGeneration"]
    assert shown(page, 1) == []
    assert count(page) == f"1 of {len(ROWS)} architectures, 0 of 2 quantization methods"
    assert page.get_by_text("No quantization methods fit").is_visible()
    search(page, "FP8")
    assert shown(page, 1) == ["fp8"]
    search(page, "")
    assert len(shown(page)) == len(ROWS)


def test_filters_by_engine_and_by_time(page: Page) -> None:
    page.get_by_label("alpha").check()
    page.get_by_label("beta").check()
    assert shown(page) == ["BigForConditionalGeneration"]
    page.get_by_label("beta").uncheck()
    page.get_by_label("Which releases").select_option(label="no longer")
    assert shown(page) == ["GoneForCausalLM"]
    page.get_by_label("Which releases").select_option(label="in the newest release")
    assert "ComeAndGoForCausalLM" in shown(page)
    assert "GoneForCausalLM" not in shown(page)


def test_newest_first(page: Page) -> None:
    page.get_by_label("Order").select_option(label="newest first")
    assert shown(page)[0] == "Filler5ForCausalLM"
    page.get_by_label("Order").select_option(label="by name")
    assert shown(page)[0] == "BigForConditionalGeneration"


def test_the_address_keeps_what_was_chosen(page: Page, address: str) -> None:
    search(page, "come")
    page.get_by_label("alpha").check()
    settle(page)
    kept = page.url
    page.goto("about:blank")
    page.goto(kept)
    assert shown(page) == ["ComeAndGoForCausalLM"]
    assert page.get_by_label("alpha").is_checked()
    page.goto("about:blank")
    page.goto(f"{address}#q=gone&listed=%3Cscript%3E&engine=99")
    assert shown(page) == ["GoneForCausalLM"]


def test_a_keyboard_is_enough(page: Page) -> None:
    page.keyboard.press("/")
    page.keyboard.type("gone")
    assert shown(page) == ["GoneForCausalLM"]
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")  # the second engine, which never listed it
    assert shown(page) == []
    assert page.evaluate("document.activeElement.name") == "engine"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"


def test_a_screen_reader_hears_a_table(page: Page) -> None:
    search(page, "come")
    table = page.get_by_role("region", name="Architectures").get_by_role("table")
    assert table.get_by_role("columnheader").count() == 4
    row = table.get_by_role("row", name="ComeAndGoForCausalLM")
    assert row.get_by_role("rowheader").inner_text() == "ComeAndGoForCausalLM"
    assert row.get_by_role("cell").first.inner_text().split("\n")[0] == "1.0 to 1.1, since 1.3"
    for role in ("searchbox", "combobox", "checkbox"):
        for field in page.get_by_role(role).all():
            name = field.evaluate("e => [...e.labels].map(l => l.textContent).join('')")
            assert name.strip(), role


def test_hostile_names_stay_names(page: Page) -> None:
    search(page, "owned")
    assert len(shown(page)) == 4
    assert ATTACKS[0] in shown(page)
    assert page.evaluate("window.owned") is None
    assert page.locator("tbody img, tbody script").count() == 0
    search(page, "evil")
    assert shown(page) == ["evil\\u202ename\\x1b[2J\\x00"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_in_light_and_dark(browser: Browser, address: str, scheme: str) -> None:
    context = browser.new_context(viewport=DESKTOP, color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(address)
    grounds = {"light": (250, 18), "dark": (18, 250)}
    lightness = sum(rgb(page, "body", "backgroundColor")) / 3
    assert abs(lightness - grounds[scheme][0]) < 20
    for selector, ground in (("tbody th", "table"), ("td small", "table"), (".x span", "table"), ("header p", "body"),
                             ("#count", "body"), ("footer p", "body"), ("thead small", "table")):  # fmt: skip
        ratio = contrast(rgb(page, selector, "color"), rgb(page, ground, "backgroundColor"))
        assert ratio >= 4.5, f"{selector} in {scheme}: {ratio:.1f}"
    context.close()


def rgb(page: Page, selector: str, style: str) -> tuple[float, ...]:
    text = page.locator(selector).first.evaluate(f"e => getComputedStyle(e).{style}")
    return tuple(float(part) for part in text[text.index("(") + 1 : -1].split(",")[:3])


def contrast(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio."""

    def luminance(colour: tuple[float, ...]) -> float:
        parts = [c / 255 for c in colour]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(browser: Browser, address: str, scheme: str) -> None:
    for size in (PHONE, DESKTOP):
        with opened(
            browser, Path(address.removeprefix("file://")), size, "dark" if scheme == "dark" else "light"
        ) as page:
            assert violations(page) == []


def test_without_scripts_the_table_is_there(browser: Browser, address: str) -> None:
    context = browser.new_context(viewport=PHONE, java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    assert page.get_by_text("BigForConditionalGeneration").is_visible()
    assert not page.get_by_role("searchbox").is_visible()
    context.close()


def test_it_is_one_file(address: str) -> None:
    text = Path(address.removeprefix("file://")).read_text(encoding="utf-8")
    for sign in ("http:", "https:", "src=", "@import", "url("):
        assert sign not in text.replace("src=x onerror", ""), sign
