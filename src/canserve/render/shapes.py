"""What the JSON output looks like. ``schemas`` turns these types into JSON Schemas, ``structure`` fills them.

Field names are a promise: fields get added, never renamed or removed. A trailing underscore is dropped
(``class_`` is ``class``). ``Fact[T]`` is either a ``T`` or ``{"missing": cause, "why": ..., "ask": ...}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from canserve.facts import Evidence, Fact, Missing
from canserve.subjects.model import Nested, Parameters
from canserve.trees.tree import Cost
from canserve.verdict import Skipped, Word

if TYPE_CHECKING:  # a check without a recipe does not load what recipes are: its schema does
    from canserve.subjects.recipe import Recipe


@dataclass(frozen=True, slots=True)
class FindingShape:
    """One check, judged."""

    check: Annotated[str, "The check's name, a claim; `canserve checks` says what it means."]
    about: Annotated[str, "What was judged."]
    verdict: Word
    because: Annotated[str, "The reason, in one line."]
    fix: Annotated[str | None, "For a no: the one change that would turn it into a yes."]
    ask: Annotated[str | None, "For an unknown: what would settle it."]
    needs: Annotated[tuple[str, ...], "For a yes: conditions that the user controls."]
    evidence: Annotated[
        tuple[Evidence, ...], "Everything that was read for it, in the order in which it was used."
    ]


@dataclass(frozen=True, slots=True)
class QuantizationShape:
    """How the checkpoint is quantized."""

    method: Annotated[str, "As engines name it."]
    declared: Annotated[str, "What the file itself says."]
    source: Annotated[str, "The file that says so."]
    kv_cache: str | None


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The judged model, in short; `canserve model` gives everything."""

    name: Annotated[str, "As the user named it."]
    origin: Annotated[str, "hub, folder, config or gguf."]
    revision: Fact[str | None]
    architectures: Fact[tuple[str, ...]]
    model_type: Fact[str | None]
    nested: Fact[tuple[Nested, ...]]
    auto_map: Annotated[Fact[Mapping[str, str]], "Where remote code lives."]
    parameters: Annotated[Fact[Parameters], "Counted from weight headers, never taken from the name."]
    quantization: Fact[QuantizationShape | None]
    weight_format: Fact[str | None]
    mtp_layers: Fact[int]


@dataclass(frozen=True, slots=True)
class BuildVerdictShape:
    """One build, judged."""

    build: Annotated[str, "As the user named it."]
    machine: Annotated[str | None, "The machine it was judged on, if one was named."]
    engine: Annotated[str | None, "Null: it could not be told."]
    engine_version: Fact[str]
    origin: Annotated[
        str | None, "How the build was reached: a wheel on the package index, a source tree ..."
    ]
    verdict: Annotated[Word, "The worst of its findings."]
    because: str
    findings: tuple[FindingShape, ...]
    skipped: Annotated[tuple[Skipped, ...], "Checks that do not apply here; neither passed nor failed."]
    notes: Annotated[tuple[str, ...], "What to know about the build beside its verdict: yanked, rebuilt ..."]
    unread: Annotated[Missing | None, "Why the whole build could not be read, if so."]
    index_date: Annotated[
        str | None, "Date of the release index it was judged from; null: from the build's own files."
    ]


@dataclass(frozen=True, slots=True)
class CheckShape:
    """Output of `canserve check --format json`."""

    version: Annotated[Literal[1], "Of this format."]
    model: ModelShape
    verdict: Annotated[Word, "The worst of all builds; the best, where no build was named."]
    builds: tuple[BuildVerdictShape, ...]
    chosen: Annotated[
        bool, "No build was named: these are the most suitable releases of each engine, from the index alone."
    ]
    not_indexed: Annotated[tuple[str, ...], "Then: engines of which there is no index."]
    notes: Annotated[
        tuple[str, ...],
        "Then: what lies on the machines and was not judged, and machines that were not looked at.",
    ]
    cost: Annotated[Cost, "What reading moved over the network; what came from the cache does not count."]
    recipe: Annotated[Recipe | None, "The recipe that was asked about, with every key of it; null: none was."]


@dataclass(frozen=True, slots=True)
class CheckReferenceShape:
    """One check, in the output of `canserve checks --format json`."""

    check: Annotated[str, "The name, a claim that never changes its meaning."]
    claim: Annotated[str, "What a yes means."]
    needs_machine: Annotated[bool, "Whether it is judged only where a machine is named."]
    needs_layout: Annotated[bool, "Whether it is judged only where a layout on machines is."]
    when: Annotated[str, "In words: always, with a machine, with several machines ..."]


@dataclass(frozen=True, slots=True)
class CheckListShape:
    """Output of `canserve checks --format json`."""

    version: Annotated[Literal[1], "Of this format."]
    checks: tuple[CheckReferenceShape, ...]
