"""Triton with its assemblers, CUDA's compiler, and the system's: what compiling at run time calls."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Mapping

from canserve.engines.static.parsing import parsed
from canserve.facts import Fact, Known, Missing
from canserve.probes.discover.environment import Located
from canserve.probes.stack.constants import PTXAS, Asked
from canserve.probes.stack.ground import Ground, first_known
from canserve.probes.stack.releases import toolkit_version
from canserve.rules.stack import assembler_variables, named_assemblers
from canserve.subjects.stack import Tool, Triton
from canserve.trees.names import below, unreadable

_ASSEMBLERS = ("backends/nvidia/bin", "third_party/cuda/bin")
"""Folders of Triton's package in which releases have had their programs."""
_BUILD = ("runtime/build.py", "common/build.py")
MAX_CODE = 1 << 20
"""Characters of Triton's own code that are parsed; the longest file measured had 30,000."""
_CHOICE = ("backends/nvidia/compiler.py",)
_CHOOSER = "get_ptxas"
_NEWER = "blackwell"
_NO_COMPILER = "Failed to find C compiler"
"""What Triton says when it has none, so that a file with these words calls one."""
_COMPILER = re.compile(r"(?:.{1,100}-)?(?:gcc|clang)(?:-\d{1,2})?|cc|tcc|icx")
_NVCC = re.compile(r"nvidia_cuda_nvcc(?:_cu\d{2})?-([\d.]{1,20})(?:\.post\d+)?\.dist-info")


def assemblers(ground: Ground) -> Mapping[str, Asked]:
    """Triton's own, and those that variables of an image name; Triton passes over one that is not there."""
    located = ground.found.installed("triton")
    found: dict[str, Asked] = {}
    if isinstance(located, Missing) or located.value is None:
        return found
    for inner in _ASSEMBLERS:
        folder = below(located.value.package.path, inner)
        for name, entry in ground.files(folder).items():
            if name in named_assemblers():
                found[below(folder, name)] = Asked(entry.size, PTXAS)
    for path in (*_named(ground).values(), *_by_torch(ground)):
        found[path] = Asked(ground.size(path) or 0, PTXAS)
    return found


def _named(ground: Ground) -> Mapping[str, str]:
    """By variable, the program that it names."""
    paths = {each: ground.inner(ground.variables.get(each, "")) for each in assembler_variables()}
    return {each: path for each, path in paths.items() if path and ground.look.is_file(path)}


def _by_torch(ground: Ground) -> tuple[str, ...]:
    """An assembler that torch brings, if it does: torch/_inductor/runtime/compile_tasks.py looks for it there."""
    located = ground.found.installed("torch")
    if isinstance(located, Missing) or located.value is None:
        return ()
    path = below(located.value.package.path, "bin/ptxas")
    return (path,) if ground.look.is_file(path) else ()


def triton(ground: Ground, told: Mapping[str, Fact[str]]) -> Fact[Triton | None]:
    """Triton beside the engine. ``told``: what its assemblers say of themselves."""
    located = ground.found.installed("triton")
    if isinstance(located, Missing):
        return located
    if located.value is None:
        return Known(None, located.evidence)
    version = ground.found.installed_version("triton")
    own: Fact[str] = version if isinstance(version, Missing) else Known(version.value or "", version.evidence)
    folder = located.value.package.path
    brought = tuple(Tool(path, each) for path, each in told.items() if path.startswith(f"{folder}/"))
    named = {each: Tool(path, told[path]) for each, path in _named(ground).items() if path in told}
    torchs = [Tool(path, told[path]) for path in _by_torch(ground) if path in told]
    newer, compiles = _newer_from(ground, located.value), _compiles(ground, located.value)
    found = Triton(own, brought, named, torchs[0] if torchs else None, newer, compiles)
    looks = own.evidence
    for tool in (*brought, *named.values(), *torchs):
        looks += tool.version.evidence
    return Known(found, tuple(dict.fromkeys((*looks, *newer.evidence, *compiles.evidence))))


def _newer_from(ground: Ground, located: Located) -> Fact[int | None]:
    """The compute capability with which the function that chooses an assembler compares."""
    path = below(located.package.path, _CHOICE[0])
    text = ground.text(path)
    if isinstance(text, Missing):
        return text
    if text.value is None or _NEWER not in text.value:
        return Known(None, ground.seen(path, "it knows one ptxas alone"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = parsed(text.value[:MAX_CODE])
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return unreadable(ground.subject, path, "it is no Python that can be parsed")
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == _CHOOSER:
            found = {bound for each in ast.walk(node) if (bound := _bound(each)) is not None}
            if len(found) == 1:
                (number,) = found
                return Known(number, ground.seen(f"{path}:{node.lineno}", f"{_NEWER} from {number} on"))
    return unreadable(ground.subject, path, f"how {_CHOOSER} chooses was not understood")


def _bound(node: ast.AST) -> int | None:
    """The number in ``arch >= 100`` and ``arch < 90``: from which on the newer one is taken."""
    match node:
        case ast.Compare(ast.Name("arch"), [ast.GtE() | ast.Lt()], [ast.Constant(int(number))]):
            return number
        case _:
            return None


def _compiles(ground: Ground, located: Located) -> Fact[bool]:
    """Whether its own build file looks for a C compiler."""
    for name in _BUILD:
        path = below(located.package.path, name)
        text = ground.text(path)
        if isinstance(text, Missing):
            return text
        if text.value is not None:
            calls = _NO_COMPILER in text.value
            saw = "it calls the system's C compiler" if calls else "no look for a C compiler"
            return Known(calls, ground.seen(path, saw))
    return unreadable(
        ground.subject, located.package.path, "no file that says how Triton compiles its launcher"
    )


def nvcc(ground: Ground) -> Fact[tuple[Tool, ...]]:
    """CUDA's compiler in toolkits, packages, and where programs lie."""
    found: dict[str, Tool] = {}
    for folder in ground.toolkits:
        path = below(folder, "bin/nvcc")
        if ground.look.is_file(path):
            found[path] = Tool(path, _nvcc_version(ground, folder))
    other = ground.program("nvcc")
    if isinstance(other, Known) and other.value is not None and not found:
        found[other.value] = Tool(
            other.value, unreadable(ground.subject, other.value, "its release was not read")
        )
    if found:
        return Known(tuple(found.values()), ground.seen(", ".join(found), "nvcc"))
    return other if isinstance(other, Missing) else Known((), other.evidence)


def _nvcc_version(ground: Ground, folder: str) -> Fact[str]:
    stated = toolkit_version(ground, folder, "cuda_nvcc")
    if isinstance(stated, Known) and stated.value:
        return Known(stated.value, stated.evidence)
    for site in ground.sites:
        if folder.startswith(below(site.path, "nvidia/")):
            for name in ground.folders(site.path):
                if match := _NVCC.fullmatch(name):
                    return Known(match[1], ground.seen(below(site.path, name), "the package that brings it"))
    return (
        stated
        if isinstance(stated, Missing)
        else unreadable(ground.subject, folder, "its release is not stated")
    )


def c_compiler(ground: Ground) -> Fact[str | None]:
    """As Triton looks for it: the variable CC, gcc, clang."""
    named = ground.variables.get("CC", "").split(" ")[0]
    if named.startswith("/") and (path := ground.inner(named)):
        if ground.look.is_file(path):
            return Known(path, ground.seen(path, "the variable CC"))
        why = "the variable CC names it, and it is not in the image"
        return ground.look.gap(path) or unreadable(ground.subject, path, why)
    found = ground.program(named) if named else ground.program("gcc", "clang")
    if isinstance(found, Missing) or found.value is not None:
        return found
    return _otherwise_named(ground) or found


def _otherwise_named(ground: Ground) -> Missing | None:
    """A compiler under a name that Triton does not look for, which a script at start may give to it."""
    for folder in ground.programs:
        for name in ground.files(folder):
            if _COMPILER.fullmatch(name):
                path = below(folder, name)
                return unreadable(
                    ground.subject, path, "a C compiler, but not under the name that is looked for"
                )
    return None


def ninja(ground: Ground) -> Fact[str | None]:
    """What FlashInfer and torch build extensions with."""
    return ground.program("ninja", "ninja-build")


def python_header(ground: Ground) -> Fact[str | None]:
    """``Python.h`` of the environment's Python, which Triton's launcher includes."""
    version = ground.environment.site.python
    home = _home(ground)
    prefixes = [ground.prefix, *filter(None, [home]), *(("usr", "usr/local") if ground.system else ())]
    looks: list[Fact[str | None]] = []
    for prefix in dict.fromkeys(prefixes):
        path = below(prefix, f"include/python{version}/Python.h")
        if ground.look.is_file(path):
            return Known(path, ground.seen(path, "there"))
        looks.append(ground.look.gap(path) or Known(None, ground.seen(path, "not there")))
    if not ground.system:
        return ground.outside()
    return first_known(looks)


def _home(ground: Ground) -> str | None:
    """Where the Python lies that a virtual environment was made from."""
    text = ground.text(below(ground.prefix, "pyvenv.cfg"))
    if isinstance(text, Missing) or text.value is None:
        return None
    match = re.search(r"^home[ \t]*=[ \t]*(\S{1,4000})/bin[ \t]*$", text.value, re.MULTILINE)
    return ground.inner(match[1]) if match else None
