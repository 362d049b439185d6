"""The links of an HTML index page, read with the standard library's parser and an eye on the clock."""

from __future__ import annotations

import time
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any
from urllib.parse import unquote, urlsplit

from canserve.trees.index.pages import MAX_FILES, Link, PageError

MAX_SECONDS = 10.0
_STEP = 64 << 10


def anchors(body: bytes) -> tuple[str | None, str | None, list[Link]]:
    """Version of the format, base address and links, as they stand there. Raises PageError."""
    parser = _Anchors()
    text, stop = body.decode("utf-8", "replace"), time.monotonic() + MAX_SECONDS
    for start in range(0, len(text), _STEP):
        parser.feed(text[start : start + _STEP])
        # The parser looks again and again at what is not closed: such a page would take hours.
        if len(parser.rawdata) > 4 * _STEP or time.monotonic() > stop:
            raise PageError("HTML that does not end")
    return parser.api, parser.base, parser.links


class _Anchors(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.links: list[Link] = []
        self.base: str | None = None
        self.api: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values: dict[str, Any] = dict(attrs)
        if tag == "base" and self.base is None:
            self.base = values.get("href")
        elif tag == "meta" and values.get("name") == "pypi:repository-version":
            self.api = values.get("content")
        elif tag == "a" and values.get("href") and len(self.links) <= MAX_FILES:
            self.links.append(_anchor(values))


def _anchor(values: Mapping[str, Any]) -> Link:
    href = str(values["href"])
    yanked = (values["data-yanked"] or "") if "data-yanked" in values else False
    stated = values.get("data-core-metadata", values.get("data-dist-info-metadata")) or ""
    metadata = {"sha256": stated.removeprefix("sha256=")} if stated.startswith("sha256=") else False
    name = unquote(urlsplit(href).path.rpartition("/")[2])
    return Link(name, href, {}, None, values.get("data-requires-python"), yanked, metadata)
