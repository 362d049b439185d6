"""Every release of transformers, as a table that checks can ask; from the shipped index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property

from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.index.places import loaded
from canserve.index.shelf import Shelf, ShelfError, contents, holds
from canserve.subjects.build import TransformersTable

PACKAGE = "transformers"
"""What is imported from it is called."""
PROJECT = "transformers-library"
"""Name of its index: an engine of the package's own name has one as well."""

THERE, ABSENT, UNTOLD = "imports", "imports_absent", "imports_untold"
"""Tables of what engines import from deep modules: where it is there, where it is not, where it was asked in vain."""
LEFT_OUT = ("modeling_tf_", "modeling_flax_", "convert_", "modular_", "tokenization_tf_")
"""Modules that no engine imports, by the beginning of their last name: nothing is recorded of them."""


class ShippedTable:
    """Implements ``subjects.build.TransformersTable`` over a shelf.

    The shelf's tables: ``config_types``, ``public`` (top-level names), ``modules``, ``imports``
    and ``imports_absent`` (``module name`` pairs that some engine release imports) and ``homes`` (``module name`` of what each
    model's modules offer; nothing else is recorded of deep modules),
    ``classes`` (``type class``), ``plain`` (the same, classes without a head), ``generative``, ``backend``
    (``test class``), ``gguf``.
    """

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self.versions: Sequence[str] = tuple(str(row["version"]) for row in shelf.releases)
        self._at: Mapping[str, int] = {version: at for at, version in enumerate(self.versions)}
        self._contents: dict[str, Sequence[frozenset[str]]] = {}
        self._tokenizers: dict[int, frozenset[str]] = {}
        self._told: dict[tuple[str, str, str | None], bool | None] = {}

    def yanked(self, version: str) -> bool:
        """Whether its authors withdrew the version."""
        at = self._at.get(version)
        return at is not None and bool(self._shelf.releases[at].get("yanked"))

    def config_types(self, version: str) -> frozenset[str]:
        """Model types that ``AutoConfig`` of that version maps."""
        return self._names("config_types", version)

    def has_name(self, version: str, module: str, name: str | None) -> bool | None:
        """Whether ``from module import name`` works there; None: not recorded. Neighbours ask the same again."""
        asked = (version, module, name)
        if asked not in self._told:
            self._told[asked] = self._has_name(*asked)
        return self._told[asked]

    def _has_name(self, version: str, module: str, name: str | None) -> bool | None:
        at = self._at.get(version)
        if at is None or module.partition(".")[0] != PACKAGE:
            return None
        if name == "*":
            name = None
        if module == PACKAGE and name is not None:
            return self._answer("public", name, at)
        if name is None:
            return module == PACKAGE or self._module(module.removeprefix(f"{PACKAGE}."), at)
        return self._deep(module, name, at)

    def _module(self, inside: str, at: int) -> bool | None:
        if inside.rpartition(".")[2].startswith(LEFT_OUT):
            return None
        return self._answer("modules", inside, at)

    def _deep(self, module: str, name: str, at: int) -> bool | None:
        inside = module.removeprefix(f"{PACKAGE}.")
        there = self._module(inside, at)
        if there is not True:
            return there
        if self._shelf.has(THERE, f"{inside} {name}", at):
            return True
        if self._shelf.has(ABSENT, f"{inside} {name}", at):
            return False
        homes = self._homes.get(name, {})
        # What a module offers, the model's package offers as well.
        if any(holds(runs, at) for home, runs in homes.items() if inside in {home, home.rpartition(".")[0]}):
            return True
        return True if self._answer("modules", f"{inside}.{name}", at) else None

    def backend_tests(self, version: str, architecture: str) -> frozenset[str] | None:
        """Which of ``Fallback.accepts`` the class of that name passes; None: no such class."""
        at = self._at.get(version)
        if at is None or not any(holds(runs, at) for runs in self._classes.get(architecture, ())):
            return None  # of a class that no auto table of that version names nothing was read
        if not self._answer("public", architecture, at):
            return None
        return frozenset(test for test, runs in self._tests.get(architecture, {}).items() if holds(runs, at))

    def architectures_of(self, version: str, model_type: str) -> tuple[str, ...]:
        """Classes mapped to a type: the plain ones first, then those that generate text, then the others."""
        at = self._at.get(version)
        if at is None:
            return ()
        plain = sorted(name for name, runs in self._by_type("plain", model_type) if holds(runs, at))
        every = [name for name, runs in self._by_type("classes", model_type) if holds(runs, at)]
        generative = self._shelf.tables.get("generative", {})
        others = [name for name in every if name not in plain]
        return (*plain, *sorted(others, key=lambda name: (not holds(generative.get(name, ""), at), name)))

    def tokenizer_classes(self, version: str) -> frozenset[str] | None:
        """Names of tokenizer classes that can be imported there; None: not recorded."""
        at = self._at.get(version)
        if at is None or self._is_unread("public", at):
            return None
        if at not in self._tokenizers:
            public = self._shelf.tables.get("public", {})
            held = (name for name in self._tokenizer_names if holds(public[name], at))
            self._tokenizers[at] = frozenset(held)
        return self._tokenizers[at]

    @cached_property
    def _tokenizer_names(self) -> frozenset[str]:
        from canserve.engines.transformers.table import tokenizer_classes  # brings the reader with it

        return frozenset(tokenizer_classes(self._shelf.tables.get("public", ())))

    def gguf_architectures(self, version: str) -> frozenset[str]:
        """Values of ``general.architecture`` that its GGUF loader reads."""
        return self._names("gguf", version)

    def evidence(self, version: str) -> Evidence:
        """Which file of that version was read for the index, and when."""
        row = self._shelf.releases[self._at[version]]
        saw = f"{row['file']} sha256:{str(row['sha256'])[:16]}..., in the release index"
        return Evidence(f"{PACKAGE}=={version}", "release index", saw, when=self._shelf.built)

    def _names(self, table: str, version: str) -> frozenset[str]:
        if table not in self._contents:
            self._contents[table] = contents(self._shelf, table)
        at = self._at.get(version)
        return frozenset() if at is None else self._contents[table][at]

    def _answer(self, table: str, name: str, at: int) -> bool | None:
        if holds(self._shelf.tables.get(table, {}).get(name, ""), at):
            return True
        return None if self._is_unread(table, at) else False

    def _is_unread(self, table: str, at: int) -> bool:
        return holds(self._shelf.unread.get(table, ""), at)

    def _by_type(self, table: str, model_type: str) -> Iterator[tuple[str, str]]:
        for key, runs in self._shelf.tables.get(table, {}).items():
            first, _, second = key.partition(" ")
            if first == model_type:
                yield second, runs

    @cached_property
    def _homes(self) -> Mapping[str, Mapping[str, str]]:
        found: dict[str, dict[str, str]] = {}
        for key, runs in self._shelf.tables.get("homes", {}).items():
            module, _, name = key.partition(" ")
            found.setdefault(name, {})[module] = runs
        return found

    @cached_property
    def _classes(self) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = {}
        for key, runs in self._shelf.tables.get("classes", {}).items():
            found.setdefault(key.partition(" ")[2], []).append(runs)
        return found

    @cached_property
    def _tests(self) -> Mapping[str, Mapping[str, str]]:
        found: dict[str, dict[str, str]] = {}
        for key, runs in self._shelf.tables.get("backend", {}).items():
            test, _, name = key.partition(" ")
            found.setdefault(name, {})[test] = runs
        return found


@cache
def shipped_table() -> Fact[TransformersTable]:
    """The best table there is here."""
    try:
        shelf = loaded(PROJECT)
    except ShelfError as error:
        why = Evidence(PACKAGE, "release index", str(error), whole=False)
        return Missing(
            Cause.UNREADABLE, str(error), (why,), "run `canserve index update`, or install canserve again"
        )
    saw = f"{len(shelf.releases)} releases"
    return Known(ShippedTable(shelf), (Evidence(PACKAGE, "release index", saw, when=shelf.built),))
