"""The auto classes' tables: config types, and model classes by task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from canserve.engines.static.evaluate import Constants
from canserve.engines.static.values import Ref, Table, Value
from canserve.facts import Fact, Known, Missing

_FOLDERS = ("transformers/models/auto/", "transformers/")
GENERATIVE = (
    "MODEL_FOR_CAUSAL_LM_",
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT_",
    "MODEL_FOR_MULTIMODAL_LM_",
    "MODEL_FOR_VISION_2_SEQ_",
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_",
    "MODEL_FOR_SPEECH_SEQ_2_SEQ_",
)
"""Tables of classes that generate text."""


@dataclass(frozen=True, slots=True)
class Architectures:
    """Model classes by the model types that are mapped to them."""

    types: Mapping[str, tuple[str, ...]]
    """Class -> model types, sorted."""
    plain: Mapping[str, tuple[str, ...]]
    """Model type -> its classes without a head, which stand in for a config that names none."""
    generative: frozenset[str]
    """Those classes that generate text."""


def config_types(constants: Constants) -> Fact[Mapping[str, str]]:
    """Model types that ``AutoConfig`` maps -> their config class."""
    path = _file(constants, "configuration_auto.py")
    found = constants.of(path)
    if isinstance(found, Missing):
        return found
    for name in ("CONFIG_MAPPING_NAMES", "CONFIG_MAPPING"):
        table = None if found.value is None else found.value.get(name)
        if isinstance(table, Table) and table and not table.opaque:
            pairs = {str(key): next(classes_in(value), "") for key, value in table.items()}
            return Known(pairs, (constants.sources.seen(path, f"{name}: {len(pairs)} model types"),))
    return constants.sources.unreadable(path, "unknown form: no table of config types")


def architectures(constants: Constants) -> Fact[Architectures]:
    """Every model class of the auto classes' tables (PyTorch)."""
    path = _file(constants, "modeling_auto.py")
    found = constants.of(path)
    if isinstance(found, Missing):
        return found
    types: dict[str, set[str]] = {}
    plain: dict[str, tuple[str, ...]] = {}
    generative: set[str] = set()
    for name, table in _tables(found.value or {}):
        if table.opaque:
            return constants.sources.unreadable(path, f"unknown form: {name} holds {table.opaque[0]}")
        for model_type, value in table.items():
            classes = tuple(classes_in(value))
            for architecture in classes:
                types.setdefault(architecture, set()).add(str(model_type))
            if name.startswith("MODEL_MAPPING"):
                plain[str(model_type)] = classes
            if name.startswith(GENERATIVE):
                generative.update(classes)
    if not types:
        return constants.sources.unreadable(path, "unknown form: no table of model classes")
    ordered = {architecture: tuple(sorted(found)) for architecture, found in sorted(types.items())}
    seen = (constants.sources.seen(path, f"{len(ordered)} model classes"),)
    return Known(Architectures(ordered, plain, frozenset(generative)), seen)


def _file(constants: Constants, name: str) -> str:
    paths = [folder + name for folder in _FOLDERS]
    return next((path for path in paths if constants.sources.has(path)), paths[0])


def _tables(names: Mapping[str, Value]) -> Iterator[tuple[str, Table]]:
    """Tables of model type -> class names; the lazy mappings built from them are calls, not tables."""
    for name, value in names.items():
        if name.startswith("MODEL_") and name.endswith(("_NAMES", "_MAPPING")) and isinstance(value, Table):
            yield name, value


def classes_in(value: Value) -> Iterator[str]:
    """Names of classes in one entry of such a table."""
    match value:
        case str() if value:
            yield value
        case Ref(name=name):
            yield name
        case list() | tuple():
            for item in value:
                yield from classes_in(item)
        case Mapping():
            yield from classes_in(list(value.values()))
        case _:
            return
