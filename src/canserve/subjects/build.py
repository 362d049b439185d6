"""A build: one concrete engine build, as read from its own files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from canserve.facts import Cause, Fact, Known, Missing
from canserve.subjects.gguf import NO_CONVERTER, Converted, Converter, GgufVocabularies
from canserve.subjects.gpu_code import CudaLibrary, Extension
from canserve.subjects.moe import MoeBackend
from canserve.subjects.site import Site
from canserve.subjects.stack import Stack
from canserve.subjects.transformers import Transformers, TransformersTable

__all__ = [
    "CAPABILITIES",
    "NOT_ASKED",
    "NO_CONVERTER",
    "AttentionBackend",
    "AutoMapRule",
    "Build",
    "ConfigShim",
    "Converted",
    "Converter",
    "CudaLibrary",
    "Demand",
    "Extension",
    "Fallback",
    "Flag",
    "FlagSyntax",
    "GgufVocabularies",
    "Identity",
    "Import",
    "ModelClass",
    "MoeBackend",
    "Plain",
    "QuantMethod",
    "Registered",
    "Site",
    "Stack",
    "Taker",
    "Transformers",
    "TransformersTable",
    "Want",
    "gguf_only",
]

NOT_ASKED = Missing(Cause.UNREACHED, "not asked for")
"""The value of a fact that nobody wanted: reading it would have cost bytes for nothing."""
UNINDEXED = "unindexed"
"""Metadata of a field, the last of its record and with a default, that the release index leaves out."""


@dataclass(frozen=True, slots=True)
class Want:
    """What a reader is asked for. Files that serve nothing wanted are not read."""

    architectures: frozenset[str] | None = frozenset()
    """Classes to resolve (module, interfaces, imports); None: every registered one."""
    model_types: frozenset[str] | None = frozenset()
    """Model types whose config shims are resolved; None: all."""
    quantization: frozenset[str] | None = frozenset()
    """Quantization methods whose class is read for its minimum capability; None: all."""
    flags: bool = False
    """Command line flags and what they may name (parsers, draft models, launchers), in large files."""
    attention: bool = False
    """Attention back ends with their capability rules, spread over many files."""
    moe: bool = False
    """Kernels of fused experts by name, with their rules; read where one is named."""
    vendors: bool = False
    """What may run on accelerators of other vendors than the build's own platform."""
    gpu_code: bool = False
    """Compiled code for GPUs, from the headers of every extension; of packed files the whole is unpacked."""
    deep: bool = False
    """Whether the GPU code of a remote build is worth downloading it."""
    stack: bool = False
    """What the engine stands on: CUDA, NCCL, compilers, how an image starts."""

    @classmethod
    def everything(cls) -> Want:
        """All that is known how to read."""
        return cls(None, None, None, flags=True, attention=True, vendors=True, gpu_code=True, stack=True)


@dataclass(frozen=True, slots=True)
class Registered:
    """One row of a model registry: an architecture and where its class is said to be."""

    architecture: str
    module: str
    """Dotted and absolute: ``vllm.model_executor.models.qwen2``."""
    name: str
    kind: str
    """The table it stands in: ``text_generation``, ``multimodal``, ``speculative_decoding`` ..."""
    at: Site
    guards: tuple[str, ...] = ()
    """Source text of the conditions under which the row exists, or the flags (``--backend x``) without which it
    is not taken; empty: always."""
    backends: tuple[str, ...] = ()
    """Of a build with several engines in it, those that serve it, the one that is taken by default first."""


@dataclass(frozen=True, slots=True)
class Import:
    """A name that a module needs when it is imported, outside any ``try`` and any unknown condition."""

    module: str
    """``transformers.models.qwen3_5`` or ``transformers``."""
    name: str | None
    """The imported name; None for ``import module``."""
    at: Site


@dataclass(frozen=True, slots=True)
class ModelClass:
    """A registered class, resolved through the build's own modules."""

    module: str
    """Where it is defined, which may differ from where it is registered."""
    name: str
    at: Site
    interfaces: Mapping[str, bool | str | None]
    """``supports_pp``, ``supports_multimodal``, ``is_hybrid`` ...; several names are joined by commas.
    None: decided at run time, not in the source."""
    imports: tuple[Import, ...] = ()
    """What its module and the engine modules it pulls in need from transformers."""
    broken: tuple[str, ...] = ()
    """Imports from the engine itself that cannot succeed, as ``name (file:line)``."""
    outside: tuple[Import, ...] = ()
    """Other packages that the import needs (``torchaudio``, ``terratorch``), by top-level name."""


@dataclass(frozen=True, slots=True)
class Fallback:
    """How a build serves an architecture it does not list: through transformers' own model code."""

    classes: tuple[str, ...]
    """The engine's wrapper classes: ``TransformersForCausalLM`` ..."""
    accepts: tuple[str, ...]
    """Which tests an architecture's transformers class may pass, any of: ``supports_attention_backend``,
    ``can_set_attn_implementation``, ``supports_flex_attn``, ``exists``."""
    remote_code: bool
    """Whether a class from the model repository (``auto_map``) is accepted too."""
    multimodal: bool
    """Whether multimodal architectures can go this way."""
    suffixes: Mapping[str, str]
    """Suffix conversions tried: ``ForSequenceClassification`` -> the base's suffix, or ``""``."""
    refuses_dropped: bool
    """Whether formerly supported names are refused before the fallback is tried."""
    at: Site
    bases: tuple[str, ...] = ()
    """Base suffixes that are tried in turn for every suffix above, where it is more than the one given."""


@dataclass(frozen=True, slots=True)
class ConfigShim:
    """A config class the engine brings itself for a model type."""

    model_type: str
    name: str
    at: Site
    overrides: bool = False
    """Whether it wins over transformers' own class of the same type."""
    imports: tuple[Import, ...] = ()


@dataclass(frozen=True, slots=True)
class AutoMapRule:
    """Engines of a build that take the class named in the config's ``auto_map``, and no other."""

    key: str
    """The entry that names it: ``AutoModelForCausalLM``."""
    backends: tuple[str, ...]
    at: Site


Plain: TypeAlias = int | str | bool | tuple[int, ...] | None
"""A value of a config; a list of numbers is a tuple here."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What a checkpoint's quantization config must say for a build to take it."""

    key: str
    """``group_size``, ``desc_act`` ..."""
    allowed: tuple[Plain, ...]
    default: Plain
    """What a config that does not say counts as."""


@dataclass(frozen=True, slots=True)
class Taker:
    """One of several engines of a build that takes checkpoints of a quantization method."""

    backend: str
    demands: tuple[Demand, ...] = ()
    flag: str = ""
    """What makes the build use this engine although another comes first; empty: nothing is needed for it."""
    guards: tuple[str, ...] = ()
    """Conditions in words, which are not decided here."""


@dataclass(frozen=True, slots=True)
class QuantMethod:
    """A quantization method the build knows by name."""

    name: str
    class_name: str | None
    min_capability: Fact[int | None]
    """Compute capability times ten (89 is 8.9); ``Known(None)``: the build sets no minimum."""
    at: Site
    guards: tuple[str, ...] = ()
    schemes: Fact[tuple[str, ...]] = NOT_ASKED
    """Names by which the method's own module or package tells apart what it can load: every class defined or
    imported there (``CompressedTensorsW4A4Fp4``, ``ModelOptNvFp4Config``, ``QuarkW8A8Fp8``) and
    the parameters of its config class (``weight_block_size``)."""
    scheme_capabilities: Fact[Mapping[str, int | None]] = NOT_ASKED
    """The minimum capability that scheme classes set for themselves, times ten, by class name; None: decided
    at run time. Classes that set none are left out."""
    takers: tuple[Taker, ...] = ()
    """Of a build with several engines in it, those that take the method; empty: there is only one."""


@dataclass(frozen=True, slots=True)
class Flag:
    """One command line flag of the server."""

    name: str
    """``--kv-cache-dtype``."""
    choices: tuple[str, ...] | None
    """Allowed values; None: free or not readable."""
    at: Site
    aliases: tuple[str, ...] = ()
    kind: str | None = None
    """What may follow it: ``switch`` (nothing), ``pair`` (nothing; ``--no-x`` exists too), ``value``,
    ``values`` (one or more), ``json`` (a value, or ``--x.key value``). None: not read."""


@dataclass(frozen=True, slots=True)
class FlagSyntax:
    """How the build's argument parser reads a flag's name, beyond what argparse does."""

    underscores: bool
    """Whether ``--kv_cache_dtype`` is read as ``--kv-cache-dtype``."""
    dotted: bool
    """Whether ``--x.key value`` is read as ``--x '{"key": value}'``."""
    at: Site
    inverses: bool = False
    """Whether a pair ``--enable-x`` also answers to ``--disable-x``."""
    abbreviations: bool = True
    """Whether a long name may be cut short, as argparse lets it."""


@dataclass(frozen=True, slots=True)
class AttentionBackend:
    """An attention back end and the compute capabilities it accepts."""

    name: str
    capabilities: Fact[tuple[int, ...]]
    """Of ``CAPABILITIES`` (times ten) those that its own predicate accepts."""
    kv_dtypes: Fact[tuple[str, ...]]
    at: Site
    traits: Mapping[str, bool | None] = field(default_factory=dict, metadata={UNINDEXED: True})
    """Of ``TRAITS`` those that the build compares with what a model needs; None: it asks at run time."""
    head_sizes: Fact[Mapping[int, bool | None]] = field(default=NOT_ASKED, metadata={UNINDEXED: True})
    """What its own predicate says of each of ``HEAD_SIZES``; None: it asks at run time."""
    offered: Fact[Mapping[int, bool | None]] = field(default=NOT_ASKED, metadata={UNINDEXED: True})
    """Capability (times ten) -> whether the build considers it there where none is asked for; None: at run time."""


TRAITS = ("mla", "sparse", "sinks", "sliding")
"""Latent attention, an indexer's choice of tokens, learned sinks, and a window: two of them must agree with the model
(``mla``, ``sparse``), the others must be there where the model has them."""
HEAD_SIZES = (32, 40, 48, 64, 72, 80, 88, 96, 112, 120, 128, 160, 192, 256, 320, 512, 576)
"""Elements of a head, or of a row of latent attention's cache, at which predicates are evaluated."""
CAPABILITIES = (60, 61, 70, 75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121)
"""Compute capabilities, times ten, at which predicates are evaluated."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Which build this is, and how it was reached."""

    subject: str
    """As the user named it: ``vllm==0.14.0``, ``./venv``."""
    engine: str
    version: Fact[str]
    origin: str
    """``wheel on the package index``, ``source tree``, ``virtual environment`` ..."""
    content: Fact[str]
    """``sha256:...`` of the wheel or sdist; Missing for folders."""
    platforms: Fact[tuple[str, ...]]
    """Wheel platform tags (``manylinux1_x86_64``); ``("any",)`` for pure Python or source."""
    requires_python: Fact[str | None]
    requires: Fact[tuple[str, ...]]
    """``Requires-Dist`` lines, verbatim."""

    @property
    def in_container(self) -> bool:
        """Whether it is an image, or lies in a container: a container engine has to run it."""
        return self.origin.startswith(("image ", "container "))


@dataclass(frozen=True, slots=True)
class Build:
    """One engine build. Every field but the identity is what its own files say."""

    identity: Identity
    transformers: Transformers
    registry: Fact[Mapping[str, Registered]]
    """Architectures served natively, by name. Missing with cause unreadable: an unknown form of registry."""
    classes: Mapping[str, Fact[ModelClass | None]] = field(default_factory=dict)
    """The wanted architectures; ``Known(None)``: the registered module or class does not exist."""
    dropped: Fact[Mapping[str, str]] = NOT_ASKED
    """Names the build itself says it once served, with the last version that did."""
    elsewhere: Fact[Mapping[str, str]] = NOT_ASKED
    """Names it says an out-of-tree plugin serves, with the plugin."""
    plugins: Fact[tuple[str, ...]] = NOT_ASKED
    """Entry points through which installed packages may add architectures: ``group: name = target``."""
    fallback: Fact[Fallback | None] = NOT_ASKED
    config_shims: Fact[Mapping[str, ConfigShim]] = NOT_ASKED
    config_fixups: Fact[Mapping[str, Site]] = NOT_ASKED
    """Model types that the engine rewrites in code before transformers sees them."""
    architecture_types: Fact[Mapping[str, str]] = NOT_ASKED
    """Architecture -> model type, where the engine repairs a config by its architecture."""
    architecture_rewrites: Fact[Mapping[str, str]] = NOT_ASKED
    """Model type -> the architecture that the engine puts in, whatever the config names."""
    plain_config: Fact[Site | None] = NOT_ASKED
    """Where the engine takes transformers' plain config class for a model type that nobody knows."""
    trusts_code: Fact[Site | None] = NOT_ASKED
    """Where the engine runs code of the model repository without being asked to; ``Known(None)``: nowhere."""
    auto_map_rule: Fact[AutoMapRule | None] = NOT_ASKED
    """Whether ``auto_map`` names the class instead of ``architectures``."""
    quantization: Fact[Mapping[str, QuantMethod]] = NOT_ASKED
    literal_methods: Fact[Site | None] = NOT_ASKED
    """Where the engine takes a method's name from config.json as it stands there, so that no other name of the
    format counts; ``Known(None)``: it tells formats apart itself."""
    vendor_quantization: Fact[Mapping[str, tuple[str, ...]]] = NOT_ASKED
    """Of those methods, which the build lets run on a vendor's accelerators (``amd``, ``intel``,
    ``google``); of a vendor without a row it says nothing."""
    kv_cache_dtypes: Fact[tuple[str, ...]] = NOT_ASKED
    kv_cache_engines: Fact[Mapping[str, tuple[str, ...]]] = NOT_ASKED
    """Of a build with several engines in it: cache dtype -> those that take it, where not all do."""
    engine_flags: Fact[Mapping[str, str]] = NOT_ASKED
    """Engine of a build with several -> the flag and value that leave no other (``--backend pytorch``)."""
    reasoning_parsers: Fact[tuple[str, ...]] = NOT_ASKED
    tool_parsers: Fact[tuple[str, ...]] = NOT_ASKED
    speculative: Fact[Mapping[str, Site]] = NOT_ASKED
    """Speculative decoding: class names and method names the build knows."""
    draft_classes: Fact[Mapping[str, tuple[str, ...]]] = NOT_ASKED
    """Architecture or model type -> the draft classes the build turns it into to predict with the model's own
    extra layers (MTP, NextN); several where the source decides at run time."""
    flags: Fact[Mapping[str, Flag]] = NOT_ASKED
    flag_syntax: Fact[FlagSyntax] = NOT_ASKED
    attention_backends: Fact[Mapping[str, AttentionBackend]] = NOT_ASKED
    moe_backends: Fact[tuple[MoeBackend, ...]] = NOT_ASKED
    launchers: Fact[tuple[str, ...]] = NOT_ASKED
    """Of ``ray``, ``mp``, ``mp-multinode``, ``torchrun`` ... those it can start with."""
    rpc_worker: Fact[str] = NOT_ASKED
    """The program that lends a machine's memory and accelerators to a server on another one."""
    load_formats: Fact[tuple[str, ...]] = NOT_ASKED
    """Weight formats it accepts: ``safetensors``, ``pt``, ``gguf``, ``mistral`` ..."""
    gguf_architectures: Fact[Mapping[str, Site] | None] = NOT_ASKED
    """GGUF architectures it maps itself; ``Known(None)``: it leaves that to transformers."""
    gguf_types: Fact[Mapping[str, int]] = NOT_ASKED
    """Tensor types of GGUF files it knows, by name, with their number there: ``{"Q4_K": 12}``."""
    gguf_vocabularies: Fact[GgufVocabularies] = NOT_ASKED
    gguf_projectors: Fact[Mapping[str, Site]] = NOT_ASKED
    """Values of ``clip.projector_type`` (multimodal projectors in files of their own) it knows."""
    converter: Fact[Converter | None] = NO_CONVERTER
    """What turns Hub checkpoints into GGUF, in builds that serve nothing else; ``Known(None)``: there is none."""
    torch: Fact[str | None] = NOT_ASKED
    """Version of torch found beside the engine, local part included (``2.9.1+cu130``); ``Known(None)``:
    looked, none there. Filled by whoever found the build, not by the engine's reader."""
    gpu_code: Fact[Mapping[str, Fact[Extension]]] = NOT_ASKED
    """By file: every shared library of the engine, and of packages beside it that engines load. Filled like
    ``torch``, as are the two below."""
    cuda_needed: Fact[Mapping[str, CudaLibrary]] = NOT_ASKED
    """CUDA's libraries that these link against, by file name: ``libcudart.so.12``."""
    libc_needed: Fact[str | None] = NOT_ASKED
    """The oldest GNU libc with which all of these can be loaded; ``Known(None)``: they need none."""
    stack: Stack = Stack()  # noqa: RUF009 - frozen
    """What it stands on in its environment or image."""


def gguf_only(build: Build) -> bool:
    """Whether a build serves GGUF files (or their forerunner, ``ggml``) and nothing else."""
    formats = build.load_formats
    return isinstance(formats, Known) and bool(formats.value) and {"gguf", "ggml"}.issuperset(formats.value)
