"""Which names can be imported from one release or source tree of transformers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from canserve.engines.static import modules
from canserve.engines.static.evaluate import Constants
from canserve.engines.transformers import aliases, lazy
from canserve.engines.transformers.outline import Outlines
from canserve.facts import Fact, Known, Missing

PACKAGE = "transformers"
ROOT = f"{PACKAGE}/__init__.py"
MODULE_ATTRIBUTES = frozenset(
    {"__doc__", "__file__", "__loader__", "__name__", "__package__", "__path__", "__spec__"}
)
LAZY_ATTRIBUTES = frozenset({"_import_structure", "_class_to_module", "_modules", "_objects", "_name"})


@dataclass(frozen=True, slots=True)
class Offer:
    """Names that a module gives to whoever imports from it, its submodules aside."""

    names: frozenset[str]
    undecided: frozenset[str] = frozenset()
    """Names that it may have: they are bound under conditions that only the run decides."""
    whole: bool = True
    """False: it may have others too."""

    def answer(self, name: str) -> bool | None:
        """Whether it has the name; None: perhaps."""
        if name in self.names:
            return True
        return None if name in self.undecided or not self.whole else False


class Names:
    """Answers ``from MODULE import NAME`` where torch, torchvision and the tokenizer libraries are installed.

    True and False are certain; None: a file could not be read, or the code decides at run time.
    """

    def __init__(self, constants: Constants, outlines: Outlines) -> None:
        self.sources = constants.sources
        self._constants = constants
        self._outlines = outlines
        self._structures: dict[str, Fact[lazy.Structure]] = {}
        self._exports: dict[str, frozenset[str] | None] = {}
        self._offers: dict[str, Offer] = {}
        self._aliases: aliases.ModuleAliases | None = None

    # -- questions

    def has(self, module: str, name: str | None) -> bool | None:
        """Whether ``from module import name`` succeeds; without a name: ``import module``."""
        if not modules.within(module, PACKAGE):
            return None
        if name is None or name == "*":
            return self._exists(module)
        target = self.aliases().target(self.sources, module)
        answer = self._bound(target or module, name)
        if target and answer is False and name.endswith("Fast"):
            return self._bound(target, name.removesuffix("Fast"))
        return answer

    def public(self) -> Offer:
        """Everything that ``from transformers import ...`` accepts."""
        offer = self.members(PACKAGE)
        below = {name.split(".")[1] for name in self.modules() if name.count(".") == 1}
        return replace(offer, names=offer.names | below)

    def members(self, module: str) -> Offer:
        """Everything that ``from module import ...`` accepts, its submodules aside."""
        target = self.aliases().target(self.sources, module)
        offer = self._members(target or module)
        if target is None:
            return offer
        return replace(offer, names=offer.names.union(f"{name}Fast" for name in offer.names))

    def homes(self) -> frozenset[tuple[str, str]]:
        """Modules of the models and the names that each offers: (module, name)."""
        found: set[tuple[str, str]] = set()
        for path in self.sources.under(f"{PACKAGE}/models/", "__init__.py"):
            outline = self._outlines.found(path)
            structure = self._structure(path) if outline is not None and outline.is_lazy else None
            if isinstance(structure, Known):
                own = modules.module_of(path)
                listed = structure.value.listed.items()
                found.update((f"{own}.{submodule}", name) for name, submodule in listed if submodule)
                for folder in structure.value.folders:
                    for file in lazy.collected(self.sources, folder):
                        found.update((modules.module_of(file), name) for name in self._exported(file) or ())
        return frozenset(found)

    def modules(self) -> frozenset[str]:
        """Every module that can be imported by its dotted name, former ones included."""
        files = [modules.module_of(path) for path in self.sources.under(PACKAGE + "/")]
        found = set(files)
        for folder in self.sources.under(PACKAGE + "/", suffix=""):
            while folder := folder.rpartition("/")[0]:
                found.add(folder.replace("/", "."))  # without __init__.py it is a namespace package
        found.update(self.aliases().all(files))
        return frozenset(found)

    def aliases(self) -> aliases.ModuleAliases:
        """The former module paths that still answer."""
        if self._aliases is None:
            tree = self.sources.tree(ROOT)
            known = tree.value if isinstance(tree, Known) else None
            self._aliases = aliases.module_aliases(self._constants, ROOT, known) if known else aliases.NONE
        return self._aliases

    # -- one module

    def _members(self, module: str) -> Offer:
        path = modules.file_of(self.sources, module)
        found = self._outlines.found(path)
        if path is None:
            return Offer(MODULE_ATTRIBUTES, whole=not self._cut(module.replace(".", "/")))
        if found is not None and found.is_lazy:
            offer = self._offer(path)
            return replace(offer, names=offer.names | MODULE_ATTRIBUTES | LAZY_ATTRIBUTES)
        return self._bound_in(module)

    def _bound_in(self, module: str) -> Offer:
        """Names that a module that is not lazy binds itself, and those that its star imports bring."""
        names, undecided, whole = set(MODULE_ATTRIBUTES), set[str](), True
        waiting = [module]
        for name in waiting:  # grows while it is walked
            path = modules.file_of(self.sources, name)
            found = self._outlines.found(path)
            if path is None or found is None:
                whole = False
            elif found.is_lazy:
                names |= self._offer(path).names
                whole &= self._offer(path).whole
            elif name != module and found.exports is not None:
                names.update(found.exports)
            else:
                bound = {n: surely for n, surely in found.names.items() if name == module or n[0] != "_"}
                names.update(n for n, surely in bound.items() if surely)
                undecided.update(bound)
                whole &= "__getattr__" not in found.names
                stars = (origin.absolute(name, modules.is_package(path)) for origin in found.stars)
                waiting.extend(star for star in dict.fromkeys(stars) if star not in waiting)
        return Offer(frozenset(names), frozenset(undecided - names), whole)

    def _bound(self, module: str, name: str) -> bool | None:
        path = modules.file_of(self.sources, module)
        if path is None:
            return self._exists(f"{module}.{name}")
        found = self._outlines.found(path)
        if found is not None and found.is_lazy and name not in MODULE_ATTRIBUTES | LAZY_ATTRIBUTES:
            answer = self._offered(path, name)
        else:
            answer = self._members(module).answer(name)
        if answer is not True and modules.is_package(path):
            below = self._exists(f"{module}.{name}")
            answer = below if below is not False else answer
        return answer

    def _exists(self, module: str) -> bool | None:
        path = module.replace(".", "/")
        if modules.file_of(self.sources, module) or self.sources.under(path + "/", suffix=""):
            return True
        if self.aliases().target(self.sources, module):
            return True
        return None if self._cut(path) else False

    def _cut(self, path: str) -> bool:
        """Whether files at or below this path may exist although they were not listed."""
        return any(hole.covers(path) or hole.prefix.startswith(path) for hole in self.sources.holes)

    # -- lazy packages

    def _offered(self, path: str, name: str) -> bool | None:
        if path in self._offers:  # all of it was read already: the shortcuts below would only repeat that
            return self._offers[path].answer(name)
        structure = self._structure(path)
        if isinstance(structure, Missing):
            return None
        if name in structure.value.listed and self._delivers(path, structure.value.listed[name], name):
            return True
        if any(name in (self._exported(file) or ()) for file in self._likely(structure.value, name)):
            return True
        return self._offer(path).answer(name)

    def _delivers(self, path: str, submodule: str | None, name: str) -> bool:
        """Whether the submodule has what the structure says it has; some list names that are not there.

        Of those that exist only packages are looked into: plain modules are large, and none was ever found
        to lack a listed name.
        """
        if submodule is None:
            return True
        module = f"{modules.module_of(path)}.{submodule}"
        target = modules.file_of(self.sources, module)
        if target is None:
            return self._exists(module) is not False
        found = self._outlines.found(target) if modules.is_package(target) else None
        lazily = found is not None and found.is_lazy
        return not lazily or self._offered(target, name) is not False

    def _offer(self, path: str) -> Offer:
        """All that a lazy package offers, former class names included."""
        if path not in self._offers:
            self._offers[path] = self._read_offer(path)
        return self._offers[path]

    def _read_offer(self, path: str) -> Offer:
        structure = self._structure(path)
        if isinstance(structure, Missing):
            return Offer(frozenset(), whole=False)
        own = modules.module_of(path)
        offered = {
            name for name, where in structure.value.listed.items() if self._delivers(path, where, name)
        }
        offered.update(*(self._stand_ins(f"{own}.{name}") for name in structure.value.stand_ins))
        files = [file for folder in structure.value.folders for file in lazy.collected(self.sources, folder)]
        exports = self._export_all(files)
        offered.update(*(names for names in exports if names is not None))
        whole = structure.value.whole and None not in exports
        whole &= not any(map(self._cut, structure.value.folders))
        return Offer(frozenset(offered | aliases.renamed(self._constants, offered)), whole=whole)

    def _stand_ins(self, module: str) -> frozenset[str]:
        found = self._outlines.found(modules.file_of(self.sources, module))
        return frozenset(name for name in (found.names if found else ()) if not name.startswith("_"))

    def _likely(self, structure: lazy.Structure, name: str) -> list[str]:
        """The files of folders whose name the wanted name starts with: they spare reading all the others."""
        squashed = name.lower().replace("_", "")
        return [
            file
            for folder in structure.folders
            for file in lazy.collected(self.sources, folder)
            if squashed.startswith(file.split("/")[-2].replace("_", ""))
        ]

    def _structure(self, path: str) -> Fact[lazy.Structure]:
        if path not in self._structures:
            tree = self.sources.tree(path)
            if isinstance(tree, Missing):
                self._structures[path] = tree
            else:
                assert tree.value is not None, "only asked of a module that was read"
                self._structures[path] = lazy.structure(self._constants, path, tree.value)
        return self._structures[path]

    def _exported(self, path: str) -> frozenset[str] | None:
        return self._export_all([path])[0]

    def _export_all(self, paths: Iterable[str]) -> list[frozenset[str] | None]:
        """What each file offers to its lazy package; None: not readable."""
        paths = list(paths)
        self.sources.prefetch(paths)
        for path in paths:
            if path not in self._exports:
                text = self.sources.text(path)
                known = text.value if isinstance(text, Known) else None
                self._exports[path] = None if known is None else frozenset(lazy.exports(known))
        return [self._exports[path] for path in paths]
