"""Tests that engines put to a model class before they serve it through its own transformers code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from canserve.engines.sources import Sources
from canserve.engines.static import modules
from canserve.engines.transformers.outline import ClassOutline, Outlines
from canserve.facts import Known, Missing

MODELS = "transformers/models/"
BASE = "transformers/modeling_utils.py"
FLAG_TESTS = {
    "supports_attention_backend": "_supports_attention_backend",
    "supports_flex_attn": "_supports_flex_attn",
}
"""Test -> the class attribute that it reads."""
_MODEL_FILE = re.compile(r"/modeling_(?!tf_|flax_)\w+\.py$")
_CLASS = re.compile(r"^class (\w+)\b", re.MULTILINE)
_MAX_DEPTH = 25
_ATTENTION_CLASSES = {
    r"class \w+Attention\(nn.Module\)": re.compile(r"class \w+Attention\(nn.Module\)"),
    r"^class \w*Attention\w*\(nn\.Module\):": re.compile(
        r"^class \w*Attention\w*\(nn\.Module\):", re.MULTILINE
    ),
}
"""Patterns that releases search their own model files for. Only known ones are run: a pattern of someone
else's could be made to take for ever."""


@dataclass(frozen=True, slots=True)
class SourceRule:
    """How ``_can_set_attn_implementation`` judges a model file by its text."""

    attention_class: re.Pattern[str] | None
    """A file without such a class passes."""
    needles: tuple[str, ...]
    """Texts that must all be there."""

    def passes(self, code: str) -> bool:
        """Whether a file's text passes."""
        if self.attention_class is not None and not self.attention_class.search(code):
            return True
        return all(needle in code for needle in self.needles)


class BackendTests:
    """The tests, for one release. A test whose outcome is decided at run time counts as not passed."""

    def __init__(self, sources: Sources, outlines: Outlines) -> None:
        self.sources = sources
        self._outlines = outlines
        self._rule = source_rule(sources)
        base = outlines.found(BASE)
        declared = {flag for outlined in (base.classes.values() if base else ()) for flag in outlined.flags}
        self._flags = {test: flag for test, flag in FLAG_TESTS.items() if flag in declared}
        """Tests that the release knows: older ones have no such attribute, and no class needs to be read."""
        self._files: dict[str, set[str]] = {}
        self._unsearched = [path for path in sources.under(MODELS) if _MODEL_FILE.search(path)]

    def passed(self, architecture: str) -> frozenset[str] | None:
        """Names of ``Fallback.accepts`` that the class passes; None: no model file defines it."""
        path = self._defined_in(architecture)
        if path is None:
            return None
        passed = {"exists"}
        for test, flag in self._flags.items():
            setting = (c.flags[flag] for c in self._bases(path, architecture) if flag in c.flags)
            if next(setting, None):
                passed.add(test)
        if self._rule is not None and self._rule.passes(self._text(path)):
            passed.add("can_set_attn_implementation")
        return frozenset(passed)

    def _defined_in(self, architecture: str) -> str | None:
        """The model file that defines the class; one in a folder of its name before any other."""
        squashed = architecture.lower().replace("_", "")
        if architecture not in self._files:
            self._search([path for path in self._unsearched if squashed.startswith(_folder(path))])
        if architecture not in self._files:
            self._search(self._unsearched)
        found = self._files.get(architecture, ())
        return min(found, key=lambda path: (not squashed.startswith(_folder(path)), path), default=None)

    def _search(self, paths: list[str]) -> None:
        self.sources.prefetch(paths)
        for path in paths:
            for name in _CLASS.findall(self._text(path)):
                self._files.setdefault(name, set()).add(path)
        self._unsearched = sorted(set(self._unsearched) - set(paths))

    def _text(self, path: str) -> str:
        text = self.sources.text(path)
        return text.value or "" if isinstance(text, Known) else ""

    def _bases(self, path: str, name: str) -> list[ClassOutline]:
        """The class and its bases inside the package, in look-up order."""
        order: dict[tuple[str, str], ClassOutline] = {}
        for key, outlined in self._ancestors(path, name, _MAX_DEPTH):
            order.pop(key, None)  # a base that several classes share comes after the last of them
            order[key] = outlined
        return list(order.values())

    def _ancestors(self, path: str, name: str, depth: int) -> Iterator[tuple[tuple[str, str], ClassOutline]]:
        found = self._class(path, name, depth)
        if found is None:
            return
        path, outlined = found
        yield (path, name), outlined
        for base in outlined.bases:
            if depth > 0:
                yield from self._ancestors(path, base, depth - 1)

    def _class(self, path: str, name: str, depth: int) -> tuple[str, ClassOutline] | None:
        """A class by the name that a file knows it by, and the file that defines it."""
        outline = self._outlines.found(path)
        if outline is None or depth < 0:
            return None
        if name in outline.classes:
            return path, outline.classes[name]
        if name in outline.aliases:
            return self._class(path, outline.aliases[name], depth - 1)
        origin = outline.imports.get(name)
        if origin is None or origin.name is None:
            return None
        module = origin.absolute(modules.module_of(path), modules.is_package(path))
        source = modules.file_of(self.sources, module)
        return self._class(source, origin.name, depth - 1) if source else None


def _folder(path: str) -> str:
    """``transformers/models/qwen3_5/modeling_qwen3_5.py`` -> ``qwen35``."""
    return path.rsplit("/", 2)[-2].replace("_", "")


def source_rule(sources: Sources) -> SourceRule | None:
    """The rule of ``_can_set_attn_implementation``; None: there is none, or its form is not known."""
    tree = sources.parse(BASE)
    if isinstance(tree, Missing) or tree.value is None:
        return None
    for node in ast.walk(tree.value):
        if isinstance(node, ast.FunctionDef) and node.name == "_can_set_attn_implementation":
            return _read_rule(node)
    return None


def _read_rule(function: ast.FunctionDef) -> SourceRule | None:
    for node in ast.walk(function):
        match node:
            case ast.If(
                test=ast.Call(func=ast.Attribute(attr="search"), args=[ast.Constant() as searched, *_])
            ):
                pattern = _ATTENTION_CLASSES.get(str(searched.value))
                needles = tuple(needle for statement in node.body for needle in _needles(statement))
                return SourceRule(pattern, needles) if pattern and needles else None
            case _:
                pass
    needles = tuple(_needles(function))
    return SourceRule(None, needles) if needles else None


def _needles(node: ast.AST) -> Iterator[str]:
    """Texts of ``"text" in code``."""
    for part in ast.walk(node):
        match part:
            case ast.Compare(left=ast.Constant(value=str() as needle), ops=[ast.In()]):
                yield needle
            case _:
                pass
