"""How the build's argument parser reads flag names: vLLM's own parser rewrites them before argparse looks."""

from __future__ import annotations

import ast

from canserve.engines.vllm.reading import Reading
from canserve.facts import Fact, Missing
from canserve.subjects.build import FlagSyntax, Site

FILES = ("vllm/utils/argparse_utils.py", "vllm/utils/__init__.py", "vllm/utils.py")
"""Where the parser class has stood."""
PARSER = "FlexibleArgumentParser"
ENTRY = "vllm/engine/arg_utils.py"
"""Where the flags stand; evidence in builds without a parser class of their own."""


def flag_syntax(reading: Reading) -> Fact[FlagSyntax]:
    """What the parser class does with names; plain argparse where there is no such class."""
    paths = reading.existing(FILES)
    if isinstance(paths, Missing):
        return paths
    for path in paths:
        found = reading.excerpts.statement(path, PARSER)  # the last of that name: older files have a stand-in
        if isinstance(found, Missing):
            return found
        if isinstance(found, ast.ClassDef):
            at = Site(path, found.lineno)
            read = FlagSyntax(
                _swaps_underscores(found), _splits_at_dots(found), at, _has_inverses(reading, path, found)
            )
            return reading.known(read, f"class {PARSER}", read.at)
    return reading.known(FlagSyntax(False, False, Site(ENTRY, 1)), f"no {PARSER}: plain argparse", *paths)


def _has_inverses(reading: Reading, path: str, parser: ast.ClassDef) -> bool:
    """Whether an action that the parser registers maps ``--enable-`` to ``--disable-``."""
    for node in ast.walk(parser):
        match node:
            case ast.Call(func=ast.Attribute(attr="register"), args=[_, _, ast.Name(id=action)]):
                found = reading.excerpts.statement(path, action)
                if isinstance(found, ast.ClassDef) and "'--enable-': '--disable-'" in ast.unparse(found):
                    return True
            case _:
                pass
    return False


def _swaps_underscores(parser: ast.ClassDef) -> bool:
    """``name.replace("_", "-")``."""
    return any(
        isinstance(node.func, ast.Attribute)
        and node.func.attr == "replace"
        and [arg.value for arg in node.args if isinstance(arg, ast.Constant)] == ["_", "-"]
        for node in ast.walk(parser)
        if isinstance(node, ast.Call)
    )


def _splits_at_dots(parser: ast.ClassDef) -> bool:
    """``key, *keys = name.split(".")``, whose parts become one JSON argument."""
    return any(
        isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Attribute)
        and node.value.func.attr == "split"
        and any(isinstance(arg, ast.Constant) and arg.value == "." for arg in node.value.args)
        and isinstance(target, ast.Tuple)
        and any(isinstance(part, ast.Starred) for part in target.elts)
        for node in ast.walk(parser)
        if isinstance(node, ast.Assign)
        for target in node.targets
    )
