"""Runs on the machine that gets an image, from a copy of its source: puts the archive into its container engine.

What came before a cut is kept until the engine has the image, and gone on with.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from typing import IO, Any

from canserve.run.transfer_send import send_files, send_image
from canserve.run.transfer_take import (
    KEPT,
    Counter,
    disk,
    free,
    inputs,
    locked,
    opened,
    released,
    take_files,
    told_by,
)
from canserve.run.transfer_wire import Cut, Failed, In, order, say, write_all

SPOOLED = 1 << 20
"""Bytes from which on a member of an archive is kept for going on with after a cut."""
SPOILT = re.compile(
    "no space left|diffid|digest|checksum|invalid|corrupt|not found|no such file", re.IGNORECASE
)
"""Said by an engine, it means that the same bytes will not do another time."""


class Spool:
    """An image archive on its way into an engine, its large members kept until the engine has it."""

    def __init__(self, folder: bytes, load: IO[bytes], keep: bool, counter: Counter) -> None:
        self.folder, self.load, self.keep, self.counter = folder, load, keep, counter
        self.left = self.padding = 0
        self.file: IO[bytes] | None = None

    def path(self, name: str, size: int) -> bytes:
        """Where a member is kept."""
        mark = hashlib.sha256(f"{name}:{size}".encode("utf-8", "surrogateescape")).hexdigest()
        return os.path.join(self.folder, mark.encode() + b".part")

    def begin(self, told: dict[str, Any]) -> None:
        """A member's head, and what is here of it already."""
        self.end()
        info = tarfile.TarInfo(told["name"])
        info.size, info.mode = int(told["size"]), int(told["mode"])
        info.type, info.linkname = told["type"].encode(), told["to"]
        write_all(self.load.fileno(), info.tobuf(tarfile.GNU_FORMAT))
        self.left, self.padding = info.size, -info.size % 512
        at = int(told["at"])
        if at and not self.keep:
            raise Cut("what was kept had to make room: again from the beginning")
        if self.keep and info.size >= SPOOLED:
            path = self.path(info.name, info.size)
            self.file = open(path, "r+b" if at else "wb", buffering=0)  # noqa: SIM115 - closed by ``end``
            while self.file.tell() < at and (piece := self.file.read(min(1 << 20, at - self.file.tell()))):
                write_all(self.load.fileno(), piece)
            if self.file.tell() != at:
                raise Failed(f"what was kept of {info.name!r} is shorter than it was")
            self.left -= at
        self.counter.more(announced=self.left)

    def data(self, data: bytes | bytearray) -> None:
        """More of it."""
        self.left -= len(data)
        if self.left < 0:
            raise Failed("more came than was announced")
        write_all(self.load.fileno(), data)
        self.counter.more(got=len(data))
        if self.file is not None:
            try:
                write_all(self.file.fileno(), data)
            except OSError:
                self.stop_keeping()  # rather without going on after a cut than not at all

    def stop_keeping(self) -> None:
        """The disk is full: the engine needs the room."""
        if self.file is not None:
            self.file.close()
        self.file, self.keep = None, False
        clear(self.folder)

    def end(self) -> None:
        """The member is whole."""
        if self.left:
            raise Failed("a part of the archive broke off")
        write_all(self.load.fileno(), bytes(self.padding))
        self.padding = 0
        if self.file is not None:
            self.file.close()
            self.file = None


def clear(folder: bytes) -> None:
    """What was kept is of no more use."""
    for name in os.listdir(folder):
        if name.endswith(b".part"):
            os.unlink(os.path.join(folder, name))


def place(job: dict[str, Any]) -> bytes:
    """Folder of an image that is coming; what was left of others a week ago goes."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    base = os.path.join(cache, "canserve", "incoming").encode()
    folder = os.path.join(base, re.sub("[^0-9a-f]", "", job["id"]).encode() or b"image")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    for name in os.listdir(base):
        other = os.path.join(base, name)
        if other != folder and time.time() - os.stat(other).st_mtime > KEPT:
            clear(other)
    return folder


def take_image(job: dict[str, Any]) -> None:
    """An image, into the engine of this machine."""
    folder = place(job)
    lock = locked(folder)
    parts = [name for name in os.listdir(folder) if name.endswith(b".part")]
    have = {name.decode().partition(".")[0]: os.stat(os.path.join(folder, name)).st_size for name in parts}
    door = opened(job)
    say(
        have=have,
        free=free(job["store"]),
        spool=free(folder),
        one=disk(job["store"]) == disk(folder),
        port=door.port if door else None,
    )
    plan = order()
    counter = Counter().begin()
    (frames,) = inputs(plan, door)
    if not plan["keep"]:
        clear(folder)
    try:
        said = loaded(plan["argv"], folder, bool(plan["keep"]), frames, counter)
    except EngineError as error:
        if SPOILT.search(str(error)):
            clear(folder)
        raise
    clear(folder)
    released(lock, folder)
    asked = subprocess.run(plan["check"], capture_output=True, check=False)
    holds = asked.stdout[:200].decode("ascii", "replace").strip() if asked.returncode == 0 else None
    say(done={"wire": frames.count, "got": counter.got, "said": said, "holds": holds})


class EngineError(Failed):
    """What the engine said."""


def loaded(argv: list[str], folder: bytes, keep: bool, frames: In, counter: Counter) -> str:
    """Pass the archive to the engine's own client; what it said. Raises EngineError, Failed, Cut."""
    with tempfile.TemporaryFile() as talk:
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=talk, stderr=subprocess.STDOUT)
        assert process.stdin is not None
        spool = Spool(folder, process.stdin, keep, counter)
        whole = False
        try:
            while True:
                kind, data = frames.next()
                if kind == b"N":
                    spool.begin(told_by(data))
                elif kind == b"D":
                    spool.data(data)
                elif kind == b"Q":
                    break
            spool.end()
            write_all(process.stdin.fileno(), bytes(1024))
            whole = True
        except BrokenPipeError:
            pass  # the engine gave up: it says why
        finally:
            if not whole:
                spool.file = None
            process.stdin.close()  # an archive without its manifest, which comes last, is refused
            counter.phase = "loading"
            status = process.wait()
        talk.seek(0)
        lines = talk.read(4000).decode("utf-8", "replace").strip().splitlines()
        said = lines[-1] if lines else f"exit status {status}"
        if status or not whole:
            raise EngineError(f"{' '.join(argv)}: {said}")
        return said


def main() -> None:
    """Do what the first order says."""
    job = order()
    does = {
        "send-files": send_files,
        "send-image": send_image,
        "take-files": take_files,
        "take-image": take_image,
    }
    try:
        does[job["do"]](job)
    except (Failed, OSError) as error:
        kind = type(error).__name__
        try:
            if job["do"].startswith("take") or job.get("direct", True):
                say(failed=str(error), kind=kind)
        except OSError:
            pass
        sys.stderr.write(f"{error}\n")
        sys.stderr.flush()
        os._exit(1)
    sys.stdout.flush()
    os._exit(0)
