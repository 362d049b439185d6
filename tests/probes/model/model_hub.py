"""A Hub on the loopback interface: its API, ranges, redirects and refusals, and a log of requests."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "89abcdef0123456789abcdef0123456789abcdef"


@dataclass
class Reply:
    """An answer that replaces the right one."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    """Seconds before each kilobyte of the body."""


@dataclass
class Repository:
    files: dict[str, bytes]
    large: frozenset[str] = frozenset()
    """Files that are served from another host, as LFS and Xet files are."""
    info: dict[str, Any] = field(default_factory=dict)
    """Replaces keys of the API's answer."""


@dataclass
class Request:
    path: str
    range: str | None
    authorization: str | None
    encoding: str | None
    """``Accept-Encoding``."""


@dataclass
class Hub:
    """What is served, how, and what was asked."""

    repositories: dict[str, Repository] = field(default_factory=dict)
    override: Callable[[str, int], Reply | None] = lambda path, count: None
    """Path and how many times it was asked before -> another answer."""
    ranges: bool = True
    requests: list[Request] = field(default_factory=list)
    sent: int = 0
    endpoint: str = ""
    other: str = ""
    """The same server under another name: another origin."""

    def paths(self) -> list[str]:
        return [request.path for request in self.requests]


@contextmanager
def serve() -> Iterator[Hub]:
    """Run a Hub until the block ends."""
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            answer(self, hub)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the parent's name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    hub.endpoint = f"http://127.0.0.1:{server.server_port}"
    hub.other = f"http://localhost:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def answer(handler: BaseHTTPRequestHandler, hub: Hub) -> None:
    path = unquote(urlsplit(handler.path).path)
    headers = handler.headers
    before = hub.paths().count(path)
    hub.requests.append(Request(path, headers["Range"], headers["Authorization"], headers["Accept-Encoding"]))
    reply = hub.override(path, before) or right_answer(path, headers["Range"], hub)
    try:
        send(handler, reply, hub)
    except (BrokenPipeError, ConnectionResetError):
        handler.close_connection = True


def send(handler: BaseHTTPRequestHandler, reply: Reply, hub: Hub) -> None:
    handler.send_response(reply.status)
    for key, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
        handler.send_header(key, value)
    handler.end_headers()
    step = 1024 if reply.delay else 1 << 16
    for at in range(0, len(reply.body), step):
        time.sleep(reply.delay)
        hub.sent += len(reply.body[at : at + step])
        handler.wfile.write(reply.body[at : at + step])


def right_answer(path: str, span: str | None, hub: Hub) -> Reply:
    if match := re.fullmatch(r"/api/models/([\w.-]+/[\w.-]+)/revision/(.+)", path):
        repository = hub.repositories.get(match[1])
        if repository is None:
            return refuse(401, "RepoNotFound", "Invalid username or password.")
        if match[2] not in {"main", COMMIT, "refs/pr/1"}:
            return refuse(404, "RevisionNotFound", f"Invalid rev id: {match[2]}")
        siblings = [{"rfilename": name, "size": len(data)} for name, data in repository.files.items()]
        info = {"id": match[1], "sha": COMMIT, "siblings": siblings, **repository.info}
        return Reply(body=json.dumps(info).encode(), headers={"Content-Type": "application/json"})
    if match := re.fullmatch(r"/([\w.-]+/[\w.-]+)/resolve/(\w+)/(.+)", path):
        repository = hub.repositories.get(match[1])
        if repository is None or match[3] not in repository.files:
            return refuse(404, "EntryNotFound", "Entry not found")
        if match[3] in repository.large:
            return Reply(302, headers={"Location": f"{hub.other}/cdn/{match[1]}/{match[3]}?signature=x"})
        return ranged(repository.files[match[3]], span, hub)
    if match := re.fullmatch(r"/cdn/([\w.-]+/[\w.-]+)/(.+)", path):
        return ranged(hub.repositories[match[1]].files[match[2]], span, hub)
    return refuse(404, "", "")


def ranged(data: bytes, span: str | None, hub: Hub) -> Reply:
    match = re.fullmatch(r"bytes=(\d+)-(\d+)", span or "")
    if match is None or not hub.ranges:
        return Reply(body=data)
    start, end = int(match[1]), min(int(match[2]) + 1, len(data))
    if start >= len(data):
        return Reply(416, headers={"Content-Range": f"bytes */{len(data)}"})
    return Reply(206, data[start:end], {"Content-Range": f"bytes {start}-{end - 1}/{len(data)}"})


def refuse(status: int, code: str, message: str) -> Reply:
    return Reply(status, b"", {"X-Error-Code": code, "X-Error-Message": message})
