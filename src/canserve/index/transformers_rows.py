"""One release of transformers as a row of the index: what engines may ask of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from packaging.version import Version

from canserve.engines.sources import Sources
from canserve.engines.transformers.names import PACKAGE
from canserve.engines.transformers.outline import Outline
from canserve.engines.transformers.reading import Library
from canserve.facts import Missing
from canserve.index.rows import Release, Row
from canserve.index.shelf import Shelf
from canserve.index.transformers_releases import ABSENT, LEFT_OUT, THERE, UNTOLD
from canserve.trees.archive.remote import Place, Remote
from canserve.trees.index.opening import open_remote
from canserve.trees.tree import TreeError
from canserve.trees.view import sources_of

OLDEST = Version("4.20")
"""Requirements of every engine release that has any start above it."""
Tables = dict[str, tuple[str, ...]]
Pair = tuple[str, str]
"""A deep module, from inside the package, and a name that some engine imports from it."""


def pairs_of(shelves: Iterable[Shelf]) -> list[Pair]:
    """Every name of a deep module of transformers that a release of these engines imports."""
    found = set()
    for shelf in shelves:
        for table in ("class_imports", "config_imports"):
            for name in shelf.tables.get(table, ()):
                _, module, *of = name.split(" ")
                if of and module.startswith(f"{PACKAGE}.") and of[0] != "%":
                    found.add((_inside(module), of[0]))
    return sorted(found)


def recorded_pairs(names: Mapping[str, Iterable[str]]) -> set[Pair]:
    """The pairs for which a row, or any release of a shelf, has an answer, by its tables."""
    keys = (key.partition(" ") for table in (THERE, ABSENT, UNTOLD) for key in names.get(table, ()))
    return {(module, name) for module, _, name in keys}


def read_library(
    release: Release, place: Place, pairs: Iterable[Pair], memory: dict[bytes, Outline]
) -> Row | Missing:
    """One release. ``memory`` keeps what was read of files that many releases share."""
    sources = _opened(release, place)
    if isinstance(sources, Missing):
        return sources
    sources.prefetch(_interesting(sources))
    if sources.failed is not None:
        return sources.failed
    found = tables_of(Library(sources, memory), pairs)
    if isinstance(found, Missing):
        return found
    names, unread = found
    said = {"unread": dict.fromkeys(unread, "not all of it was understood")} if unread else {}
    return Row(release.sha256, said, names)


def with_answers(row: Row, release: Release, place: Place, pairs: Iterable[Pair]) -> Row | Missing:
    """A row that was read before, with answers for further pairs: only the modules in question are read."""
    sources = _opened(release, place)
    if isinstance(sources, Missing):
        return sources
    further = answers(Library(sources), set(pairs) - recorded_pairs(row.names))
    if sources.failed is not None:
        return sources.failed
    tables = {table: (*row.names.get(table, ()), *names) for table, names in further.items()}
    return replace(
        row, names={**row.names, **{table: tuple(sorted(names)) for table, names in tables.items()}}
    )


def answers(library: Library, pairs: Iterable[Pair]) -> Tables:
    """Which of the pairs are there, which are not, and of which it could not be told."""
    found: dict[bool | None, list[str]] = {True: [], False: [], None: []}
    for module, name in pairs:
        found[library.names.has(f"{PACKAGE}.{module}", name)].append(f"{module} {name}")
    tables = {THERE: found[True], ABSENT: found[False], UNTOLD: found[None]}
    return {table: tuple(sorted(names)) for table, names in tables.items()}


def _opened(release: Release, place: Place) -> Sources | Missing:
    file = release.file
    assert file is not None
    subject = f"{PACKAGE}=={release.version}"
    try:
        tree = open_remote(Remote(file.url, file.name, file.sha256, file.size), place, subject)
        return sources_of(tree, subject)
    except TreeError as error:
        return error.missing


def _interesting(sources: Sources) -> Iterable[str]:
    for path in sources.under(f"{PACKAGE}/"):
        if not path.rpartition("/")[2].startswith(LEFT_OUT):
            yield path


def _wanted(module: str) -> bool:
    return not module.rpartition(".")[2].startswith(LEFT_OUT)


def _inside(module: str) -> str:
    return module.removeprefix(f"{PACKAGE}.")


def tables_of(library: Library, pairs: Iterable[Pair]) -> tuple[Tables, tuple[str, ...]] | Missing:
    """What is kept of one release, and which tables could not be read in whole."""
    types, architectures = library.config_types, library.architectures
    if isinstance(types, Missing):
        return types
    if isinstance(architectures, Missing):
        return architectures
    classes = architectures.value
    public = library.names.public()
    unread: list[str] = []
    backend: list[str] = []
    for name in classes.types:
        backend.extend(f"{test} {name}" for test in library.backend_tests(name) or ())
    tables: Tables = {
        "config_types": tuple(sorted(types.value)),
        "public": tuple(sorted(public.names)),
        "modules": tuple(sorted(_inside(m) for m in library.names.modules() if m != PACKAGE and _wanted(m))),
        "homes": tuple(sorted(f"{_inside(m)} {name}" for m, name in library.names.homes() if _wanted(m))),
        "classes": tuple(sorted(f"{t} {name}" for name, of in classes.types.items() for t in of)),
        "plain": tuple(sorted(f"{t} {name}" for t, names in classes.plain.items() for name in names)),
        "generative": tuple(sorted(classes.generative)),
        "backend": tuple(sorted(backend)),
    }
    if not public.whole:
        unread.append("public")
    tables |= answers(library, pairs)
    gguf = library.gguf_architectures
    if isinstance(gguf, Missing):
        unread.append("gguf")
    else:
        tables["gguf"] = tuple(sorted(gguf.value))
    return tables, tuple(unread)
