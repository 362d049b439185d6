"""Which architectures the back ends serve.

PyTorch: classes under ``@register_auto_model("...")``, in modules that the package imports when it is imported,
or (later) when a table names them for an architecture; a module that neither names is not there. TensorRT:
``MODEL_MAP``. Which of the two a server takes is the default of its flag ``--backend``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from canserve.engines.static.modules import module_of
from canserve.engines.tensorrt_llm.flags import read_flags
from canserve.engines.tensorrt_llm.reading import (
    INDEX,
    LEGACY,
    SERVE,
    TORCH,
    ZOO,
    Reading,
    assigned,
    attempt,
    decorations,
    texts,
)
from canserve.facts import Evidence, Fact, Known
from canserve.subjects.build import Registered, Site

DECORATOR = "register_auto_model"
TABLE = "MODEL_ARCH_TO_MODULE"
MAP = "MODEL_MAP"
PYTORCH, TENSORRT = "pytorch", "tensorrt"
FLAG = "--backend"


@dataclass(frozen=True, slots=True)
class Registry:
    """Both back ends' tables."""

    rows: Mapping[str, Registered]
    evidence: tuple[Evidence, ...]


def read_registry(reading: Reading) -> Fact[Registry]:
    """Both tables; unknown where a build has neither."""
    pytorch, legacy = _pytorch(reading), _legacy(reading)
    if not pytorch and not legacy:
        raise reading.unknown(ZOO, "neither classes that register themselves nor a table of models")
    default = default_backend(reading)
    rows = {name: _row(name, at, None, default) for name, at in pytorch.items()}
    for name, entry in legacy.items():
        rows[name] = _row(name, pytorch.get(name), entry, default)
    places = [(ZOO, len(pytorch), "PyTorch"), (LEGACY, len(legacy), "TensorRT")]
    looks = [
        reading.sources.seen(path, f"{count} architectures, {kind}") for path, count, kind in places if count
    ]
    return Known(Registry(dict(sorted(rows.items())), tuple(looks)), tuple(looks))


@dataclass(frozen=True, slots=True)
class Entry:
    """Where one back end has the class of an architecture."""

    module: str
    name: str
    at: Site


def _row(name: str, pytorch: Entry | None, legacy: Entry | None, default: str | None) -> Registered:
    found = {
        backend: entry for backend, entry in ((PYTORCH, pytorch), (TENSORRT, legacy)) if entry is not None
    }
    backends = tuple(sorted(found, key=lambda backend: backend != default))
    entry = found[backends[0]]
    guards = () if default is None or default in found else (f"{FLAG} {backends[0]}",)
    return Registered(name, entry.module, entry.name, " and ".join(backends), entry.at, guards, backends)


def _pytorch(reading: Reading) -> dict[str, Entry]:
    paths = list(_modules(reading))
    reading.sources.prefetch(paths)
    found: dict[str, Entry] = {}
    table = _table(reading)
    for path in paths:
        for name, node in decorations(reading.tree(path), DECORATOR):
            if table is None or table.get(name) == module_of(path):
                found[name] = Entry(module_of(path), node.name, Site(path, node.lineno))
    return found


def _modules(reading: Reading) -> Iterator[str]:
    """Modules that get imported: those the package names, and what they import of it in turn."""
    if not reading.has(ZOO):
        return
    table = _table(reading)
    todo = list(_imported(reading, ZOO)) if table is None else sorted(set(table.values()))
    seen: set[str] = set()
    while todo:
        module = todo.pop(0)
        path = module.replace(".", "/") + ".py"
        if path in seen or not path.startswith(TORCH) or not reading.has(path):
            continue
        seen.add(path)
        yield path
        if table is None:
            todo += _imported(reading, path)


def _imported(reading: Reading, path: str) -> Iterator[str]:
    """Modules of the same package that a file imports, at its top level or under a condition there."""
    package = TORCH.rstrip("/").replace("/", ".")
    for node in _top(reading.tree(path).body):
        match node:
            case ast.ImportFrom(module=str(name), level=1):
                yield f"{package}.{name}"
            case ast.ImportFrom(module=None, level=1, names=names):
                yield from (f"{package}.{alias.name}" for alias in names)
            case ast.ImportFrom(module=str(name), level=0) if name.startswith(f"{package}."):
                yield name
            case _:
                pass


def _top(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try):
            yield from _top([*node.body, *node.orelse])


def _table(reading: Reading) -> Mapping[str, str] | None:
    """Architecture -> module, where there is such a table; the package imports no model itself then."""
    if not reading.has(INDEX):
        return None
    value = assigned(reading.tree(INDEX).body, TABLE)
    if not isinstance(value, ast.Dict) or not value.keys:
        raise reading.unknown(INDEX, f"{TABLE} is not a table of names")
    keys, modules = texts(value.keys), texts(value.values)
    if len(keys) != len(modules) or len(keys) != len(value.keys):
        raise reading.unknown(INDEX, f"a row of {TABLE} is not a name and a module")
    package = TORCH.rstrip("/").replace("/", ".")
    return {
        key: f"{package}.{module.removeprefix(package + '.')}"
        for key, module in zip(keys, modules, strict=True)
    }


def _legacy(reading: Reading) -> dict[str, Entry]:
    """``MODEL_MAP``: names that are constants of other modules are followed."""
    if not reading.has(LEGACY) or not _offered(reading):
        return {}
    value = assigned(reading.tree(LEGACY).body, MAP)
    if not isinstance(value, ast.Dict):
        return {}  # later releases have the package without the back end
    found: dict[str, Entry] = {}
    for key, target in zip(value.keys, value.values, strict=True):
        name = _key(reading, key)
        if name is not None and isinstance(target, ast.Name):
            found[name] = Entry(module_of(LEGACY), target.id, Site(LEGACY, target.lineno))
    return found


def _offered(reading: Reading) -> bool:
    """Whether the server still takes this back end; releases have kept its table for longer."""
    flags = attempt(read_flags, reading)
    backend = flags.value.get(FLAG) if isinstance(flags, Known) else None
    return (
        backend is None or backend.choices is None or TENSORRT in backend.choices or len(backend.choices) == 1
    )


def _key(reading: Reading, key: ast.expr | None) -> str | None:
    match key:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(name):
            return _constant(reading, name)
        case _:
            return None


def _constant(reading: Reading, name: str) -> str | None:
    """The text of a name that is imported from a module beside."""
    for node in reading.tree(LEGACY).body:
        match node:
            case ast.ImportFrom(module=str(module), level=1, names=names) if any(
                a.name == name for a in names
            ):
                path = LEGACY.removesuffix("__init__.py") + module.replace(".", "/") + ".py"
                value = assigned(reading.tree(path).body, name) if reading.has(path) else None
                found = texts([value])
                return found[0] if found else None
            case _:
                pass
    return None


def default_backend(reading: Reading) -> str | None:
    """What the server takes where ``--backend`` is not given; None: it is not written plainly."""
    if not reading.has(SERVE):
        return None
    for node in ast.walk(reading.tree(SERVE)):
        match node:
            case ast.Call(args=names, keywords=words) if FLAG in texts(names):
                default = next((word.value for word in words if word.arg == "default"), None)
                match default:
                    case ast.Constant(value=str(name)):
                        return {"trt": TENSORRT}.get(name, name)
                    case ast.Constant(value=None) | None:
                        return TENSORRT  # before PyTorch became the default
                    case _:
                        return None
            case _:
                pass
    return None


def read_engine_flags(reading: Reading) -> Fact[Mapping[str, str]]:
    """Each back end is served by its name alone."""
    backend = read_flags(reading)
    choices = (
        backend.value[FLAG].choices if isinstance(backend, Known) and FLAG in backend.value else None
    ) or ()
    found = {name: f"{FLAG} {name}" for name in (PYTORCH, TENSORRT) if name in choices}
    return reading.known(found, f"{FLAG}: {', '.join(choices) or 'free'}", Site(SERVE, 0))
