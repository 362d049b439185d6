"""Resolved model classes as names of tables: where each is, what it can do, needs and lacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from canserve.facts import Cause, Fact, Known, Missing
from canserve.index.at import At
from canserve.index.words import join, unword, word
from canserve.subjects.build import Import, ModelClass

OTHERS = ("class_interfaces", "class_imports", "class_broken", "class_absent", "class_unread")
INTERFACES = ("supports_multimodal", "supports_pp")
"""Of all interfaces those that checks ask for."""
NOT_READ = Missing(
    Cause.UNREADABLE,
    "it could not be read when the release index was made",
    (),
    "judge the build itself, named with --build",
)
_VALUES = {"+": True, "-": False}


def need(one: Import) -> tuple[str, str]:
    """An import as two words."""
    return one.module, one.name or ""


def needed(at: At, table: str, name: str) -> tuple[Import, ...]:
    """The imports that a table has of this name."""
    return tuple(Import(module, of or None, at.site) for module, of in at.of(table, name))


def write(classes: Mapping[str, Fact[ModelClass | None]]) -> Mapping[str, Iterable[str]]:
    """All classes of a release, by table. What they need of other packages than transformers is not kept."""
    out: dict[str, list[str]] = {table: [] for table in ("classes", *OTHERS)}
    for name, fact in classes.items():
        if isinstance(fact, Missing):
            out["class_unread"].append(word(name))
        elif fact.value is None:
            out["class_absent"].append(word(name))
        else:
            _write(name, fact.value, out)
    return out


def _write(name: str, found: ModelClass, out: Mapping[str, list[str]]) -> None:
    out["classes"].append(join(name, found.module, found.name))
    for key in INTERFACES:
        if (value := found.interfaces.get(key)) is not None:
            out["class_interfaces"].append(join(name, key, "+" if value else "-"))
    out["class_imports"] += [join(name, *need(one)) for one in found.imports]
    out["class_broken"] += [join(name, text) for text in found.broken]


class Classes(Mapping[str, Fact[ModelClass | None]]):
    """The classes again, each when it is asked for."""

    def __init__(self, at: At) -> None:
        self._at = at

    def __getitem__(self, name: str) -> Fact[ModelClass | None]:
        at = self._at
        if at.has("class_absent", word(name)):
            return Known(None)
        if at.has("class_unread", word(name)):
            return NOT_READ
        for module, of in at.of("classes", name):
            interfaces = {key: _VALUES[value] for key, value in at.of("class_interfaces", name)}
            broken = tuple(words[0] for words in at.of("class_broken", name))
            imports = needed(at, "class_imports", name)
            return Known(ModelClass(module, of, at.site, interfaces, imports, broken))
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        at = self._at
        firsts = [name.partition(" ")[0] for name in at.names("classes")]
        return map(unword, (*firsts, *at.names("class_absent"), *at.names("class_unread")))

    def __len__(self) -> int:
        return len(list(iter(self)))
