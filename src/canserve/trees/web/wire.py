"""Connections with a wall-clock deadline.

A timeout per read is no deadline: a server that sends one byte a second never meets it. Every read and write
here is given what is left of the request's own time and no more.
"""

from __future__ import annotations

import contextlib
import ssl
import time
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any

import httpcore
import httpx

_deadline: ContextVar[float] = ContextVar("deadline", default=float("inf"))


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Whatever this thread does on these connections ends within so many seconds, or raises."""
    token = _deadline.set(min(_deadline.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _deadline.reset(token)


def left() -> float:
    """Seconds left until the deadline."""
    return _deadline.get() - time.monotonic()


def _bounded(timeout: float | None, error: type[httpcore.TimeoutException]) -> float | None:
    seconds = left()
    if seconds <= 0:
        raise error("deadline exceeded")
    if seconds == float("inf"):
        return timeout
    return seconds if timeout is None else min(timeout, seconds)


class _Stream(httpcore.NetworkStream):
    def __init__(self, inner: httpcore.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _bounded(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, _bounded(timeout, httpcore.WriteTimeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        bounded = _bounded(timeout, httpcore.ConnectTimeout)
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, bounded))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _Backend(httpcore.NetworkBackend):
    def __init__(self, socket: str | None) -> None:
        self._inner = httpcore.SyncBackend()
        self._socket = socket

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        bounded = _bounded(timeout, httpcore.ConnectTimeout)
        if self._socket is not None:
            return _Stream(self._inner.connect_unix_socket(self._socket, bounded))
        return _Stream(self._inner.connect_tcp(host, port, bounded, local_address, socket_options))


class _Body(httpx.SyncByteStream):
    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks

    def __iter__(self) -> Iterator[bytes]:
        yield from self._chunks

    def close(self) -> None:
        close = getattr(self._chunks, "close", None)
        if close is not None:
            close()


class Wire(httpx.BaseTransport):
    """The transport of an ``httpx.Client`` whose connections keep the deadline. Raises httpcore's errors.

    ``socket``: path of a socket that leads to the server, whatever its address is; no proxy is asked then.
    """

    def __init__(
        self, context: ssl.SSLContext, proxy: str | None, width: int, socket: str | None = None
    ) -> None:
        backend = _Backend(socket)
        if proxy is None or socket is not None:
            self._pool = httpcore.ConnectionPool(context, max_connections=width, network_backend=backend)
            return
        url = httpx.URL(proxy)
        if url.scheme not in {"http", "https"}:
            raise ValueError(f"a {url.scheme} proxy is configured; only http and https proxies are supported")
        auth = (url.username.encode(), url.password.encode()) if url.username or url.password else None
        self._pool = httpcore.HTTPProxy(
            httpcore.URL(
                scheme=url.raw_scheme, host=url.raw_host, port=url.port or 8080, target=url.raw_path or b"/"
            ),
            auth,
            ssl_context=context,
            max_connections=width,
            network_backend=backend,
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send it; the body is read by whoever asked."""
        assert isinstance(request.stream, httpx.SyncByteStream)
        url = httpcore.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        )
        answer = self._pool.handle_request(
            httpcore.Request(
                request.method,
                url,
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        assert isinstance(answer.stream, Iterable)
        return httpx.Response(
            answer.status, headers=answer.headers, stream=_Body(answer.stream), extensions=answer.extensions
        )

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()
