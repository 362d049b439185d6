"""Quantization methods of both back ends.

TurboMind compares ``quant_method`` with each name it knows when it makes its model, and asserts what else the
checkpoint must say. PyTorch does so in ``QuantizationConfig.from_config``; older releases where a linear layer is
built. Releases that replace layers of transformers' own classes state nothing for PyTorch.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from canserve.engines.lmdeploy.reading import (
    CONVERTERS,
    PYTORCH,
    TURBOMIND,
    TURBOMIND_LIST,
    Reading,
)
from canserve.engines.lmdeploy.registry import Registry
from canserve.engines.static.values import Table
from canserve.facts import Fact, Known
from canserve.subjects.build import Demand, QuantMethod, Site, Taker

CONFIG = "lmdeploy/pytorch/config.py"
LINEAR = ("lmdeploy/pytorch/nn/linear/__init__.py", "lmdeploy/pytorch/nn/linear.py")
EXPERTS = ("lmdeploy/pytorch/nn/moe/__init__.py", "lmdeploy/pytorch/nn/moe.py")
ENGINE = "lmdeploy/turbomind/turbomind.py"
FORMATS = ("lmdeploy/turbomind/weight_format.py", "lmdeploy/turbomind/deploy/policy.py")
MAKERS = ("get_tm_config", "get_tm_model")
GROUPS = "_SUPPORTED_GROUP_SIZES"
IN_BLOCKS = Demand("weight_block_size", ((128, 128),), None)
ALSO_WHOLE = Demand("weight_block_size", ((128, 128), None), None)
AS_GEMM = Demand("version", ("gemm",), "gemm")
AWQ = ("lmdeploy/pytorch/nn/linear/awq.py", LINEAR[1])
ROWS = "torch.empty((in_features, quant_out_feats)"
USE_PYTORCH = "--backend pytorch"
ONLY_EXPERTS = "no other layers than the experts are quantized"
DEVICES = re.compile(r"modelslim")
"""Methods of accelerators that are no GPUs."""
WORDS = re.compile(r"\b(?:weight_scale_inv|BlockedF8Linear|StaticF8Linear)\b|pack-quantized|V4FP4")
"""What tells in the code that loads a method which of its ways of storing weights are meant."""


@dataclass
class Found:
    """A method, as it is put together from both back ends."""

    at: Site
    takers: list[Taker] = field(default_factory=list)


def read_quantization(reading: Reading, registry: Registry) -> Fact[Mapping[str, QuantMethod]]:
    """Every method by name, with the back ends that take it and what they demand."""
    if registry.layers or not registry.pytorch:
        why = "PyTorch loads checkpoints through transformers there, and states no quantization methods"
        raise reading.unavailable(why, "start it once with this checkpoint", LINEAR[0])
    turbomind, pytorch = _turbomind(reading), _pytorch(reading)
    refused = _goes_to_pytorch(reading)
    found: dict[str, Found] = {}
    for name, (at, demands) in turbomind.items():
        found.setdefault(name, Found(at)).takers.append(Taker(TURBOMIND, demands))
    for name, served in pytorch.items():
        flag = "" if name in refused else USE_PYTORCH
        taker = Taker(PYTORCH, (*served.demands, *_layout(reading, name)), flag, served.guards)
        found.setdefault(name, Found(served.at)).takers.append(taker)
    words = _words(reading, (*LINEAR, *EXPERTS, *CONVERTERS, *FORMATS, CONFIG))
    methods = {name: _method(reading, name, one, words) for name, one in found.items()}
    looks = [reading.seen(one.at, name) for name, one in list(found.items())[:1]]
    return Known(methods, tuple(looks))


def _method(reading: Reading, name: str, one: Found, words: tuple[str, ...]) -> QuantMethod:
    look = (reading.seen(one.at, f"{name}: {' and '.join(taker.backend for taker in one.takers)}"),)
    minimum = reading.unavailable(
        f"the source states no minimum compute capability for {name} in one place",
        "start it once",
        one.at.file,
    ).missing
    return QuantMethod(
        name=name,
        class_name=None,
        min_capability=minimum,
        at=one.at,
        schemes=Known(words, look),
        scheme_capabilities=Known({}, look),
        takers=tuple(one.takers),
    )


# -- TurboMind


def _turbomind(reading: Reading) -> dict[str, tuple[Site, tuple[Demand, ...]]]:
    """Method -> where it is compared, and what is demanded of its checkpoints."""
    path = reading.first((*CONVERTERS, ENGINE))
    if path is None:
        return {}
    function = next((made for name in MAKERS if (made := reading.function(path, name))), None)
    if function is None:
        raise reading.unknown(path, f"neither of {' and '.join(MAKERS)}")
    found: dict[str, tuple[Site, tuple[Demand, ...]]] = {}
    for branch in _branches(function):
        for name in _compared(branch.test):
            demands = [demand for statement in branch.body for demand in _demands(statement)]
            demands += _group_sizes(reading, path, function, name)
            if name == "fp8" and "weight_scale_inv" in _words(reading, (*CONVERTERS, *FORMATS)):
                demands.append(IN_BLOCKS)
            found[name] = Site(path, branch.lineno), tuple(demands)
    if not found:
        raise reading.unknown(path, "quant_method is compared with nothing")
    return found


def _branches(tree: ast.AST) -> Iterator[ast.If]:
    for node in ast.walk(tree):
        if isinstance(node, ast.If):
            yield node


def _compared(test: ast.expr) -> Iterator[str]:
    """``quant_method == 'awq'``, ``quant_method in ['awq']``."""
    match test:
        case ast.Compare(ast.Name("quant_method"), [ast.Eq() | ast.In()], [named]):
            yield from (
                part.value
                for part in ast.walk(named)
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
            )
        case ast.BoolOp(values=values):
            for value in values:
                yield from _compared(value)
        case _:
            return


def _demands(statement: ast.stmt) -> Iterator[Demand]:
    """``assert version == 'gemm'``, ``assert not config.get('desc_act', False) and config.get('sym', True)``."""
    if not isinstance(statement, ast.Assert):
        return
    parts = statement.test.values if isinstance(statement.test, ast.BoolOp) else [statement.test]
    for part in parts:
        match part:
            case ast.Compare(ast.Name("version"), [ast.Eq()], [ast.Constant(str() as value)]):
                yield Demand("version", (value,), None)
            case ast.UnaryOp(ast.Not(), ast.Call(ast.Attribute(_, "get"), [key, default])):
                yield from _switch(key, default, False)
            case ast.Call(ast.Attribute(_, "get"), [key, default]):
                yield from _switch(key, default, True)
            case _:
                pass


def _switch(key: ast.expr, default: ast.expr, wanted: bool) -> Iterator[Demand]:
    match key, default:
        case ast.Constant(str() as name), ast.Constant(bool() as given):
            yield Demand(name, (wanted,), given)
        case _:
            pass


def _group_sizes(reading: Reading, path: str, function: ast.FunctionDef, name: str) -> Iterator[Demand]:
    """Group sizes that are accepted: a table in newer releases, an assertion before."""
    if GROUPS in reading.text(path):
        table = reading.constants(path).get(GROUPS)
        sizes = table.get(name) if isinstance(table, Table) else None
        numbers = _numbers(sizes)
        if numbers and name in ("awq", "gptq"):
            yield Demand("group_size", numbers, numbers[0])
        return
    for branch in _branches(function):
        named = [part.value for part in ast.walk(branch.test) if isinstance(part, ast.Constant)]
        if name not in named or not _about_format(branch.test):
            continue
        for node in ast.walk(ast.Module(branch.body, [])):
            match node:
                case ast.Assert(
                    ast.Compare(ast.Name("group_size"), [ast.Eq()], [ast.Constant(int() as size)])
                ):
                    if name in ("awq", "gptq"):
                        yield Demand("group_size", (size,), size)
                case _:
                    pass


def _about_format(test: ast.expr) -> bool:
    """``engine_config.model_format in ['awq', 'gptq']``."""
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.left, ast.Attribute)
        and (test.left.attr == "model_format")
    )


def _numbers(value: object) -> tuple[int, ...]:
    if isinstance(value, set | frozenset | list | tuple):
        return tuple(sorted(one for one in value if isinstance(one, int)))
    return ()


def _goes_to_pytorch(reading: Reading) -> frozenset[str]:
    """Methods with which TurboMind steps back by itself: ``is_supported`` says no."""
    function = reading.function(TURBOMIND_LIST, "is_supported") if reading.has(TURBOMIND_LIST) else None
    found: set[str] = set()
    for branch in _branches(function) if function is not None else ():
        returns = [node for node in branch.body if isinstance(node, ast.Return)]
        if returns and isinstance(returns[0].value, ast.Constant) and returns[0].value.value is False:
            found.update(_compared(branch.test))
    return frozenset(found)


# -- PyTorch


@dataclass(frozen=True, slots=True)
class Served:
    """A method that PyTorch compares ``quant_method`` with."""

    at: Site
    demands: tuple[Demand, ...]
    guards: tuple[str, ...] = ()


def _pytorch(reading: Reading) -> dict[str, Served]:
    """Method -> where it is compared, what it demands, and under which conditions it is served."""
    linear = reading.first(LINEAR)
    if linear is None:
        raise reading.unknown(LINEAR[0], "no linear layers")
    layers = dict(_layers(reading, linear))
    if not layers:
        raise reading.unknown(linear, "quant_method is compared with nothing")
    experts = reading.first(EXPERTS)
    moe = dict(_layers(reading, experts)) if experts is not None else {}
    function = reading.method(CONFIG, "QuantizationConfig", "from_config") if reading.has(CONFIG) else None
    stated = {} if function is None else dict(_served(CONFIG, function))
    return {
        name: one if name in layers else replace(one, guards=(ONLY_EXPERTS,))
        for name, one in (stated or {**moe, **layers}).items()
        if (name in layers or name in moe) and not DEVICES.search(name)
    }


def _layers(reading: Reading, path: str) -> Iterator[tuple[str, Served]]:
    """Methods for which a module builds a layer."""
    for node in reading.tree(path).body:
        if isinstance(node, ast.FunctionDef):
            yield from _served(path, node)


def _served(path: str, function: ast.FunctionDef) -> Iterable[tuple[str, Served]]:
    """Comparisons of ``if`` statements; those of assertions only exclude."""
    for branch in _branches(function):
        for name in _compared(branch.test):
            yield name, Served(Site(path, branch.lineno), tuple(_told_apart(branch.body)))


def _told_apart(body: Sequence[ast.stmt]) -> Iterator[Demand]:
    """``fmt = config.get('fmt', 'e4m3')``, then an ``if`` for each value and an error for all others."""
    read: dict[str, tuple[str, str]] = {}
    for statement in body:
        match statement:
            case ast.Assign(
                [ast.Name(name)],
                ast.Call(
                    ast.Attribute(_, "get"), [ast.Constant(str() as key), ast.Constant(str() as default)]
                ),
            ):
                read[name] = key, default
            case ast.If(ast.Compare(ast.Name(name), [ast.Eq()], [ast.Constant()])) if name in read:
                values, rest = _chain(statement, name)
                if rest and isinstance(rest[0], ast.Raise):
                    yield Demand(read[name][0], values, read[name][1])
            case _:
                pass


def _chain(branch: ast.If, name: str) -> tuple[tuple[str, ...], list[ast.stmt]]:
    """The values that an ``if``/``elif`` compares a name with, and what is left for all others."""
    values: list[str] = []
    while True:
        match branch.test:
            case ast.Compare(ast.Name(compared), [ast.Eq()], [ast.Constant(str() as value)]) if (
                compared == name
            ):
                values.append(value)
            case _:
                return tuple(values), [branch]
        match branch.orelse:
            case [ast.If() as inner]:
                branch = inner
            case rest:
                return tuple(values), rest


def _layout(reading: Reading, name: str) -> tuple[Demand, ...]:
    """How PyTorch's layers are laid out. AWQ: rows of inputs, which is GEMM's layout and no other version's.

    FP8: with scales for blocks; newer releases have layers with one scale as well.
    """
    if name == "awq":
        path = reading.first(AWQ)
        return (AS_GEMM,) if path is not None and ROWS in reading.text(path) else ()
    if name != "fp8":
        return ()
    words = _words(reading, LINEAR)
    if any("StaticF8" in word for word in words):
        return (ALSO_WHOLE,)
    return (IN_BLOCKS,) if any("BlockedF8" in word for word in words) else ()


def _words(reading: Reading, paths: Iterable[str]) -> tuple[str, ...]:
    """Words in the code that tell which ways of storing weights it means."""
    found: set[str] = set()
    for path in paths:
        if reading.has(path):
            found.update(WORDS.findall(reading.text(path)))
    return tuple(sorted(found))
