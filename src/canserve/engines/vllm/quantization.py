"""Quantization methods, the compute capability each demands, and the schemes it tells apart.

A method's class is what the build's own ``get_quantization_config(name)`` returns, followed step by step;
the oldest releases call that function ``get_quant_class`` or have no quantization at all.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from canserve.engines.static.interpret import RAISES
from canserve.engines.static.modules import module_of
from canserve.engines.static.sites import ClassSite, FunctionSite
from canserve.engines.static.values import Ref, Table, Value, strings
from canserve.engines.vllm.reading import Reading
from canserve.facts import Fact, Missing
from canserve.subjects.build import NOT_ASKED, QuantMethod, Site, Want

FOLDER = "vllm/model_executor/layers/quantization"
FILES = (f"{FOLDER}/__init__.py", "vllm/model_executor/quantization_utils/__init__.py")
TABLES = ("QUANTIZATION_METHODS", "_QUANTIZATION_CONFIG_REGISTRY", "_QUANTIZATION_REGISTRY")
GETTERS = ("get_quantization_config", "get_quant_class")
VENDORS = {"rocm": "amd", "xpu": "intel", "tpu": "google"}
_CLASS = re.compile(rb"^class (\w+)", re.MULTILINE)
_MINIMUM = "get_min_capability"


def read_quantization(reading: Reading, want: Want) -> Fact[Mapping[str, QuantMethod]]:
    """Every method by name; those wanted with their class, minimum capability and schemes."""
    files = reading.existing(FILES)
    if isinstance(files, Missing):
        return files
    if not files:
        return reading.known({}, "no quantization package", FILES[0])
    path = files[0]
    found = reading.constant(files[:1], next(iter(_tables_in(reading, path)), TABLES[0]))
    if isinstance(found, Missing):
        return found
    names = None if found is None else strings(found[1])
    if found is None or not names:
        return reading.unknown_form(path, f"none of {', '.join(TABLES)} lists methods")
    lines = _lines(reading, path, found[1])
    methods = {}
    for name in names:
        asked = want.quantization is None or name in want.quantization
        at = Site(path, lines.get(name, 1))
        methods[name] = _method(reading, path, name, at) if asked else QuantMethod(name, None, NOT_ASKED, at)
    return reading.known(methods, f"{len(methods)} quantization methods", path)


def _tables_in(reading: Reading, path: str) -> list[str]:
    names = reading.constants(path)
    return (
        [] if isinstance(names, Missing) or names is None else [table for table in TABLES if table in names]
    )


def _lines(reading: Reading, path: str, table: Value) -> Mapping[str, int]:
    """The line on which each name is first written."""
    if isinstance(table, Table):
        return {str(key): line for key, line in table.lines.items()}
    tree = reading.tree(path)
    lines: dict[str, int] = {}
    for node in ast.walk(tree) if isinstance(tree, ast.Module) else ():
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            lines[node.value] = min(node.lineno, lines.get(node.value, node.lineno))
    return lines


def _method(reading: Reading, path: str, name: str, at: Site) -> QuantMethod:
    site = _class_of(reading, path, name)
    if site is None:
        missing = reading.unknown_form(path, f"the class of quantization {name} cannot be followed")
        return QuantMethod(name, None, missing, at, (), missing, missing)
    folder, minima = _schemes(reading, site)
    return QuantMethod(name, site.name, _minimum(reading, site), at, site.guards, folder, minima)


def _class_of(reading: Reading, path: str, name: str) -> ClassSite | None:
    module = module_of(path)
    for getter in GETTERS:
        function = reading.graph.resolve(module, getter)[0]
        if isinstance(function, FunctionSite):
            value = reading.graph.interpreter.call(function, [name])
            if isinstance(value, Ref) and value.module and value.origin:
                return reading.graph.class_named(value.module, value.origin)
            return value if isinstance(value, ClassSite) else None
    return None


def _minimum(reading: Reading, site: ClassSite) -> Fact[int | None]:
    """``get_min_capability()``; negative: the build sets no minimum."""
    value = _ask(reading, site)
    found = reading.graph.attribute(site, _MINIMUM)
    at = Site(found.owner.path, found.line) if found else Site(site.path, site.line)
    if isinstance(value, int) and not isinstance(value, bool):
        return reading.known(value if value > 0 else None, f"{site.name}.{_MINIMUM}() is {value}", at)
    why = "raises: it is not made for CUDA" if value is RAISES else "is decided at run time"
    return reading.unknown_form(at.file, f"{site.name}.{_MINIMUM}() {why}")


def _ask(reading: Reading, site: ClassSite) -> Value:
    found = reading.graph.attribute(site, _MINIMUM)
    if found is None or not isinstance(found.node, ast.FunctionDef):
        return None
    owner = found.owner
    takes_class = bool(found.node.args.args)
    method = FunctionSite(owner.module, found.node, owner.path, (), owner.scope)
    return reading.graph.interpreter.call(method, [site] if takes_class else [])


def _schemes(
    reading: Reading, site: ClassSite
) -> tuple[Fact[tuple[str, ...]], Fact[Mapping[str, int | None]]]:
    """Class names of the method's module or package with its config's parameters, and minima of their own."""
    module = reading.graph.module(site.module)
    names = {name for name in (module.bindings if module else ()) if name[:1].isupper()}
    init = reading.graph.attribute(site, "__init__")
    if init is not None and isinstance(init.node, ast.FunctionDef):
        args = init.node.args
        names |= {arg.arg for arg in (*args.args, *args.kwonlyargs)} - {"self"}
    folder = site.path.rsplit("/", 1)[0]
    files = [site.path] if folder == FOLDER else reading.sources.under(f"{folder}/")
    if (hole := reading.sources.gap(f"{folder}/schemes/__init__.py")) is not None:
        return hole, hole
    reading.sources.prefetch(files)
    minima: dict[str, int | None] = {}
    for path in files:
        raw = reading.sources.raw(path)
        if isinstance(raw, Missing):
            return raw, raw
        defined = {match.decode() for match in _CLASS.findall(raw.value or b"")}
        names |= defined
        if raw.value and _MINIMUM.encode() in raw.value:
            minima |= _own_minima(reading, path, defined - {site.name})
    saw = f"{len(names)} names told apart by {site.name}"
    return reading.known(tuple(sorted(names)), saw, site.path), reading.known(minima, saw, site.path)


def _own_minima(reading: Reading, path: str, names: set[str]) -> dict[str, int | None]:
    """Minima of classes that define ``get_min_capability`` themselves and do not only declare it."""
    out: dict[str, int | None] = {}
    for name in sorted(names):
        site = reading.graph.class_named(module_of(path), name)
        if site is None or _MINIMUM not in reading.graph.body(site):
            continue
        value = _ask(reading, site)
        if value is not RAISES:
            out[name] = value if isinstance(value, int) and value > 0 else None
    return out


def read_vendors(reading: Reading) -> Fact[Mapping[str, tuple[str, ...]]]:
    """The methods that each other platform admits.

    ``supported_quantization`` of its platform class, or ``rocm_supported_quantization`` and the like inside
    the older ``ModelConfig._verify_quantization``.
    """
    out: dict[str, tuple[str, ...]] = {}
    places: list[Site] = []
    for platform, vendor in VENDORS.items():
        found = _platform_list(reading, platform)
        if isinstance(found, Missing):
            return found
        if found is not None:
            out[vendor], at = found
            places.append(at)
    return reading.known(out, "methods admitted on other platforms", *places, *([] if places else [FILES[0]]))


def _platform_list(reading: Reading, platform: str) -> tuple[tuple[str, ...], Site] | Missing | None:
    places = (
        (f"vllm/platforms/{platform}.py", "supported_quantization"),
        ("vllm/config.py", f"{platform}_supported_quantization"),
    )
    for path, name in places:
        raw = reading.sources.raw(path)
        if isinstance(raw, Missing):
            return raw
        if raw.value is None or f"{name}".encode() not in raw.value:
            continue
        tree = reading.tree(path)
        for node in ast.walk(tree) if isinstance(tree, ast.Module) else ():
            value = _assigned(node, name)
            names = None if value is None else strings(reading.graph.constants.value(path, value))
            if names and value is not None:
                return names, Site(path, value.lineno)
    return None


def _assigned(node: ast.AST, name: str) -> ast.expr | None:
    match node:
        case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
            return value
        case ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value) if target == name:
            return value
        case _:
            return None
