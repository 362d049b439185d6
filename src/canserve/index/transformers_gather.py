"""One release of transformers as rows of the index: what engines may ask of it."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files

from packaging.version import Version

from canserve.engines.sources import Sources
from canserve.engines.transformers.names import PACKAGE
from canserve.engines.transformers.outline import Outline
from canserve.engines.transformers.reading import Library
from canserve.facts import Missing
from canserve.trees.archive.remote import Place, Remote
from canserve.trees.index.opening import open_remote
from canserve.trees.index.pages import File
from canserve.trees.tree import TreeError
from canserve.trees.view import sources_of

OLDEST = Version("4.20")
"""Requirements of every engine release that has any start above it."""
_LEFT_OUT = ("modeling_tf_", "modeling_flax_", "convert_", "modular_", "tokenization_tf_")

Tables = dict[str, tuple[str, ...]]


def needed_imports() -> tuple[tuple[str, str], ...]:
    """Names of deep modules that some engine release imports: (module inside the package, name)."""
    text = files("canserve.index").joinpath("data", "transformers_imports.txt").read_text()
    pairs = (line.partition(":") for line in text.splitlines() if line)
    return tuple((module, name) for module, _, name in pairs)


def read_release(
    version: Version, file: File, place: Place, memory: dict[bytes, Outline]
) -> tuple[Tables, tuple[str, ...]] | Missing:
    """The names of one release by table, and the tables that could not be read in whole.

    ``memory`` keeps what was read of files that many releases share.
    """
    subject = f"{PACKAGE}=={version}"
    try:
        tree = open_remote(Remote(file.url, file.name, file.sha256, file.size), place, subject)
        sources = sources_of(tree, subject)
    except TreeError as error:
        return error.missing
    sources.prefetch(_interesting(sources))
    return tables_of(Library(sources, memory))


def _interesting(sources: Sources) -> Iterable[str]:
    for path in sources.under(f"{PACKAGE}/"):
        if not path.rpartition("/")[2].startswith(_LEFT_OUT):
            yield path


def _wanted(module: str) -> bool:
    return not module.rpartition(".")[2].startswith(_LEFT_OUT)


def _inside(module: str) -> str:
    return module.removeprefix(f"{PACKAGE}.")


def tables_of(library: Library) -> tuple[Tables, tuple[str, ...]] | Missing:
    """What is kept of one release, and which tables could not be read in whole."""
    types, architectures = library.config_types, library.architectures
    if isinstance(types, Missing):
        return types
    if isinstance(architectures, Missing):
        return architectures
    classes = architectures.value
    public = library.names.public()
    unread: list[str] = []
    backend: list[str] = []
    for name in classes.types:
        backend.extend(f"{test} {name}" for test in library.backend_tests(name) or ())
    tables: Tables = {
        "config_types": tuple(sorted(types.value)),
        "public": tuple(sorted(public.names)),
        "modules": tuple(sorted(_inside(m) for m in library.names.modules() if m != PACKAGE)),
        "homes": tuple(sorted(f"{_inside(m)} {name}" for m, name in library.names.homes() if _wanted(m))),
        "classes": tuple(sorted(f"{t} {name}" for name, of in classes.types.items() for t in of)),
        "plain": tuple(sorted(f"{t} {name}" for t, names in classes.plain.items() for name in names)),
        "generative": tuple(sorted(classes.generative)),
        "backend": tuple(sorted(backend)),
    }
    if not public.whole:
        unread.append("public")
    answers = {(m, n): library.names.has(f"{PACKAGE}.{m}", n) for m, n in needed_imports()}
    if None in answers.values():
        unread.append("imports")
    tables["imports"] = tuple(sorted(f"{m}:{n}" for (m, n), has in answers.items() if has))
    gguf = library.gguf_architectures
    if isinstance(gguf, Missing):
        unread.append("gguf")
    else:
        tables["gguf"] = tuple(sorted(gguf.value))
    return tables, tuple(unread)
