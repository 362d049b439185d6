"""The model classes that generate text, from the tables of the auto classes, and where each is defined."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from canserve.engines.hf.reading import Reading
from canserve.engines.static.modules import module_of
from canserve.engines.static.values import Table
from canserve.engines.transformers.mappings import GENERATIVE, classes_in
from canserve.facts import Fact, Known, Missing
from canserve.subjects.build import Import, ModelClass, Registered, Site

TABLES = ("transformers/models/auto/modeling_auto.py", "transformers/modeling_auto.py")
CONFIGS = ("transformers/models/auto/configuration_auto.py", "transformers/models/auto/auto_mappings.py")
MODELS = "transformers/models/"
LIBRARY = "transformers"
SPECIAL = "SPECIAL_MODEL_TYPE_TO_MODULE_NAME"
_OTHER_FRAMEWORKS = ("modeling_tf_", "modeling_flax_")
SEEING = ("image_text_to_text", "multimodal_lm", "vision_2_seq", "speech_seq_2_seq")
"""Kinds of classes that take more than text."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One class of the tables: the tables, the first model type, and where that stands."""

    kinds: tuple[str, ...]
    model_type: str
    at: Site


def read_registry(reading: Reading) -> Fact[Mapping[str, Registered]]:
    """Every class that generates text, by name."""
    path = reading.first(TABLES)
    if path is None:
        raise reading.unknown(TABLES[0], "no such file")
    found = _listed(reading, path)
    if not found:
        raise reading.unknown(path, "no table of classes that generate text")
    special = _special(reading)
    rows = {
        name: Registered(
            name, _module(reading, special, one.model_type), name, " and ".join(one.kinds), one.at
        )
        for name, one in found.items()
    }
    return Known(rows, (reading.sources.seen(path, f"{len(rows)} classes that generate text"),))


def _listed(reading: Reading, path: str) -> dict[str, Listed]:
    found: dict[str, Listed] = {}
    names = reading.constants(path)
    for prefix in GENERATIVE:
        for name in names:
            if not name.startswith(prefix) or not name.endswith(("_NAMES", "_MAPPING")):
                continue
            table = names[name]
            if not isinstance(table, Table):
                continue  # the lazy mapping that is made of it
            if table.opaque:
                raise reading.unknown(path, f"{name} holds {table.opaque[0][:80]}")
            kind = re.sub(r"^MODEL_FOR_|_MAPPING(_NAMES)?$", "", name).lower()
            _add(found, kind, table, path)
    return found


def _add(found: dict[str, Listed], kind: str, table: Table, path: str) -> None:
    for model_type, value in table.items():
        for architecture in classes_in(value):
            known = found.get(architecture)
            if known is None:
                at = Site(path, table.lines.get(model_type, 0))
                found[architecture] = Listed((kind,), str(model_type), at)
            elif kind not in known.kinds:
                found[architecture] = Listed((*known.kinds, kind), known.model_type, known.at)


def _special(reading: Reading) -> Mapping[str, str]:
    """Model types whose folder has another name."""
    for path in CONFIGS:
        if reading.has(path) and SPECIAL in reading.text(path):
            table = reading.constants(path).get(SPECIAL)
            if isinstance(table, dict):
                return {str(key): str(value) for key, value in table.items()}
    return {}


def _module(reading: Reading, special: Mapping[str, str], model_type: str) -> str:
    """The module in which a model type's classes are expected."""
    folder = special.get(model_type, model_type.replace("-", "_"))
    for place in (f"{MODELS}{folder}/", f"{MODELS}deprecated/{folder}/"):
        path = f"{place}modeling_{folder}.py"
        if reading.sources.has(path):
            return module_of(path)
        if files := _modeling(reading.sources.under(place)):
            return module_of(files[0])
    return f"{LIBRARY}.models.{folder}.modeling_{folder}"


def _modeling(paths: Iterable[str]) -> list[str]:
    names = [(path, path.rpartition("/")[2]) for path in paths]
    return [p for p, name in names if name.startswith("modeling_") and not name.startswith(_OTHER_FRAMEWORKS)]


def candidates(reading: Reading, row: Registered) -> list[str]:
    """Files in which a row's class may stand, the likely ones first."""
    stem = row.module.replace(".", "/")
    expected = f"{stem}.py"
    folder = expected.rpartition("/")[0]
    squashed = row.architecture.lower()
    beside = _modeling(reading.sources.under(f"{folder}/"))
    named = [
        path for path in _modeling(reading.sources.under(MODELS))
        if squashed.startswith(path.rsplit("/", 2)[-2].replace("_", ""))
    ]  # fmt: skip
    paths = [expected, f"{stem}/__init__.py", *beside, *named]
    return [path for path in dict.fromkeys(paths) if reading.sources.has(path)]


def read_class(reading: Reading, row: Registered) -> Fact[ModelClass | None]:
    """The class of one row. Whether ``transformers`` offers it is asked of its table of names."""
    if gap := reading.sources.gap(row.module.replace(".", "/") + ".py"):
        return gap
    for path in candidates(reading, row):
        text = reading.sources.text(path)
        if isinstance(text, Missing):
            return text
        match = re.search(rf"^(?:class {row.name}\b|{row.name} *=)", text.value or "", re.MULTILINE)
        if match is not None:
            at = Site(path, (text.value or "").count("\n", 0, match.start()) + 1)
            return Known(_resolved(row, module_of(path), at), (reading.seen(at, match[0]),))
    return Known(_resolved(row, LIBRARY, row.at), (reading.seen(row.at, row.name),))


def _resolved(row: Registered, module: str, at: Site) -> ModelClass:
    sees = any(kind in row.kind for kind in SEEING)
    interfaces = {"supports_pp": False, "supports_multimodal": sees}
    return ModelClass(module, row.name, at, interfaces, (Import(LIBRARY, row.name, row.at),))
