"""Names that no longer exist but still import: renamed modules and renamed classes.

Releases of the fifth series serve former module paths through module aliases, and former class names
through the ``__getattr__`` of their lazy modules. Which of them a release knows is read from its own code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field

from canserve.engines.sources import Sources
from canserve.engines.static.evaluate import Constants
from canserve.engines.static.values import Ref, Value
from canserve.facts import Known, Missing

LAZY_MODULE = "transformers/utils/import_utils.py"
CONVERTERS = "transformers/convert_slow_tokenizer.py"
_IMAGE_PROCESSORS = re.compile(r"(transformers\.models\.\w+\.image_processing_\w+)_fast")
_TORCHVISION_ONLY = re.compile(r"(transformers\.models\.\w+\.image_processing_(?!pil_)\w+)_fast")


@dataclass(frozen=True, slots=True)
class ModuleAliases:
    """Former module paths and the modules that answer for them."""

    named: Mapping[str, str] = field(default_factory=dict)
    fast: re.Pattern[str] | None = None
    """Which ``image_processing_x_fast`` modules stand for the ``image_processing_x`` of their group 1."""
    hide_files: bool = False
    """Whether an alias answers even where a file of its name exists."""

    def target(self, sources: Sources, module: str) -> str | None:
        """The module that answers for ``module``; None: it answers for itself."""
        target = self.named.get(module)
        if target is None and self.fast is not None and (match := self.fast.fullmatch(module)):
            target = match[1]
        if target is None or not sources.has(file_name(target)):
            return None
        return target if self.hide_files or not sources.has(file_name(module)) else None

    def all(self, modules: Iterable[str]) -> Iterator[str]:
        """Every former path that answers, given the modules that exist."""
        yield from self.named
        if self.fast is not None:
            yield from filter(self.fast.fullmatch, (f"{name}_fast" for name in modules))


NONE = ModuleAliases()


def constant(constants: Constants, path: str, name: str) -> Value | None:
    """The value of one module-level name; None where the file or the name is not there or not readable."""
    evaluated = constants.of(path)
    if isinstance(evaluated, Missing) or evaluated.value is None:
        return None
    return evaluated.value.get(name)


def file_name(module: str) -> str:
    """``transformers.models.auto`` -> ``transformers/models/auto.py``."""
    return module.replace(".", "/") + ".py"


def module_aliases(constants: Constants, path: str, tree: ast.Module) -> ModuleAliases:
    """The aliases that the package's ``__init__.py`` sets up."""
    package = path.rsplit("/", 1)[0].replace("/", ".")
    calls, rules = {}, False
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith("_alias"):
            alias, target = (_text(arg) for arg in (*node.args, None, None)[:2])
            if alias and target and target.startswith("."):
                calls[package + alias] = package + target
            rules |= bool(alias is None and node.args and _ends_with(node.args[0], "_fast"))
    listed = constant(constants, path, "_LEGACY_MODULE_ALIASES")
    if isinstance(listed, dict):
        pairs = ((f"{package}.{old}", f"{package}.{new}") for old, new in listed.items())
        pattern = constant(constants, path, "_LEGACY_FAST_IMAGE_PROCESSOR_MODULE")
        return ModuleAliases(dict(pairs), None if pattern is None else _TORCHVISION_ONLY)
    return ModuleAliases(calls, _IMAGE_PROCESSORS if rules else None, hide_files=True)


def _text(node: ast.expr | None) -> str | None:
    """``f"{__name__}.x"`` -> ``.x``; ``".y"`` -> ``.y``; None for anything that holds more."""
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(
            values=[ast.FormattedValue(value=ast.Name(id="__name__")), ast.Constant() as rest]
        ):
            return str(rest.value)
        case _:
            return None


def _ends_with(node: ast.expr, suffix: str) -> bool:
    last = node.values[-1] if isinstance(node, ast.JoinedStr) and node.values else None
    return isinstance(last, ast.Constant) and str(last.value).endswith(suffix)


def renamed(constants: Constants, offered: Set[str]) -> set[str]:
    """Former class names that a lazy module with these names still serves."""
    rules = _renaming_rules(constants.sources)
    found: set[str] = set()
    for suffix in ("TokenizerFast", "ImageProcessorFast"):
        if suffix in rules:
            found.update(f"{name}Fast" for name in offered if f"{name}Fast".endswith(suffix))
    if "SLOW_TO_FAST_CONVERTERS" in rules:
        for name in _converted(constants, offered):
            found.update((name, f"{name}Fast"))
    return found - offered


def _renaming_rules(sources: Sources) -> frozenset[str]:
    """Strings and imported names in the ``__getattr__`` of ``_LazyModule``: the suffixes it treats."""
    tree = sources.tree(LAZY_MODULE)
    if not isinstance(tree, Known) or tree.value is None:
        return frozenset()
    rules: set[str] = set()
    for node in tree.value.body:
        if isinstance(node, ast.ClassDef) and node.name == "_LazyModule":
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    rules.add(part.value)
                elif isinstance(part, ast.ImportFrom):
                    rules.update(alias.name for alias in part.names)
    return frozenset(rules)


def _converted(constants: Constants, offered: Set[str]) -> Iterator[str]:
    """Tokenizer names for which another tokenizer with the same converter is served."""
    table = constant(constants, CONVERTERS, "SLOW_TO_FAST_CONVERTERS")
    if not isinstance(table, dict):
        return
    served: set[Value] = set()
    for name, converter in table.items():
        if name in offered and isinstance(converter, Ref):
            served.add(converter)
    for name, converter in table.items():
        if isinstance(name, str) and isinstance(converter, Ref):
            preferred = converter.name.replace("Converter", "") + "Tokenizer"
            if converter in served or preferred in offered:
                yield name
