"""What a name stands for: an architecture, a model type, a GGUF architecture, or several of these at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property

from canserve.facts import Cause, Evidence, Known, Missing
from canserve.index.history import ReleaseHistory
from canserve.index.shelf import Shelf, expand
from canserve.index.transformers_releases import PROJECT
from canserve.index.words import unword
from canserve.subjects.model import Model, Quantization

GGUF_TABLES = ("gguf", "gguf_architectures")
"""Tables that hold values of ``general.architecture``: of transformers, and of engines."""
_HEAD = re.compile(r"(?<=[a-z0-9])(For[A-Z]\w*|LMHeadModel|Model|MTP|ForCausalLMMTP)$")
_UNKNOWN = Missing(Cause.UNREACHED, "a name says nothing of that", ask="name a model instead")


@dataclass(frozen=True, slots=True)
class Subject:
    """One thing that can be served or not, as far as a name tells."""

    kind: str
    """``architecture``, ``GGUF architecture`` or ``model``."""
    model: Model
    says: str
    """What it is, and what was assumed of it, in one line."""


class Names:
    """Every name that the index holds."""

    def __init__(self, history: ReleaseHistory, engines: Iterable[str]) -> None:
        shelves = {engine: history.shelf(engine) for engine in engines}
        self._shelves: Mapping[str, Shelf] = {e: shelf for e, shelf in shelves.items() if shelf is not None}
        self._library = history.shelf(PROJECT)

    @property
    def days(self) -> Mapping[str, str]:
        """When each release of transformers came out, ISO 8601."""
        rows = self._library.releases if self._library else ()
        return {str(row["version"]): str(row.get("date") or "") for row in rows}

    def subjects(self, name: str) -> tuple[Subject, ...]:
        """What the name stands for; empty: the index holds no such name."""
        return tuple(self._meanings(name))

    def nearest(self, name: str) -> list[str]:
        """Up to three names that look like this one, whatever they stand for."""
        known = {other.lower(): other for other in self._every()}
        return [known[near] for near in get_close_matches(name.lower(), known, n=3, cutoff=0.6)]

    def _meanings(self, name: str) -> Iterator[Subject]:
        if self._is_architecture(name):
            yield self._architecture(name)
        classes = self._architectures_of(name)
        chosen = [one for one in classes if one.endswith(_GENERATE)] or classes
        others = [one for one in classes if one not in chosen]
        for architecture in chosen:
            also = (
                f"; its other classes: {', '.join(others)}" if others and architecture == chosen[-1] else ""
            )
            yield _subject(architecture, name, f"{architecture}, model type {name}{also}")
        if any(name in shelf.tables.get(table, ()) for shelf in self._all() for table in GGUF_TABLES):
            yield Subject("GGUF architecture", named(name, gguf=name), f"GGUF architecture {name}")

    def _all(self) -> Iterator[Shelf]:
        yield from self._shelves.values()
        if self._library is not None:
            yield self._library

    def _every(self) -> Iterator[str]:
        yield from self._listed
        for shelf in self._all():
            for table in ("config_types", *GGUF_TABLES):
                yield from shelf.tables.get(table, ())
        yield from (name for _, name, _ in self._classes())

    def _classes(self) -> Iterator[tuple[str, str, str]]:
        """Model type, class and runs, as transformers maps them."""
        tables: Mapping[str, Mapping[str, str]] = self._library.tables if self._library else {}
        for key, runs in tables.get("classes", {}).items():
            model_type, _, name = key.partition(" ")
            yield model_type, name, runs

    @cached_property
    def _listed(self) -> frozenset[str]:
        """Every architecture that some release of some engine names, to serve it or to convert it."""
        tables = [shelf.tables for shelf in self._shelves.values()]
        named = (name for table in tables for name in table.get("architectures", ()))
        converted = (name.partition(" ")[0] for table in tables for name in table.get("converted", ()))
        return frozenset(map(unword, (*named, *converted)))

    def _is_architecture(self, name: str) -> bool:
        if name in self._listed:
            return True
        return any(name == other for _, other, _ in self._classes())

    def _architecture(self, name: str) -> Subject:
        """With the model type that its config would have: by transformers' table, else by its spelling."""
        types = [model_type for model_type, other, _ in self._classes() if other == name]
        by_name = self._spelled(name)
        if by_name in types:
            types.sort(key=lambda model_type: model_type != by_name)
        if types:
            more = f" (or {', '.join(types[1:])})" if types[1:] else ""
            return _subject(name, types[0], f"{name}, model type {types[0]}{more}")
        if by_name is not None:
            return _subject(name, by_name, f"{name}, model type taken to be {by_name}, by its spelling")
        return _subject(name, None, f"{name}, model type not known")

    def _spelled(self, architecture: str) -> str | None:
        """The known model type that is spelled like the class: ``KimiLinearForCausalLM``, ``kimi_linear``."""
        stem = _plain(_HEAD.sub("", architecture))
        known = (name for shelf in self._all() for name in shelf.tables.get("config_types", ()))
        return min((name for name in known if _plain(name) == stem), default=None)

    def _architectures_of(self, model_type: str) -> Sequence[str]:
        """Classes of a type that some engine ever listed; where there are none, those that generate text."""
        ours = [(name, runs) for of, name, runs in self._classes() if of == model_type]
        listed = [name for name, _ in ours if name in self._listed]
        if not ours:  # a type that only engines' own config classes know
            known = any(model_type in shelf.tables.get("config_types", ()) for shelf in self._all())
            return sorted(n for n in self._listed if known and _plain(_HEAD.sub("", n)) == _plain(model_type))
        if not listed:
            newest = max(max(expand(runs), default=-1) for _, runs in ours)
            listed = [name for name, runs in ours if newest in expand(runs) and "For" in name]
        return sorted(set(listed), key=lambda name: (not name.endswith(_GENERATE), name))


_GENERATE = ("ForConditionalGeneration", "ForCausalLM", "LMHeadModel")


def _plain(name: str) -> str:
    return re.sub(r"[-_.]", "", name).lower()


def _subject(architecture: str, model_type: str | None, says: str) -> Subject:
    return Subject("architecture", named(architecture, architecture, model_type), says)


def of_model(model: Model) -> Subject:
    """A model that was read."""
    names = model.architectures.value if isinstance(model.architectures, Known) else ()
    said = ", ".join(names) or "no architecture named"
    if isinstance(model.model_type, Known) and model.model_type.value:
        said += f", model type {model.model_type.value}"
    if isinstance(model.gguf_architecture, Known) and model.gguf_architecture.value:
        said = f"GGUF architecture {model.gguf_architecture.value}"
    return Subject("model", model, f"{model.subject}: {said}")


def _untyped(name: str) -> Missing:
    why = f"the model type of {name} is not known: no release of transformers maps one to it"
    return Missing(Cause.UNREACHED, why, ask="name a model instead, or its model type")


def named(
    name: str, architecture: str | None = None, model_type: str | None = None, gguf: str | None = None
) -> Model:
    """A model of which nothing but these names is known."""
    look = (Evidence(name, "name", "as the user gave it"),)
    return Model(
        subject=name,
        origin="name",
        revision=Known(None, look),
        files=_UNKNOWN,
        config=_UNKNOWN,
        architectures=Known((architecture,) if architecture else (), look),
        model_type=Known(model_type, look) if model_type or gguf else _untyped(name),
        nested=Known((), look),
        auto_map=Known({}, look),
        parameters=_UNKNOWN,
        quantization=Known(Quantization("gguf", "gguf", name, (), (), None, {})) if gguf else _UNKNOWN,
        tokenizer=_UNKNOWN,
        processor=_UNKNOWN,
        chat_template=_UNKNOWN,
        mtp_layers=_UNKNOWN,
        weight_format=_UNKNOWN,
        gguf_architecture=Known(gguf, look),
    )
