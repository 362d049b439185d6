"""How checkpoints may be quantized: what the loader compares a config with, and the algorithms it knows."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from canserve.engines.tensorrt_llm.reading import GATES, MODES, Reading, assigned, compared
from canserve.facts import Cause, Fact, Known, Missing
from canserve.subjects.build import QuantMethod, Site

ENUM = "QuantAlgo"
CACHE = "KV_CACHE_QUANT_ALGO_LIST"
METHOD = "get('quant_method')"
MODELOPT = {"modelopt": None, "modelopt_fp4": "NVFP4", "modelopt_mixed": "MIXED_PRECISION"}
"""Names that other engines give to what ModelOpt writes, with the algorithm that one of them stands for."""
NO_MINIMUM = Missing(
    Cause.UNAVAILABLE,
    "no minimum compute capability is written down: its kernels decide",
    ask="start it once",
)


def read_quantization(reading: Reading) -> Fact[Mapping[str, QuantMethod]]:
    """Methods by the name a config gives them; ModelOpt's checkpoints name an algorithm instead."""
    algorithms = read_algorithms(reading)
    if not algorithms:
        raise reading.unknown(MODES, f"no {ENUM}")
    at = Site(MODES, min(algorithms.values()))
    schemes = Known(tuple(algorithms), (reading.seen(at, f"{len(algorithms)} algorithms"),))
    found = {
        name: QuantMethod(name, None, NO_MINIMUM, at, (), schemes)
        for name, needed in MODELOPT.items()
        if needed is None or needed in algorithms
    }
    for path in reading.existing(GATES):
        for name, line in compared(reading.tree(path), METHOD):
            found.setdefault(name, QuantMethod(name, None, NO_MINIMUM, Site(path, line), (), _UNREAD))
    saw = f"{len(found)} ways in which checkpoints may be quantized"
    return reading.known(found, saw, *dict.fromkeys(method.at for method in found.values()))


_UNREAD = Missing(
    Cause.UNAVAILABLE, "which ways of storing such weights it takes was not read", ask="start it once"
)


def read_algorithms(reading: Reading) -> dict[str, int]:
    """Members of the enum, with their lines."""
    for node in reading.tree(MODES).body if reading.has(MODES) else ():
        if isinstance(node, ast.ClassDef) and node.name == ENUM:
            return {
                target.id: statement.lineno
                for statement in node.body
                if isinstance(statement, ast.Assign)
                for target in statement.targets
                if isinstance(target, ast.Name)
            }
    return {}


def cache_algorithms(reading: Reading) -> tuple[str, ...]:
    """Algorithms that the KV cache may be quantized with: ``fp8``, ``int8``, ``nvfp4``."""
    value = assigned(reading.tree(MODES).body, CACHE) if reading.has(MODES) else None
    elements: Iterable[ast.expr] = value.elts if isinstance(value, ast.List | ast.Tuple) else ()
    return tuple(element.attr.lower() for element in elements if isinstance(element, ast.Attribute))
