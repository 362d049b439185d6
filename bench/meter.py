"""A proxy on the loopback interface that counts what passes through it."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from types import TracebackType
from urllib.parse import urlsplit

_CHUNK = 1 << 18
_LONGEST_HEAD = 64 << 10


class Meter:
    """Counts the bytes that come back from servers, and lets them through at no more than ``rate`` a second.

    Understands CONNECT (https) and plain http requests.
    """

    def __init__(self, rate: float | None = None) -> None:
        self.moved = 0
        self.rate = rate
        self._free_at = 0.0
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Meter:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the listener was closed: the end
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), client:
            head = b""
            while b"\r\n\r\n" not in head and len(head) < _LONGEST_HEAD:
                if not (piece := client.recv(_CHUNK)):
                    return
                head += piece
            method, target, _ = head.split(b"\r\n", 1)[0].decode("ascii").split(" ")
            parts = urlsplit(f"//{target}" if method == "CONNECT" else target)
            assert parts.hostname is not None
            with socket.create_connection((parts.hostname, parts.port or 80), timeout=60) as server:
                if method == "CONNECT":
                    client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                else:
                    server.sendall(head.replace(target.encode(), (parts.path or "/").encode(), 1))
                threading.Thread(target=self._pump, args=(client, server, False), daemon=True).start()
                self._pump(server, client, True)

    def _take(self, count: int) -> None:
        """Count what has come, and wait until the link would have carried it."""
        with self._lock:
            self.moved += count
            now = time.monotonic()
            self._free_at = max(now, self._free_at) + (count / self.rate if self.rate else 0.0)
            wait = self._free_at - now
        time.sleep(wait)

    def _pump(self, source: socket.socket, sink: socket.socket, counted: bool) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(_CHUNK):
                if counted:
                    self._take(len(piece))
                sink.sendall(piece)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
