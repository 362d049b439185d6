"""Requests that end: bounded in size, in time and in number, counted, and never to be believed.

The status is read before the body, so a server that ignores a range costs a header and not the whole file.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urljoin, urlsplit

from canserve import __version__
from canserve.facts import Cause
from canserve.trees.cache import write_all
from canserve.trees.fanout import WIDTH
from canserve.trees.names import printable
from canserve.trees.secret import Secret, shown
from canserve.trees.tree import Cost
from canserve.trees.web.settings import Settings

if TYPE_CHECKING:
    import httpx

R = TypeVar("R")

MAX_HOPS = 5
SLOWEST = 64_000
"""Bytes a second: what is promised to take longer than this is not waited for."""
_AGAIN = frozenset({408, 429, 500, 502, 503, 504})
_MOVED = frozenset({301, 302, 303, 307, 308})


class WebError(Exception):
    """A request that did not give what was asked for."""

    challenge: str | None = None
    """Of a 401: which login the server wants (``WWW-Authenticate``)."""

    def __init__(self, cause: Cause, why: str, status: int | None = None, ask: str | None = None) -> None:
        super().__init__(why)
        self.cause = cause
        self.why = printable(why, 400)
        self.status = status
        self.ask = ask


class RangesRefusedError(Exception):
    """The server answers, but not with the bytes that were asked for."""


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
        self._clients: dict[tuple[bool, str | None], httpx.Client] = {}
        self._cost = Cost()
        self._authorized: dict[str, Secret] = {}

    def authorize(self, prefix: str, header: Secret) -> None:
        """Send this ``Authorization`` with every request to an address that begins so, and to no other."""
        with self._lock:
            self._authorized[prefix] = header

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
            _expect(response, 200)
            packed = response.headers.get("content-encoding", "identity").lower()
            link = response.headers.get("link", "")[:4000]
            return Page(_unpacked(self._chunks(response), packed, limit, url), kind, tag, place, link)

        return self._ask(url, headers, self.settings.patience, use)

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
            _expect(response, 200)
            os.lseek(handle, 0, os.SEEK_SET)
            os.truncate(handle, 0)
            digest, size = hashlib.sha256(), 0
            for chunk in self._chunks(response):
                size += len(chunk)
                if size > limit:
                    raise WebError(Cause.UNREADABLE, f"{shown(url)} sends more than {limit} bytes")
                if time.monotonic() - begun > self.settings.patience + size / SLOWEST:
                    raise _AgainError(f"only {size} bytes came in {time.monotonic() - begun:.0f} s")
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
            _expect(response, 206)
            first, last, total = _content_range(response.headers.get("content-range", ""))
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
            raise _AgainError(f"the answer ended after {size} of {wanted} bytes")
        return b"".join(got)

    def _chunks(self, response: httpx.Response) -> Iterator[bytes]:
        for chunk in response.iter_raw():  # as they come: a chunk size would wait until it is full
            self.count(Cost(bytes=len(chunk)))
            yield chunk

    def _ask(
        self, url: str, headers: Mapping[str, str], seconds: float, use: Callable[[httpx.Response], R]
    ) -> R:
        """Ask until it is answered, it is refused for good, or the time is over."""
        if self.offline:
            raise WebError(Cause.UNREACHED, f"offline: {shown(url)} was not asked", ask="run it once online")
        import httpcore
        import httpx

        from canserve.trees.web.wire import left, within

        trouble, tried = _AgainError("no attempt was made"), 0
        with within(seconds):
            while tried <= self.settings.retries:
                if tried:
                    pause = 2.0 ** (tried - 2) if trouble.after is None else trouble.after
                    if pause >= left():
                        break
                    self._pause(pause)
                tried += 1
                try:
                    with self._sent(url, headers) as response:
                        if response.status_code in _AGAIN:
                            raise _AgainError(_status(response), response.status_code, _retry_after(response))
                        return use(response)
                except _AgainError as error:
                    trouble = error
                except httpcore.UnsupportedProtocol as error:
                    raise WebError(Cause.UNREACHED, f"{shown(url)}: {error}") from None
                except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError,
                        httpcore.ProxyError) as error:  # fmt: skip
                    trouble = _AgainError(_reason(error))
                    if "CERTIFICATE_VERIFY_FAILED" in str(error):
                        break
                except (httpx.HTTPError, httpx.InvalidURL, UnicodeError, ValueError) as error:
                    raise WebError(Cause.UNREACHED, f"{shown(url)}: {error}") from None
        cause = Cause.UNAVAILABLE if trouble.status else Cause.UNREACHED
        why = f"{shown(url)}: {trouble}" + (f" (after {tried} attempts)" if tried > 1 else "")
        raise WebError(cause, why, trouble.status, _advice(str(trouble)))

    @contextlib.contextmanager
    def _sent(self, url: str, headers: Mapping[str, str]) -> Iterator[httpx.Response]:
        """The answer, its body not yet read; redirects are followed, each within the same rules."""
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
            with self._client(url).stream("GET", url, headers=sending, auth=auth) as response:
                if response.status_code not in _MOVED or "location" not in response.headers:
                    yield response
                    return
                url = urljoin(url, response.headers["location"])
        raise WebError(Cause.UNREADABLE, f"{shown(url)}: more than {MAX_HOPS} redirects")

    def _client(self, url: str) -> httpx.Client:
        import httpx

        from canserve.trees.web.wire import Wire

        key = (not self.settings.trusts(url), self._proxy(url))
        with self._clients_lock:
            if key not in self._clients:
                try:
                    context = self.settings.context(verify=key[0])
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


class _AgainError(Exception):
    """A failure that may pass."""

    def __init__(self, why: str, status: int | None = None, after: float | None = None) -> None:
        super().__init__(why)
        self.status = status
        self.after = after


def _expect(response: httpx.Response, status: int) -> None:
    got = response.status_code
    if got != status:
        ask = None
        if got in {401, 403, 407}:
            ask = "put the login into pip's configuration (index-url or netrc)"
        error = WebError(Cause.UNAVAILABLE, f"{shown(str(response.url))}: {_status(response)}", got, ask)
        error.challenge = response.headers.get("www-authenticate", "")[:2000] if got == 401 else None
        raise error


def _status(response: httpx.Response) -> str:
    return f"HTTP {response.status_code} {response.reason_phrase}".strip()


def _retry_after(response: httpx.Response) -> float | None:
    text = response.headers.get("retry-after", "")
    return float(text) if text.isdecimal() and len(text) < 7 else None


def _content_range(text: str) -> tuple[int, int, int]:
    match = re.fullmatch(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})", text.strip())
    if match is None:
        raise RangesRefusedError(f"answered with an unusable Content-Range: {printable(text, 60)!r}")
    return int(match[1]), int(match[2]), int(match[3])


def _unpacked(chunks: Iterator[bytes], packed: str, limit: int, url: str) -> bytes:
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
        raise _AgainError("the answer ended early")
    return bytes(got)


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _advice(trouble: str) -> str | None:
    if "CERTIFICATE_VERIFY_FAILED" in trouble:
        return "name the certificate authority in PIP_CERT"
    return None
