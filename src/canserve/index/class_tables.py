"""Resolved model classes as names of tables: where each is, what it can do, needs and lacks.

Most classes lie where the registry says, so only the others' places are written. What more than half of all
classes import is written once, and who does not import it: the modules behind every class are much the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from canserve.facts import Fact, Known, Missing
from canserve.index.at import At
from canserve.index.records import NOT_READ
from canserve.index.words import join, unword, word
from canserve.subjects.build import Import, ModelClass, Registered

OTHERS = ("class_imports", "class_broken", "class_absent", "class_unread")
INTERFACES = ("supports_multimodal", "supports_pp")
"""Of all interfaces those that checks ask for; a class has a sign for each, in this order."""
SIGNS: Mapping[bool | None, str] = {True: "+", False: "-", None: "?"}
COMMON, LACKING = "*", "!"
"""Instead of a class's name: what most classes import; before it: what this one of them does not."""


def need(one: Import) -> tuple[str, str]:
    """An import as two words."""
    return one.module, one.name or ""


def needed(at: At, table: str, first: str) -> list[Import]:
    """The imports that a table has under this name."""
    return [Import(module, of or None, at.site) for module, of in at.of(table, first)]


def write(
    registry: Mapping[str, Registered], classes: Mapping[str, Fact[ModelClass | None]]
) -> Mapping[str, Iterable[str]]:
    """All classes of a release, by table. What they need of other packages than transformers is not kept."""
    out: dict[str, list[str]] = {table: [] for table in ("classes", *OTHERS)}
    found: dict[str, ModelClass] = {}
    for name, fact in classes.items():
        if isinstance(fact, Missing):
            out["class_unread"].append(word(name))
        elif fact.value is None:
            out["class_absent"].append(word(name))
        else:
            found[name] = fact.value
    for name, one in found.items():
        signs = "".join(SIGNS[_truth(one.interfaces.get(key))] for key in INTERFACES)
        row = registry.get(name)
        elsewhere = row is None or (row.module, row.name) != (one.module, one.name)
        out["classes"].append(join(name, signs, *((one.module, one.name) if elsewhere else ())))
        out["class_broken"] += [join(name, text) for text in one.broken]
    out["class_imports"] += _imports({name: {need(i) for i in one.imports} for name, one in found.items()})
    return out


def _truth(value: bool | str | None) -> bool | None:
    return None if value is None else bool(value)


def _imports(needs: Mapping[str, set[tuple[str, str]]]) -> Iterator[str]:
    counted = Counter(one for imports in needs.values() for one in imports)
    common = {one for one, count in counted.items() if count > len(needs) / 2}
    yield from (join(COMMON, *one) for one in common)
    for name, imports in needs.items():
        yield from (join(name, *one) for one in imports - common)
        yield from (join(LACKING + name, *one) for one in common - imports)


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
        for signs, *place in at.of("classes", name):
            module, of = place or next((row[:2] for row in at.of("registered", name)), ["", name])
            truths = {sign: truth for truth, sign in SIGNS.items()}
            interfaces = {key: truths[sign] for key, sign in zip(INTERFACES, signs, strict=True)}
            broken = tuple(words[0] for words in at.of("class_broken", name))
            return Known(ModelClass(module, of, at.site, interfaces, self._imports(name), broken))
        raise KeyError(name)

    def _imports(self, name: str) -> tuple[Import, ...]:
        at, table = self._at, "class_imports"
        lacking = needed(at, table, LACKING + name)
        common = [one for one in needed(at, table, COMMON) if one not in lacking]
        return (*needed(at, table, name), *common)

    def __iter__(self) -> Iterator[str]:
        at = self._at
        firsts = [name.partition(" ")[0] for name in at.names("classes")]
        return map(unword, (*firsts, *at.names("class_absent"), *at.names("class_unread")))

    def __len__(self) -> int:
        return len(list(iter(self)))
