"""The floors of ARCHITECTURE.md: imports go left, and nothing left of the bar touches the world."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "canserve"

WORLD = {
    "asyncio", "concurrent", "ctypes", "fcntl", "ftplib", "getpass", "glob", "http", "httpx",
    "huggingface_hub", "locale", "mmap", "multiprocessing", "os", "pathlib", "platform",
    "platformdirs", "random", "requests", "secrets", "select", "shutil", "signal", "site", "socket",
    "sqlite3", "ssl", "subprocess", "sys", "sysconfig", "tempfile", "threading", "time", "urllib",
    "urllib3", "uuid",
}  # fmt: skip
"""Modules whose import left of the bar would mean I/O, a clock, the environment or randomness."""

PURE = {"urllib.parse", "sys.stdlib_module_names", "sys.maxsize"}
"""Parts of those that only compute."""

PACKAGE_DATA = {"rules"}
"""May read the package's own data files, which are as constant as code; through importlib.resources only."""

CLOCK = {"now", "today", "utcnow"}
ENGINES = re.compile(r"vllm|sglang|lmdeploy|tensorrt|trt_?llm|llama\.?_?cpp", re.IGNORECASE)
MAY_NAME_ENGINES = {"engines", "rules"}


def floors() -> tuple[list[str], list[str]]:
    """Names left and right of the bar, from the one line of ARCHITECTURE.md that has it."""
    lines = [x for x in (ROOT / "ARCHITECTURE.md").read_text().splitlines() if x.startswith("units facts ")]
    assert len(lines) == 1, "ARCHITECTURE.md must hold the line of floors exactly once"
    left, right = lines[0].split(" | ")
    return left.split(), right.split()


LEFT, RIGHT = floors()
ORDER = {name: position for position, name in enumerate(LEFT + RIGHT)}
FILES = sorted(PACKAGE.rglob("*.py"))


def floor_of(path: Path) -> str | None:
    """The floor a file stands on; None for the package's own ``__init__`` and ``__main__``."""
    first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return None if first in {"__init__", "__main__"} else first


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Every imported dotted name, wherever it stands (lazy imports inside functions included)."""
    package = ["canserve", *path.relative_to(PACKAGE).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names=names):
                yield from ((alias.name, node.lineno) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                start = ".".join(package[: len(package) - level + 1]) if level else ""
                full = ".".join(part for part in (start, module) if part)
                yield from ((f"{full}.{alias.name}", node.lineno) for alias in names)
            case _:
                pass


def attributes_of(module: str, tree: ast.Module) -> set[str]:
    """What the code takes from a module that it imported by its plain name."""
    found = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return {node.attr for node in found if isinstance(node.value, ast.Name) and node.value.id == module}


def short(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def where(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def test_every_module_stands_on_a_floor() -> None:
    assert FILES
    assert {floor_of(path) for path in FILES} - {None} <= set(ORDER)


@pytest.mark.parametrize("path", FILES, ids=short)
def test_imports_only_from_the_left(path: Path) -> None:
    floor = floor_of(path)
    wrong = []
    for name, line in imports(path):
        parts = name.split(".")
        if parts[0] != "canserve" or len(parts) < 2 or parts[1] not in ORDER or floor is None:
            continue
        if ORDER[parts[1]] > ORDER[floor]:
            wrong.append(f"{where(path, line)}: {floor} imports {name}, which stands to its right")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", [p for p in FILES if floor_of(p) in LEFT], ids=short)
def test_nothing_left_of_the_bar_touches_the_world(path: Path) -> None:
    wrong = []
    tree = ast.parse(path.read_text())
    for name, line in imports(path):
        used = {f"{name}.{attribute}" for attribute in attributes_of(name, tree)} or {name}
        if name.split(".")[0] in WORLD and not used <= PURE and not name.startswith(tuple(PURE)):
            wrong.append(f"{where(path, line)}: imports {name}")
        if name.startswith("importlib") and floor_of(path) not in PACKAGE_DATA:
            wrong.append(f"{where(path, line)}: imports {name}")
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="open" | "input" | "print" as called)):
                wrong.append(f"{where(path, node.lineno)}: calls {called}()")
            case ast.Call(func=ast.Attribute(attr=called)) if called in CLOCK:
                wrong.append(f"{where(path, node.lineno)}: reads the clock with .{called}()")
            case _:
                pass
    assert not wrong, "\n".join(wrong)


def code_words(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Names and strings that code works with; docstrings and comments may name an engine as an example."""
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in said:
                yield text, node.lineno
            case ast.Name(id=text) | ast.Attribute(attr=text):
                yield text, node.lineno
            case ast.FunctionDef(name=text) | ast.ClassDef(name=text):
                yield text, node.lineno
            case _:
                pass


@pytest.mark.parametrize(
    "path",
    [p for p in FILES if floor_of(p) not in MAY_NAME_ENGINES],
    ids=short,
)
def test_engines_are_named_only_in_engines_and_rules(path: Path) -> None:
    words = code_words(ast.parse(path.read_text()))
    wrong = [f"{where(path, line)}: {text!r}" for text, line in words if ENGINES.search(text)]
    assert not wrong, "\n".join(wrong)
