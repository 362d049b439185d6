"""Every copy of NCCL, and the one that torch gets.

The order is ld.so(8)'s: ``LD_PRELOAD``; the folders of ``DT_RPATH`` where there is no ``DT_RUNPATH``;
``LD_LIBRARY_PATH``; ``DT_RUNPATH``; what ``ld.so.conf`` names; the loader's own folders.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from canserve.facts import Evidence, Fact, Known, Missing, partial
from canserve.probes.stack.constants import NCCL, Asked
from canserve.probes.stack.ground import LIBRARIES, Ground
from canserve.rules.stack import bound
from canserve.subjects.gpu_code import Extension
from canserve.subjects.stack import Loaded, Tool
from canserve.trees.names import below, unreadable

STEM = "libnccl.so"
SONAME = "libnccl.so.2"
MAX_COPIES = 20
_FULL = re.compile(r"libnccl\.so\.(\d{1,3}\.\d{1,3}\.\d{1,3})")
_PACKAGE = re.compile(r"nvidia_nccl_cu\d{2}-([\d.]{1,20}?)(?:\.post\d+)?\.dist-info")
_CONF = re.compile(r"^[ \t]*(/[^\s#]{1,400})", re.MULTILINE)
MAX_CONFS = 100
MAX_FOLDERS = 1_000
"""That are tried of those that files and variables name; the longest list measured had 20."""


def nccl_files(ground: Ground) -> Mapping[str, Asked]:
    """Every ``libnccl.so.2`` where libraries usually lie, of an image wherever it lies; each file once."""
    sizes: dict[str, int] = {}
    for path in (*_usual(ground), *ground.everywhere(STEM)):
        size = ground.size(path)
        if size is not None and path.rpartition("/")[2].startswith(SONAME) and len(sizes) < MAX_COPIES:
            sizes[path] = size
    short = {path: size for path, size in sizes.items() if path.endswith(SONAME) or _short(path) not in sizes}
    real = {path: size for path, size in short.items() if not ground.linked(path)}
    again = {(path.rpartition("/")[2], size) for path, size in real.items()}
    rest = {path: size for path, size in short.items() if (path.rpartition("/")[2], size) not in again}
    return {path: Asked(size, NCCL) for path, size in (real | rest).items()}


def _short(path: str) -> str:
    """The name that the loader asks for, of a file under its long one."""
    return below(path.rpartition("/")[0], SONAME)


def nccl_copies(ground: Ground, told: Mapping[str, Fact[str]]) -> Fact[tuple[Tool, ...]]:
    """Every copy with its release: by its own words where large files may be read, else by names around it."""
    found: list[Tool] = []
    looks: tuple[Evidence, ...] = ()
    for path, own in told.items():
        version = own if isinstance(own, Known) else _by_names(ground, path) or own
        found.append(Tool(path, version))
        looks += version.evidence
    looks = (*ground.seen("usual folders of libraries", f"{len(found)} x {SONAME}"), *looks)
    gap = ground.look.gap(below(LIBRARIES[0], SONAME)) if ground.system else None
    if gap is not None and not found:
        return gap
    return Known(tuple(found), tuple(map(partial, looks)) if gap is not None else looks)


def _usual(ground: Ground) -> Iterator[str]:
    folders = [below(ground.prefix, "lib")]
    for site in ground.sites:
        packed = below(site.path, "nvidia")
        folders += [below(below(packed, name), "lib") for name in ground.folders(packed)]
        folders += [below(site.path, "torch/lib")]
    if ground.system:
        folders += LIBRARIES
        for toolkit in ground.toolkits:
            targets = below(toolkit, "targets")
            folders += [
                below(toolkit, "lib64"),
                *(f"{targets}/{name}/lib" for name in ground.folders(targets)),
            ]
    for named in ground.variables.get("LD_LIBRARY_PATH", "").split(":")[:MAX_FOLDERS]:
        folders += filter(None, [ground.inner(named)])
    for name, value in ground.variables.items():
        row = bound(name)
        if row is not None and row.values.get("loads") == SONAME and (inner := ground.inner(value)):
            folders.append(posixpath.dirname(inner))
    for folder in dict.fromkeys(folders):
        yield from (below(folder, name) for name in ground.files(folder) if name.startswith(STEM))


def _by_names(ground: Ground, path: str) -> Fact[str] | None:
    """From its long name, a neighbour's of the same size, or the package that brings it."""
    folder, _, name = path.rpartition("/")
    files = ground.files(folder)
    for other, entry in files.items():
        match = _FULL.fullmatch(other)
        if match and (other == name or entry.size == files[name].size):
            return Known(match[1], ground.seen(below(folder, other), "its name"))
    for site in ground.sites:
        if not folder.startswith(below(site.path, "nvidia/")):
            continue
        brought = {
            each: match[1] for each in ground.folders(site.path) if (match := _PACKAGE.fullmatch(each))
        }
        if len(set(brought.values())) > 1:
            why = f"{' and '.join(sorted(brought))} bring it, the one over the other"
            return unreadable(ground.subject, path, why)
        for each, version in brought.items():
            return Known(version, ground.seen(below(site.path, each), "the package that brings it"))
    return None


@dataclass(frozen=True, slots=True)
class _Wanting:
    """An extension that links against NCCL, and the folder it lies in."""

    shown: str
    extension: Extension
    folder: str


def nccl_loaded(ground: Ground, copies: Fact[tuple[Tool, ...]]) -> Fact[Loaded | None]:
    """The copy that torch's libraries get; ``Known(None)``: they link against none."""
    wanting = _wanting(ground)
    if isinstance(wanting, Missing):
        return wanting
    if wanting.value is None:
        return Known(None, wanting.evidence)
    it, known = wanting.value, {tool.path: tool for tool in copies.value} if isinstance(copies, Known) else {}
    for place, because, certain in _order(ground, it):
        if ground.look.is_file(place):
            tool = known.get(place) or Tool(
                place, unreadable(ground.subject, place, "its release was not read")
            )
            seen = ground.seen(place, f"the first {SONAME}, by {because}")
            return Known(Loaded(place, tool.version, because, certain), wanting.evidence + seen)
        if gap := ground.look.gap(place):
            return gap
    if not ground.system:
        return ground.outside(f"{it.shown} links against {SONAME}, which is not in the environment")
    because = f"{it.shown} links against {SONAME}, which no folder of the loader has"
    seen = ground.seen("the loader's folders", f"no {SONAME}")
    unsaid = unreadable(ground.subject, it.shown, because)
    return Known(Loaded(None, unsaid, because), wanting.evidence + seen)


def _same(ground: Ground, place: str, known: Iterable[Tool]) -> Tool:
    """A copy under another path to it: through a folder that is a link."""
    for tool in known:
        if tool.path.endswith(SONAME) and ground.size(tool.path) == ground.size(place):
            return Tool(place, tool.version)
    return Tool(place, unreadable(ground.subject, place, "its release was not read"))


def _wanting(ground: Ground) -> Fact[_Wanting | None]:
    """The library of torch that links against NCCL."""
    extensions = ground.extensions
    if isinstance(extensions, Missing):
        return extensions
    located = ground.found.installed("torch")
    if isinstance(located, Missing):
        return located
    if located.value is None:
        return Known(None, located.evidence)
    place = located.value.package
    for shown, fact in extensions.value.items():
        if isinstance(fact, Known) and fact.value.package == "torch" and SONAME in fact.value.needed:
            path = below(place.path, shown.removeprefix("torch/"))
            return Known(_Wanting(shown, fact.value, posixpath.dirname(path)), fact.evidence)
    for fact in extensions.value.values():
        if isinstance(fact, Missing):
            return fact
    return Known(None, extensions.evidence)


def _order(ground: Ground, it: _Wanting) -> Iterator[tuple[str, str, bool]]:
    """Paths in the order in which the loader tries them: path, because of what, whether nothing comes before."""
    for named in re.split(r"[: ]", ground.variables.get("LD_PRELOAD", "")):
        if posixpath.basename(named).startswith(STEM) and (inner := ground.inner(named)):
            yield inner, "LD_PRELOAD of the image", True
    extension, image = it.extension, ground.config is not None
    if not extension.runpath:
        yield from _in(ground, it, extension.rpath, f"RPATH of {it.shown}", certain=True)
    path = ground.variables.get("LD_LIBRARY_PATH", "").split(":")
    yield from _in(ground, it, path, "LD_LIBRARY_PATH of the image", certain=True)
    yield from _in(ground, it, extension.runpath, f"RUNPATH of {it.shown}", certain=image)
    if ground.system:
        yield from _in(ground, it, _configured(ground), "/etc/ld.so.conf", certain=image)
        usual = tuple(f"/{folder}" for folder in LIBRARIES)
        yield from _in(ground, it, usual, "the loader's own folders", certain=image)


def _in(
    ground: Ground, it: _Wanting, folders: Sequence[str], because: str, *, certain: bool
) -> Iterator[tuple[str, str, bool]]:
    for folder in folders[:MAX_FOLDERS]:
        expanded = folder.replace("${ORIGIN}", "$ORIGIN").replace("$ORIGIN", f"/{it.folder}")
        if inner := ground.inner(expanded):
            yield below(inner, SONAME), because, certain


def _configured(ground: Ground) -> tuple[str, ...]:
    """Folders that ``ld.so.conf`` and the files it includes name, in their order."""
    paths = [
        f"etc/ld.so.conf.d/{name}"
        for name in sorted(ground.files("etc/ld.so.conf.d"))
        if name.endswith(".conf")
    ]
    ground.look.together(paths[:MAX_CONFS])
    found: list[str] = []
    for path in [*paths[:MAX_CONFS], "etc/ld.so.conf"]:
        text = ground.text(path)
        if isinstance(text, Known) and text.value:
            found += _CONF.findall(text.value)
    return tuple(found[:MAX_FOLDERS])
