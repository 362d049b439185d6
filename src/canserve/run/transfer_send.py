"""Runs on the machine that holds something, from a copy of its source: sends files, or what an image archive holds."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import tarfile
import tempfile
import threading
import time
from contextlib import suppress
from queue import Empty, Queue
from typing import IO, Any

from canserve.run.transfer_digests import Digests
from canserve.run.transfer_wire import (
    BLOCK,
    Beside,
    Failed,
    Out,
    Unreached,
    connected,
    order,
    say,
    watch_operator,
)

INCOMING = ".canserve-incoming"
MOST_FILES = 200_000
ZERO = {
    "Hostname": "", "Domainname": "", "User": "", "AttachStdin": False, "AttachStdout": False,
    "AttachStderr": False, "Tty": False, "OpenStdin": False, "StdinOnce": False, "Env": None, "Cmd": None,
    "Image": "", "Volumes": None, "WorkingDir": "", "Entrypoint": None, "OnBuild": None, "Labels": None,
}  # fmt: skip
"""An empty configuration, field by field as docker writes it into the identifiers of layers."""


def name_of(path: bytes) -> str:
    """A path as text that JSON holds whatever its bytes are."""
    return path.decode("latin-1")


def place_of(root: str) -> bytes:
    """A folder as orders name it: ``hub:NAME`` lies in the Hub cache of whoever is logged in."""
    path = root.encode("latin-1")
    if path.startswith(b"hub:"):
        told = os.environ
        cache = told.get("XDG_CACHE_HOME") or "~/.cache"
        home = told.get("HF_HOME") or os.path.join(cache, "huggingface")
        hub = told.get("HF_HUB_CACHE") or os.path.join(home, "hub")
        path = os.path.join(hub.encode(), path[4:])
    return os.path.realpath(os.path.expanduser(path))


def inventory(root: bytes) -> list[list[Any]]:
    """``[name, size, mtime in ns, link target or None]`` of all files below a folder. Raises Failed.

    Links that stay below it are links; of others the contents are taken. Half downloads are left out.
    """
    found: list[list[Any]] = []
    inside = os.path.realpath(root)

    def no_entry(error: OSError) -> None:
        raise Failed(f"{error.filename!r} cannot be listed: {error.strerror}")

    for folder, folders, files in os.walk(inside, onerror=no_entry):
        folders[:] = [name for name in folders if name not in {INCOMING.encode(), b".locks"}]
        for name in [*files, *(each for each in folders if os.path.islink(os.path.join(folder, each)))]:
            if name.endswith(b".incomplete"):
                continue
            path = os.path.join(folder, name)
            entry = entry_of(path, inside)
            if entry is not None:
                found.append([name_of(os.path.relpath(path, inside)), *entry])
        if len(found) > MOST_FILES:
            raise Failed(f"more than {MOST_FILES} files")
    return found


def entry_of(path: bytes, inside: bytes) -> tuple[int, int, str | None] | None:
    """Size, time and link target of one file; None: it is neither a file nor a link."""
    if os.path.islink(path):
        target = os.path.realpath(path)
        if target.startswith(inside + b"/"):
            return 0, 0, name_of(os.path.relpath(target, os.path.realpath(os.path.dirname(path))))
        if not os.path.isfile(target):
            raise Failed(f"{path!r} is a link to {target!r}: no file, and not below the folder")
    seen = os.stat(path)
    return (seen.st_size, seen.st_mtime_ns, None) if stat.S_ISREG(seen.st_mode) else None


def ways(plan: dict[str, Any]) -> list[Out]:
    """Where frames go: connections to the other machine, or this program's own stdout."""
    if plan["to"] is None:
        return [Out(1)]
    width = plan["width"]
    found = []
    for _ in range(width):
        try:
            found.append(Out(connected(plan["to"]).detach(), width))
        except OSError as error:
            why = error.strerror or str(error)
            raise Unreached(f"{plan['to'][0]}:{plan['to'][1]} is not reached: {why}") from None
    return found


def send_files(job: dict[str, Any]) -> None:
    """A folder: first what is there, then what the other machine lacks."""
    root = place_of(job["root"])
    if not os.path.isdir(root):
        raise Failed(f"{root!r} is no folder")
    say(files=inventory(root))
    plan = order()
    watch_operator()
    outs = ways(plan)
    waiting: Queue[list[Any]] = Queue()
    for each in sorted(plan["files"], key=lambda one: -int(one[1])):
        waiting.put(each)
    digests = Digests()
    failures: list[str] = []

    def work(out: Out) -> None:
        try:
            while not failures:
                send_file(out, root, waiting.get_nowait(), digests)
        except Empty:
            out.end()
        except (Failed, OSError) as error:
            failures.append(str(error))
            stopped(out, str(error))

    threads = [threading.Thread(target=work, args=(out,)) for out in outs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    digests.keep()
    if failures:
        raise Failed(failures[0])


def stopped(out: Out, why: str) -> None:
    """Tell the other machine, if it still listens."""
    with suppress(Failed):
        out.put(b"X", why.encode("utf-8", "replace")[:2000])


def send_file(out: Out, root: bytes, one: list[Any], digests: Digests) -> None:
    """One file ``[name, size, mtime, offset, digest]``, from the offset on; or that the digest over there is right."""
    name, size, mtime, at, theirs = one
    path = os.path.join(root, name.encode("latin-1"))
    if theirs is not None and digests.of(path) == theirs:
        out.told(b"S", name=name, sha=theirs)
        return
    with open(path, "rb", buffering=0) as file:
        seen = os.fstat(file.fileno())
        out.told(b"N", name=name, size=size, at=at, mtime=mtime, mode=stat.S_IMODE(seen.st_mode))
        sha = hashlib.sha256()
        done = 0
        with Beside(sha.update, size) as hashed:
            while piece := file.read(BLOCK):
                hashed(piece)
                if done + len(piece) > at:
                    out.data(memoryview(piece)[max(at - done, 0) :])
                done += len(piece)
        after = os.fstat(file.fileno())
    if (done, after.st_mtime_ns) != (size, mtime):
        raise Failed(f"{path!r} was changed while it was read")
    digests.put(path, after, sha.hexdigest())
    out.told(b"E", sha=sha.hexdigest())


def old_names(layers: list[str]) -> dict[str, str]:
    """Docker up to 24 names the layers of its archives by hashes of its own: those of all but the last.

    As in moby's image/v1/imagev1.go, CreateID. They hold the moment zero as the daemon's time zone writes it.
    """
    offset = time.localtime(0).tm_gmtoff // 60
    zone = f"{'-' if offset < 0 else '+'}{abs(offset) // 60:02d}:{abs(offset) % 60:02d}" if offset else "Z"
    then = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(0)) + zone
    found: dict[str, str] = {}
    chain = parent = ""
    for layer in layers[:-1]:
        chain = "sha256:" + hashlib.sha256((chain + " " + layer).encode()).hexdigest() if chain else layer
        told = {"container_config": ZERO, "created": then, "layer_id": chain}
        if parent:
            told["parent"] = parent
        text = json.dumps(told, separators=(",", ":"))
        parent = "sha256:" + hashlib.sha256(text.encode()).hexdigest()
        found[parent[7:] + "/layer.tar"] = layer
    return found


def names_to_skip(layers: list[str], held: int) -> set[str]:
    """Names that the lowest layers may have in an archive: of Docker, old and new, and of podman."""
    there = set(layers[:held]) - set(layers[held:])
    plain = {layer.partition(":")[2] for layer in there}
    old = {name for name, layer in old_names(layers).items() if layer in there}
    return {"blobs/sha256/" + name for name in plain} | {name + ".tar" for name in plain} | old


def send_image(job: dict[str, Any]) -> None:
    """An image archive, without the layers that the other machine holds."""
    say(ready=job["do"])
    plan = order()
    watch_operator()
    (out,) = ways(plan)
    try:
        with tempfile.TemporaryFile() as talk:
            with subprocess.Popen(
                plan["argv"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, stderr=talk
            ) as process:
                assert process.stdout is not None
                why = passed_on(
                    process.stdout, out, names_to_skip(plan["layers"], plan["held"]), plan["have"]
                )
            if process.returncode or why:
                talk.seek(0)
                said = talk.read(2000).decode("utf-8", "replace").strip().splitlines()
                raise Failed(f"{plan['argv'][0]}: {said[-1] if said else why or process.returncode}")
        out.end()
    except (Failed, OSError) as error:
        stopped(out, str(error))
        raise Failed(str(error)) from None


def passed_on(stream: IO[bytes], out: Out, skip: set[str], have: dict[str, int]) -> str | None:
    """Every member but those; why it ended early, if it did."""
    try:
        with tarfile.open(fileobj=stream, mode="r|*", bufsize=BLOCK) as archive:
            while True:
                member = archive.next()
                if member is None:
                    return None
                archive.members = []  # type: ignore[attr-defined] # tarfile would keep them all
                if member.name not in skip:
                    pass_on(archive, member, out, have)
    except (tarfile.TarError, EOFError) as error:
        return f"not an archive: {error}"


def pass_on(archive: tarfile.TarFile, member: tarfile.TarInfo, out: Out, have: dict[str, int]) -> None:
    """One member, from where the other machine has it on."""
    mark = hashlib.sha256(f"{member.name}:{member.size}".encode("utf-8", "surrogateescape")).hexdigest()
    at = min(have.get(mark, 0), member.size)
    kind = member.type.decode("ascii", "replace")
    out.told(b"N", name=member.name, size=member.size, at=at, type=kind, to=member.linkname, mode=member.mode)
    if not member.isreg():
        return
    file = archive.extractfile(member)
    assert file is not None
    done = 0
    while data := file.read(BLOCK):
        if done + len(data) > at:
            out.data(memoryview(data)[max(at - done, 0) :])
        done += len(data)
