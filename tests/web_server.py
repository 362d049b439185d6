"""A real HTTP server on the loopback interface that behaves, or misbehaves, path by path."""

from __future__ import annotations

import re
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Behaviour = Callable[["Handler"], None]


@dataclass
class Request:
    """One request as it came in."""

    path: str
    headers: dict[str, str]
    body: bytes = b""

    @property
    def range(self) -> str | None:
        return self.headers.get("range")


@dataclass
class Site:
    """What the server answers, and what it was asked."""

    url: str = ""
    routes: dict[str, Behaviour] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)

    def put(self, path: str, behaviour: Behaviour) -> str:
        """Answer this path like that; gives its address."""
        self.routes[path] = behaviour
        return self.url + path


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    site: Site

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length", "0")))
        self.site.requests.append(Request(self.path, headers, body))
        try:
            self.site.routes.get(self.path.partition("?")[0], status(404))(self)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    do_POST = do_GET  # noqa: N815 - the name is the base class's

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Quiet."""

    def answer(self, code: int, body: bytes = b"", **headers: str) -> None:
        """A whole, honest answer."""
        self.head(code, **{"Content-Length": str(len(body)), **headers})
        self.wfile.write(body)

    def head(self, code: int, **headers: str) -> None:
        """Status and headers only; underscores in names stand for hyphens."""
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def wanted(self, size: int) -> tuple[int, int] | None:
        """Start and end of the range that was asked for."""
        found = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if found is None:
            return None
        if not found[1]:
            return max(0, size - int(found[2])), size
        return int(found[1]), min(size, int(found[2]) + 1 if found[2] else size)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that hang up early are what many tests are about."""
        if not isinstance(sys.exception(), ConnectionError | ssl.SSLError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


@contextmanager
def running(tls: ssl.SSLContext | None = None) -> Iterator[Site]:
    """A server on a free port, stopped at the end."""
    site = Site()
    handler = type("SiteHandler", (Handler,), {"site": site})
    server = Server(("127.0.0.1", 0), handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    site.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def page(body: bytes, kind: str = "text/html", **headers: str) -> Behaviour:
    """A small document."""
    return lambda handler: handler.answer(200, body, Content_Type=kind, **headers)


def status(code: int, **headers: str) -> Behaviour:
    """A bare status."""
    return lambda handler: handler.answer(code, b"", **headers)


def ranged(data: bytes) -> Behaviour:
    """A file, served by ranges as it should be."""

    def behave(handler: Handler) -> None:
        span = handler.wanted(len(data))
        if span is None:
            handler.answer(200, data)
        elif span[0] >= len(data):
            handler.answer(416, b"", Content_Range=f"bytes */{len(data)}")
        else:
            _part(handler, data, span)

    return behave


def _part(handler: Handler, data: bytes, span: tuple[int, int]) -> None:
    start, end = span
    handler.answer(206, data[start:end], Content_Range=f"bytes {start}-{end - 1}/{len(data)}")


def whole(data: bytes) -> Behaviour:
    """A file whose ranges are ignored."""
    return lambda handler: handler.answer(200, data)


def no_suffix(data: bytes, code: int = 416) -> Behaviour:
    """Ranges, but none counted from the end."""

    def behave(handler: Handler) -> None:
        if handler.headers.get("Range", "").startswith("bytes=-"):
            handler.answer(code, b"" if code != 200 else data)
        else:
            ranged(data)(handler)

    return behave


def wrong_range(data: bytes) -> Behaviour:
    """Answers with other bytes than it was asked for."""

    def behave(handler: Handler) -> None:
        span = handler.wanted(len(data))
        if span is None:
            handler.answer(200, data)
        else:
            body = data[: span[1] - span[0]]
            handler.answer(206, body, Content_Range=f"bytes 0-{len(body) - 1}/{len(data)}")

    return behave


def too_much(data: bytes) -> Behaviour:
    """Announces the right range and sends the whole file."""

    def behave(handler: Handler) -> None:
        span = handler.wanted(len(data))
        if span is None:
            handler.answer(200, data)
        else:
            span_text = f"bytes {span[0]}-{span[1] - 1}/{len(data)}"
            handler.answer(206, data + data, Content_Range=span_text)

    return behave


def cut_short(data: bytes, times: int = 10**9) -> Behaviour:
    """Sends half of what it announces, so many times."""
    left = [times]

    def behave(handler: Handler) -> None:
        span = handler.wanted(len(data))
        if span is None or left[0] <= 0:
            ranged(data)(handler)
            return
        left[0] -= 1
        count = span[1] - span[0]
        content_range = f"bytes {span[0]}-{span[1] - 1}/{len(data)}"
        handler.head(206, Content_Length=str(count), Content_Range=content_range)
        handler.wfile.write(data[span[0] : span[0] + count // 2])
        handler.close_connection = True

    return behave


def first(times: int, trouble: Behaviour, then: Behaviour) -> Behaviour:
    """Trouble so many times, and then not."""
    left = [times]

    def behave(handler: Handler) -> None:
        left[0] -= 1
        (trouble if left[0] >= 0 else then)(handler)

    return behave


def dripping(body: bytes = bytes(1 << 20), pause: float = 0.05) -> Behaviour:
    """One byte at a time, for a very long time."""

    def behave(handler: Handler) -> None:
        handler.head(200, Content_Length=str(len(body)))
        for byte in body:
            handler.wfile.write(bytes([byte]))
            handler.wfile.flush()
            time.sleep(pause)

    return behave


def dripping_headers(pause: float = 0.05) -> Behaviour:
    """Headers that never end."""

    def behave(handler: Handler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Endless: ")
        while True:
            handler.wfile.write(b"x")
            handler.wfile.flush()
            time.sleep(pause)

    return behave


def moved(to: str, code: int = 302) -> Behaviour:
    """A redirect."""
    return lambda handler: handler.answer(code, b"", Location=to)
