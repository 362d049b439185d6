"""Large files of a container or image, one after the other: each as an archive of its own, unpacked to the disk."""

from __future__ import annotations

import secrets
import shlex
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from canserve.commands import containers
from canserve.facts import Missing
from canserve.probes.container.asking import Described
from canserve.probes.container.naming import Held
from canserve.probes.container.way import Way
from canserve.transport.frames import Answer, Section
from canserve.transport.pouring import PourError
from canserve.transport.reach import Limits
from canserve.trees.archive.stream import BROKEN, told
from canserve.trees.names import printable, unavailable, unreadable
from canserve.trees.positions import MAX_UNPACKED, Use, in_steps, spooled
from canserve.trees.tree import TreeError

SECONDS = 600.0
"""For one file."""


def visitor(
    it: Held, described: Described, way: Way
) -> Callable[[int, Sequence[str], Use], Mapping[str, Missing]]:
    """Unpacks files one after the other and lets them be used; the answer holds those that could not be."""

    def visit(number: int, paths: Sequence[str], use: Use) -> Mapping[str, Missing]:
        del number
        failed: dict[str, Missing] = {}
        try:
            with _standing(it, described, way) as name:
                for path in paths:
                    try:
                        _use(it, way, containers.archive(described.program, name, path), path, use)
                    except TreeError as error:
                        failed[path] = error.missing
        except TreeError as error:
            return dict.fromkeys(paths, error.missing)
        return failed

    return visit


@contextmanager
def _standing(it: Held, described: Described, way: Way) -> Iterator[str]:
    """A container whose archives can be read; of an image one that is created, and taken away at the end."""
    if it.kind == "container":
        yield it.name
        return
    name = f"canserve-{secrets.token_hex(8)}"
    make = shlex.join(containers.create(described.program, described.image, name))
    try:
        look = way.look(it, [Section("create", f"within 30 {make} >/dev/null")], Limits(whole=40.0))
        answer = look.section("create")
        if isinstance(answer, Missing):
            raise TreeError(answer)
        if answer.status != 0:
            raise TreeError(_refused(it, answer))
        yield name
    finally:
        way.remove(it, described.program, name)


def _refused(it: Held, answer: Answer) -> Missing:
    return unavailable(printable(it.subject), "", f"no container could be made of it: {answer.complaint}")


def _use(it: Held, way: Way, argv: Sequence[str], path: str, use: Use) -> None:
    where = (printable(it.subject), path)
    try:
        with (
            way.stream(it, argv, SECONDS) as stream,
            tarfile.open(fileobj=stream, mode="r|", errorlevel=1) as archive,  # type: ignore[call-overload]
        ):
            member = archive.next()
            handle = archive.extractfile(member) if member is not None and member.isreg() else None
            if member is None or handle is None or not 0 <= member.size <= MAX_UNPACKED:
                raise TreeError(unreadable(*where, "not a regular file any more"))
            with spooled(in_steps(handle.read, member.size), member.size, where) as file:
                use(path, file)
    except PourError as error:
        raise TreeError(unavailable(*where, str(error))) from None
    except BROKEN as error:
        raise TreeError(unreadable(*where, f"its archive could not be read: {told(error)}")) from None
