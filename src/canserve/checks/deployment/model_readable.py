"""model-readable: whoever will read the model there can. An engine says so only minutes after it was started."""

from __future__ import annotations

import posixpath
import shlex

from canserve.checks.deployment.question import ReadingCheck
from canserve.checks.reader import NotApplicable, Reader
from canserve.subjects.deployment import PROCESS, Mount
from canserve.subjects.placed import ModelRead, Placed, Who
from canserve.verdict import No, Unknown, Verdict, Yes

_LOCAL = frozenset(
    {"ext2/ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "tmpfs", "ramfs", "overlayfs", "bcachefs", "jfs", "reiserfs"}
)  # fmt: skip
"""File systems on which root reads everything; servers of others treat it as nobody. Names: ``stat -f`` of coreutils."""


def readable(reader: Reader, it: ModelRead, machine: str) -> Verdict:
    """The verdict of ``model-readable``."""
    placed = reader.read(it.placed[machine])
    comes = machine in it.coming
    match placed.state:
        case "absent" if comes or it.fetched:
            raise NotApplicable("it is brought" if comes else "it is fetched when the engine starts")
        case "absent":
            return No(f"{placed.at} is not there", f"copy it there: canserve distribute --to {machine}")
        case "dangling":
            return No(f"{placed.at} is a link that leads nowhere", f"put there what it means: {placed.at}")
        case "barred":
            return _barred(reader, it, machine, placed, (f"{placed.at} ({placed.mode})",))
        case "there":
            return _there(reader, it, machine, placed)


def _there(reader: Reader, it: ModelRead, machine: str, placed: Placed) -> Verdict:
    if not placed.files:
        raise NotApplicable(f"{placed.path} holds no file of which it is known that models are made of it")
    if placed.dangling and machine not in it.coming:
        more = _more(placed.dangling)
        return No(f"{more} in {placed.path}: links that lead nowhere", "fetch or copy the model there again")
    if (outside := _outside(it, placed)) is not None:
        return outside
    if placed.barred:
        return _barred(reader, it, machine, placed, placed.barred)
    said = f"{placed.files} files of {placed.path}"
    if it.program == PROCESS:
        return Yes(f"the login reads {said}")
    who = _who(reader, it, machine)
    if placed.shy == () and who != "confined":
        return Yes(f"everybody may read {said}")
    match who:
        case "lone" if placed.lent == ():
            return Yes(f"the login reads {said}, in {it.program} too")
        case "lone" if placed.lent:
            return _not_let(placed, placed.lent, "by a further group, which is lost in a container")
        case "root" if placed.system in _LOCAL:
            return Yes(f"root of {it.program} reads {said}")
        case _:
            return _not_known(who, it, placed, placed.shy or ("what permissions were not seen of",))


def _barred(
    reader: Reader, it: ModelRead, machine: str, placed: Placed, what: tuple[str, ...]
) -> No | Unknown | Yes:
    """The login may not: that decides for its own processes, not for a root that no permission bars."""
    who = _who(reader, it, machine)
    if who in ("login", "lone"):
        return _not_let(placed, what)
    if who == "root" and placed.state == "there" and placed.system in _LOCAL:
        return Yes(f"root of {it.program} reads {placed.files} files of {placed.path}")
    return _not_known(who, it, placed, what)


def _not_let(placed: Placed, what: tuple[str, ...], but: str = "") -> No:
    place = shlex.quote(placed.at or placed.path)
    said = (
        f"the login there reads {_more(what)} only {but}"
        if but
        else f"the login there may not read {_more(what)}"
    )
    return No(said, f"let it read that, as the owner: chmod -R a+rX {place}")


def _not_known(who: Who, it: ModelRead, placed: Placed, what: tuple[str, ...]) -> Unknown:
    if who == "confined":
        return Unknown(
            f"labels of SELinux decide what containers of {it.program} read",
            f"ls -dZ {shlex.quote(placed.path)} has to say container_file_t: chcon -R -t container_file_t sets it",
        )
    reads = {
        "root": f"root of {it.program} reads it, which may read more, or on a network's file system less",
        "other": f"the image's own user reads it in {it.program}",
        "login": "the login reads it",
        "lone": f"the login reads it in {it.program}, without its further groups",
    }[who]
    return Unknown(
        f"{_more(what)} in {placed.path} is not for everybody, and {reads}",
        f"let everybody read it: chmod -R a+rX {shlex.quote(placed.path)}",
    )


def _who(reader: Reader, it: ModelRead, machine: str) -> Who:
    return reader.read(it.who[machine])


def _more(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _outside(it: ModelRead, placed: Placed) -> No | None:
    """A link that is whole on the machine leads nowhere in a container that was not given its target."""
    for path, text in placed.links:
        inside = _inside(path, it.mounts)
        if inside is None:
            continue
        target = posixpath.normpath(posixpath.join(posixpath.dirname(inside), text))
        if not any(_below(target, mount.target) for mount in it.mounts):
            held = posixpath.dirname(posixpath.normpath(posixpath.join(posixpath.dirname(path), text)))
            return No(
                f"{path} leads to {text}, which its container is not given",
                f"mount a folder that holds both {posixpath.dirname(path)} and {held}: --mount",
            )
    return None


def _inside(path: str, mounts: tuple[Mount, ...]) -> str | None:
    """What a path of the machine is called in the container."""
    for mount in mounts:
        if _below(path, mount.source):
            return mount.target.rstrip("/") + path[len(mount.source.rstrip("/")) :]
    return None


def _below(path: str, folder: str) -> bool:
    folder = folder.rstrip("/")
    return path == folder or path.startswith(f"{folder}/")


MODEL_READABLE = ReadingCheck(
    "model-readable",
    "Whoever reads the model on the machine can: its login, or its container engine's root, through every link.",
    readable,
)
