"""How config.json is parsed: transformers' own classes, a few of the engine's, and what happens to all others."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from canserve.engines.lmdeploy.reading import (
    ARCHS,
    HF_CONFIGS,
    PATCH,
    PYTORCH,
    TURBOMIND_LIST,
    Reading,
)
from canserve.engines.static.closure import Imports
from canserve.engines.static.modules import imported_module, module_of, within
from canserve.engines.static.sites import ClassSite
from canserve.facts import Fact, Known
from canserve.subjects.build import AutoMapRule, ConfigShim, Import, Site

REGISTER = "register_config"
PLAIN = "PretrainedConfig"
MODEL_CLASS = "_get_model_class"
KEY = "AutoModelForCausalLM"
OPENERS = (ARCHS, TURBOMIND_LIST, "lmdeploy/tokenizer.py", "lmdeploy/turbomind/tokenizer.py")
"""Where a model's config or tokenizer is opened first, newest form first."""


def read_config_shims(reading: Reading) -> Fact[Mapping[str, ConfigShim]]:
    """Config classes that ``register_config`` hands to transformers when it does not know the type itself."""
    found: dict[str, ConfigShim] = {}
    path = reading.first(HF_CONFIGS)
    if path is None:
        return Known({}, (reading.sources.seen(HF_CONFIGS[-1], "no config classes of its own"),))
    function = reading.function(path, REGISTER)
    for module, name in _registered(function, path) if function is not None else ():
        shim = _shim(reading, module, name)
        found[shim.model_type] = shim
    return Known(found, (reading.sources.seen(path, f"{REGISTER}: {len(found)} config classes"),))


def _registered(function: ast.FunctionDef, path: str) -> Iterator[tuple[str, str]]:
    """Module and class of each ``AutoConfig.register(Class.model_type, Class)``."""
    own, package = module_of(path), path.endswith("/__init__.py")
    homes = {
        alias.name: imported_module(node, own, package)
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in ast.walk(function):
        match node:
            case ast.Call(ast.Attribute(ast.Name("AutoConfig"), "register"), [_, ast.Name(name)]):
                yield homes.get(name, own), name
            case _:
                pass


def _shim(reading: Reading, module: str, name: str) -> ConfigShim:
    site = reading.graph.class_named(module, name)
    model_type = None if site is None else reading.graph.attribute_value(site, "model_type")
    if not isinstance(site, ClassSite) or not isinstance(model_type, str):
        raise reading.unknown(module.replace(".", "/") + ".py", f"the model type of {name}")
    needs = Imports(reading.graph, lambda _: False).closure([site.module]).outside
    taken = tuple(
        Import(need.site.module, need.site.name, Site(need.path, need.site.line))
        for need in needs
        if within(need.site.module, "transformers")
    )
    return ConfigShim(model_type, name, Site(site.path, site.line), imports=taken)


def read_plain_config(reading: Reading) -> Fact[Site | None]:
    """Where transformers' plain config class is taken for a type that nobody knows, if it is."""
    for path in (*HF_CONFIGS, ARCHS):
        if not reading.has(path) or f"{PLAIN}.from_pretrained(" not in reading.text(path):
            continue
        for number, line in enumerate(reading.text(path).splitlines(), 1):
            if f"{PLAIN}.from_pretrained(" in line:
                at = Site(path, number)
                return Known(at, (reading.seen(at, f"{PLAIN} where AutoConfig fails"),))
    return Known(None, (reading.sources.seen(ARCHS, f"no {PLAIN} instead of a class of its own"),))


def read_trusts_code(reading: Reading) -> Fact[Site | None]:
    """Where code of the model repository is run without being asked for; ``Known(None)``: it is not."""
    for path in OPENERS:
        function = reading.function(path, "get_model_arch") if reading.has(path) else None
        given = _trust(reading.tree(path) if function is None else function)
        always = [node for node in given if isinstance(node, ast.Constant) and node.value is True]
        if always:
            at = Site(path, always[0].lineno)
            return Known(at, (reading.seen(at, "trust_remote_code=True"),))
        if given:
            at = Site(path, given[0].lineno)
            return Known(None, (reading.seen(at, "trust_remote_code as asked for"),))
    raise reading.unknown(ARCHS, "nothing says whether code of the repository is trusted")


def _trust(tree: ast.AST) -> list[ast.expr]:
    """What is given for ``trust_remote_code``."""
    asked = (node for node in ast.walk(tree) if isinstance(node, ast.keyword))
    return [node.value for node in asked if node.arg == "trust_remote_code"]


def read_auto_map(reading: Reading) -> Fact[AutoMapRule | None]:
    """PyTorch takes the class that ``auto_map`` names, and asks ``architectures`` only where it names none."""
    function = reading.function(PATCH, MODEL_CLASS) if reading.has(PATCH) else None
    if function is None:
        return Known(None, (reading.sources.seen(PATCH, f"no {MODEL_CLASS}"),))
    at = Site(PATCH, function.lineno)
    for node in ast.walk(function):
        match node:
            case ast.Compare(ast.Constant(value=str() as key), [ast.In()], [ast.Name("auto_map")]) if (
                key == KEY
            ):
                rule = AutoMapRule(KEY, (PYTORCH,), at)
                return Known(rule, (reading.seen(at, f"{KEY} of auto_map comes before architectures"),))
            case _:
                pass
    return Known(None, (reading.seen(at, "architectures decide"),))
