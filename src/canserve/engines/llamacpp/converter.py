"""Which checkpoints of the Hub the build's own converter turns into GGUF, and as which architecture.

Three forms: classes registered by a decorator (in one file, later in a package with a table of modules), one
function that compares names, and before that a script for each model. The oldest script, ``convert.py``, goes
by the names of tensors: it takes folders whose class it does not know, so a name that is absent proves nothing
beside it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from canserve.engines.llamacpp.reading import Reading
from canserve.facts import Fact
from canserve.subjects.build import Converted, Converter, Site

SCRIPTS = ("convert_hf_to_gguf.py", "convert-hf-to-gguf.py")
PACKAGE = "conversion/"
TABLES = {"TEXT_MODEL_MAP": "text", "MMPROJ_MODEL_MAP": "mmproj"}
"""Tables of the package's ``__init__``: what stands in neither is not looked for in its modules."""
CONSTANTS = "gguf-py/gguf/constants.py"
UNNAMED = ("convert.py",)
"""Takes checkpoints without looking at the class they name."""
SHARED = ("ModelBase", "Model")
DEQUANTIZES = "dequant_model"
MAX_BASES = 20


@dataclass(frozen=True, slots=True)
class _Script:
    """The converter as a whole: what is started, and which quantized weights it takes apart."""

    at: Site | None
    quantizations: Mapping[str, Site]


@dataclass(frozen=True, slots=True)
class _Class:
    """A class of the converter."""

    name: str
    path: str
    line: int
    bases: tuple[str, ...]
    registered: tuple[str, ...]
    """Hub classes that its decorators name."""
    arch: str | None
    """``QWEN3MOE`` of ``model_arch = gguf.MODEL_ARCH.QWEN3MOE``, where it says so itself."""


@dataclass
class _Classes:
    """All classes of the converter, by name."""

    by_name: dict[str, list[_Class]] = field(default_factory=dict)

    def add(self, one: _Class) -> None:
        self.by_name.setdefault(one.name, []).append(one)

    def every(self) -> Iterator[_Class]:
        for found in self.by_name.values():
            yield from found

    def arch(self, one: _Class) -> str | None:
        """The architecture a class writes, its own or its nearest base's."""
        todo, seen = [one], set[tuple[str, str]]()
        while todo and len(seen) < MAX_BASES:
            current = todo.pop(0)
            if current.arch is not None:
                return current.arch
            seen.add((current.path, current.name))
            todo += [base for name in current.bases if (base := self._nearest(name, current)) is not None
                     and (base.path, base.name) not in seen]  # fmt: skip
        return None

    def _nearest(self, name: str, user: _Class) -> _Class | None:
        found = self.by_name.get(name, [])
        return next((one for one in found if one.path == user.path), found[0] if len(found) == 1 else None)


def converter_files(reading: Reading) -> list[str]:
    """Every file that the converter is read from."""
    sources, base = reading.sources, reading.root or ""
    named = [base + name for name in (*SCRIPTS, CONSTANTS, *UNNAMED) if sources.has(base + name)]
    return named + sources.under(f"{base}{PACKAGE}") + _old_scripts(reading)


def read_converter(reading: Reading) -> Fact[Converter | None]:
    """The converter of the build; ``Known(None)``: it brings none that reads checkpoints of the Hub."""
    package = reading.sources.under(reading.path(PACKAGE))
    script = reading.first(SCRIPTS)
    files = package + ([script] if script else [])
    reading.sources.prefetch([*files, reading.path(CONSTANTS)])
    trees = {path: reading.tree(path) for path in files}
    names = _architecture_names(reading)
    classes = _Classes()
    for path, tree in trees.items():
        for one in _classes(path, tree):
            classes.add(one)
    rows = _rows(classes, names, _tables(reading, trees))
    if not rows and script is not None:
        rows = _compared(script, trees[script], names)
        if not rows:
            raise reading.unknown(script, "it neither registers classes nor compares their names")
    if not rows:
        rows = [row for path in _old_scripts(reading) for row in _old_script(path, reading.tree(path))]
    at = Site(script, 1) if script is not None else None
    return _found(reading, rows, _Script(at, _quantizations(trees)))


def _found(reading: Reading, rows: Sequence[Converted], script: _Script) -> Fact[Converter | None]:
    unnamed = tuple(Site(path, 1) for path in reading.existing(UNNAMED))
    if not rows and not unnamed:
        none: Converter | None = None
        return reading.known(none, "no converter", Site(reading.path(SCRIPTS[0]), 0))
    text = {row.architecture: row for row in rows if row.part == "text"}
    beside = {row.architecture: row for row in rows if row.part == "mmproj"}
    sites = dict.fromkeys(Site(row.at.file, 0) for row in rows)
    saw = f"{len(text)} classes are converted, {len(beside)} of them with a projector"
    found: Converter | None = Converter(text, beside, unnamed, script.at, script.quantizations)
    return reading.known(found, saw, *list(sites)[:3], *unnamed)


def _classes(path: str, tree: ast.Module) -> Iterator[_Class]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            names = [name for one in node.decorator_list for name in _registers(one)]
            bases = tuple(base for one in node.bases if (base := _last(one)))
            yield _Class(node.name, path, node.lineno, bases, tuple(names), _model_arch(node))


def _registers(decorator: ast.expr) -> Iterator[str]:
    match decorator:
        case ast.Call(func=ast.Attribute(attr="register"), args=args):
            yield from (a.value for a in args if isinstance(a, ast.Constant) and isinstance(a.value, str))
        case _:
            pass


def _model_arch(node: ast.ClassDef) -> str | None:
    for statement in node.body:
        match statement:
            case ast.Assign(targets=[ast.Name("model_arch")], value=value):
                return _last(value)
            case ast.AnnAssign(target=ast.Name("model_arch"), value=ast.expr() as value):
                return _last(value)
            case _:
                pass
    return None


def _last(node: ast.expr) -> str | None:
    match node:
        case ast.Name(name) | ast.Attribute(attr=name):
            return name
        case _:
            return None


def _rows(
    classes: _Classes, names: Mapping[str, str], tables: Mapping[str, Mapping[str, str]] | None
) -> list[Converted]:
    rows: list[Converted] = []
    for one in classes.every():
        arch = classes.arch(one) if one.registered else None
        part = "mmproj" if arch == "MMPROJ" else "text"
        module = one.path.rpartition("/")[2].removesuffix(".py")
        for name in one.registered:
            if tables is None or tables.get(part, {}).get(name) == module:
                gguf = names.get(arch or "") if part == "text" else None
                rows.append(Converted(name, one.name, part, gguf, Site(one.path, one.line)))
    return rows


def _tables(reading: Reading, trees: Mapping[str, ast.Module]) -> Mapping[str, Mapping[str, str]] | None:
    """Which module of the package is imported for a class; None: everything is in one file."""
    path = reading.path(f"{PACKAGE}__init__.py")
    if path not in trees:
        return None
    found: dict[str, Mapping[str, str]] = {}
    for name, value in _assignments(trees[path]):
        if name in TABLES and isinstance(value, ast.Dict):
            found[TABLES[name]] = _strings(value)
    if "text" not in found:
        raise reading.unknown(path, "no table of the converter's modules")
    return found


def _architecture_names(reading: Reading) -> Mapping[str, str]:
    """``QWEN3MOE`` -> ``qwen3moe``, from the Python package of the format."""
    path = reading.path(CONSTANTS)
    if not reading.sources.has(path):
        return {}
    found: dict[str, str] = {}
    for name, value in _assignments(reading.tree(path)):
        if name == "MODEL_ARCH_NAMES" and isinstance(value, ast.Dict):
            for key, text in zip(value.keys, value.values, strict=True):
                if key is not None and (arch := _last(key)) and isinstance(text, ast.Constant):
                    found[arch] = str(text.value)
    return found


def _assignments(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(name)], value=value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(name), value=ast.expr() as value):
                yield name, value
            case _:
                pass


def _strings(node: ast.Dict) -> dict[str, str]:
    pairs = zip(node.keys, node.values, strict=True)
    return {
        key.value: value.value
        for key, value in pairs
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
        and isinstance(value, ast.Constant) and isinstance(value.value, str)
    }  # fmt: skip


def _quantizations(trees: Mapping[str, ast.Module]) -> dict[str, Site]:
    """``quant_method == "fp8"`` in the method that takes weights apart, of the class that all others share."""
    found: dict[str, Site] = {}
    for path, tree in trees.items():
        for owner in tree.body:
            if isinstance(owner, ast.ClassDef) and owner.name in SHARED:
                for node in _method(owner, DEQUANTIZES):
                    match node:
                        case ast.Compare(left=ast.Name("quant_method")):
                            found.update({name: Site(path, node.lineno) for name in _equals(node)})
                        case _:
                            pass
    return found


def _method(owner: ast.ClassDef, name: str) -> Iterator[ast.AST]:
    for node in owner.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            yield from ast.walk(node)


def _compared(path: str, tree: ast.Module, names: Mapping[str, str]) -> list[Converted]:
    """``if model_architecture == "X": return XModel``, and the same for the architecture it writes."""
    classes = {name: (value, line) for name, value, line in _choices(tree, "from_model_architecture")}
    writes = {name: value for name, value, _ in _choices(tree, "_get_model_architecture")}
    return [
        Converted(name, value, "text", names.get(writes.get(name, "")), Site(path, line))
        for name, (value, line) in classes.items()
    ]


def _choices(tree: ast.Module, function: str) -> Iterator[tuple[str, str, int]]:
    """Text, returned name and line of ``if x == "text": return name`` in a function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == function:
            for part in ast.walk(node):
                if isinstance(part, ast.If):
                    returned = next((s.value for s in part.body if isinstance(s, ast.Return)), None)
                    value = _last(returned) if returned is not None else None
                    yield from ((text, value or "", part.lineno) for text in _equals(part.test))


def _equals(test: ast.expr) -> Iterator[str]:
    match test:
        case ast.Compare(ops=[ast.Eq() | ast.NotEq() | ast.In()], comparators=[compared]):
            parts = compared.elts if isinstance(compared, ast.Tuple | ast.List | ast.Set) else [compared]
            yield from (p.value for p in parts if isinstance(p, ast.Constant) and isinstance(p.value, str))
        case _:
            pass


def _old_scripts(reading: Reading) -> list[str]:
    """``convert-falcon-hf-to-gguf.py``: a script for each model."""
    base = reading.root or ""
    return [
        path for path in reading.sources.under(f"{base}convert-", "-hf-to-gguf.py")
        if path.removeprefix(base) not in SCRIPTS
    ]  # fmt: skip


def _old_script(path: str, tree: ast.Module) -> Iterator[Converted]:
    """The class that a script demands: ``if hparams["architectures"][0] != "RWForCausalLM"``."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=ast.Subscript(ast.Subscript(slice=ast.Constant("architectures")))):
                name = path.rpartition("/")[2]
                for text in _equals(node):
                    yield Converted(text, name, "text", None, Site(path, node.lineno))
            case _:
                pass
