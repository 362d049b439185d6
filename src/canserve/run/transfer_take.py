"""Runs on the machine that gets files, from a copy of its source: none of them is ever half under its name.

What came before a cut is kept and gone on with. Nothing is believed: names stay below the folder, contents are what
their digest says.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import IO, Any

from canserve.run.transfer_digests import Digests
from canserve.run.transfer_send import INCOMING, place_of
from canserve.run.transfer_wire import (
    SILENCE,
    Beside,
    Cut,
    Door,
    Failed,
    In,
    order,
    say,
    watch_operator,
    write_all,
)

KEPT = 7 * 86400
"""Seconds after which what is left of a cut copy is thrown away by the next one."""
SETTLING = 8
"""Files of one connection that wait for the disk at once."""
FLUSHED = 64 << 20
"""Bytes of a file after which the disk is asked to keep them, while more come."""
GHOST = SILENCE + 20
"""Seconds that a copy whose operator was lost may still hold its lock."""


class Counter:
    """What came of what was announced, told twice a second."""

    def __init__(self, announced: int = 0) -> None:
        self.got, self.announced, self.phase = 0, announced, "copying"
        self.lock = threading.Lock()

    def begin(self) -> Counter:
        """From now on it is told."""
        threading.Thread(target=self.tell, daemon=True).start()
        return self

    def more(self, announced: int = 0, got: int = 0) -> None:
        """So many bytes more; what comes was announced before."""
        with self.lock:
            self.announced, self.got = self.announced + announced, self.got + got

    def tell(self) -> None:
        """As long as the program runs."""
        while True:
            time.sleep(0.5)
            with self.lock:
                got, announced = self.got, self.announced
            say(got=got, announced=announced, phase=self.phase)


def free(path: str | bytes) -> int | None:
    """Bytes that this user may still write where a path lies or will lie; None: that cannot be said."""
    while path and not os.path.exists(path):
        path = os.path.dirname(path)
    try:
        found = os.statvfs(path or "/")
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


def disk(path: str | bytes) -> int | None:
    """The file system it lies on or will lie on."""
    while path and not os.path.exists(path):
        path = os.path.dirname(path)
    try:
        return os.stat(path or "/").st_dev
    except OSError:
        return None


def locked(folder: bytes) -> IO[bytes]:
    """Nobody else copies to the same place at the same time. Raises Failed."""
    end = time.monotonic() + GHOST
    while True:
        os.makedirs(folder, exist_ok=True)
        file = open(os.path.join(folder, b"lock"), "ab")  # noqa: SIM115 - held until the program ends
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(file.fileno()).st_nlink:
                return file
        except OSError:
            if time.monotonic() > end:
                raise Failed(f"another copy to {folder!r} is going on") from None
            say(phase="waiting for another copy to the same place")
            time.sleep(1)
        file.close()  # whoever held it took it away at the end


def released(lock: IO[bytes], folder: bytes) -> None:
    """Nothing of the copy stays but what was copied."""
    with suppress(OSError):
        if os.listdir(folder) == [b"lock"]:
            os.unlink(os.path.join(folder, b"lock"))
            os.rmdir(folder)
    lock.close()


def inputs(plan: dict[str, Any], door: Door | None) -> list[In]:
    """Where frames come from."""
    if not plan["direct"]:
        return [In(0)]
    watch_operator()
    assert door is not None
    return [In(way.detach()) for way in door.let_in(plan["width"], 60)]


def opened(job: dict[str, Any]) -> Door | None:
    """Listens where the job says; None: there is no such address here."""
    if not job["listen"]:
        return None
    try:
        return Door(job["listen"], job["ask"], job["answer"])
    except OSError:
        return None


class Folder:
    """Where files are put together, and put in their place when they are whole."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.root = place_of(job["root"])
        self.incoming = os.path.join(self.root, INCOMING.encode())
        self.files = {one[0]: one for one in job["files"]}
        self.digests = Digests()
        self.counted: set[str] = set()
        """Files that are known to be sent, so that they were announced at the beginning."""
        self.settled: dict[str, str] = {}
        self.moved: list[tuple[bytes, os.stat_result, str]] = []
        for name, one in self.files.items():
            checked(name)
            if one[3] is not None:
                below(name, one[3])

    def prepare(self) -> None:
        """The folder is there, and nobody else's."""
        os.makedirs(self.incoming, exist_ok=True)
        self.lock = locked(self.incoming)
        wanted = {self.part(one) for one in self.files.values()}
        for name in os.listdir(self.incoming):
            path = os.path.join(self.incoming, name)
            if name.endswith(b".part") and path not in wanted and time.time() - os.stat(path).st_mtime > KEPT:
                os.unlink(path)

    def path(self, name: str) -> bytes:
        """Where a file belongs; its folder is made. Raises Failed when a link leads elsewhere."""
        path = os.path.join(self.root, name.encode("latin-1"))
        folder = os.path.dirname(path)
        os.makedirs(folder, exist_ok=True)
        if os.path.realpath(folder) != folder:
            raise Failed(f"{path!r} lies behind a link")
        return path

    def part(self, one: list[Any]) -> bytes:
        """Where a file is put together: of another size or time it is another file."""
        mark = hashlib.sha256(f"{one[0]}\0{one[1]}\0{one[2]}".encode()).hexdigest()
        return os.path.join(self.incoming, mark.encode() + b".part")

    def state(self, one: list[Any]) -> dict[str, Any] | None:
        """What is there of a file: its digest, or how much of it came before."""
        path = os.path.join(self.root, one[0].encode("latin-1"))
        try:
            seen = os.lstat(path)
            if stat.S_ISREG(seen.st_mode) and seen.st_size == one[1]:
                return {"sha": self.digests.of(path)}
        except OSError:
            pass
        try:
            return {"at": min(os.stat(self.part(one)).st_size, one[1])}
        except OSError:
            return None

    def announced(self, have: dict[str, dict[str, Any] | None]) -> int:
        """Bytes that are sent in any case: of files that are not there. Of others it is seen when they come."""
        lacking = {name: (one or {}).get("at", 0) for name, one in have.items() if "sha" not in (one or {})}
        self.counted = set(lacking)
        return sum(max(self.files[name][1] - at, 0) for name, at in lacking.items())

    def take(self, frames: In, counter: Counter) -> None:
        """Files of one connection, until all of them came.

        The disk is waited for beside that, for many files at once: it keeps them for the price of a few.
        """
        with ThreadPoolExecutor(SETTLING) as pool:
            going: list[Future[None]] = []
            for one, told, part, digest in self.came(frames, counter):
                going.append(pool.submit(self.settle, one, told, part, digest))
                while len(going) > 2 * SETTLING:
                    going.pop(0).result()
            for each in going:
                each.result()

    def came(self, frames: In, counter: Counter) -> Iterator[tuple[list[Any], dict[str, Any], bytes, str]]:
        """Files that are whole, and not in their places yet."""
        while True:
            kind, data = frames.next()
            if kind == b"Q":
                return
            told = told_by(data)
            one = self.files.get(told.get("name", ""))
            if one is None or one[3] is not None:
                raise Failed("a file came that nobody asked for")
            if kind == b"S":
                self.settled[one[0]] = told["sha"]
            elif kind == b"N":
                yield one, told, *self.receive(one, told, frames, counter)

    def receive(
        self, one: list[Any], told: dict[str, Any], frames: In, counter: Counter
    ) -> tuple[bytes, str]:
        """One file, from its beginning or on from where it was cut; where it lies, and its digest."""
        part, at = self.part(one), int(told["at"])
        if one[0] not in self.counted:
            counter.more(announced=one[1] - at)
        sha = hashlib.sha256()
        with open(part, "r+b" if at else "wb", buffering=0) as file:
            while at and (piece := file.read(min(1 << 20, at - file.tell()))):
                sha.update(piece)
            if file.tell() != at:
                raise Failed(f"{part!r} is shorter than it was")
            file.truncate()
            try:
                digest = self.fill(file, one[1], sha, frames, counter)
            except OSError as error:
                os.unlink(part)  # what does not fit must not keep the disk full
                raise Failed(f"{one[0]!r} cannot be written: {error.strerror}") from None
            if file.tell() != one[1] or digest != sha.hexdigest():
                os.unlink(part)
                # Where it was gone on with, what came before the cut is what is wrong: it is sent anew.
                kind = Cut if at else Failed
                raise kind(f"{one[0]!r} is not what was sent: sha256 {sha.hexdigest()}, not {digest}")
        return part, digest

    def settle(self, one: list[Any], told: dict[str, Any], part: bytes, digest: str) -> None:
        """A file that is whole gets its name, once the disk has it."""
        with open(part, "r+b", buffering=0) as file:
            os.fchmod(file.fileno(), (int(told["mode"]) & 0o777) | 0o600)
            os.utime(file.fileno(), ns=(one[2], one[2]))
            os.fsync(file.fileno())
        path = self.path(one[0])
        if os.path.isdir(path) and not os.path.islink(path):
            raise Failed(f"{path!r} is a folder here")
        os.replace(part, path)
        self.settled[one[0]] = digest
        self.moved.append((path, os.lstat(path), digest))

    def fill(self, file: IO[bytes], size: int, sha: Any, frames: In, counter: Counter) -> str:
        """Contents up to the end of a file; the digest that its sender read."""
        flushed = 0
        with Beside(sha.update, size) as hashed, Beside(os.fdatasync, size) as flush:
            while True:
                kind, data = frames.next()
                if kind == b"E":
                    return str(told_by(data)["sha"])
                if kind != b"D":
                    raise Failed("a file broke off")
                if file.tell() + len(data) > size:
                    raise Failed("more came of a file than was announced")
                write_all(file.fileno(), data)
                hashed(data)
                counter.more(got=len(data))
                flushed += len(data)
                if flushed >= FLUSHED:  # so that the disk has little left to do at the end
                    flush(file.fileno())
                    flushed = 0

    def finish(self) -> dict[str, Any]:
        """Links, and whether nothing is missing; the digest of names and contents together."""
        lost = [name for name, one in self.files.items() if one[3] is None and name not in self.settled]
        if lost:
            raise Cut(f"{len(lost)} files did not come, the first {lost[0]!r}")
        for name, one in self.files.items():
            if one[3] is not None:
                self.link(name, one[3])
        for path, seen, digest in self.moved:
            self.digests.put(path, seen, digest)
        self.digests.keep()
        whole = hashlib.sha256()
        for name in sorted(self.files):
            what = self.settled.get(name) or "-> " + str(self.files[name][3])
            whole.update((f"{name}\0{what}\n").encode())
        released(self.lock, self.incoming)
        return {
            "digest": "sha256:" + whole.hexdigest(),
            "files": len(self.moved),
            "same": len(self.settled) - len(self.moved),
        }

    def link(self, name: str, to: str) -> None:
        """A link that stays below the folder."""
        path, target = self.path(name), to.encode("latin-1")
        if os.path.islink(path) and os.readlink(path) == target:
            return
        own = os.path.join(self.incoming, b"link")
        if os.path.lexists(own):
            os.unlink(own)
        os.symlink(target, own)
        os.replace(own, path)


def told_by(data: bytes | bytearray) -> dict[str, Any]:
    """JSON of a frame."""
    found = json.loads(bytes(data).decode())
    if not isinstance(found, dict):
        raise Failed("the other end does not speak this language")
    return found


def checked(name: str) -> None:
    """Raises Failed for a name that does not stay below its folder, or is one of ours."""
    parts = name.split("/")
    if name.startswith("/") or "\0" in name or {"", ".", ".."} & set(parts) or parts[0] == INCOMING:
        raise Failed(f"{name!r} is no name of a file here")


def below(name: str, to: str) -> None:
    """Raises Failed for a link that leads out of the folder."""
    where = os.path.normpath(os.path.join(os.path.dirname(name), to))
    if to.startswith("/") or where == ".." or where.startswith("../") or "\0" in to:
        raise Failed(f"the link {name!r} leads out of the folder: {to!r}")


def take_files(job: dict[str, Any]) -> None:
    """A folder, or what differs of it."""
    folder = Folder(job)
    try:
        folder.prepare()
        room = free(folder.root)
        regular = [one for one in folder.files.values() if one[3] is None]
        with ThreadPoolExecutor(8) as pool:
            have = dict(zip((one[0] for one in regular), pool.map(folder.state, regular)))  # noqa: B905 - Python 3.8
    except OSError as error:
        raise Failed(f"{folder.root!r} cannot be written: {error.strerror}") from None
    folder.digests.keep()
    door = opened(job)
    say(have=have, free=room, port=door.port if door else None)
    plan = order()
    counter = Counter(folder.announced(have)).begin()
    frames = inputs(plan, door)
    with ThreadPoolExecutor(len(frames)) as pool:
        works = [pool.submit(folder.take, each, counter) for each in frames]
    for work in works:
        work.result()
    done = folder.finish()
    say(done=dict(done, wire=sum(each.count for each in frames), got=counter.got))
