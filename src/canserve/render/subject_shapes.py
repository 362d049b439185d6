"""What the JSON output of builds, models and machines looks like: every fact. As in ``shapes``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from canserve.facts import Evidence, Fact, Missing
from canserve.render.shapes import FindingShape
from canserve.subjects.build import (
    AttentionBackend,
    AutoMapRule,
    Converter,
    CudaLibrary,
    Extension,
    Fallback,
    Flag,
    FlagSyntax,
    GgufVocabularies,
    MoeBackend,
    Site,
    Stack,
    Taker,
)
from canserve.subjects.links import Link
from canserve.subjects.machine import Machine
from canserve.subjects.model import Model
from canserve.subjects.preflight import Preflight
from canserve.verdict import Skipped


@dataclass(frozen=True, slots=True)
class ArchitectureShape:
    """A registered architecture."""

    module: Annotated[
        str, "Where its class is defined; where it is registered, if the class could not be resolved."
    ]
    class_: str
    interfaces: Annotated[
        Fact[Mapping[str, bool | str | None] | None],
        "What the class supports, by the engine's own names. A null value: decided at run time. "
        "Null instead of an object: the registered module or class does not exist.",
    ]
    kind: Annotated[str, "The registry table it stands in."]
    at: Site
    guards: Annotated[tuple[str, ...], "Source text of conditions under which the row exists."]
    broken: Annotated[tuple[str, ...], "Imports from the engine itself that cannot succeed."]
    backends: Annotated[
        tuple[str, ...], "Of a build with several engines in it, those that serve it, the default one first."
    ]


@dataclass(frozen=True, slots=True)
class ModelTypeShape:
    """A model type that the engine's own files parse or rewrite."""

    class_: Annotated[
        str | None, "Config class; null: the type is rewritten in code before transformers sees it."
    ]
    at: Site
    overrides: Annotated[bool, "Whether it wins over transformers' own class of the same type."]


@dataclass(frozen=True, slots=True)
class QuantMethodShape:
    """A quantization method that the build knows by name."""

    min_capability: Annotated[Fact[int | None], "CUDA compute capability times ten; null: no minimum."]
    class_: str | None
    schemes: Annotated[Fact[tuple[str, ...]], "Names by which it tells apart what it can load."]
    scheme_capabilities: Annotated[
        Fact[Mapping[str, int | None]], "Minimum that schemes set for themselves; null: decided at run time."
    ]
    at: Site
    guards: tuple[str, ...]
    takers: Annotated[
        tuple[Taker, ...], "Of a build with several engines in it, those that take it; empty: there is one."
    ]


@dataclass(frozen=True, slots=True)
class TransformersShape:
    """The transformers library that the build runs with."""

    installed: Annotated[Fact[str | None], "Beside the engine; null: looked, none there."]
    requirement: Annotated[Fact[str | None], "The build's own specifier."]
    candidates: Annotated[Fact[tuple[str, ...]], "Versions that may be there at run time, oldest first."]


@dataclass(frozen=True, slots=True)
class BuildFactsShape:
    """Everything that was read of one build."""

    engine: str
    engine_version: Fact[str]
    origin: str
    content: Annotated[Fact[str], "Hash of the wheel or sdist."]
    platforms: Fact[tuple[str, ...]]
    requires_python: Fact[str | None]
    architectures: Annotated[Fact[Mapping[str, ArchitectureShape]], "Served natively, by name."]
    model_types: Annotated[
        Fact[Mapping[str, ModelTypeShape]], "Those that the engine's own files know; transformers knows more."
    ]
    architecture_types: Annotated[
        Fact[Mapping[str, str]], "Where the engine repairs a config by its architecture."
    ]
    architecture_rewrites: Annotated[
        Fact[Mapping[str, str]],
        "Model type -> the architecture that the engine puts in, whatever the config names.",
    ]
    plain_config: Annotated[
        Fact[Site | None], "Where it takes transformers' plain config class for a type that nobody knows."
    ]
    trusts_code: Annotated[
        Fact[Site | None], "Where it runs code of the model repository without being asked; null: nowhere."
    ]
    auto_map_rule: Annotated[
        Fact[AutoMapRule | None], "Whether `auto_map` names the class instead of `architectures`."
    ]
    requires: Annotated[Fact[tuple[str, ...]], "Requires-Dist lines, verbatim."]
    torch: Annotated[Fact[str | None], "Found beside the engine; null: looked, none there."]
    gpu_targets: Annotated[
        Fact[Mapping[str, tuple[str, ...]]],
        "Shared libraries with GPU code -> what it is compiled for: sm_90a (machine code), compute_80 (PTX), gfx942.",
    ]
    gpu_code: Annotated[
        Fact[Mapping[str, Fact[Extension]]],
        "Every shared library of the engine and of packages beside it, by its own headers.",
    ]
    cuda_needed: Annotated[Fact[Mapping[str, CudaLibrary]], "CUDA's libraries that these link against."]
    libc_needed: Annotated[Fact[str | None], "The oldest GNU libc with which all of these load; null: any."]
    stack: Annotated[Stack, "What it stands on in its environment or image."]
    transformers: TransformersShape
    fallback: Annotated[Fact[Fallback | None], "How architectures that are not listed are served."]
    dropped: Annotated[
        Fact[Mapping[str, str]], "Names it says it once served, with the last version that did."
    ]
    elsewhere: Annotated[Fact[Mapping[str, str]], "Names it says a plugin serves, with the plugin."]
    plugins: Fact[tuple[str, ...]]
    quantization: Fact[Mapping[str, QuantMethodShape]]
    literal_methods: Annotated[
        Fact[Site | None],
        "Where it takes a method's name from config.json as it stands there; null: it does not.",
    ]
    vendor_quantization: Annotated[
        Fact[Mapping[str, tuple[str, ...]]], "By vendor: the methods that the build lets run there."
    ]
    kv_cache_dtypes: Fact[tuple[str, ...]]
    kv_cache_engines: Annotated[
        Fact[Mapping[str, tuple[str, ...]]],
        "Of a build with several engines in it: cache dtype -> those that take it, where not all do.",
    ]
    engine_flags: Annotated[
        Fact[Mapping[str, str]],
        "Engine of a build with several -> the flag and value that leave no other.",
    ]
    reasoning_parsers: Fact[tuple[str, ...]]
    tool_parsers: Fact[tuple[str, ...]]
    speculative: Annotated[Fact[tuple[str, ...]], "Speculative decoding: methods and classes."]
    draft_classes: Annotated[
        Fact[Mapping[str, tuple[str, ...]]],
        "Architecture or model type -> the draft classes it becomes to predict with its own MTP layers.",
    ]
    flags: Annotated[Fact[tuple[str, ...]], "Command line flags of the server, aliases included."]
    flag_details: Fact[Mapping[str, Flag]]
    flag_syntax: Fact[FlagSyntax]
    attention_backends: Fact[Mapping[str, AttentionBackend]]
    moe_backends: Annotated[
        Fact[tuple[MoeBackend, ...]], "Kernels of fused experts by the names that a flag takes."
    ]
    launchers: Fact[tuple[str, ...]]
    rpc_worker: Annotated[Fact[str], "The program that lends a machine to a server on another one."]
    load_formats: Fact[tuple[str, ...]]
    gguf_architectures: Fact[Mapping[str, Site] | None]
    gguf_types: Annotated[Fact[Mapping[str, int]], "Tensor types of GGUF files, with their number there."]
    gguf_vocabularies: Annotated[Fact[GgufVocabularies], "Tokenizers inside GGUF files."]
    gguf_projectors: Annotated[Fact[Mapping[str, Site]], "Multimodal projectors in files of their own."]
    converter: Annotated[
        Fact[Converter | None],
        "What a build that serves GGUF files alone makes of checkpoints of the Hub; null: it has none.",
    ]


@dataclass(frozen=True, slots=True)
class BuildShape:
    """Output of `canserve build --format json`."""

    version: Annotated[Literal[1], "Of this format."]
    build: Annotated[str, "As the user named it."]
    facts: Annotated[BuildFactsShape | Missing, "Missing: the whole build could not be read."]
    evidence: Annotated[Mapping[str, tuple[Evidence, ...]], "By fact: what was read for it."]


@dataclass(frozen=True, slots=True)
class ModelOutputShape:
    """Output of `canserve model --format json`."""

    version: Annotated[Literal[1], "Of this format."]
    model: Annotated[str, "As the user named it."]
    facts: Model
    evidence: Annotated[Mapping[str, tuple[Evidence, ...]], "By fact: what was read for it."]


@dataclass(frozen=True, slots=True)
class MachineEntryShape:
    """One machine."""

    machine: Annotated[str, "Its profile, or its name in the cluster file."]
    facts: Machine
    evidence: Annotated[Mapping[str, tuple[Evidence, ...]], "By fact: the source it is known from."]


@dataclass(frozen=True, slots=True)
class MachineOutputShape:
    """Output of `canserve machine --format json`."""

    version: Annotated[Literal[1], "Of this format."]
    machines: Annotated[tuple[MachineEntryShape, ...], "One for a profile, all of them for a cluster file."]
    links: Annotated[
        Fact[tuple[Link, ...]],
        "With --links: every ordered pair, one for each address that would be advertised.",
    ]
    preflight: Annotated[
        Fact[Preflight], "With --preflight: what a small program of several ranks came to, and how fast."
    ]
    findings: Annotated[tuple[FindingShape, ...], "What can be said of machines that were looked at."]
    skipped: Annotated[tuple[Skipped, ...], "Checks that do not apply here; neither passed nor failed."]
