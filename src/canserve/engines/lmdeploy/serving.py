"""What a server of this build can be told: cache types, parsers, speculative decoding, launchers, formats."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from canserve.engines.lmdeploy.flags import POLICY, enumeration, one_flag
from canserve.engines.lmdeploy.reading import CLI, MESSAGES, PYTORCH, TOP, TURBOMIND_MODELS, Reading
from canserve.engines.lmdeploy.registry import Registry
from canserve.engines.static.modules import imported_module, module_of
from canserve.engines.static.values import strings
from canserve.facts import Fact, Known
from canserve.subjects.build import Flag, Site

AUTO = "auto"
BACKEND = "--backend"
BITS = {"0": AUTO, "4": "int4", "8": "int8"}
"""What the numbers mean where nothing but the flag's own help says it."""
ONLY_INT8 = {"0": AUTO, "4": "int8"}
"""What they meant before: of a flag without choices the help says "Whether to use kv int8"."""
PARSERS = ("lmdeploy/serve/parsers/", "lmdeploy/serve/openai/")
REASONING = ("reasoning_parser", "ReasoningParserManager")
TOOLS = ("tool_parser", "ToolParserManager")
LEGACY = ("LEGACY_REASONING_PARSER_NAMES", "legacy_names")
"""Former names that are still accepted, and stand for the default."""
EXECUTORS = "lmdeploy/pytorch/engine/executor/"
CONFIGURATIONS = "lmdeploy/pytorch/configurations/"
LOADERS = (
    "lmdeploy/turbomind/checkpoint.py",
    "lmdeploy/turbomind/deploy/loader.py",
    "lmdeploy/pytorch/weight_loader/model_weight_loader.py",
    "lmdeploy/turbomind/deploy/source_model/llama.py",
)
SOURCES = ("lmdeploy/serve/turbomind/deploy.py", f"{TURBOMIND_MODELS[1]}base.py")
"""Where the oldest releases load weights: the converters themselves."""
SUFFIXES = {".safetensors": "safetensors", ".bin": "pt"}


# -- the cache


def read_kv_cache_dtypes(reading: Reading) -> Fact[tuple[str, ...]]:
    """The types that ``--quant-policy`` means, by what its numbers stand for in this build."""
    flag = one_flag(reading, POLICY)
    if flag is None:
        return Known((AUTO,), (reading.sources.seen(CLI[0], f"no {POLICY}"),))
    members = enumeration(reading, "QuantPolicy") if reading.has(MESSAGES) else None
    if members is not None:
        names = tuple(AUTO if value == 0 else name.lower() for name, value in members.items())
        return Known(names, (reading.seen(flag.at, POLICY), reading.sources.seen(MESSAGES, "QuantPolicy")))
    meaning = ONLY_INT8 if flag.choices is None else BITS
    numbers = tuple(meaning) if flag.choices is None else flag.choices
    if not set(numbers) <= set(meaning):
        raise reading.unknown(flag.at.file, f"the choices of {POLICY}")
    return Known(tuple(meaning[number] for number in numbers), (reading.seen(flag.at, POLICY),))


def read_kv_cache_engines(reading: Reading) -> Fact[Mapping[str, tuple[str, ...]]]:
    """Cache types that TurboMind's own configuration refuses: then only PyTorch takes them."""
    members = enumeration(reading, "QuantPolicy") if reading.has(MESSAGES) else None
    owner = reading.method(MESSAGES, "TurbomindEngineConfig", "__post_init__") if members else None
    if not members or owner is None:
        return Known({}, (reading.sources.seen(MESSAGES, "both take what there is"),))
    found: dict[str, tuple[str, ...]] = {}
    at = Site(MESSAGES, owner.lineno)
    for refused, line in _refused(owner, members):
        at = Site(MESSAGES, line)
        found.update(dict.fromkeys((name.lower() for name in refused), (PYTORCH,)))
    return Known(found, (reading.seen(at, f"TurboMind refuses {', '.join(found) or 'none'}"),))


def _refused(function: ast.FunctionDef, members: Mapping[str, int]) -> Iterator[tuple[tuple[str, ...], int]]:
    """Members that an assertion about ``quant_policy`` shuts out, and its line."""
    for node in ast.walk(function):
        match node:
            case ast.Assert(ast.Compare(ast.Attribute(attr="quant_policy"), [operator], [ast.Tuple(items)])):
                named = {item.attr for item in items if isinstance(item, ast.Attribute)}
                shut = isinstance(operator, ast.NotIn)
                yield tuple(name for name in members if (name in named) == shut), node.lineno
            case _:
                pass


def read_engine_flags(reading: Reading) -> Fact[Mapping[str, str]]:
    """Only PyTorch can be forced; asked for TurboMind, the server looks which of the two has the model."""
    function = reading.function(CLI[0], "api_server") if reading.has(CLI[0]) else None
    for node in ast.walk(function) if function is not None else ():
        match node:
            case ast.Compare(ast.Name("backend"), [ast.NotEq()], [ast.Constant(value)]) if value == PYTORCH:
                at = Site(CLI[0], node.lineno)
                forced = {PYTORCH: f"{BACKEND} {PYTORCH}"}
                return Known(forced, (reading.seen(at, "another back end is chosen by the model"),))
            case _:
                pass
    return Known({}, (reading.sources.seen(CLI[0], f"no {BACKEND} that leaves one"),))


# -- parsers of what the model says


def read_reasoning_parsers(reading: Reading) -> Fact[tuple[str, ...]]:
    """Values of ``--reasoning-parser``."""
    found = _registered(reading, *REASONING)
    if isinstance(found, Known) and found.value:
        legacy = tuple(name for name in _legacy(reading) if name not in found.value)
        return Known((*found.value, *legacy), found.evidence)
    return found


def read_tool_parsers(reading: Reading) -> Fact[tuple[str, ...]]:
    """Values of ``--tool-call-parser``."""
    return _registered(reading, *TOOLS)


def _registered(reading: Reading, folder: str, manager: str) -> Fact[tuple[str, ...]]:
    """Names that the modules which the package imports register with the manager."""
    package = reading.first([f"{place}{folder}/__init__.py" for place in PARSERS])
    if package is None:
        return Known((), (reading.sources.seen(PARSERS[0], "no such parsers yet"),))
    paths = [package, *_imported(reading, package)]
    reading.sources.prefetch(paths)
    names = [name for path in paths for name in registrations(reading.tree(path), manager)]
    if not names:
        raise reading.unknown(package, f"nothing registers itself with {manager}")
    found = tuple(dict.fromkeys(names))
    return Known(found, (reading.sources.seen(package, f"{manager}: {', '.join(found)}"[:200]),))


def _imported(reading: Reading, package: str) -> Iterator[str]:
    """Files of the modules that a package imports from itself."""
    own = module_of(package)
    for node in reading.tree(package).body:
        if isinstance(node, ast.ImportFrom):
            module = imported_module(node, own, package=True)
            path = reading.graph.file_of(module) if module.startswith(f"{own}.") else None
            if path is not None:
                yield path


def registrations(tree: ast.Module, manager: str) -> Iterator[str]:
    """Names under which classes of a module register themselves: ``@Manager.register_module(['a', 'b'])``."""
    for node in tree.body:
        for decorator in node.decorator_list if isinstance(node, ast.ClassDef) else ():
            match decorator:
                case ast.Call(ast.Attribute(ast.Name(owner), "register_module")) if owner == manager:
                    for part in ast.walk(decorator):
                        if isinstance(part, ast.Constant) and isinstance(part.value, str):
                            yield part.value
                case _:
                    pass


def _legacy(reading: Reading) -> tuple[str, ...]:
    constant, local = LEGACY
    for path in reading.under(f"{PARSERS[0]}{REASONING[0]}/"):
        if f"{constant} =" in reading.text(path):
            return strings(reading.constants(path).get(constant)) or ()
    function = reading.function(CLI[1], REASONING[0])
    for node in ast.walk(function) if function is not None else ():
        match node:
            case ast.Assign([ast.Name(name)], ast.List(items)) if name == local:
                return tuple(
                    i.value for i in items if isinstance(i, ast.Constant) and isinstance(i.value, str)
                )
            case _:
                pass
    return ()


# -- speculative decoding


def read_speculative(reading: Reading, registry: Registry | None) -> Fact[Mapping[str, Site]]:
    """Values of ``--speculative-algorithm``, and the draft classes that PyTorch serves."""
    flag = one_flag(reading, "--speculative-algorithm")
    if flag is None:
        return Known({}, (reading.sources.seen(CLI[1], "no speculative decoding yet"),))
    if flag.choices is None:
        raise reading.unknown(flag.at.file, f"the choices of {flag.name}")
    found = dict.fromkeys(flag.choices, flag.at)
    drafts = registry.pytorch.items() if registry is not None else ()
    found.update({name: entry.at for name, entry in drafts if _is_draft(name)})
    return Known(found, (reading.seen(flag.at, flag.name),))


def _is_draft(name: str) -> bool:
    return name.startswith("Eagle") or name.endswith(("MTPModel", "MTP", "DraftModel"))


def read_drafts(reading: Reading) -> Fact[Mapping[str, tuple[str, ...]]]:
    """Model type -> the class into which its config builder turns it as a draft of its own."""
    found: dict[str, tuple[str, ...]] = {}
    paths = reading.under(CONFIGURATIONS)
    reading.sources.prefetch(paths)
    for path in paths:
        if "architectures[0] =" in reading.text(path):
            for node in reading.tree(path).body:
                if isinstance(node, ast.ClassDef) and (drafts := tuple(_drafts(node))):
                    found.update(dict.fromkeys(_types(node), drafts))
    return Known(found, (reading.sources.seen(CONFIGURATIONS, f"{len(found)} model types with drafts"),))


def _drafts(builder: ast.ClassDef) -> Iterator[str]:
    """``hf_config.architectures[0] = 'X'``."""
    for node in ast.walk(builder):
        match node:
            case ast.Assign(
                [ast.Subscript(ast.Attribute(_, "architectures"), ast.Constant(0))],
                ast.Constant(str() as name),
            ):
                if _is_draft(name):
                    yield name
            case _:
                pass


def _types(builder: ast.ClassDef) -> Iterator[str]:
    """The model types for which a builder's ``condition`` holds."""
    for method in builder.body:
        if isinstance(method, ast.FunctionDef) and method.name == "condition":
            for node in ast.walk(method):
                match node:
                    case ast.Compare(ast.Attribute(_, "model_type"), [ast.Eq() | ast.In()], [named]):
                        yield from (
                            part.value
                            for part in ast.walk(named)
                            if isinstance(part, ast.Constant) and isinstance(part.value, str)
                        )
                    case _:
                        pass


# -- processes and files


def read_launchers(reading: Reading) -> Fact[tuple[str, ...]]:
    """How processes are started: on one machine, through Ray, or one server a machine that find each other."""
    found, looks = ["mp"], [reading.sources.seen(CLI[0], "starts its own processes")]
    ray = f"{EXECUTORS}ray_executor.py"
    if reading.has(ray):
        found.append("ray")
        looks.append(reading.sources.seen(ray, "an executor on Ray"))
    flags = [
        flag for name in ("--nnodes", "--node-rank", "--dist-init-addr") if (flag := _there(reading, name))
    ]
    if len(flags) == 3:
        found.append(f"{TOP}-multinode")
        looks += [reading.seen(flag.at, flag.name) for flag in flags]
    return Known(tuple(found), tuple(looks))


def _there(reading: Reading, name: str) -> Flag | None:
    return one_flag(reading, name)


def read_load_formats(reading: Reading) -> Fact[tuple[str, ...]]:
    """Weight files that the loaders of the back ends look for. There is no flag for it."""
    found: dict[str, str] = {}
    for path in (*LOADERS, *SOURCES):
        text = reading.text(path) if reading.has(path) else ""
        for suffix, form in SUFFIXES.items():
            if suffix in text or (form == "safetensors" and "SAFE_WEIGHTS_NAME" in text):
                found.setdefault(form, path)
            if form == "pt" and " WEIGHTS_NAME" in text:
                found.setdefault(form, path)
    if not found:
        raise reading.unknown(LOADERS[0], "no loader of weight files is there")
    looks = tuple(reading.sources.seen(path, f"loads {form} files") for form, path in found.items())
    return Known(tuple(sorted(found, reverse=True)), looks)
