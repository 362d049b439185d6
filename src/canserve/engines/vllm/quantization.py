"""Quantization methods, the compute capability each demands, and the schemes it tells apart.

A method's class is what the build's own ``get_quantization_config(name)`` returns, followed step by step;
the oldest releases call that function ``get_quant_class`` or have no quantization at all.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from canserve.engines.quantized import QuantClasses
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
    classes = QuantClasses(reading.graph, FOLDER)
    minimum = classes.minimum(site, name)
    return QuantMethod(name, site.name, minimum, at, site.guards, *classes.schemes(site))


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
        text = reading.excerpts.text(path)
        if isinstance(text, Missing):
            return text
        value = reading.excerpts.assigned(path, name) if text and name in text else None
        names = None if value is None else strings(reading.excerpts.evaluate(path, value))
        if names and value is not None:
            return names, Site(path, value.lineno)
    return None
