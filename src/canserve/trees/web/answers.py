"""What servers answer: the parts of a response that are believed, and errors that say which may pass."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from canserve.facts import Cause
from canserve.trees.names import printable
from canserve.trees.secret import shown

if TYPE_CHECKING:
    import httpx


class WebError(Exception):
    """A request that did not give what was asked for."""

    challenge: str | None = None
    """Of a 401: which login the server wants (``WWW-Authenticate``)."""
    place: str = ""
    """The address that answered so, which a redirect may have led to."""

    def __init__(self, cause: Cause, why: str, status: int | None = None, ask: str | None = None) -> None:
        super().__init__(why)
        self.cause = cause
        self.why = printable(why, 400)
        self.status = status
        self.ask = ask


class RangesRefusedError(Exception):
    """The server answers, but not with the bytes that were asked for."""


class AgainError(Exception):
    """A failure that may pass."""

    def __init__(self, why: str, status: int | None = None, after: float | None = None) -> None:
        super().__init__(why)
        self.status = status
        self.after = after


def expect(response: httpx.Response, wanted: int) -> None:
    """Raises WebError for any other status."""
    got = response.status_code
    if got != wanted:
        ask = None
        if got in {401, 403, 407}:
            ask = "put the login into pip's configuration (index-url or netrc)"
        error = WebError(Cause.UNAVAILABLE, f"{shown(str(response.url))}: {status_line(response)}", got, ask)
        error.place = str(response.url)
        challenge = response.headers.get("www-authenticate", "")[:2000]
        error.challenge = challenge if got == 401 and challenge else None
        raise error


def status_line(response: httpx.Response) -> str:
    """In words."""
    return f"HTTP {response.status_code} {response.reason_phrase}".strip()


def retry_after(response: httpx.Response) -> float | None:
    """Seconds that the server asks to wait; None: it does not say."""
    text = response.headers.get("retry-after", "")
    return float(text) if text.isdecimal() and len(text) < 7 else None


def content_range(text: str) -> tuple[int, int, int]:
    """First byte, last byte, and bytes in all. Raises RangesRefusedError."""
    match = re.fullmatch(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})", text.strip())
    if match is None:
        raise RangesRefusedError(f"answered with an unusable Content-Range: {printable(text, 60)!r}")
    return int(match[1]), int(match[2]), int(match[3])


def unpacked(chunks: Iterator[bytes], packed: str, limit: int, url: str) -> bytes:
    """A body of at most ``limit`` bytes. Raises WebError."""
    if packed not in {"identity", "", "gzip", "x-gzip"}:
        raise WebError(Cause.UNREADABLE, f"{shown(url)}: unknown content encoding {packed!r}")
    machine = zlib.decompressobj(31) if "gzip" in packed else None
    got = bytearray()
    for chunk in chunks:
        try:
            got += machine.decompress(chunk, limit + 1 - len(got)) if machine else chunk
        except zlib.error as error:
            raise WebError(Cause.UNREADABLE, f"{shown(url)}: {error}") from None
        if len(got) > limit:
            raise WebError(Cause.UNREADABLE, f"{shown(url)}: more than {limit} bytes")
    if machine and not machine.eof:
        raise AgainError("the answer ended early")
    return bytes(got)


def reason(error: Exception) -> str:
    """A library's error in words."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def advice(trouble: str) -> str | None:
    """What would help."""
    if "CERTIFICATE_VERIFY_FAILED" in trouble:
        return "name the certificate authority in PIP_CERT"
    return None
