"""How recipes of other tools start an engine: ``recipes.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from posixpath import basename
from typing import Literal

from canserve.rules.table import Row, load

FILE = "recipes.toml"
FLAGS = "recipe_flags.toml"


@dataclass(frozen=True, slots=True)
class Server:
    """Words that start a server."""

    engine: str
    program: tuple[str, ...]
    module: str
    model: tuple[str, ...]
    revision: tuple[str, ...]
    positional: bool
    config: str
    """The flag that names a file of options; empty: there is none."""
    own: tuple[str, ...]
    """Flags that the program keeps for itself."""
    verb: str = ""
    """A word behind the module."""


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A program that runs another one."""

    after: str
    """A word that has to follow its name; empty: none."""
    values: tuple[str, ...]
    words: int
    until: str = ""
    """A word up to which all are its own; empty: none."""
    text: bool = False
    """Whether one word with blanks is a shell's text."""
    image: str = ""
    """The option that names an image; ``1``: the first word does; empty: it starts no container."""
    mounts: str = ""


@dataclass(frozen=True, slots=True)
class Runtime:
    """What a runtime's name stands for."""

    engine: str
    start: tuple[str, ...]
    keys: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Preset:
    """What a controller starts where a manifest does not say it."""

    start: tuple[str, ...]
    more: str
    """The variable of further words; empty: there is none."""
    parallelism: Mapping[str, str]
    """Keys of its section on layouts, with their flags."""


@dataclass(frozen=True, slots=True)
class Machines:
    """What variables of a cluster's file stand for."""

    machines: str
    prefix: str
    but: tuple[str, ...]
    aside: tuple[str, ...]


@cache
def servers() -> tuple[Server, ...]:
    """All of them; of two that begin alike the longer one first."""
    return tuple(
        Server(
            row.text("engine"),
            row.texts("program"),
            str(row.values.get("module", "")),
            row.texts("model"),
            row.texts("revision"),
            row.values.get("positional") is True,
            str(row.values.get("config", "")),
            row.texts("own"),
            str(row.values.get("verb", "")),
        )
        for row in load(FILE).rows("server")
    )


@cache
def config_flags() -> frozenset[str]:
    """Flags that name a file of options: what it says is read in its place."""
    return frozenset(server.config for server in servers() if server.config)


@cache
def joins() -> tuple[tuple[str, ...], ...]:
    """Programs that only join machines."""
    return tuple(row.texts("program") for row in load(FILE).rows("joins"))


@cache
def short(engine: str) -> Mapping[str, str]:
    """Short flags of an engine, and the options that they stand for."""
    return {k: v for row in _of("short", engine) for k, v in row.values["options"].items()}


@cache
def takes(engine: str) -> Mapping[str, Literal["none", "one", "several"]]:
    """How many words the flags of an engine take, where its releases agree."""
    counts: tuple[Literal["none", "one", "several"], ...] = ("none", "one", "several")
    rows = [row for row in load(FLAGS).rows("takes") if row.text("engine") == engine]
    return {flag: count for row in rows for count in counts for flag in row.texts(count)}


@cache
def has_pairs(engine: str) -> bool:
    """Whether an engine's ``--no-x`` is the other word of ``--x``."""
    return bool(_of("pairs", engine))


@cache
def wrappers() -> Mapping[str, tuple[Wrapper, ...]]:
    """By name; of several the one whose next word fits."""
    found: dict[str, tuple[Wrapper, ...]] = {}
    for row in load(FILE).rows("wrapper"):
        own = (str(row.values.get(key, "")) for key in ("until", "image", "mounts"))
        until, image, mounts = own
        one = Wrapper(
            str(row.values.get("after", "")), row.texts("values"), int(row.values.get("words", 0)), until,
            row.values.get("text") is True, image, mounts,
        )  # fmt: skip
        found[row.text("program")] = (*found.get(row.text("program"), ()), one)
    return found


@cache
def variable_options(engine: str) -> Mapping[str, str]:
    """Variables that stand for options of an engine's server."""
    return {
        f"{row.text('prefix')}{name}": flag
        for row in _of("variables", engine)
        for name, flag in row.values["options"].items()
    }


@cache
def container_programs() -> Mapping[str, frozenset[str]]:
    """Container engines, with the options that take no value."""
    rows = load(FILE).rows("container")
    return {name: frozenset(row.texts("switches")) for row in rows for name in row.texts("programs")}


def entrypoint(image: str) -> tuple[str, ...]:
    """What an image is known to start; empty: not known."""
    repository, tag = _parts(image)
    for row in load(FILE).rows("image"):
        if f"/{repository}".endswith(f"/{row.text('name')}") and tag.startswith(
            str(row.values.get("tags", ""))
        ):
            return row.texts("entrypoint")
    return ()


def likely(image: str) -> tuple[str, ...]:
    """What an image most likely starts, by its name."""
    repository, _ = _parts(image)
    rows = load(FILE).rows("likely")
    return next((row.texts("entrypoint") for row in rows if row.text("word") in repository.lower()), ())


def _parts(image: str) -> tuple[str, str]:
    name = image.partition("@")[0]
    last = basename(name)
    base, _, tag = last.partition(":")
    return f"{name[: len(name) - len(last)]}{base}", tag


@cache
def place_flags() -> frozenset[str]:
    """Flags that say where a server runs, not what it serves."""
    return frozenset(flag for row in load(FILE).rows("place") for flag in row.texts("flags"))


def runtime(name: str) -> Runtime | None:
    """What a runtime's name stands for."""
    for row in load(FILE).rows("runtime"):
        if name in row.texts("names"):
            return Runtime(row.text("engine"), row.texts("start"), row.values.get("keys", {}))
    return None


def runtime_of(engine: str) -> Runtime | None:
    """The runtime of an engine."""
    row = next(iter(_of("runtime", engine)), None)
    return None if row is None else Runtime(engine, row.texts("start"), row.values.get("keys", {}))


def preset(form: str) -> Preset | None:
    """Of KServe, by the format of a model or the kind of manifest."""
    for row in load(FILE).rows("kserve"):
        if row.text("format").lower() == form.lower():
            return Preset(
                row.texts("start"), str(row.values.get("more", "")), row.values.get("parallelism", {})
            )
    return None


def ray_application(path: str) -> tuple[str, ...]:
    """How the engine of an application of Ray Serve is started by itself; empty: it holds none that is known."""
    rows = load(FILE).rows("ray_serve")
    return next((row.texts("start") for row in rows if path.startswith(row.text("path"))), ())


@cache
def asides(form: str) -> frozenset[str]:
    """Keys of a form that decide nothing here."""
    rows = load(FILE).rows("aside")
    return frozenset(key for row in rows if row.text("form") == form for key in row.texts("keys"))


def form(name: str) -> tuple[str, str]:
    """A form's title, and the engine that it is about where nothing else says so."""
    row = next(row for row in load(FILE).rows("form") if row.text("form") == name)
    return row.text("title"), row.text("engine")


@cache
def least() -> Mapping[str, str]:
    """Keys that state the least release, with what it is of."""
    return {row.text("key"): row.text("about") for row in load(FILE).rows("least")}


@cache
def named() -> Mapping[str, str]:
    """Words of texts, in small letters, with the package they stand for."""
    return {word: row.text("about") for row in load(FILE).rows("named") for word in row.texts("words")}


@cache
def runs() -> frozenset[str]:
    """Variables that the place of execution sets."""
    return frozenset(name for row in load(FILE).rows("runs") for name in row.texts("variables"))


@cache
def machines() -> Machines:
    """What variables of a cluster's file stand for."""
    (row,) = load(FILE).rows("environment")
    return Machines(row.text("machines"), row.text("prefix"), row.texts("but"), row.texts("aside"))


@cache
def _secret() -> Row:
    (row,) = load(FILE).rows("secret")
    return row


def is_secret(variable: str) -> bool:
    """Whether a variable's value should not be seen."""
    name = f"_{variable.upper()}_"
    return any(f"_{word}_" in name for word in _secret().texts("words"))


def secret_words() -> tuple[str, ...]:
    """Parts of names of such variables."""
    return _secret().texts("words")


def secret_flags() -> tuple[str, ...]:
    """Flags whose value should not be seen."""
    return _secret().texts("flags")


def _of(section: str, engine: str) -> tuple[Row, ...]:
    return tuple(row for row in load(FILE).rows(section) if row.text("engine") == engine)
