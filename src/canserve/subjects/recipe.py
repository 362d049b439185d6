"""A recipe: what somebody wrote down to serve a model, read without executing anything.

Every value keeps the line it stands on, and every key of the input is in ``keys``: nothing is lost in silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from canserve.facts import Fact, Known

HIDDEN = "[REDACTED]"
"""What stands for a secret: its value is not kept."""

Role = Literal["used", "aside", "unknown"]
"""``used``: it decides what is served. ``aside``: it is understood and decides nothing here (a description, a
port that is published). ``unknown``: nobody here knows the key."""


@dataclass(frozen=True, slots=True)
class Said:
    """A value, and the line on which it stands."""

    value: str
    line: int
    at: str = ""
    """``serve.yaml:3`` where it stands in a further file: ``line`` is where the recipe names that file then."""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the input."""

    path: str
    """``services.server.shm_size``, ``args[3]``, ``--gpus``."""
    value: str
    line: int
    role: Role


@dataclass(frozen=True, slots=True)
class Open:
    """What the recipe leaves to somebody else: a variable that nothing sets, a command whose output is not known."""

    what: str
    """As written: ``${MODEL}``, ``$(hostname)``."""
    line: int
    why: str
    where: str = ""
    """``model``, ``image``, a flag or a variable; empty: nothing that is read holds it."""
    decides: bool = False
    """Whether what is served depends on it."""


@dataclass(frozen=True, slots=True)
class Refused:
    """What is not read, because a shell would execute it or it is not what it should be."""

    what: str
    line: int
    why: str


@dataclass(frozen=True, slots=True)
class Further:
    """A file that the recipe refers to. What reads recipes states it; who may look at files reads it."""

    path: str
    """From the recipe's folder on, or from the root of a file system."""
    line: int
    """Where the recipe names it."""
    purpose: str
    """``env_file of server``, ``--config``."""
    found: Fact[int | None]
    """How many characters were read; Known(None): it is not there."""
    required: bool = True
    """Whether whoever starts the recipe would miss it."""
    decides: bool = False
    """Whether what is served depends on it."""

    @property
    def unread(self) -> str | None:
        """Why its content is not known, in words; None: it is known, or nobody misses it."""
        match self.found:
            case Known(None):
                return "it is not there" if self.required else None
            case Known():
                return None
            case missing:
                return missing.why if missing.ask is None else f"{missing.why} ({missing.ask})"


@dataclass(frozen=True, slots=True)
class Stated:
    """A release that the recipe asks for."""

    about: str
    """An engine or a package, under the name its index has."""
    releases: str
    """``>=0.17.0``."""
    line: int
    text: str
    """As written."""
    firm: bool = True
    """Whether a key says it. A sentence may be about something else, and what is installed before serving changes
    the build."""


@dataclass(frozen=True, slots=True)
class Shared:
    """A folder of the machine that the container sees."""

    source: str
    target: str
    readonly: bool
    line: int


@dataclass(frozen=True, slots=True)
class Command:
    """One process that the recipe starts."""

    name: str
    """Of the service, container or unit; empty: it has none."""
    argv: tuple[Said, ...]
    """Without wrappers: from the program on."""
    line: int
    environment: Mapping[str, Said] = field(default_factory=dict)
    image: Said | None = None
    machine: str | None = None
    engine: str | None = None
    """Whose server it is; None: it is none (it joins machines, or is unknown)."""
    model: Said | None = None
    args: tuple[Said, ...] = ()
    """The server's words but for the model."""
    mounts: tuple[Shared, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The command line."""
        return tuple(word.value for word in self.argv)


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a recipe says. None: it does not."""

    name: str
    """The file, or ``-``."""
    form: str
    """``docker compose``, ``command line`` ..."""
    engine: str | None = None
    model: Said | None = None
    revision: Said | None = None
    image: Said | None = None
    held: bool = False
    """Whether the image is built where it runs, and no registry has it."""
    requirement: Said | None = None
    """A release that it installs: ``NAME==VERSION``."""
    args: tuple[Said, ...] = ()
    """Words for the engine, the model left out."""
    environment: Mapping[str, Said] = field(default_factory=dict)
    mounts: tuple[Shared, ...] = ()
    machines: tuple[Said, ...] = ()
    nodes: Said | None = None
    """How many machines."""
    stated: tuple[Stated, ...] = ()
    commands: tuple[Command, ...] = ()
    """Every process, the one that is judged among them."""
    keys: tuple[Key, ...] = ()
    open: tuple[Open, ...] = ()
    refused: tuple[Refused, ...] = ()
    notes: tuple[str, ...] = ()
    files: tuple[Further, ...] = ()
    """Further files that it refers to."""
    after_flags: Said | None = None
    """A word behind a flag's own values that is taken for the model, or may be it: the build's table of flags decides."""

    @property
    def flags(self) -> tuple[str, ...]:
        """The engine's words, as they would follow ``--``."""
        return tuple(word.value for word in self.args)

    @property
    def unknown(self) -> tuple[Key, ...]:
        """Keys that nobody here knows."""
        return tuple(key for key in self.keys if key.role == "unknown")

    def line_of(self, flag: str) -> int | None:
        """Where a flag stands."""
        word = self._word_of(flag)
        return None if word is None else word.line

    def place_of(self, flag: str) -> str | None:
        """``line 5``, ``line 5 (serve.yaml:3)``: where a flag stands, in words."""
        word = self._word_of(flag)
        return None if word is None else f"line {word.line}" + (f" ({word.at})" if word.at else "")

    def _word_of(self, flag: str) -> Said | None:
        plain = flag.replace("_", "-")
        words = ((word.value.partition("=")[0].replace("_", "-"), word) for word in self.args)
        return next((word for name, word in words if name == plain), None)


MOST = 12
"""Remarks of one kind that are told one by one."""


def remarks(recipe: Recipe) -> Iterable[str]:
    """Unknown keys, what is left open and decides nothing, and notes: a line each."""
    unknown = recipe.unknown
    for key in unknown[:MOST]:
        yield f"{recipe.name}, line {key.line}: unknown key {_said(key)}: kept, not judged"
    if len(unknown) > MOST:
        yield f"{recipe.name}: {len(unknown) - MOST} further unknown keys; --format json lists them"
    aside = [one for one in recipe.open if not one.decides]
    for one in aside[:MOST]:
        where = f" in {one.where}" if one.where else ""
        yield f"{recipe.name}, line {one.line}: {one.what}{where} is left open: {one.why}"
    for file in recipe.files:
        if not file.decides and (why := file.unread) is not None:
            yield f"{recipe.name}, line {file.line}: {file.path} ({file.purpose}) is not read: {why}"
    for note in recipe.notes:
        yield f"{recipe.name}{',' if note.startswith('line ') else ':'} {note}"


def _said(key: Key) -> str:
    value = f" = {key.value[:60]}" if key.value and key.value != key.path else ""
    return f"{key.path}{value}"
