"""The message catalogue: what the engines' sources raise, in which file, from which release to which.

Only files of ``rules/failure_areas.toml`` are in it: those in which whatever is raised is of one kind of failure.
So a line that no signature knows, and that stands without its traceback, still leads to the place that raised it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from canserve.engines.static.messages import messages, pieces
from canserve.rules.failures import Area, knowledge

DATA = "messages_data/messages.zlib"
FORM = "canserve messages 1"
MIN_CONSTANT = 24
"""Letters of a template that are not filled in, below which it says too little to be recognised by."""
_MAX_UNPACKED = 32 << 20


@dataclass(frozen=True, slots=True)
class Message:
    """One message: its template with ``{}`` for what is filled in, and where it is raised."""

    engine: str
    file: str
    line: int
    """In the last of its releases."""
    first: str
    last: str
    template: str


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a line of a log was raised, and what that says of it."""

    message: Message
    area: Area

    @property
    def place(self) -> str:
        """File and line, and the releases."""
        message = self.message
        return f"{message.file}:{message.line} ({message.engine} {message.first} to {message.last})"


def read_release(paths: Mapping[str, str], areas: Sequence[Area]) -> Iterable[tuple[str, int, str]]:
    """File, line and template of everything that is raised in the areas of one release."""
    for path, text in paths.items():
        for message in messages(text) if any(area_holds(area, path) for area in areas) else ():
            if message.level == "raise" and telling(message.template):
                yield path, message.line, message.template


def telling(template: str) -> bool:
    """Whether a template is long enough to be recognised by."""
    return sum(map(len, pieces(template))) >= MIN_CONSTANT


def area_holds(area: Area, path: str) -> bool:
    """Whether a source file is in an area; ``*`` stands for anything."""
    from fnmatch import fnmatchcase

    return any(fnmatchcase(path, pattern) or fnmatchcase(path, f"*/{pattern}") for pattern in area.files)


def packed(found: Iterable[Message]) -> bytes:
    """The catalogue as it is shipped."""
    rows = ["\t".join((m.engine, m.file, str(m.line), m.first, m.last, m.template)) for m in found]
    return zlib.compress("\n".join([FORM, *sorted(rows)]).encode(), 9)


def unpacked(data: bytes) -> tuple[Message, ...]:
    """A catalogue from its bytes. Raises ValueError: damaged, or of another form."""
    unpack = zlib.decompressobj()
    try:
        text = unpack.decompress(data, _MAX_UNPACKED).decode("utf-8", "replace")
    except zlib.error as error:
        raise ValueError(f"the message catalogue is damaged: {error}") from error
    form, *rows = text.split("\n")
    if form != FORM or not unpack.eof:
        raise ValueError("the message catalogue is of another form")
    return tuple(_message(row) for row in rows)


def _message(row: str) -> Message:
    engine, file, line, first, last, template = row.split("\t", 5)
    return Message(engine, file, int(line), first, last, template)


@cache
def shipped() -> tuple[Message, ...]:
    """The catalogue of this package."""
    return unpacked((files(__package__) / DATA).read_bytes())


def origin(text: str, catalogue: Sequence[Message] | None = None) -> Origin | None:
    """Where a line was raised: the message whose constant parts it holds, the longest where there are several."""
    best, length = None, 0
    for message in shipped() if catalogue is None else catalogue:
        constant = sum(map(len, pieces(message.template)))
        if constant > length and _fits(text, message.template):
            best, length = message, constant
    if best is None:
        return None
    areas = knowledge().areas
    area = next((a for a in areas if a.engine == best.engine and area_holds(a, best.file)), None)
    return Origin(best, area) if area is not None else None


def _fits(text: str, template: str) -> bool:
    """Whether the parts stand in the line in their order."""
    at = 0
    for piece in pieces(template):
        at = text.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return True
