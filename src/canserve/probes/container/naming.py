"""How a user names what a container engine holds, and on which machine.

``container://NAME[@MACHINE]``: a container, running or not, of docker or podman. ``docker-daemon:IMAGE[@MACHINE]``,
and ``docker://IMAGE@MACHINE``: an image of docker. ``podman:IMAGE[@MACHINE]``, ``containers-storage:IMAGE[@MACHINE]``:
an image of podman. ``MACHINE:/PATH``: a folder there. MACHINE: ``local``, or how ssh reaches it; without it this machine is meant.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from posixpath import normpath

CONTAINER = "container://"
REGISTRY = "docker://"
IMAGES = {"docker-daemon:": "docker", "podman:": "podman", "containers-storage:": "podman"}
"""Prefixes of images, with the program that holds them."""
LOCAL = "local"
PROGRAMS = ("docker", "podman")
_MEANT = {
    "docker:": "write docker-daemon:{0} for an image that docker holds, docker://{0} for one in a registry",
    "container:": "write container://{0}",
}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,500}(?:@sha256:[0-9a-f]{64})?")
_MACHINE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@:%\[\]-]*")
"""As ssh takes it; it never begins with a dash."""


class NamingError(ValueError):
    """A name that cannot be one; says why."""


@dataclass(frozen=True, slots=True)
class Held:
    """What is to be read of which engine."""

    subject: str
    """As the user wrote it."""
    kind: str
    """``container`` or ``image``."""
    name: str
    programs: tuple[str, ...]
    """Asked in this order."""
    machine: str = LOCAL


def held(target: str) -> Held | None:
    """What a target stands for; None: it is nothing that a container engine holds. Raises NamingError."""
    if target.startswith(CONTAINER):
        name, _, machine = target[len(CONTAINER) :].strip("/").partition("@")
        return _checked(Held(target, "container", name, PROGRAMS, machine or LOCAL), _NAME)
    for prefix, program in IMAGES.items():
        if target.startswith(prefix):
            name, machine = _split(target[len(prefix) :].removeprefix("//"))
            return _checked(Held(target, "image", name, (program,), machine or LOCAL), _IMAGE)
    for typed, meant in _MEANT.items():
        if target.startswith(typed) and not target.startswith(f"{typed}//"):
            raise NamingError(meant.format(target[len(typed) :]))
    if target.startswith(REGISTRY):
        name, machine = _split(target[len(REGISTRY) :])
        if machine:
            return _checked(Held(target, "image", name, ("docker",), machine), _IMAGE)
    return None


def _split(rest: str) -> tuple[str, str]:
    """``IMAGE@sha256:...@MACHINE`` -> the image, and the machine or nothing."""
    found = re.match(r"([^@]*(?:@sha256:[0-9a-fA-F]+(?=@|$))?)(?:@(.*))?$", rest, re.DOTALL)
    return (found[1], found[2] or "") if found else (rest, "")


def _checked(it: Held, form: re.Pattern[str]) -> Held:
    if not form.fullmatch(it.name):
        raise NamingError(f"no name of {'a container' if it.kind == 'container' else 'an image'}")
    if not _MACHINE.fullmatch(it.machine):
        raise NamingError("what follows the @ is no machine: local, or an ssh destination")
    return it


_TARGET = re.compile(r"(?P<machine>[A-Za-z0-9_][A-Za-z0-9._@%\[\]-]*):(?P<path>/(?!/).*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class RemoteFolder:
    """A folder, and where it lies."""

    subject: str
    """As the user wrote it."""
    machine: str
    path: str
    """Without the slash at its beginning."""


def remote_folder(target: str) -> RemoteFolder | None:
    """What ``MACHINE:/PATH`` stands for; None: the target is something else."""
    found = _TARGET.fullmatch(target)
    if found is None or not found["path"].isprintable():
        return None
    return RemoteFolder(target, found["machine"], normpath(found["path"]).lstrip("/"))
