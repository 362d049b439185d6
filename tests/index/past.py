"""A small engine's past, written by hand: releases, and what each of them can do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from canserve.facts import Evidence, Fact, Known
from canserve.index.runs import Column, Release
from canserve.index.shelf import Shelf, tabulate
from canserve.index.since import Question, Since, since
from canserve.subjects.build import (
    Build,
    Fallback,
    Identity,
    ModelClass,
    Registered,
    Site,
    Transformers,
)
from canserve.subjects.model import Model

NAME = "SmallForCausalLM"
LOOK = (Evidence("test", "by hand", "seen"),)
SITE = Site("eng/registry.py", 7)
BACK_END = Fallback(
    ("TransformersForCausalLM",),
    ("supports_attention_backend",),
    remote_code=False,
    multimodal=False,
    suffixes={"ForSequenceClassification": "ForCausalLM"},
    refuses_dropped=False,
    at=SITE,
)


@dataclass(frozen=True)
class Library:
    """Releases of transformers 4.0, 4.1, 5.0 and 5.1; those from 5.0 on know the type `small`."""

    versions: tuple[str, ...] = ("4.0.0", "4.1.0", "5.0.0", "5.1.0")
    accepted: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def yanked(self, version: str) -> bool:
        return version == "never"

    def config_types(self, version: str) -> frozenset[str]:
        return frozenset({"small"} if version >= "5" else ())

    def has_name(self, version: str, module: str, name: str | None) -> bool | None:
        return version >= "5" or name != "NewName"

    def backend_tests(self, version: str, architecture: str) -> frozenset[str] | None:
        return self.accepted.get(version) if architecture == NAME else None

    def architectures_of(self, version: str, model_type: str) -> tuple[str, ...]:
        return (NAME,) if model_type in self.config_types(version) else ()

    def tokenizer_classes(self, version: str) -> frozenset[str] | None:
        return None

    def gguf_architectures(self, version: str) -> frozenset[str]:
        return frozenset({"small"} if version >= "5" else ())

    def evidence(self, version: str) -> Evidence:
        return Evidence(f"transformers=={version}", "table", "read")


def build(requirement: str = ">=4", *, lists: bool = True, **facts: Any) -> Build:
    """One release; by default it lists the class and has no fallback."""
    identity = Identity(
        "eng==1", "eng", Known("1", LOOK), "index", Known("sha256:0", LOOK), Known(("any",), LOOK),
        Known(None, LOOK), Known((), LOOK),
    )  # fmt: skip
    library = Transformers(
        Known(None, LOOK), Known(requirement, LOOK), Known(facts.pop("library", Library()), LOOK)
    )
    rows = {NAME: Registered(NAME, "eng.small", NAME, "text", SITE)} if lists else {}
    one: Fact[ModelClass | None] = Known(ModelClass("eng.small", NAME, SITE, {}), LOOK)
    fields: dict[str, Any] = {
        "registry": Known(rows, LOOK),
        "classes": {NAME: one} if lists else {},
        "dropped": Known({}, LOOK),
        "fallback": Known(None, LOOK),
        "config_shims": Known({}, LOOK),
        "config_fixups": Known({}, LOOK),
        "architecture_types": Known({}, LOOK),
        "architecture_rewrites": Known({}, LOOK),
        "quantization": Known({}, LOOK),
        "gguf_architectures": Known(None, LOOK),
    }
    return Build(identity, library, **(fields | facts))


@dataclass(frozen=True)
class Builds:
    """Builds of which each is asked by itself."""

    builds: Sequence[Fact[Build]]

    def build(self, position: int) -> Fact[Build]:
        return self.builds[position]

    def same_until(self, position: int) -> int:
        return position + 1


def told(model: Model, *builds: Fact[Build]) -> Since:
    """What these releases say of a model: 1.0, 1.1 ..., one a month."""
    months = tuple(Release(f"1.{at}", f"2026-{at + 1:02}-01") for at in range(len(builds)))
    return since(Question(model, days=DAYS), Column("eng", "2026-12-01", months), Builds(builds))


def past(model: Model, *builds: Build) -> Since:
    """The same of builds that could all be read."""
    return told(model, *(Known(one, LOOK) for one in builds))


DAYS = {"4.0.0": "2025-01-01", "4.1.0": "2025-06-01", "5.0.0": "2025-12-01", "5.1.0": "2026-06-15"}


def broken(one: Build, text: str) -> Build:
    """The same build, in which the class's module cannot be imported."""
    found = ModelClass("eng.small", NAME, SITE, {}, broken=(text,))
    return replace(one, classes={NAME: Known(found, LOOK)})


def shelf(project: str, rows: list[dict[str, tuple[str, ...]]], **unread: str) -> Shelf:
    """Index data of releases 1.0, 1.1 ..., one a month."""
    releases = tuple(
        {"version": f"1.{at}", "date": f"2026-{at + 1:02}-01", "file": f"{project}-1.{at}.whl", "sha256": f"{at}",
         "transformers": ">=4", "yanked": False}
        for at in range(len(rows))
    )  # fmt: skip
    return Shelf(project, "2026-12-01", "0", releases, tabulate(rows), unread)
