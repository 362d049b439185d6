"""Quantization methods: a table of SGLang's own, vLLM's classes borrowed into it, or vLLM's table itself."""

from __future__ import annotations

import re
from collections.abc import Mapping

from canserve.engines.quantized import QuantClasses
from canserve.engines.sglang.places import COLLECTORS, MODEL_CONFIG, QUANTIZATION
from canserve.engines.sglang.reading import Reading
from canserve.engines.sglang.snippets import expression_at, line_of, matches
from canserve.engines.static.sites import ClassSite, External
from canserve.engines.static.values import Ref, Table, Value, strings
from canserve.facts import Cause, Fact, Known, Missing
from canserve.subjects.build import NOT_ASKED, QuantMethod, Site

TABLES = ("QUANTIZATION_METHODS", "BASE_QUANTIZATION_METHODS", "QUANTIZATION_CONFIG_MAPPING")
"""The whole table first: in one release only its part has a name."""
BORROWED = "VLLM_QUANTIZATION_METHODS"
AVAILABLE = "VLLM_AVAILABLE"
_BORROWING = r"from vllm\.model_executor\.layers\.quantization\.(\w+) import (\w+)"
_VENDORS = {"rocm": "amd"}


def read_quantization(reading: Reading) -> Fact[Mapping[str, QuantMethod]]:
    """Every method by name; the wanted ones with their minimum capability and schemes."""
    for path in QUANTIZATION:
        text = reading.text(path)
        name = next((table for table in TABLES if re.search(rf"^{table}\b", text, re.MULTILINE)), None)
        if name is not None:
            return _tabled(reading, path, name)
    return _without_table(reading)


def _tabled(reading: Reading, path: str, name: str) -> Fact[Mapping[str, QuantMethod]]:
    constants = reading.constants(path)
    table = constants.get(name)
    if not isinstance(table, Table) or not table:
        raise reading.unknown(path, f"{name} is no table")
    if table.opaque:
        raise reading.unknown(path, f"{name} holds {table.opaque[0][:80]}")
    borrowed = constants.get(BORROWED)
    needs_vllm = set(borrowed) if isinstance(borrowed, dict) and AVAILABLE in constants else set()
    classes = QuantClasses(reading.graph, path.rsplit("/", 1)[0])
    found: dict[str, QuantMethod] = {}
    for key, value in table.items():
        if not isinstance(key, str):
            raise reading.unknown(path, f"{name} has a key that is no string")
        guards = table.guards.get(key, ())
        if key in needs_vllm and not reading.vllm:
            guards = (*guards, AVAILABLE)
        found[key] = _method(reading, classes, key, value, Site(path, table.lines.get(key, 0)), guards)
    return Known(found, (reading.sources.seen(path, f"{name}: {len(found)} methods"),))


def _method(
    reading: Reading, classes: QuantClasses, name: str, value: Value, at: Site, guards: tuple[str, ...]
) -> QuantMethod:
    class_name = value.name if isinstance(value, Ref) else None
    wanted = reading.want.quantization
    if wanted is not None and name not in wanted:
        return QuantMethod(name, class_name, NOT_ASKED, at, guards)
    site = _site(reading, value)
    if isinstance(site, ClassSite):
        return QuantMethod(name, site.name, classes.minimum(site, name), at, guards, *classes.schemes(site))
    missing = reading.sources.unknown_form(at.file, f"the class of quantization {name} cannot be followed")
    if isinstance(site, External):
        missing = _of_vllm(reading, at, site.name)
    return QuantMethod(name, class_name, missing, at, guards, missing, missing)


def _site(reading: Reading, value: Value) -> object:
    if not isinstance(value, Ref) or value.module is None or value.origin is None:
        return None
    return reading.graph.resolve(value.module, value.origin)[0]


def _of_vllm(reading: Reading, at: Site, name: str) -> Missing:
    why = f"{name} belongs to the vLLM that is installed with this build"
    return Missing(Cause.UNAVAILABLE, why, (reading.seen(at, why),), "read that vLLM release")


def _without_table(reading: Reading) -> Fact[Mapping[str, QuantMethod]]:
    """The oldest releases load what they import a config class for; others ask vLLM's own table."""
    path = reading.first(COLLECTORS[1:])
    if path is None:
        raise reading.unknown(QUANTIZATION[0], "no table of quantization methods")
    text = reading.text(path)
    found: dict[str, QuantMethod] = {}
    for match in matches(_BORROWING, text):
        at = Site(path, line_of(text, match.start()))
        missing = _of_vllm(reading, at, match[2])
        found[match[1]] = QuantMethod(match[1], match[2], missing, at, (), missing, missing)
    if not found and "quantization" in text:
        raise reading.unavailable(
            "vLLM's own table of quantization methods is used",
            "read the vLLM release that this build requires",
            path,
        )
    return Known(found, (reading.sources.seen(path, f"{len(found)} quantization configs imported"),))


def read_vendors(reading: Reading) -> Fact[Mapping[str, tuple[str, ...]]]:
    """The methods that the build admits on accelerators of other vendors."""
    path = reading.first(MODEL_CONFIG)
    text = "" if path is None else reading.text(path)
    found: dict[str, tuple[str, ...]] = {}
    for platform, vendor in _VENDORS.items():
        match = re.search(rf"\b{platform}_supported_quantization = (?=\[)", text)
        listed = expression_at(text, match.end()) if match else None
        if listed is not None and path is not None:
            names = strings(reading.graph.constants.value(path, listed))
            if names is not None:
                found[vendor] = names
    saw = f"{len(found)} lists of methods for other platforms"
    return Known(found, (reading.sources.seen(path or MODEL_CONFIG[0], saw),))
