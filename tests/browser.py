"""Headless Chromium of the system, and pages that neither ask for nor complain of anything."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

PHONE: ViewportSize = {"width": 390, "height": 844}
DESKTOP: ViewportSize = {"width": 1440, "height": 900}
LOOKS: tuple[Literal["light"], Literal["dark"]] = ("light", "dark")
SERIOUS = {"serious", "critical"}


def installed() -> str | None:
    """The system's own; `./dev test` installs it where it may."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def chromium() -> Iterator[Browser]:
    """The browser, for a fixture."""
    found = installed()
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("no Chromium: it must be there in continuous integration")
        pytest.skip("no Chromium on this machine")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield launched
        launched.close()


@contextmanager
def opened(
    browser: Browser, path: Path, size: ViewportSize, scheme: Literal["light", "dark"] = "light"
) -> Iterator[Page]:
    """The file in a window; what it asks for or complains of fails the test."""
    context = browser.new_context(viewport=size, color_scheme=scheme)
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on(
        "request", lambda one: said.append(one.url) if not one.url.startswith(("file:", "data:")) else None
    )
    page.goto(path.as_uri())
    yield page
    context.close()
    assert said == []


def looked_over(path: Path) -> list[str]:
    """What is wrong with a page on a phone and on a desk, light and dark; empty where there is no browser, too."""
    if installed() is None and not os.environ.get("CI"):
        return []
    wrong = []
    for browser in chromium():
        for size in (PHONE, DESKTOP):
            for scheme in LOOKS:
                with opened(browser, path, size, scheme) as page:
                    wrong += violations(page)
                    if not page.evaluate("document.documentElement.scrollWidth <= innerWidth"):
                        wrong.append(f"wider than {size['width']} pixels")
    return wrong


def unfold(page: Page) -> None:
    """Opens everything that is folded."""
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")


def violations(page: Page) -> list[str]:
    """What axe-core finds serious, folded and unfolded, a line each.

    It is a script of the test, which the page's own policy forbids.
    """
    client = page.context.new_cdp_session(page)
    client.send("Page.enable")
    client.send("Page.setBypassCSP", {"enabled": True})
    page.reload()
    folded = _serious(Axe().run(page).response)
    unfold(page)  # axe does not look into what is folded
    return [*folded, *_serious(Axe().run(page).response)]


def _serious(found: dict[str, Any]) -> list[str]:
    return [
        f"{rule['id']} ({rule['impact']}): {node['html'][:200]}"
        for rule in found["violations"]
        if rule["impact"] in SERIOUS
        for node in rule["nodes"]
    ]
