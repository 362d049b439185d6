"""Triton with its assemblers, CUDA's compiler, and the system's: what compiling at run time calls."""

from __future__ import annotations

import re
from collections.abc import Mapping

from canserve.facts import Fact, Known, Missing
from canserve.probes.discover.environment import Located
from canserve.probes.gpu_code.elf import FormError
from canserve.probes.stack.constants import PTXAS, said
from canserve.probes.stack.ground import Ground, first_known
from canserve.probes.stack.releases import toolkit_version
from canserve.rules.stack import assembler_variables, named_assemblers
from canserve.subjects.stack import Tool, Triton
from canserve.trees.names import below, unreadable
from canserve.trees.positions import Positions

_ASSEMBLERS = ("backends/nvidia/bin", "third_party/cuda/bin")
"""Folders of Triton's package in which releases have had their programs."""
_BUILD = ("runtime/build.py", "common/build.py")
_NO_COMPILER = "Failed to find C compiler"
"""What Triton says when it has none, so that a file with these words calls one."""
_NVCC = re.compile(r"nvidia_cuda_nvcc(?:_cu\d{2})?-([\d.]{1,20})(?:\.post\d+)?\.dist-info")


def triton(ground: Ground) -> Fact[Triton | None]:
    """Triton beside the engine."""
    located = ground.found.installed("triton")
    if isinstance(located, Missing):
        return located
    if located.value is None:
        return Known(None, located.evidence)
    version = ground.found.installed_version("triton")
    own: Fact[str] = version if isinstance(version, Missing) else Known(version.value or "", version.evidence)
    assemblers, named = _assemblers(ground, located.value), _named(ground)
    found = Triton(own, assemblers, named, _compiles(ground, located.value))
    looks = own.evidence
    for tool in (*assemblers, *named.values()):
        looks += tool.version.evidence
    return Known(found, tuple(dict.fromkeys((*looks, *found.compiles.evidence))))


def _assemblers(ground: Ground, located: Located) -> tuple[Tool, ...]:
    sizes: dict[str, int] = {}
    for inner in _ASSEMBLERS:
        folder = below(located.package.path, inner)
        for name, entry in ground.files(folder).items():
            if name in named_assemblers():
                sizes[below(folder, name)] = entry.size
    versions = versions_of(ground, sizes)
    return tuple(Tool(path, versions[path]) for path in sizes)


def _named(ground: Ground) -> Mapping[str, Tool]:
    """Assemblers that variables of an image name; Triton passes over one that is not there."""
    paths = {variable: path for variable in assembler_variables()
             if (path := ground.inner(ground.variables.get(variable, ""))) and ground.look.is_file(path)}  # fmt: skip
    sizes = {
        path: ground.files(path.rpartition("/")[0])[path.rpartition("/")[2]].size for path in paths.values()
    }
    versions = versions_of(ground, sizes)
    return {variable: Tool(path, versions[path]) for variable, path in paths.items()}


def versions_of(ground: Ground, sizes: Mapping[str, int]) -> Mapping[str, Fact[str]]:
    """Of NVIDIA's programs, by their own constants."""
    told: dict[str, Fact[str]] = {}

    def use(path: str, file: Positions) -> None:
        try:
            version = said(file, PTXAS)
        except FormError as error:
            told[path] = unreadable(ground.subject, path, str(error))
            return
        named = Known(version, ground.seen(path, f"release {version}")) if version else None
        told[path] = named or unreadable(ground.subject, path, "it does not say its release")

    failed = ground.scanned(sizes, use)
    return {
        path: told.get(path) or failed.get(path) or unreadable(ground.subject, path, "not read")
        for path in sizes
    }


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
    if named.startswith("/") and (path := ground.inner(named)) and ground.look.is_file(path):
        return Known(path, ground.seen(path, "the variable CC"))
    return ground.program(*filter(None, [named if "/" not in named else "", "gcc", "clang"]))


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
    match = re.search(r"^home\s*=\s*(\S+)/bin\s*$", text.value, re.MULTILINE)
    return ground.inner(match[1]) if match else None
