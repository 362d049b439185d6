"""``transformers serve``: its flags in the three forms they have had, and whether there is such a server at all.

A typer command whose options are the annotated parameters of ``Serve.__init__``; a dataclass ``ServeArguments``
from which argparse's flags are made; plain ``add_argument`` calls. Releases of the last form serve pipelines
over a protocol of their own, not chat.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from canserve.engines.hf.reading import Reading
from canserve.facts import Fact, Known
from canserve.subjects.build import Flag, FlagSyntax, Site

TYPER = "transformers/cli/serve.py"
ARGPARSE = "transformers/commands/serving.py"
DATACLASS = "ServeArguments"
CHAT = "/v1/chat/completions"
NO_SERVER = "the release has no server"
ASK = "use a release with `transformers serve`, or load the model with AutoModelForCausalLM"


def read_flags(reading: Reading) -> Fact[Mapping[str, Flag]]:
    """All flags by name."""
    path = _server(reading)
    if path is None:
        raise reading.unavailable(NO_SERVER, ASK, ARGPARSE)
    declared = _of_typer if path == TYPER else _of_fields if _is_dataclass(reading) else _of_calls
    flags = {flag.name: flag for flag in declared(reading.tree(path), path)}
    if not flags:
        raise reading.unknown(path, "no flag is declared")
    return Known(flags, (reading.sources.seen(path, f"{len(flags)} flags"),))


def read_flag_syntax(reading: Reading) -> Fact[FlagSyntax]:
    """Names are read as they are declared; flags made of a dataclass's fields go by both spellings."""
    path = _server(reading)
    if path is None:
        raise reading.unavailable(NO_SERVER, ASK, ARGPARSE)
    at = Site(path, 1)
    how = "typer" if path == TYPER else "argparse"
    return Known(FlagSyntax(underscores=False, dotted=False, at=at), (reading.seen(at, how),))


def read_launchers(reading: Reading) -> Fact[tuple[str, ...]]:
    """``serve`` where there is a server that speaks the chat protocol."""
    path = _server(reading)
    if path is None:
        return Known((), (reading.sources.seen(ARGPARSE, NO_SERVER),))
    places = [path, *reading.sources.under("transformers/cli/serving/")]
    for place in places:
        if CHAT in reading.text(place):
            return Known(("serve",), (reading.sources.seen(place, CHAT),))
    return Known((), (reading.sources.seen(path, "its server runs pipelines, and speaks no chat protocol"),))


def _server(reading: Reading) -> str | None:
    return reading.first((TYPER, ARGPARSE))


def _is_dataclass(reading: Reading) -> bool:
    return re.search(rf"^class {DATACLASS}\b", reading.text(ARGPARSE), re.MULTILINE) is not None


# -- typer


def _of_typer(tree: ast.Module, path: str) -> Iterator[Flag]:
    """Parameters of ``Serve.__init__`` that are annotated with ``typer.Option``."""
    enums = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    serve = enums.get("Serve")
    for method in serve.body if serve is not None else ():
        if not isinstance(method, ast.FunctionDef) or method.name != "__init__":
            continue
        for arg in (*method.args.args, *method.args.kwonlyargs):
            match arg.annotation:
                case ast.Subscript(ast.Name("Annotated"), ast.Tuple([kind, ast.Call() as option, *_])):
                    if ast.unparse(option.func).endswith("Option"):
                        yield _option(arg, kind, option, enums, path)
                case _:
                    pass


def _option(
    arg: ast.arg, kind: ast.expr, option: ast.Call, enums: Mapping[str, ast.ClassDef], path: str
) -> Flag:
    names = [a.value for a in option.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    written = [name for text in names for name in text.split("/") if name.startswith("-")]
    written.sort(key=lambda name: not name.startswith("--"))
    first, *more = written or [f"--{arg.arg.replace('_', '-')}"]
    inner = ast.unparse(kind).removesuffix(" | None")
    choices = _members(enums[inner]) if inner in enums else _literal(kind)
    how = "pair" if inner == "bool" and not written else "switch" if inner == "bool" else "value"
    return Flag(first, choices, Site(path, arg.lineno), tuple(more), how)


def _members(node: ast.ClassDef) -> tuple[str, ...]:
    """Values of an enumeration of strings."""
    values = [one.value for one in node.body if isinstance(one, ast.Assign)]
    return tuple(v.value for v in values if isinstance(v, ast.Constant) and isinstance(v.value, str))


def _literal(kind: ast.expr) -> tuple[str, ...] | None:
    for node in ast.walk(kind):
        if isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("Literal"):
            parts = [p.value for p in ast.walk(node.slice) if isinstance(p, ast.Constant)]
            return tuple(part for part in parts if isinstance(part, str))
    return None


# -- a dataclass


def _of_fields(tree: ast.Module, path: str) -> Iterator[Flag]:
    """``HfArgumentParser`` gives each field both spellings, and a switch may be followed by true or false."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == DATACLASS]
    for field in classes[0].body if classes else ():
        match field:
            case ast.AnnAssign(ast.Name(name), annotation, ast.Call(keywords=given)):
                told = {keyword.arg: keyword.value for keyword in given}
                plain = ast.unparse(annotation) == "bool"
                aliases = (f"--{name}",) if "_" in name else ()
                choices = _choices(told.get("metadata"))
                at = Site(path, field.lineno)
                yield Flag(f"--{name.replace('_', '-')}", choices, at, aliases, None if plain else "value")
            case _:
                pass


def _choices(metadata: ast.expr | None) -> tuple[str, ...] | None:
    if not isinstance(metadata, ast.Dict):
        return None
    for key, value in zip(metadata.keys, metadata.values, strict=True):
        if isinstance(key, ast.Constant) and key.value == "choices":
            return _strings(value)
    return None


def _strings(node: ast.expr) -> tuple[str, ...] | None:
    """Strings of a list, if all of it is written there."""
    if not isinstance(node, ast.List | ast.Tuple):
        return None
    found = [part.value for part in node.elts if isinstance(part, ast.Constant)]
    texts = tuple(value for value in found if isinstance(value, str))
    return texts if len(texts) == len(node.elts) else None


# -- argparse


def _of_calls(tree: ast.Module, path: str) -> Iterator[Flag]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(ast.Attribute(_, "add_argument"), [ast.Constant(str() as name), *_], keywords):
                told = {keyword.arg: keyword.value for keyword in keywords}
                action = told.get("action")
                switch = isinstance(action, ast.Constant) and str(action.value).startswith("store_")
                choices = told.get("choices")
                if name.startswith("--"):
                    yield Flag(
                        name,
                        None if choices is None else _strings(choices),
                        Site(path, node.lineno),
                        (),
                        "switch" if switch else "value",
                    )
            case _:
                pass
