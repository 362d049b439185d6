"""A small engine, its transformers releases and its past, with every fact known; tests change one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from packaging.version import Version

from canserve.checks.case import Case, NoHistory, Wish
from canserve.checks.reader import Check
from canserve.facts import Evidence, Known
from canserve.subjects.build import (
    Build,
    ConfigShim,
    Fallback,
    Identity,
    Import,
    ModelClass,
    Registered,
    Site,
    Transformers,
)
from canserve.subjects.model import ONLY_CONFIG, Model
from canserve.verdict import Finding, Verdict


def seen(what: str = "seen") -> tuple[Evidence, ...]:
    return (Evidence("test", "by hand", what),)


@dataclass(frozen=True)
class SmallTable:
    """Releases of transformers: version -> model types; names and backend tests beside."""

    types: Mapping[str, frozenset[str]]
    lacks: Mapping[str, frozenset[str]] = field(default_factory=dict)
    unrecorded: frozenset[str] = frozenset()
    classes: Mapping[str, Mapping[str, frozenset[str]]] = field(default_factory=dict)

    @property
    def versions(self) -> tuple[str, ...]:
        return tuple(self.types)

    def yanked(self, version: str) -> bool:
        del version
        return False

    def config_types(self, version: str) -> frozenset[str]:
        return self.types[version]

    def has_name(self, version: str, module: str, name: str | None) -> bool | None:
        del module
        if name in self.unrecorded:
            return None
        return name not in self.lacks.get(version, frozenset())

    def backend_tests(self, version: str, architecture: str) -> frozenset[str] | None:
        return self.classes.get(version, {}).get(architecture)

    def architectures_of(self, version: str, model_type: str) -> tuple[str, ...]:
        return ("SmallForCausalLM",) if model_type in self.types[version] else ()

    def tokenizer_classes(self, version: str) -> frozenset[str] | None:
        del version
        return None

    def gguf_architectures(self, version: str) -> frozenset[str]:
        return frozenset({"llama"}) if version != "4.0.0" else frozenset()

    def evidence(self, version: str) -> Evidence:
        return Evidence(f"transformers=={version}", "table", "read")


@dataclass(frozen=True)
class SmallHistory(NoHistory):
    releases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    neighbour: int | None = None
    parsing: Mapping[str, str] = field(default_factory=dict)

    def releases_with(self, engine: str, architecture: str) -> tuple[str, ...]:
        del engine
        return self.releases.get(architecture, ())

    def neighbour_count(self, engine: str, version: Version | None) -> int | None:
        del engine, version
        return self.neighbour

    def first_parsing(self, engine: str, model_type: str) -> str | None:
        del engine
        return self.parsing.get(model_type)


TABLE = SmallTable({v: frozenset({"small"}) for v in ("4.0.0", "4.1.0", "5.0.0")})
FALLBACK = Fallback(
    ("TransformersForCausalLM",),
    ("supports_attention_backend",),
    remote_code=True,
    multimodal=False,
    suffixes={"ForSequenceClassification": "ForCausalLM"},
    refuses_dropped=False,
    at=Site("eng/registry.py", 90),
)


def model(architecture: str = "SmallForCausalLM", model_type: str | None = "small", **facts: Any) -> Model:
    fields: dict[str, Any] = {
        "revision": Known(None, seen()),
        "files": ONLY_CONFIG,
        "config": Known({"model_type": model_type}, seen()),
        "architectures": Known((architecture,) if architecture else (), seen(architecture)),
        "model_type": Known(model_type, seen(str(model_type))),
        "nested": Known((), seen()),
        "auto_map": Known({}, seen("no auto_map")),
        "parameters": ONLY_CONFIG,
        "quantization": Known(None, seen()),
        "tokenizer": ONLY_CONFIG,
        "processor": ONLY_CONFIG,
        "chat_template": ONLY_CONFIG,
        "mtp_layers": Known(0, seen()),
        "weight_format": ONLY_CONFIG,
        "gguf_architecture": Known(None, seen()),
        "config_format": Known("hf", seen()),
    }
    return Model("small-model", "config", **(fields | facts))


def small_class(*imports: str, broken: tuple[str, ...] = ()) -> ModelClass:
    needed = tuple(Import("transformers", name, Site("eng/models/small.py", 3)) for name in imports)
    return ModelClass(
        "eng.models.small", "SmallForCausalLM", Site("eng/models/small.py", 9), {}, needed, broken
    )


def shim(model_type: str) -> ConfigShim:
    return ConfigShim(model_type, "SmallConfig", Site("eng/configs.py", 4))


def transformers(
    requirement: str | None = ">=4", installed: str | None = None, table: Any = TABLE
) -> Transformers:
    return Transformers(Known(installed, seen()), Known(requirement, seen()), Known(table, seen()))


def build(**facts: Any) -> Build:
    row = Registered(
        "SmallForCausalLM", "eng.models.small", "SmallForCausalLM", "text", Site("eng/registry.py", 7)
    )
    identity = Identity(
        "eng==1.0",
        "eng",
        Known("1.0", seen()),
        "wheel",
        Known("sha256:0", seen()),
        Known(("any",), seen()),
        Known(None, seen()),
        Known((), seen()),
    )
    fields: dict[str, Any] = {
        "registry": Known({"SmallForCausalLM": row}, seen("1 architecture")),
        "classes": {"SmallForCausalLM": Known(small_class(), seen())},
        "dropped": Known({}, seen()),
        "elsewhere": Known({}, seen()),
        "plugins": Known((), seen()),
        "fallback": Known(None, seen("no fallback")),
        "config_shims": Known({}, seen()),
        "config_fixups": Known({}, seen()),
        "architecture_types": Known({}, seen()),
        "load_formats": Known(("auto", "safetensors"), seen()),
        "gguf_architectures": Known(None, seen()),
    }
    return Build(identity, facts.pop("transformers", transformers()), **(fields | facts))


def case(the_model: Model | None = None, the_build: Build | None = None, **rest: Any) -> Case:
    return Case(the_model or model(), the_build or build(), **rest)


TRUSTED = Wish(trust_remote_code=True)


def ruling(check: Check, one: Case) -> Verdict:
    """The verdict of a check that applies."""
    finding = check.judge(one)
    assert isinstance(finding, Finding), finding
    return finding.verdict
