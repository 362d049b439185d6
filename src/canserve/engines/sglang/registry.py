"""The model registry: which architectures this build serves, in every form it has had.

Until 0.1.9 a chain of ``if arch == "X"``; since then every module of ``srt/models`` names its classes in
``EntryClass`` (one or a list; for a while also ``EntryClassRemapping``), and one function imports them all.
How that function walks, and what it does with packages, duplicates and modules that cannot be imported,
is read from the function itself.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from canserve.engines.sglang.places import COLLECTORS, MODELS, SRT, TOP
from canserve.engines.sglang.reading import Reading
from canserve.engines.static.guards import guard_truth
from canserve.engines.static.modules import module_of
from canserve.engines.static.scan import flat
from canserve.engines.static.sites import Absent, ClassSite, External
from canserve.facts import Evidence, Fact, Known, Missing
from canserve.subjects.build import Registered, Site

_PLAIN = re.compile(rb"EntryClass[ \t]*=[ \t]*(\w+|\[(?:[\w\s,]|#[^\n]*\n)*\])[ \t]*(?:#[^\n]*)?(?:\r?\n|$)")
"""``EntryClass = X`` or a list of names: all but two files of all releases have this form and no other."""
_COMMENT = re.compile(rb"#[^\n]*")
_KIND = "model"


@dataclass(frozen=True, slots=True)
class Collector:
    """How the build's own function collects the classes."""

    at: Site
    folders: tuple[str, ...] = (MODELS,)
    packages: bool = False
    """Whether ``__init__`` files of packages are looked at as well."""
    remapping: bool = False
    unique: bool = False
    """Whether a name that is registered twice stops the engine; else the later module wins."""
    lenient: bool = False
    """Whether a module that cannot be imported is passed over with a warning."""


@dataclass(frozen=True, slots=True)
class Registry:
    """What was found: rows, how they are collected, and what stands against them."""

    rows: dict[str, Registered]
    evidence: tuple[Evidence, ...]
    imported: tuple[str, ...] = ()
    """Modules that are imported whatever the model, without forgiving a failure."""
    clashes: tuple[str, ...] = ()
    """Registered twice where the build does not allow it: then it starts with no model at all."""
    unread: tuple[Missing, ...] = field(default=())
    """Files that may hold further rows."""

    def fact(self, wanted: frozenset[str] | None) -> Fact[Mapping[str, Registered]]:
        """The rows; missing when a file that could not be read may hold a wanted one."""
        if self.unread and (wanted is None or not wanted <= self.rows.keys()):
            return self.unread[0]
        partial = tuple(replace(look, whole=False) for look in self.evidence) if self.unread else None
        return Known(self.rows, partial or self.evidence)


def read_registry(reading: Reading) -> Registry:
    """All registered architectures."""
    path = next((path for path in COLLECTORS if b"EntryClass" in reading.raw(path)), None)
    if path is not None:
        return _collected(reading, _collector(reading, path))
    chain = next((path for path in COLLECTORS if b"ForCausalLM" in reading.raw(path)), None)
    if chain is not None:
        return _chained(reading, chain)
    raise reading.unknown(f"{SRT}/models", "no registry at any of its known places")


# -- the function that collects


def _collector(reading: Reading, path: str) -> Collector:
    tree = reading.tree(path)
    function = next((f for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) and _collects(f)), None)
    if function is None:
        raise reading.unknown(path, "no function collects EntryClass")
    nodes = list(ast.walk(function))
    called = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    asked = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    if not called & {"iter_modules", "glob"}:
        raise reading.unknown(path, f"{function.name} walks the models in an unknown way")
    return Collector(
        Site(path, function.lineno),
        _folders(reading, tree) or (MODELS,),
        packages="iter_modules" in called and "ispkg" not in asked,
        remapping=any(_is_text(node, "EntryClassRemapping") for node in nodes),
        unique=any(isinstance(node, ast.Assert) for node in nodes),
        lenient=any(isinstance(node, ast.ExceptHandler) and _continues(node) for node in nodes),
    )


def _collects(function: ast.FunctionDef) -> bool:
    return any(_is_text(node, "EntryClass") for node in ast.walk(function))


def _is_text(node: ast.AST, text: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == text


def _continues(handler: ast.ExceptHandler) -> bool:
    return any(isinstance(node, ast.Continue) for node in ast.walk(handler))


def _folders(reading: Reading, tree: ast.Module) -> tuple[str, ...]:
    """The packages whose names stand in the collector's file, in order."""
    named = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    packages = [text.replace(".", "/") + "/" for text in named if isinstance(text, str) and _dotted(text)]
    return tuple(dict.fromkeys(folder for folder in packages if reading.sources.under(folder)))


def _dotted(text: str) -> bool:
    return re.fullmatch(rf"{TOP}(?:\.\w+)+", text[:200]) is not None


# -- what it collects


def _collected(reading: Reading, collector: Collector) -> Registry:
    paths = [path for folder in collector.folders for path in _walked(reading, folder, collector.packages)]
    reading.sources.prefetch(paths)
    rows: dict[str, Registered] = {}
    clashes: list[str] = []
    unread: list[Missing] = []
    for path in paths:
        data = reading.sources.raw(path)
        if isinstance(data, Missing):
            unread.append(data)
            continue
        if b"EntryClass" not in (data.value or b"") or path == collector.at.file:
            continue
        for row in _entries(reading, path, data.value or b"", collector):
            old = rows.get(row.architecture)
            if old is not None and collector.unique and not (old.guards or row.guards):
                clashes.append(f"{row.architecture} is registered twice: {old.at} and {row.at}")
            if old is None or not row.guards:
                rows[row.architecture] = row
    if not rows and not unread:
        raise reading.unknown(collector.at.file, "no module that it collects has an EntryClass")
    saw = f"collects EntryClass of {len(paths)} modules: {len(rows)} architectures"
    imported = () if collector.lenient else tuple(module_of(path) for path in paths)
    return Registry(rows, (reading.seen(collector.at, saw),), imported, tuple(clashes), tuple(unread))


def _walked(reading: Reading, folder: str, packages: bool) -> list[str]:
    modules = [path for path in reading.direct(folder) if not path.endswith("/__init__.py")]
    if packages:
        below = reading.sources.under(folder, "/__init__.py")
        modules += [path for path in below if path.count("/") == folder.count("/") + 1]
    return sorted(modules)


def _entries(reading: Reading, path: str, data: bytes, collector: Collector) -> Iterator[Registered]:
    plain = _plain(data)
    if plain:
        line = data.count(b"\n", 0, data.find(b"\nEntryClass") + 1) + 1
        for name in plain:
            yield _row(name.decode(), path, name.decode(), line)
        return
    yield from _entries_of_tree(reading, path, collector)


def _plain(data: bytes) -> list[bytes]:
    """The classes of a module with one plain ``EntryClass`` of classes of its own; empty: it is another form."""
    plain = _PLAIN.match(data, data.find(b"\nEntryClass") + 1)
    quoted = data.count(b'"EntryClass"') + data.count(b"'EntryClass'")
    if plain is None or data.count(b"EntryClass") - quoted != 1:
        return []
    names: list[bytes] = re.findall(rb"\w+", _COMMENT.sub(b"", plain[1]))
    return names if all(_defines(data, name) for name in names) else []


def _defines(data: bytes, name: bytes) -> bool:
    """Whether a class of that name stands at the left margin."""
    return any(b"\nclass " + name + end in data for end in (b"(", b":"))


def _row(architecture: str, path: str, name: str, line: int, guards: tuple[str, ...] = ()) -> Registered:
    return Registered(architecture, module_of(path), name, _KIND, Site(path, line), guards)


def _entries_of_tree(reading: Reading, path: str, collector: Collector) -> Iterator[Registered]:
    """The general way, for conditional, imported, computed and extended entries."""
    entries: list[tuple[ast.expr, tuple[str, ...]]] = []
    for node, guards in flat(reading.tree(path).body, reading.graph.platform):
        match node:
            case (
                ast.Assign(targets=[ast.Name(id="EntryClass")], value=value)
                | ast.AnnAssign(target=ast.Name(id="EntryClass"), value=ast.expr() as value)
            ):
                if not guards:
                    entries.clear()
                entries.append((value, guards))
            case ast.AugAssign(target=ast.Name(id="EntryClass"), value=value):
                entries.append((value, guards))
            case ast.Expr(ast.Call(ast.Attribute(ast.Name(id="EntryClass"), "append" | "extend"), [value])):
                entries.append((value, guards))
            case ast.Assign(targets=[ast.Name(id="EntryClassRemapping")], value=ast.List(elts=pairs)):
                if collector.remapping:
                    yield from _remapped(reading, path, pairs)
            case _:
                pass
    imported = any(site.name in ("EntryClass", "*") for site in reading.graph.imports_of(module_of(path)))
    if not entries and imported:
        yield from _inherited(reading, path)
    for value, guards in entries:
        for architecture, name, conditions in _named(reading, path, value, guards):
            yield _row(architecture, path, name, value.lineno, conditions)


def _inherited(reading: Reading, path: str) -> Iterator[Registered]:
    """``from other_module import EntryClass``, or all of its names."""
    for site in reading.graph.resolve(module_of(path), "EntryClass"):
        if isinstance(site, ClassSite):
            yield _row(site.name, path, site.node.name, 1)
        elif not isinstance(site, Absent):
            raise reading.unknown(path, "an EntryClass that comes from another module")


def _remapped(reading: Reading, path: str, pairs: list[ast.expr]) -> Iterator[Registered]:
    for pair in pairs:
        match pair:
            case ast.Tuple(elts=[ast.Constant(value=str() as architecture), ast.Name(id=name)]):
                yield _row(architecture, path, name, pair.lineno)
            case _:
                raise reading.unknown(path, f"EntryClassRemapping in line {pair.lineno}")


def _named(
    reading: Reading, path: str, node: ast.expr, guards: tuple[str, ...]
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """(architecture, name in the module, conditions) of the classes that an expression stands for."""
    match node:
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            for part in parts:
                yield from _named(reading, path, part, guards)
        case ast.Starred(value=inner):
            yield from _named(reading, path, inner, guards)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from _named(reading, path, left, guards)
            yield from _named(reading, path, right, guards)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            condition = ast.unparse(test)
            for branch, guard in ((body, condition), (orelse, f"not ({condition})")):
                decided = guard_truth(guard, reading.graph.platform)
                if decided is not False:
                    yield from _named(reading, path, branch, guards if decided else (*guards, guard))
        case _:
            yield from _class(reading, path, node, guards)


def _class(
    reading: Reading, path: str, node: ast.expr, guards: tuple[str, ...]
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    site = reading.graph.resolve_expression(module_of(path), node)[0]
    name = node.id if isinstance(node, ast.Name) else ast.unparse(node)
    match site:
        case ClassSite():
            yield site.name, name, guards + site.guards
        case External(name=outside):
            yield outside.rsplit(".", 1)[-1], name, guards + site.guards
        case Absent() if isinstance(node, ast.Name):
            yield name, name, guards
        case _:
            raise reading.unknown(path, f"EntryClass in line {node.lineno} names no class")


# -- the oldest form


def _chained(reading: Reading, path: str) -> Registry:
    """``for arch in architectures: if arch == "X": model_class = X``."""
    rows: dict[str, Registered] = {}
    for function in (f for f in ast.walk(reading.tree(path)) if isinstance(f, ast.FunctionDef)):
        imported = {
            alias.asname or alias.name: (node.module, alias.name)
            for node in ast.walk(function)
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        }
        for node in ast.walk(function):
            match node:
                case ast.If(
                    test=ast.Compare(ast.Name(), [ast.Eq()], [ast.Constant(value=str() as architecture)]),
                    body=[ast.Assign(value=ast.Name(id=name)), *_],
                ) if name in imported or _is_class(reading, path, name):
                    module, original = imported.get(name, (module_of(path), name))
                    at = Site(path, node.lineno)
                    rows.setdefault(architecture, Registered(architecture, module, original, _KIND, at))
                case _:
                    pass
    if not rows:
        raise reading.unknown(path, "no chain of architectures and no EntryClass")
    at = next(iter(rows.values())).at
    modules = tuple(dict.fromkeys(row.module for row in rows.values()))
    return Registry(rows, (reading.seen(at, f"chooses among {len(rows)} architectures"),), modules)


def _is_class(reading: Reading, path: str, name: str) -> bool:
    return isinstance(reading.graph.resolve(module_of(path), name)[0], ClassSite)
