"""The message catalogue: what the engines' sources raise, in which file, from which release to which.

Only files of ``rules/failure_areas.toml`` are in it: those in which whatever is raised is of one kind of failure.
So a line that no signature knows, and that stands without its traceback, still leads to the place that raised it.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path

from canserve.engines.cpp.messages import messages as cpp_messages
from canserve.engines.static.messages import messages, pieces
from canserve.index.places import user_folder
from canserve.rules.failures import Area, knowledge

NAME = "messages.zlib"
DATA = f"messages_data/{NAME}"
FORM = "canserve messages 2"
CPP = (".cpp", ".cc", ".c", ".cu", ".cuh", ".h", ".hpp")
MIN_CONSTANT = 24
"""Letters of a template that are not filled in, below which it says too little to be recognised by."""
LONG_PIECE = 20
"""Letters in a row that say enough even where they are everyday words."""
_EVERYDAY_WORDS = (
    "able all and any are argument arguments attribute available been both but can cannot class could could dict"
    " does each either error expected failed file files for from given got greater has have index int into invalid"
    " key keys least length less list match module more most must name not number object one only option options"
    " path please provided required requires same set shape should size specified str string support supported"
    " supports than that the this type types unexpected unknown unsupported use value values was were when with"
)
"""Words that tell nothing of what a message is about."""
_EVERYDAY = frozenset(_EVERYDAY_WORDS.split())
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


def read_file(path: str, text: str) -> tuple[tuple[int, str], ...]:
    """Line and template of everything that one source file raises; of C++ also what it logs as an error."""
    if path.endswith(CPP):
        return tuple((each.line, each.template) for each in cpp_messages(text) if telling(each.template))
    return tuple(
        (each.line, each.template)
        for each in messages(text)
        if each.level == "raise" and telling(each.template)
    )


def telling(template: str) -> bool:
    """Whether a template is long enough to be recognised by, and more than everyday words around names."""
    said = tuple(pieces(template))
    if sum(map(len, said)) < MIN_CONSTANT:
        return False
    words = {word for piece in said for word in re.findall(r"[a-z_]{3,}", piece.lower())}
    return len(words - _EVERYDAY) > 1 or max(map(len, said)) >= LONG_PIECE


def area_holds(area: Area, path: str) -> bool:
    """Whether a source file is in an area; ``*`` stands for anything."""
    return named_in(area, path) is not None


def named_in(area: Area, path: str) -> str | None:
    """A source file as the area names it, without the folders around; None: it is not in it."""
    from fnmatch import fnmatchcase

    parts = path.split("/")
    for pattern in area.files:
        if fnmatchcase(path, pattern) or fnmatchcase(path, f"*/{pattern}"):
            below = ("/".join(parts[at:]) for at in range(len(parts)))
            return next(name for name in below if fnmatchcase(name, pattern))
    return None


class Catalogue:
    """What is raised where, release by release, oldest first."""

    def __init__(self, found: Iterable[Message]) -> None:
        self._known = {(each.engine, each.file, each.template): each for each in found}

    def add(self, engine: str, version: str, said: Iterable[tuple[str, int, str]]) -> None:
        """File, line and template of everything that one release raises."""
        for file, line, template in said:
            key = (engine, file, template)
            first = self._known[key].first if key in self._known else version
            self._known[key] = Message(engine, file, line, first, version, template)

    @property
    def messages(self) -> tuple[Message, ...]:
        """All of them."""
        return tuple(self._known.values())


def packed(found: Iterable[Message], built: str) -> bytes:
    """The catalogue as it is shipped. ``built``: the day, ISO 8601."""
    rows = ["\t".join((m.engine, m.file, str(m.line), m.first, m.last, m.template)) for m in found]
    return zlib.compress("\n".join([f"{FORM}\t{built}", *sorted(rows)]).encode(), 9)


@dataclass(frozen=True, slots=True)
class Unpacked:
    """A catalogue from its file."""

    built: str
    messages: tuple[Message, ...]


def unpacked(data: bytes) -> Unpacked:
    """A catalogue from its bytes. Raises ValueError: damaged, or of another form."""
    unpack = zlib.decompressobj()
    try:
        text = unpack.decompress(data, _MAX_UNPACKED).decode("utf-8", "replace")
    except zlib.error as error:
        raise ValueError(f"the message catalogue is damaged: {error}") from error
    head, *rows = text.split("\n")
    form, _, built = head.partition("\t")
    if form != FORM or not unpack.eof:
        raise ValueError("the message catalogue is of another form")
    return Unpacked(built, tuple(map(_message, rows)))


def _message(row: str) -> Message:
    engine, file, line, first, last, template = row.split("\t", 5)
    return Message(engine, file, int(line), first, last, template)


@cache
def shipped() -> Unpacked:
    """The catalogue of this package."""
    return unpacked((files(__package__) / DATA).read_bytes())


@cache
def catalogue() -> Unpacked:
    """The later one of what is shipped and what `canserve index update` wrote into the user's folder."""
    return read_from(user_folder()) or shipped()


def read_from(folder: Path) -> Unpacked | None:
    """The catalogue of a folder; None where there is none that is later than what is shipped and can be read."""
    try:
        with (folder / NAME).open("rb") as file:
            found = unpacked(file.read(_MAX_UNPACKED))
    except (OSError, ValueError):  # what is damaged is written anew
        return None
    return found if found.built >= shipped().built else None


def origin(text: str, known: Sequence[Message] | None = None) -> Origin | None:
    """Where a line was raised: the message whose constant parts it holds, the longest where there are several."""
    return _shipped_origin(text) if known is None else _origin(text, _longest_first(known))


@lru_cache(1 << 12)
def _shipped_origin(text: str) -> Origin | None:
    return _origin(text, _catalogued())


def _origin(text: str, longest: Sequence[tuple[tuple[str, ...], Message]]) -> Origin | None:
    best = next((message for parts, message in longest if _fits(text, parts)), None)
    if best is None:
        return None
    areas = knowledge().areas
    area = next((a for a in areas if a.engine == best.engine and area_holds(a, best.file)), None)
    return Origin(best, area) if area is not None else None


@cache
def _catalogued() -> Sequence[tuple[tuple[str, ...], Message]]:
    return _longest_first(catalogue().messages)


def _longest_first(messages: Iterable[Message]) -> list[tuple[tuple[str, ...], Message]]:
    """With their constant parts; of a thousand ranks a thousand lines are looked up."""
    found = [(tuple(pieces(each.template)), each) for each in messages if telling(each.template)]
    return sorted((each for each in found if each[0]), key=lambda each: -sum(map(len, each[0])))


def _fits(text: str, parts: Sequence[str]) -> bool:
    """Whether the parts stand in the line in their order."""
    at = 0
    for piece in parts:
        at = text.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return True
