"""Requests that end: bounded in size, in time and in number, counted, and never to be believed.

The status is read before the body, so a server that ignores a range costs a header and not the whole file.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlencode, urljoin, urlsplit

from canserve import __version__
from canserve.facts import Cause
from canserve.trees.cache import write_all
from canserve.trees.fanout import WIDTH
from canserve.trees.secret import Secret, shown
from canserve.trees.tree import Cost
from canserve.trees.web.answers import (
    AgainError,
    RangesRefusedError,
    WebError,
    advice,
    content_range,
    expect,
    reason,
    retry_after,
    status_line,
    unpacked,
)
from canserve.trees.web.settings import Settings

if TYPE_CHECKING:
    import httpx

__all__ = ["Page", "Range", "RangesRefusedError", "Web", "WebError"]

R = TypeVar("R")

MAX_HOPS = 5
SLOWEST = 64_000
"""Bytes a second: what is promised to take longer than this is not waited for."""
_AGAIN = frozenset({408, 429, 500, 502, 503, 504})
_MOVED = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class Page:
    """A small document. ``body`` is None when it has not changed."""

    body: bytes | None
    kind: str
    """Its media type, in lower case, without parameters."""
    etag: str | None
    url: str
    """Where it came from in the end: what is relative in it is relative to this."""
    link: str = ""
    """Its ``Link`` header (RFC 8288), which says where a list goes on."""


@dataclass(frozen=True, slots=True)
class Range:
    """Some bytes of a file, and how many it has altogether."""

    data: bytes
    total: int
    url: str


class Web:
    """One user's way to the network. Safe to share between threads."""

    def __init__(
        self,
        settings: Settings | None = None,
        offline: bool = False,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.settings = settings or Settings()
        self.offline = offline
        self._pause = pause
        self._lock = threading.Lock()
        self._clients_lock = threading.Lock()
        self._clients: dict[tuple[bool, str | None, str | None], httpx.Client] = {}
        self._cost = Cost()
        self._authorized: dict[str, Secret] = {}
        self._renewals: dict[str, Callable[[str], None]] = {}

    def authorize(self, prefix: str, header: Secret) -> None:
        """Send this ``Authorization`` with every request to an address that begins so, and to no other."""
        with self._lock:
            self._authorized[prefix] = header

    def renews(self, prefix: str, renew: Callable[[str], None]) -> None:
        """Call this with the challenge when an address that begins so wants a login, and ask once more."""
        with self._lock:
            self._renewals[prefix] = renew

    def trust(self, host: str, authority: str | None, blindly: bool) -> None:
        """Take a host at the word of an authority of its own, or ``blindly``: unproven, even unencrypted."""
        with self._lock:
            self.settings = self.settings.trusting(host, authority, blindly)

    def apart(self) -> Web:
        """The same connections with a count of its own."""
        web = Web(self.settings, self.offline, self._pause)
        web._clients, web._clients_lock = self._clients, self._clients_lock
        return web

    @property
    def cost(self) -> Cost:
        """What all requests so far have taken."""
        return self._cost

    def count(self, cost: Cost) -> None:
        """Add to the cost."""
        with self._lock:
            self._cost += cost

    def page(self, url: str, accept: str, limit: int, etag: str | None = None) -> Page:
        """A document of at most ``limit`` bytes. Raises WebError."""
        headers = {"Accept": accept, "Accept-Encoding": "gzip"}
        if etag:
            headers["If-None-Match"] = etag

        def use(response: httpx.Response) -> Page:
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            place, tag = str(response.url), response.headers.get("etag")
            if response.status_code == 304 and etag:
                return Page(None, kind, etag, place)
            expect(response, 200)
            packed = response.headers.get("content-encoding", "identity").lower()
            link = response.headers.get("link", "")[:4000]
            return Page(unpacked(self._chunks(response), packed, limit, url), kind, tag, place, link)

        return self._ask(url, headers, self.settings.patience, use)

    def form(self, url: str, fields: Mapping[str, Secret], limit: int) -> bytes:
        """The answer to a form of at most ``limit`` bytes; it is sent nowhere else. Raises WebError."""
        told = urlencode({name: value.reveal() for name, value in fields.items()}).encode()
        headers = {"Accept": "application/json", "Accept-Encoding": "identity",
                   "Content-Type": "application/x-www-form-urlencoded"}  # fmt: skip

        def use(response: httpx.Response) -> bytes:
            expect(response, 200)
            return unpacked(self._chunks(response), "", limit, url)

        return self._ask(url, headers, self.settings.patience, use, told)

    def span(self, url: str, start: int, end: int) -> Range:
        """The bytes from ``start`` to before ``end``. Raises WebError, RangesRefusedError."""
        return self._ranged(url, f"{start}-{end - 1}", start, end - start)

    def tail(self, url: str, count: int) -> Range:
        """The last ``count`` bytes, or all there are. Raises WebError, RangesRefusedError."""
        try:
            return self._ranged(url, f"-{count}", None, count)
        except (RangesRefusedError, WebError) as error:
            if isinstance(error, WebError) and error.status not in {416, 501}:
                raise
        total = self._ranged(url, "0-0", 0, 1).total  # some stores know ranges, but none from the end
        return self.span(url, max(0, total - count), total)

    def download(self, url: str, handle: int, limit: int) -> tuple[str, int]:
        """Write the whole file to ``handle``; its SHA-256 and size. Raises WebError, OSError."""
        begun = time.monotonic()

        def use(response: httpx.Response) -> tuple[str, int]:
            expect(response, 200)
            os.lseek(handle, 0, os.SEEK_SET)
            os.truncate(handle, 0)
            digest, size = hashlib.sha256(), 0
            for chunk in self._chunks(response):
                size += len(chunk)
                if size > limit:
                    raise WebError(Cause.UNREADABLE, f"{shown(url)} sends more than {limit} bytes")
                if time.monotonic() - begun > self.settings.patience + size / SLOWEST:
                    raise AgainError(f"only {size} bytes came in {time.monotonic() - begun:.0f} s")
                digest.update(chunk)
                write_all(handle, chunk)
            return digest.hexdigest(), size

        got = self._ask(url, {"Accept-Encoding": "identity"}, self.settings.patience + limit / SLOWEST, use)
        self.count(Cost(whole_downloads=1))
        return got

    def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            client.close()

    def _ranged(self, url: str, spec: str, start: int | None, count: int) -> Range:
        headers = {"Range": f"bytes={spec}", "Accept-Encoding": "identity"}

        def use(response: httpx.Response) -> Range:
            if response.status_code == 200:
                return self._all_of_it(response, start, count)
            expect(response, 206)
            first, last, total = content_range(response.headers.get("content-range", ""))
            wanted = min(count, total) if start is None else min(count, total - start)
            if first != (total - wanted if start is None else start) or last - first + 1 != wanted:
                raise RangesRefusedError(f"asked for bytes {spec}, answered with {first}-{last} of {total}")
            return Range(self._exactly(response, wanted), total, str(response.url))

        return self._ask(url, headers, self.settings.patience + count / SLOWEST, use)

    def _all_of_it(self, response: httpx.Response, start: int | None, count: int) -> Range:
        """A whole file instead of a range is welcome only where it is no larger than the range."""
        declared = response.headers.get("content-length", "")
        if not declared.isdecimal() or int(declared) > count or start:
            raise RangesRefusedError("asked for a range, answered with the whole file")
        return Range(self._exactly(response, int(declared)), int(declared), str(response.url))

    def _exactly(self, response: httpx.Response, wanted: int) -> bytes:
        got: list[bytes] = []
        size = 0
        for chunk in self._chunks(response):
            got.append(chunk)
            size += len(chunk)
            if size > wanted:
                raise RangesRefusedError(f"answered with more than the {wanted} bytes it announced")
        if size < wanted:
            raise AgainError(f"the answer ended after {size} of {wanted} bytes")
        return b"".join(got)

    def _chunks(self, response: httpx.Response) -> Iterator[bytes]:
        for chunk in response.iter_raw():  # as they come: a chunk size would wait until it is full
            self.count(Cost(bytes=len(chunk)))
            yield chunk

    def _ask(
        self,
        url: str,
        headers: Mapping[str, str],
        seconds: float,
        use: Callable[[httpx.Response], R],
        content: bytes | None = None,
    ) -> R:
        """Ask until it is answered, it is refused for good, or the time is over."""
        if self.offline:
            raise WebError(Cause.UNREACHED, f"offline: {shown(url)} was not asked", ask="run it once online")
        import httpcore
        import httpx

        from canserve.trees.web.wire import left, within

        trouble, tried = AgainError("no attempt was made"), 0
        with within(seconds):
            while tried <= self.settings.retries:
                if tried:
                    pause = 2.0 ** (tried - 2) if trouble.after is None else trouble.after
                    if pause >= left():
                        break
                    self._pause(pause)
                tried += 1
                try:
                    return self._answered(url, headers, content, use)
                except AgainError as error:
                    trouble = error
                except httpcore.UnsupportedProtocol as error:
                    raise WebError(Cause.UNREACHED, f"{shown(url)}: {error}") from None
                except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError,
                        httpcore.ProxyError) as error:  # fmt: skip
                    trouble = AgainError(reason(error))
                    if "CERTIFICATE_VERIFY_FAILED" in str(error):
                        break
                except (httpx.HTTPError, httpx.InvalidURL, UnicodeError, ValueError) as error:
                    raise WebError(Cause.UNREACHED, f"{shown(url)}: {error}") from None
        cause = Cause.UNAVAILABLE if trouble.status else Cause.UNREACHED
        why = f"{shown(url)}: {trouble}" + (f" (after {tried} attempts)" if tried > 1 else "")
        why += "" if trouble.after is None else f"; it asks to wait {trouble.after:.0f} s"
        raise WebError(cause, why, trouble.status, advice(str(trouble)))

    def _answered(
        self, url: str, headers: Mapping[str, str], content: bytes | None, use: Callable[[httpx.Response], R]
    ) -> R:
        """Ask once; and once more with a new login, where who was asked himself wants one."""
        try:
            return self._once(url, headers, content, use)
        except WebError as error:
            renewals = self._renewals.items()
            renew = next((each for prefix, each in renewals if error.place.startswith(prefix)), None)
            if renew is None or error.challenge is None:
                raise
            renew(error.challenge)
        return self._once(url, headers, content, use)

    def _once(
        self, url: str, headers: Mapping[str, str], content: bytes | None, use: Callable[[httpx.Response], R]
    ) -> R:
        with self._sent(url, headers, content) as response:
            if response.status_code in _AGAIN:
                raise AgainError(status_line(response), response.status_code, retry_after(response))
            return use(response)

    @contextlib.contextmanager
    def _sent(self, url: str, headers: Mapping[str, str], content: bytes | None) -> Iterator[httpx.Response]:
        """The answer, its body not yet read; redirects are followed, each within the same rules."""
        method = "GET" if content is None else "POST"
        for _ in range(MAX_HOPS + 1):
            if not self.settings.secure(url):
                ask = "use https, or name the host in PIP_TRUSTED_HOST"
                raise WebError(Cause.UNREACHED, f"{shown(url)} is not encrypted, and not trusted", ask=ask)
            login = self.settings.login(url)
            auth = (login[0].reveal(), login[1].reveal()) if login else None
            token = next((each for prefix, each in self._authorized.items() if url.startswith(prefix)), None)
            sending = {**headers, "Authorization": token.reveal()} if token else dict(headers)
            auth = None if token else auth
            self.count(Cost(requests=1))
            client = self._client(url)
            with client.stream(method, url, headers=sending, auth=auth, content=content) as response:
                moved = response.status_code in _MOVED and "location" in response.headers
                if not moved or content is not None:
                    yield response
                    return
                url = urljoin(url, response.headers["location"])
        raise WebError(Cause.UNREADABLE, f"{shown(url)}: more than {MAX_HOPS} redirects")

    def _client(self, url: str) -> httpx.Client:
        import httpx

        from canserve.trees.web.wire import Wire

        key = (not self.settings.trusts(url), self._proxy(url), self.settings.authority(url))
        with self._clients_lock:
            if key not in self._clients:
                try:
                    context = self.settings.context(key[0], key[2])
                except OSError as error:  # ssl.SSLError is one
                    why = f"the configured certificates cannot be used: {error}"
                    ask = "set PIP_CERT to a readable PEM file"
                    raise WebError(Cause.UNAVAILABLE, why, ask=ask) from None
                self._clients[key] = httpx.Client(
                    transport=Wire(context, key[1], WIDTH),
                    timeout=self.settings.timeout,
                    trust_env=False,
                    headers={"User-Agent": f"canserve/{__version__}"},
                )
            return self._clients[key]

    def _proxy(self, url: str) -> str | None:
        if self.settings.proxy is not None:
            return self.settings.proxy.reveal() or None
        import urllib.request

        parts = urlsplit(url)
        if parts.hostname is None or urllib.request.proxy_bypass(parts.hostname):
            return None
        proxies = urllib.request.getproxies()
        proxy = proxies.get(parts.scheme) or proxies.get("all")
        return proxy if proxy is None or "://" in proxy else f"http://{proxy}"
