"""Names of modules and the files that hold them."""

from __future__ import annotations

import ast

from canserve.engines.sources import Sources


def file_of(sources: Sources, module: str) -> str | None:
    """``vllm.config`` -> ``vllm/config.py`` or ``vllm/config/__init__.py``, whichever is listed."""
    path = module.replace(".", "/")
    # A package wins over a module of the same name, as in Python's own finder.
    return next((p for p in (f"{path}/__init__.py", f"{path}.py") if sources.has(p)), None)


def module_of(path: str) -> str:
    """``vllm/config/__init__.py`` -> ``vllm.config``."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def is_package(path: str) -> bool:
    """Whether the file is a package's ``__init__.py``."""
    return path.endswith("/__init__.py")


def within(module: str, top: str) -> bool:
    """Whether the module is ``top`` or lies below it."""
    return module == top or module.startswith(top + ".")


def imported_module(node: ast.ImportFrom, module: str, package: bool) -> str:
    """Absolute name of the module that a ``from`` import, standing in ``module``, reads."""
    if node.level == 0:
        return node.module or ""
    parts = module.split(".") if package else module.split(".")[:-1]
    parts = parts[: max(0, len(parts) - (node.level - 1))]
    return ".".join([*parts, node.module] if node.module else parts)
