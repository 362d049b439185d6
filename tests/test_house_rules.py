"""House rules that a machine can measure. CONTRIBUTING.md gives the reasons."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = sorted((ROOT / "src").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
GENERATED = {".git", ".venv", ".cache", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis",
             "__pycache__", "dist", "build"}  # fmt: skip

MAX_LINES = 400
MAX_FUNCTION = 80
MAX_PARAMETERS = 6
MAX_FILE_BYTES = 2_000_000

SAYS_NOTHING = {"utils", "util", "helpers", "helper", "common", "manager", "base", "misc"}
RUNS_FOREIGN_CODE = {"exec", "eval", "compile", "__import__"}
RUNS_FOREIGN_MODULES = {"pickle", "marshal", "shelve", "runpy", "dill", "cloudpickle"}
MAY_IMPORT_BY_NAME = {"src/canserve/cli/__init__.py", "src/canserve/__init__.py"}
"""They load canserve's own modules lazily, by names written in them."""

PATCHING = re.compile(r"\b(pytest\.mark\.ski[p]\b|mock\.patc[h]|monkeypatch\.setatt[r]|assert Tru[e]\b)")
FOREIGN = re.compile(r"/wor[k]/|/roo[t]/|/hom[e]/|/tmp/scratc[h]|pypi\.or[g]|pythonhoste[d]\.|fury\.i[o]")
"""Paths of one machine and hosts of registries: pip's own configuration says where the index is."""


def where(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def hits(pattern: re.Pattern[str], path: Path, text: str) -> list[str]:
    """Every place in ``text`` that the pattern matches, with what it matched."""
    return [f"{where(path, text.count(chr(10), 0, m.start()) + 1)}: {m[0]}" for m in pattern.finditer(text)]


def text_files() -> Iterator[tuple[Path, str]]:
    """Every file of the repository that is text, what is generated or ignored left out."""
    for path in sorted(ROOT.rglob("*")):
        inside = path.relative_to(ROOT).parts
        if GENERATED & set(inside) or not path.is_file() or any(p.endswith(".egg-info") for p in inside):
            continue
        data = path.read_bytes()
        if b"\0" not in data:
            yield path, data.decode("utf-8", "replace")


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return len(arguments) - (arguments[:1] != [] and arguments[0].arg in {"self", "cls"})


def test_files_and_functions_stay_small() -> None:
    wrong = []
    for path in SOURCE:
        lines = path.read_text().count("\n")
        if lines > MAX_LINES:
            wrong.append(f"{where(path, 1)}: {lines} lines, at most {MAX_LINES}")
        for function in functions(path):
            length = (function.end_lineno or function.lineno) - function.lineno + 1
            if length > MAX_FUNCTION:
                wrong.append(f"{where(path, function.lineno)}: {function.name} has {length} lines")
            if parameters(function) > MAX_PARAMETERS:
                wrong.append(f"{where(path, function.lineno)}: {function.name} has too many parameters")
    assert not wrong, "\n".join(wrong)


def test_module_names_say_something() -> None:
    parts = {part for path in SOURCE for part in (*path.parts[len(ROOT.parts) :], path.stem)}
    assert not parts & SAYS_NOTHING


def test_nothing_catches_everything() -> None:
    wrong = []
    for path in SOURCE:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ExceptHandler):
                caught = [n.id for n in ast.walk(node.type) if isinstance(n, ast.Name)] if node.type else [""]
                if {"", "Exception", "BaseException"} & set(caught):
                    wrong.append(where(path, node.lineno))
    assert not wrong, "\n".join(wrong)


def test_no_text_from_outside_becomes_code() -> None:
    wrong = []
    for path in SOURCE:
        lazy = str(path.relative_to(ROOT)) in MAY_IMPORT_BY_NAME
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Name(id=name)) if name in RUNS_FOREIGN_CODE:
                    wrong.append(f"{where(path, node.lineno)}: {name}()")
                case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name == "import_module":
                    wrong.extend([] if lazy else [f"{where(path, node.lineno)}: {name}()"])
                case ast.keyword(arg="shell", value=ast.Constant(value=True)):
                    wrong.append(f"{where(path, node.value.lineno)}: shell=True")
                case ast.Import(names=names):
                    used = RUNS_FOREIGN_MODULES & {alias.name.split(".")[0] for alias in names}
                    wrong.extend(f"{where(path, node.lineno)}: {name}" for name in used)
                case ast.ImportFrom(module=str(name)) if name.split(".")[0] in RUNS_FOREIGN_MODULES:
                    wrong.append(f"{where(path, node.lineno)}: {name}")
                case _:
                    pass
    assert not wrong, "\n".join(wrong)


def literal_version(node: ast.expr) -> bool:
    """``"0.14.0"``, ``(4, 51)`` or ``Version("0.14.0")``; a bare ``"3"`` names a format, not a release."""
    match node:
        case ast.Constant(value=str(text)):
            return bool(re.match(r"\d+\.\d", text))
        case ast.Tuple(elts=[ast.Constant(value=int()), *_]):
            return True
        case ast.Call(func=ast.Name(id="Version"), args=[ast.Constant(value=str())]):
            return True
        case _:
            return False


def test_no_version_tables_in_code() -> None:
    """A comparison with a literal version decides by number what the build's own files would say."""
    wrong = []
    for path in SOURCE:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
                about_version = any("version" in ast.unparse(side).lower() for side in sides)
                if about_version and any(map(literal_version, sides)):
                    wrong.append(f"{where(path, node.lineno)}: {ast.unparse(node)}")
    assert not wrong, "\n".join(wrong)


def test_tests_do_not_patch_or_skip_for_ever() -> None:
    wrong = [hit for path in TESTS for hit in hits(PATCHING, path, path.read_text())]
    assert not wrong, "\n".join(wrong)


def test_the_repository_names_no_host_and_no_machine() -> None:
    wrong = [hit for path, text in text_files() for hit in hits(FOREIGN, path, text)]
    assert not wrong, "\n".join(wrong)


def test_the_repository_stays_small() -> None:
    files = [path for path, _ in text_files()]
    assert len(files) > 10
    assert not [path for path in files if path.stat().st_size > MAX_FILE_BYTES]


@pytest.mark.parametrize(
    "name", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"]
)
def test_the_papers_are_there(name: str) -> None:
    assert (ROOT / name).stat().st_size > 200
