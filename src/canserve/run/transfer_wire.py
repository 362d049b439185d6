"""Runs on machines, from a copy of its source: frames between two of them, over a socket or the pipes of ssh.

Frame: kind, length (four bytes, big-endian), contents. Kinds: ``N`` a new file (JSON), ``D`` of its contents, ``Z``
the same packed by zlib, ``E`` its end (JSON), ``S`` a file that is the same at both ends, ``H`` still alive, ``X`` why
nothing more will come, ``Q`` all was sent. Needs nothing but Python's own library, of 3.7 or later.
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import threading
import time
import zlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

BLOCK = 1 << 20
MOST = 64 << 20
"""Bytes of a frame or order, at most."""
HEAD = struct.Struct(">cI")
BEAT = 5.0
"""Seconds between signs of life."""
SILENCE = 30
"""Seconds without one, after which the other end is dead."""
SLOW = 25e6
"""Bytes a second: a way that takes no more than that is worth packing for."""
WORTH = 8 << 20
"""Bytes of a file from which on another thread helps with it."""
STDOUT_LOCK = threading.Lock()


class Failed(Exception):  # noqa: N818 - an outcome that is told to the other side, not a defect
    """Why this copy ends here, in one line."""


class Unreached(Failed):
    """The way to the other machine is not open."""


class Cut(Failed):
    """The connection ended before all had come."""


def write_all(fd: int, data: bytes | bytearray | memoryview) -> None:
    """Every byte."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def say(**values: Any) -> None:
    """One line to the operator's machine."""
    with STDOUT_LOCK:
        write_all(1, json.dumps(values, separators=(",", ":")).encode() + b"\n")


def read_exactly(fd: int, size: int, patience: float | None = None) -> bytearray:
    """So many bytes, from a pipe or socket. Raises Cut."""
    found = bytearray(size)
    view = memoryview(found)
    waiting = select.poll()
    waiting.register(fd, select.POLLIN)
    while view:
        if patience is not None and not waiting.poll(patience * 1000):
            raise Cut(f"nothing came for {patience:.0f} s")
        try:
            count = os.readv(fd, [view])
        except OSError as error:
            raise Cut(f"the connection failed: {error.strerror}") from None
        if not count:
            raise Cut("the connection ended early")
        view = view[count:]
    return found


def order() -> Any:
    """What the operator's machine wants next: a length, a newline, JSON. Without an operator nothing goes on."""
    digits = b""
    while not digits.endswith(b"\n"):
        one = os.read(0, 1)
        if not one or len(digits) > 12:
            raise SystemExit(3)
        digits = (digits + one).lstrip(b"\n")  # empty lines are signs of life
    return json.loads(bytes(read_exactly(0, min(int(digits), MOST))).decode())


def watch_operator() -> None:
    """End with the operator: from now on it says nothing but that it is there."""

    def watch() -> None:
        while os.read(0, 4096):
            pass
        os._exit(3)

    threading.Thread(target=watch, daemon=True).start()


class Beside:
    """Work on pieces of a file in another thread, in their order, at most a few pieces behind."""

    def __init__(self, work: Callable[[Any], object], size: int) -> None:
        self.pool = ThreadPoolExecutor(1) if size > WORTH else None
        self.work = work
        self.going: list[Future[object]] = []

    def __call__(self, piece: Any) -> None:
        """As soon as its turn comes. The piece must not change any more."""
        if self.pool is None:
            self.work(piece)
            return
        self.going.append(self.pool.submit(self.work, piece))
        while len(self.going) > 4:
            self.going.pop(0).result()

    def __enter__(self) -> Beside:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()
        if self.pool is not None:
            self.pool.shutdown()

    def wait(self) -> None:
        """Until all is done. Raises what the work raised."""
        while self.going:
            self.going.pop(0).result()


class Out:
    """Frames to the other machine. Contents are packed while the way is slower than packing, and it helps."""

    def __init__(self, fd: int, width: int = 1) -> None:
        self.fd = fd
        self.lock = threading.Lock()
        self.slow = SLOW / width
        self.window, self.blocked, self.passed = time.monotonic(), 0.0, 0
        self.packing, self.skip = False, 0
        self.ended = threading.Event()
        threading.Thread(target=self.beat, daemon=True).start()

    def beat(self) -> None:
        """Signs of life, also while nothing is there to be sent."""
        while not self.ended.wait(BEAT):
            self.put(b"H")

    def put(self, kind: bytes, data: bytes | memoryview = b"") -> None:
        """One frame."""
        with self.lock:
            begun = time.monotonic()
            head = HEAD.pack(kind, len(data))
            try:
                done = os.writev(self.fd, [head, data])
                if done < len(head):
                    write_all(self.fd, head[done:])
                write_all(self.fd, memoryview(data)[max(done - len(head), 0) :])
            except OSError as error:
                raise Cut(f"the connection failed: {error.strerror}") from None
            self.blocked += time.monotonic() - begun
            self.passed += len(data)

    def told(self, kind: bytes, **values: Any) -> None:
        """A frame of JSON."""
        self.put(kind, json.dumps(values).encode())

    def data(self, piece: memoryview) -> None:
        """Contents of the file that was begun."""
        now = time.monotonic()
        if now - self.window > 0.5:
            mostly = self.blocked > 0.5 * (now - self.window)
            self.packing = (mostly or self.packing) and self.passed / (now - self.window) < self.slow
            self.window, self.blocked, self.passed = now, 0.0, 0
        if self.packing and not self.skip:
            packed = zlib.compress(piece, 1)
            if len(packed) < 0.9 * len(piece):
                self.put(b"Z", packed)
                return
            self.skip = 16  # what does not shrink comes in long stretches
        self.skip = max(self.skip - 1, 0)
        self.put(b"D", piece)

    def end(self) -> None:
        """All was sent."""
        self.ended.set()
        self.put(b"Q")


class In:
    """Frames from the other machine."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.count = 0
        """Bytes that came over the wire."""

    def next(self) -> tuple[bytes, bytes | bytearray]:
        """Kind and contents; packed ones unpacked. Raises Cut, and Failed with what the other end said."""
        while True:
            kind, length = HEAD.unpack(bytes(read_exactly(self.fd, HEAD.size, SILENCE)))
            if length > MOST:
                raise Failed("the other end does not speak this language")
            data: bytes | bytearray = read_exactly(self.fd, length, SILENCE)
            self.count += HEAD.size + length
            if kind == b"X":
                raise Failed("the sending machine: " + data.decode("utf-8", "replace"))
            if kind == b"Z":
                return b"D", unpacked(data)
            if kind != b"H":
                return kind, data


def unpacked(data: bytes | bytearray) -> bytes:
    """At most one block."""
    packer = zlib.decompressobj()
    found = packer.decompress(data, 2 * BLOCK)
    if packer.unconsumed_tail:
        raise Failed("a packed frame is larger than it may be")
    return found


def connected(to: list[Any]) -> socket.socket:
    """A connection to a machine that listens, at which both sides have shown that they were told the same secrets."""
    host, port, ask, answer = to
    way = socket.create_connection((host, port), 8)
    way.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    way.sendall(ask.encode())
    heard = b""
    while len(heard) < len(answer):
        piece = way.recv(len(answer) - len(heard))
        if not piece:
            break
        heard += piece
    if heard != answer.encode():
        raise OSError(0, "another program answers there")
    way.settimeout(None)
    return way


class Door:
    """Where connections from the other machine come in."""

    def __init__(self, host: str, ask: str, answer: str) -> None:
        self.ask, self.answer = ask.encode(), answer.encode()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.bind((host, 0))
        self.socket.listen(16)
        self.port = self.socket.getsockname()[1]

    def let_in(self, width: int, seconds: float) -> list[socket.socket]:
        """So many connections that know the secret; anybody else is turned away. Raises Cut."""
        found: list[socket.socket] = []
        end = time.monotonic() + seconds
        while len(found) < width:
            self.socket.settimeout(max(end - time.monotonic(), 0.01))
            try:
                way, _ = self.socket.accept()
                way.settimeout(5)
                said = b""
                while len(said) < len(self.ask):
                    piece = way.recv(len(self.ask) - len(said))
                    if not piece:
                        break
                    said += piece
                if said != self.ask:
                    way.close()
                    continue
                way.sendall(self.answer)
                way.settimeout(None)
                found.append(way)
            except OSError:
                if time.monotonic() > end:
                    raise Unreached(f"the sending machine did not come to port {self.port}") from None
        self.socket.close()
        return found
