"""One reading of one TensorRT-LLM build: its files, the class graph over them, and how a fact is cited."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TypeVar

from canserve.engines.reading import BuildReading, ReadingError, attempt
from canserve.engines.sources import Sources
from canserve.engines.static.graph import ClassGraph
from canserve.facts import Known
from canserve.subjects.build import Site, Want

__all__ = ["Reading", "ReadingError", "assigned", "attempt", "compared", "decorations", "texts"]

T = TypeVar("T")

TOP = "tensorrt_llm"
TORCH = f"{TOP}/_torch/models/"
"""Models of the PyTorch back end; each registers itself when its module is imported."""
ZOO = f"{TORCH}__init__.py"
INDEX = f"{TORCH}_arch_index.py"
"""Which module is imported for which architecture, in releases that import none before it is needed."""
LEGACY = f"{TOP}/models/__init__.py"
SERVE = f"{TOP}/commands/serve.py"
CONFIGS = f"{TOP}/_torch/pyexecutor/config_utils.py"
MODES = f"{TOP}/quantization/mode.py"
GATES = (f"{TOP}/llmapi/llm_utils.py", f"{TOP}/_torch/model_config.py")
"""Where quantization configs of the Hub are taken or refused."""
REASONING = f"{TOP}/llmapi/reasoning_parser.py"
TOOLS = f"{TOP}/serve/tool_parser/tool_parser_factory.py"
LOADERS = (
    f"{TORCH}checkpoints/hf/weight_loader.py",
    f"{TORCH}loader/hf_weights_loader.py",
    f"{TOP}/_torch/pyexecutor/model_engine.py",
)
MISTRAL = f"{TORCH}checkpoints/mistral/checkpoint_loader.py"
MPI = f"{TOP}/llmapi/mpi_session.py"
RAY = f"{TOP}/executor/ray_executor.py"
FILES = (ZOO, INDEX, LEGACY, SERVE, CONFIGS, MODES, *GATES, REASONING, TOOLS, *LOADERS)


class Reading(BuildReading):
    """What every reader of this engine works with."""

    def __init__(self, sources: Sources, want: Want) -> None:
        self.graph = ClassGraph(sources, TOP)
        super().__init__(sources, want, self.graph.constants)

    def existing(self, paths: Sequence[str]) -> list[str]:
        """Those of the files that the build has."""
        return [path for path in paths if self.has(path)]

    def known(self, value: T, saw: str, *places: Site) -> Known[T]:
        """A fact with the places in the build that gave it."""
        return Known(value, tuple(self.seen(at, saw) for at in places))


def decorations(tree: ast.Module, decorator: str) -> Iterator[tuple[str, ast.ClassDef]]:
    """Every text that ``@decorator("text", ...)`` gives a class, in order."""
    for node in tree.body:
        for one in node.decorator_list if isinstance(node, ast.ClassDef) else ():
            match one:
                case ast.Call(func=ast.Name(name) | ast.Attribute(attr=name), args=args) if name == decorator:
                    assert isinstance(node, ast.ClassDef)
                    yield from ((text, node) for text in texts(args))
                case _:
                    pass


def texts(nodes: Sequence[ast.expr | None]) -> list[str]:
    """Those of the expressions that are literal texts."""
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def assigned(body: Sequence[ast.stmt], name: str) -> ast.expr | None:
    """The value of ``name = ...`` directly in a body."""
    for node in body:
        match node:
            case ast.Assign(targets=[ast.Name(target)], value=value) if target == name:
                return value
            case ast.AnnAssign(target=ast.Name(target), value=ast.expr() as value) if target == name:
                return value
            case _:
                pass
    return None


def compared(node: ast.AST, variable: str) -> Iterator[tuple[str, int]]:
    """Texts in ``variable == "text"`` and ``variable in ("text", ...)``, with their lines.

    ``variable`` is how the left side is written, or the end of it: ``model_type``, ``get('quant_method')``.
    """
    for part in ast.walk(node):
        match part:
            case ast.Compare(left=left, ops=[ast.Eq() | ast.In()], comparators=[value]):
                if ast.unparse(left).endswith(variable):
                    elements = value.elts if isinstance(value, ast.Tuple | ast.List | ast.Set) else [value]
                    yield from ((text, part.lineno) for text in texts(elements))
            case _:
                pass
