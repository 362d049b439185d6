"""One request at a time to one server: bounded in time and size, no redirect followed, nothing unpacked."""

from __future__ import annotations

import ssl
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpcore
import httpx

from canserve.trees.secret import Secret, shown
from canserve.trees.web.settings import Settings
from canserve.trees.web.wire import Wire, within
from canserve.verify.limits import Limits
from canserve.verify.target import Endpoint

WIDTH = 1024
"""Connections at once; the ramp stays below."""
_AGENT = "canserve"


class UnreachedError(Exception):
    """The server could not be reached from here; nothing is known of it. ``ask`` says what would settle it."""

    def __init__(self, why: str, ask: str) -> None:
        super().__init__(why)
        self.ask = ask


class RefusedError(Exception):
    """Nothing listens at the address."""


class SilentError(Exception):
    """No byte came in time, or not the last one."""


class CutError(Exception):
    """The connection ended before the reply did, or what came is no HTTP."""


@dataclass(slots=True)
class Response:
    """An open reply: its head, and its bytes as they come."""

    status: int
    headers: Mapping[str, str]
    chunks: Iterator[bytes]
    start: float
    """On the monotonic clock: when the request was sent."""

    @property
    def kind(self) -> str:
        """Its media type."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


@dataclass(slots=True)
class Client:
    """Connections to one endpoint. Used by many threads at once."""

    endpoint: Endpoint
    limits: Limits
    certificates: str | None = None
    """A file or folder of certificate authorities; None: the system's."""
    _client: httpx.Client | None = field(default=None, repr=False)

    def close(self) -> None:
        """Close all connections."""
        if self._client is not None:
            self._client.close()

    def send(
        self, method: str, url: str, body: bytes | None, seconds: float, use: Callable[[Response], Any]
    ) -> Any:
        """Send a request and hand the open reply to ``use``; all of it within ``seconds``.

        Raises UnreachedError, RefusedError, SilentError, CutError.
        """
        headers = {"User-Agent": _AGENT, "Accept-Encoding": "identity"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self.endpoint.key is not None:
            headers["Authorization"] = f"Bearer {self.endpoint.key.reveal()}"
        start = time.monotonic()
        try:
            with (
                within(seconds),
                self._opened().stream(method, url, content=body, headers=headers) as reply,
            ):
                found = {name.lower(): value for name, value in reply.headers.items()}
                return use(Response(reply.status_code, found, self._raw(reply), start))
        except (httpcore.ConnectTimeout, httpcore.PoolTimeout, httpx.ConnectTimeout) as error:
            why = f"no connection to {self.endpoint.subject} within {min(self.limits.connect, seconds):.0f} s"
            raise UnreachedError(
                why, "look for a firewall or a wrong address between here and there"
            ) from error
        except (httpcore.TimeoutException, httpx.TimeoutException) as error:
            raise SilentError(f"{time.monotonic() - start:.1f}") from error
        except (httpcore.ConnectError, httpx.ConnectError, ssl.SSLError) as error:
            raise self._unconnected(error) from error
        except (httpcore.NetworkError, httpcore.ProtocolError, httpx.HTTPError, httpx.StreamError) as error:
            raise CutError(_words(error)) from error
        except (httpx.InvalidURL, httpcore.UnsupportedProtocol, UnicodeError) as error:
            raise UnreachedError(f"{shown(url)}: {_words(error)}", "write the address in full") from error

    def _unconnected(self, error: Exception) -> Exception:
        words = _words(error)
        low = words.lower()
        if "refused" in low:
            return RefusedError(f"nothing listens at {self.endpoint.subject}: {words}")
        if isinstance(error, ssl.SSLError) or "ssl" in low or "certificate" in low or "tls" in low:
            ask = "name the authority that signed the certificate: --ca FILE"
            if "wrong version" in low or "record layer" in low or "http request" in low:
                ask = "the server speaks no TLS there: write http:// instead of https://"
            return UnreachedError(f"no TLS connection to {self.endpoint.subject}: {words}", ask)
        return UnreachedError(
            f"{self.endpoint.subject} cannot be reached: {words}", "check the name and the network"
        )

    def _raw(self, reply: httpx.Response) -> Iterator[bytes]:
        """Its bytes as they came; what is packed is not unpacked."""
        assert isinstance(reply.stream, httpx.SyncByteStream)
        yield from reply.iter_raw()

    def _opened(self) -> httpx.Client:
        if self._client is None:
            self._client = opened(self.endpoint, self.limits, self.certificates)
        return self._client


def opened(place: Endpoint, limits: Limits, certificates: str | None) -> httpx.Client:
    """A client whose connections keep the deadline. Raises UnreachedError for certificates that are none."""
    try:
        context = Settings(certificates=certificates).context(verify=True)
    except (OSError, ssl.SSLError) as error:
        raise UnreachedError(f"--ca: {_words(error)}", "name a file of PEM certificates") from error
    timeout = httpx.Timeout(None, connect=limits.connect)  # each request has a deadline of its own
    try:
        wire = Wire(context, _proxy(place.root), WIDTH, place.socket)
    except ValueError as error:
        raise UnreachedError(str(error), "unset the proxy for this host (NO_PROXY)") from error
    return httpx.Client(transport=wire, timeout=timeout, follow_redirects=False, trust_env=False)


def _proxy(root: str) -> str | None:
    """The proxy that the environment names for this host."""
    parts = urlsplit(root)
    host = parts.hostname or ""
    if host in {"localhost", "::1"} or host.startswith("127.") or urllib.request.proxy_bypass(host):
        return None
    proxies = urllib.request.getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    return proxy if proxy is None or "://" in proxy else f"http://{proxy}"


def _words(error: BaseException) -> str:
    return f"{error}".strip()[:300] or type(error).__name__


def key_from(text: str) -> Secret | None:
    """A key as it stands in a file or variable; None where that is empty. Raises ValueError: no header holds it."""
    key = text.strip()
    if any(not 33 <= ord(letter) < 127 for letter in key):
        raise ValueError("the key holds characters that no header can carry")
    return Secret(key) if key else None
