"""Runs on the machine of a container engine, from a copy of its source: thins out what the engine writes.

Archives of whole folders come from the engine's own client; names go to stdout, and the contents of the few files that
are worth it. Needs nothing but Python's own library, of 3.7 or later; writes nothing but stdout and starts nothing
but the given commands. Its plan is JSON, its first argument:

    {"areas": [{"argv": [...], "below": "usr/local", "most": 8589934592}, ...],
     "keep": "regular expression", "largest": 8388608, "room": 268435456, "seconds": 60, "width": 3}

``below``: the folder that names of the archive stand in; ``most``: bytes after which an archive is cut. With ``root``
and ``path`` an area is listed where the files of a running container lie, for a user who may.
Output: frames, each of two numbers of 4 bytes, so many bytes of lines packed by zlib, and so many of a file's content,
packed by itself: it is passed on and kept as it stands, and unpacked only if it is asked for. Lines are JSON: ``["f",
path, size, kept]``, where the content follows the frame that ends with its line, or -1; ``["d", path]``,
``["l", path, target]``, ``["h", path, target]``, ``["s", path]``, for each area at its end ``["area", number, status,
why it was cut, stderr]``, and last ``["end"]``.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
import struct
import subprocess
import sys
import tarfile
import threading
import time
import zlib
from queue import Empty, Queue
from typing import IO, Any

BLOCK = 1 << 20
LINES = 1 << 16
"""Bytes of lines that are gathered before they are written."""
GRACE = 20.0
"""Seconds after the time was over in which what was read may still be passed on."""
TALK = 2000
"""Bytes of stderr that are passed on."""


class Out:
    """Stdout, in frames, shared by all areas."""

    def __init__(self, handle: IO[bytes], room: int) -> None:
        self.lock = threading.Lock()
        self.lines: list[bytes] = []
        self.held = 0
        self.handle = handle
        self.room = room
        self.broken: OSError | None = None

    def line(self, values: list[Any], content: bytes | None = None) -> None:
        """One line, and the packed content that follows it."""
        text = json.dumps(values, separators=(",", ":")).encode("ascii") + b"\n"
        with self.lock:
            self.lines.append(text)
            self.held += len(text)
            if content is not None or self.held > LINES:
                self.frame(content or b"")

    def file(self, path: str, data: bytes) -> None:
        """One file with its content, packed before others have to wait for it."""
        packed = zlib.compress(data, 1)
        self.line(["f", path, len(data), len(packed)], packed)

    def frame(self, content: bytes) -> None:
        """To whoever reads, if anybody still does."""
        lines = zlib.compress(b"".join(self.lines), 1)
        self.lines, self.held = [], 0
        try:
            self.handle.write(struct.pack(">II", len(lines), len(content)) + lines + content)
        except OSError as error:  # nobody reads any more
            self.broken = error
            raise

    def end(self) -> None:
        """Nothing is missing."""
        self.line(["end"])
        self.frame(b"")
        self.handle.flush()

    def take(self, size: int) -> bool:
        """Whether a file of this size may still be kept."""
        with self.lock:
            if size > self.room:
                return False
            self.room -= size
            return True


class Counted:
    """What an engine writes, with a limit."""

    def __init__(self, handle: IO[bytes], most: int) -> None:
        self.handle = handle
        self.left = most
        self.cut: str | None = None

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes."""
        if self.left <= 0:
            self.cut = "size"
            return b""
        data = self.handle.read(min(size, BLOCK))
        self.left -= len(data)
        return data


def clean(name: str) -> str:
    """``./usr/lib/`` -> ``usr/lib``."""
    while name.startswith("./"):
        name = name[2:]
    name = name.strip("/")
    return "" if name == "." else name


def below(folder: str, name: str) -> str:
    """``folder/name``, or just the one that is not empty."""
    return folder + "/" + name if folder and name else folder or name


def skim(stream: Ahead, folder: str, plan: dict[str, Any], out: Out) -> None:
    """Pass one archive on, thinned out."""
    keep, largest = plan["keep"], plan["largest"]
    with tarfile.open(fileobj=stream, mode="r|", bufsize=BLOCK, errorlevel=1, encoding="utf-8") as archive:  # type: ignore[call-overload]
        while True:
            member = archive.next()
            if member is None:
                return
            archive.members = []  # tarfile would keep them all
            path = below(folder, clean(member.name))
            if not path:
                continue
            if member.isdir():
                out.line(["d", path])
            elif member.issym():
                out.line(["l", path, member.linkname])
            elif member.islnk():
                out.line(["h", path, below(folder, clean(member.linkname))])
            elif not member.isreg() or member.issparse():
                out.line(["s", path])
            elif member.size <= largest and keep.search(path) and out.take(member.size):
                data = archive.extractfile(member).read()
                if len(data) != member.size:
                    raise EOFError("cut short within a member")
                out.file(path, data)
            else:
                out.line(["f", path, member.size, -1])


def area(number: int, plan: dict[str, Any], out: Out, deadline: float) -> None:
    """One archive, from the engine's client to the end or to its limit."""
    told = plan["areas"][number]
    if told.get("root") and walked(number, plan, out, deadline):
        return
    try:
        child = subprocess.Popen(  # noqa: S603 - argv comes from ``commands``, with the plan
            told["argv"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )
    except OSError as error:
        out.line(["area", number, 127, None, str(error)])
        return
    assert child.stdout is not None
    assert child.stderr is not None
    widened(child.stdout)
    talk: list[bytes] = []
    errors = child.stderr
    listener = threading.Thread(target=lambda: talk.append(drained(errors)))
    listener.daemon = True
    listener.start()
    late = threading.Event()

    def stop() -> None:
        late.set()
        child.kill()

    timer = threading.Timer(max(0.0, deadline - time.monotonic()), stop)
    timer.daemon = True
    timer.start()
    counted = Counted(child.stdout, told["most"])
    why = None
    try:
        first = Ahead(counted)
        if not first.empty():
            skim(first, told["below"], plan, out)
            while counted.read(BLOCK):  # the padding after the last member
                pass
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        why = str(error) or type(error).__name__
    finally:
        timer.cancel()
        child.stdout.close()
        status = ended(child)
        listener.join(5)
    # An engine's own refusal says more than that its archive is cut short.
    why = "time" if late.is_set() else counted.cut or (why if status <= 0 else None)
    out.line(["area", number, status, why, b"".join(talk).decode("utf-8", "replace")])


def walked(number: int, plan: dict[str, Any], out: Out, deadline: float) -> bool:
    """Whether an area could be listed where it lies; False: nothing was written, its archive has to be read."""
    root, path = plan["areas"][number]["root"], plan["areas"][number]["path"]
    if not os.path.ismount(root):  # of a container that does not run there may be an empty folder
        return False
    try:
        handle = entered(root, path)
    except FileNotFoundError:
        out.line(["area", number, 1, None, "could not find the file"])
        return True
    except OSError:  # a file, a link on the way, or a user who may not
        return False
    try:
        failed: list[OSError] = []
        if path:
            out.line(["d", path])
        for folder, folders, files, at in os.fwalk(".", dir_fd=handle, onerror=failed.append):
            here = below(path, clean(folder))
            for name in folders + files:
                try:
                    told, data = entry(name, at, below(here, name), plan, out)
                except FileNotFoundError:  # it went away meanwhile
                    continue
                except OSError as error:
                    failed.append(error)
                    continue
                if data is None:
                    out.line(told)
                else:
                    out.file(told[1], data)
            if time.monotonic() > deadline:
                out.line(["area", number, 0, "time", ""])
                return True
        why = str(failed[0]) if failed else None if os.path.ismount(root) else "it stopped while it was read"
        out.line(["area", number, 0, why, ""])
        return True
    finally:
        os.close(handle)


def entered(root: str, path: str) -> int:
    """A folder below a root, on the way to which no link is followed: it would lead out of the container."""
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    for part in filter(None, path.split("/")):
        try:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
        finally:
            os.close(handle)
        handle = inner
    return handle


def entry(name: str, at: int, path: str, plan: dict[str, Any], out: Out) -> tuple[list[Any], bytes | None]:
    """The line of one name in an open folder, and the content that goes with it. Raises OSError."""
    status = os.stat(name, dir_fd=at, follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        return ["d", path], None
    if stat.S_ISLNK(status.st_mode):
        return ["l", path, os.readlink(name, dir_fd=at)], None
    if not stat.S_ISREG(status.st_mode):
        return ["s", path], None
    if status.st_size > plan["largest"] or not plan["keep"].search(path) or not out.take(status.st_size):
        return ["f", path, status.st_size, -1], None
    with os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at), "rb") as file:
        data = file.read(plan["largest"])
    return ["f", path], data


class Ahead:
    """A stream of which the first block was looked at: an engine that refuses writes nothing."""

    def __init__(self, inner: Counted) -> None:
        self.inner = inner
        self.first = inner.read(BLOCK)

    def empty(self) -> bool:
        """Nothing was written."""
        return not self.first

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes."""
        if self.first:
            data, self.first = self.first[:size], self.first[size:]
            return data
        return self.inner.read(size)


def ended(child: subprocess.Popen[bytes]) -> int:
    """Its exit status; what does not end by itself when nobody reads it is ended."""
    try:
        return child.wait(3)
    except subprocess.TimeoutExpired:
        child.kill()
        return child.wait()


def widened(pipe: IO[bytes]) -> None:
    """Let a pipe hold more, where the system allows it: gigabytes pass through, and each wait costs."""
    try:
        fcntl.fcntl(pipe.fileno(), getattr(fcntl, "F_SETPIPE_SZ", 1031), BLOCK)
    except OSError:
        return


def drained(handle: IO[bytes]) -> bytes:
    """All of stderr, of which the beginning is kept."""
    kept = b""
    while True:
        piece = os.read(handle.fileno(), 4096)
        if not piece:
            return kept
        kept = (kept + piece)[:TALK]


def main(plan: dict[str, Any], handle: IO[bytes]) -> int:
    """All areas of a plan; the exit status."""
    plan["keep"] = re.compile(plan["keep"])
    out = Out(handle, plan["room"])
    deadline = time.monotonic() + plan["seconds"]
    todo: Queue[int] = Queue()
    for number in range(len(plan["areas"])):
        todo.put(number)
    done: list[int] = []

    def work() -> None:
        while out.broken is None:
            try:
                number = todo.get_nowait()
            except Empty:
                return
            try:
                area(number, plan, out, deadline)
            except OSError:
                return
            done.append(number)

    # Whoever read may be gone without a word; what started this must not wait for ever to tidy up.
    last = threading.Timer(plan["seconds"] + GRACE, os._exit, (1,))
    last.daemon = True
    last.start()
    workers = [threading.Thread(target=work) for _ in range(plan["width"])]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    if len(done) < len(plan["areas"]):
        last.cancel()
        sys.stderr.write("%s\n" % (out.broken or "not all was read"))
        return 1
    out.end()
    last.cancel()
    return 0


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1]), sys.stdout.buffer))
