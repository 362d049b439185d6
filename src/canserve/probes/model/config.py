"""Facts from a model's config: which classes, which types inside which, whose code, how long, which dtype."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from canserve.facts import Evidence, Fact, Known, Missing
from canserve.probes.model.documents import Unreadable
from canserve.probes.model.files import Files
from canserve.subjects.model import Nested
from canserve.trees.names import printable

Config: TypeAlias = Fact[Mapping[str, Any]]
T = TypeVar("T")

_NOT_MODELS = {"quantization_config", "compression_config", "generation_config"}
_MAX_NESTED = 200

_MTP = (
    "num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", "num_mtp_layers",
    "mtp_num_layers",
)  # fmt: skip
"""Keys under which configs count multi-token prediction layers (vLLM ``config/speculative.py``)."""

_POSITIONS = (
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length",
    "max_sequence_length", "max_target_positions", "max_seq_length", "seq_len",
)  # fmt: skip
"""Keys that may hold the context length, in the order of vLLM's ``_get_and_verify_max_len``."""


def read_config(files: Files) -> Config:
    """``config.json``, or ``params.json`` of a model in Mistral's own format; Missing: there is neither."""
    config = files.mapping(files.config_name)
    if isinstance(config, Known) and config.value is None and files.has("params.json"):
        files.config_name = "params.json"
        config = files.mapping(files.config_name)
    if isinstance(config, Missing):
        return config
    return _neither(files) if config.value is None else Known(config.value, config.evidence)


def _neither(files: Files) -> Missing:
    if files.has("model_index.json"):
        return files.unavailable("config.json", "no such file; model_index.json says: a diffusers pipeline")
    if files.has("adapter_config.json"):
        return files.unavailable(
            "config.json", "no such file; adapter_config.json says: an adapter", "name the model it adapts"
        )
    deeper = sorted(name for name in files.names if name.endswith("/config.json"))
    ask = f"name the folder that holds it: {printable(deeper[0])}" if deeper else None
    return files.unavailable("config.json", "neither config.json nor params.json is there", ask)


MOST_POSITIONS = 10**12
"""Tokens that no model's context has."""


def architectures(files: Files, config: Config) -> Fact[tuple[str, ...]]:
    """The class names of ``architectures``; empty where the config names none."""
    if isinstance(config, Missing):
        return config
    value = config.value.get("architectures", [])
    names = () if value is None else _names(value)
    if names is None:
        return _odd(files, "architectures", value, "a list of names")
    shown = ", ".join(printable(name) for name in names[:5])
    return Known(names, _saw(files, config, f"architectures: {shown or 'none'}"))


def text(files: Files, config: Config, *keys: str) -> Fact[str | None]:
    """A string of the config, or of its text part; ``Known(None)``: not there."""
    return _typed(files, config, keys, str, "a name")


def count(files: Files, config: Config, *keys: str) -> Fact[int | None]:
    """A whole number of the config, or of its text part."""
    return _typed(files, config, keys, int, "a whole number")


def positions(files: Files, config: Config) -> Fact[int | None]:
    """The context length the config names, in tokens."""
    found = count(files, config, *_POSITIONS)
    if isinstance(found, Known) and found.value is not None and not 0 < found.value <= MOST_POSITIONS:
        shown = found.value if abs(found.value) <= MOST_POSITIONS else "a number of absurd size"
        return files.unreadable(files.config_name, Unreadable(f"the longest context is {shown}"))
    return found


def flag(files: Files, config: Config, *keys: str) -> Fact[bool | None]:
    """A truth value of the config, or of its text part."""
    return _typed(files, config, keys, bool, "a truth value")


def _typed(files: Files, config: Config, keys: Sequence[str], kind: type[T], what: str) -> Fact[T | None]:
    if isinstance(config, Missing):
        return config
    for place, table in (("", config.value), *_text_parts(config.value)):
        for key in keys:
            value = table.get(key)
            if value is None:
                continue
            if type(value) is not kind:
                return _odd(files, f"{place}{key}", value, what)
            return Known(value, _saw(files, config, f"{place}{key}: {printable(repr(value))}"))
    return Known(None, _saw(files, config, f"no {keys[0]}"))


def _text_parts(config: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for key in ("text_config", "llm_config", "language_config", "thinker_config"):
        inner = config.get(key)
        if isinstance(inner, dict):
            yield f"{key}.", inner
            if isinstance(deeper := inner.get("text_config"), dict):
                yield f"{key}.text_config.", deeper


def nested(files: Files, config: Config) -> Fact[tuple[Nested, ...]]:
    """Every config inside the config: tables with a ``model_type``, or named ``..._config``."""
    if isinstance(config, Missing):
        return config
    found: list[Nested] = []
    pending: list[tuple[str, Mapping[str, Any]]] = [("", config.value)]
    while pending and len(found) < _MAX_NESTED:
        place, table = pending.pop(0)
        for key, value in table.items():
            if not isinstance(value, dict) or key in _NOT_MODELS:
                continue
            kind, classes = value.get("model_type"), value.get("architectures")
            if not isinstance(kind, str) and not key.endswith("_config"):
                continue
            name = f"{place}{key}"
            found.append(
                Nested(name, kind if isinstance(kind, str) and kind else None, _names(classes) or ())
            )
            pending.append((f"{name}.", value))
    shown = printable(", ".join(f"{item.key} ({item.model_type or 'no model_type'})" for item in found[:6]))
    return Known(tuple(found), _saw(files, config, f"configs inside: {shown or 'none'}"))


def code_map(table: Mapping[str, Any]) -> dict[str, str]:
    """``auto_map`` of a config: auto class -> ``module.Class``; of a pair (slow, fast) the first named."""
    value = table.get("auto_map")
    found: dict[str, str] = {}
    for key, target in value.items() if isinstance(value, dict) else ():
        names = target if isinstance(target, list) else [target]
        name = next((name for name in names if isinstance(name, str)), None)
        if name is not None:
            found[key] = name
    return found


def mtp_layers(files: Files, config: Config, tensors: int | None) -> Fact[int]:
    """Multi-token prediction layers: what the config or its text part counts; else what is stored.

    ``tensors``: how many stored tensors are named as theirs, None where headers were not read.
    """
    if isinstance(config, Missing):
        return config
    counts = [
        value
        for _, table in (("", config.value), *_text_parts(config.value))
        for key in _MTP
        if type(value := table.get(key)) is int and value >= 0
    ]
    saw = f"counted in the config: {max(counts, default='no')}; stored tensors under a name of theirs: "
    evidence = _saw(files, config, saw + ("not read" if tensors is None else str(tensors)))
    return Known(max(counts) if counts else int(bool(tensors)), evidence)


def _names(value: object) -> tuple[str, ...] | None:
    """A list of names, None where it is anything else."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    return None


def _odd(files: Files, key: str, value: object, what: str) -> Missing:
    why = f"{key} is a {type(value).__name__}, not {what}"
    return files.unreadable(files.config_name, Unreadable(why))


def _saw(files: Files, config: Known[Mapping[str, Any]], what: str) -> tuple[Evidence, ...]:
    """The look at one key, with what was odd about the file as a whole."""
    return (*config.evidence[1:], files.seen(files.config_name, what))
