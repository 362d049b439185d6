"""A model: what its repository's config, headers and file list say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from canserve.facts import Cause, Fact, Missing
from canserve.subjects.tensor import Tensor

ONLY_CONFIG = Missing(
    Cause.UNREACHED, "only a config was given", ask="name the model's folder or Hub id instead of its config"
)
NOT_READ = Missing(Cause.UNREACHED, "not read")
"""The value of a fact that a reader does not fill."""


@dataclass(frozen=True, slots=True)
class Nested:
    """A config inside the config: ``text_config``, ``vision_config``, ``audio_config`` ..."""

    key: str
    """Dotted where it lies deeper: ``thinker_config.text_config``."""
    model_type: str | None
    architectures: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameter and byte counts from weight headers, never from the name."""

    by_dtype: Mapping[str, int]
    """Stored elements by header dtype: ``{"F8_E4M3": 123_000_000_000, "BF16": ...}``."""
    total: int
    """Logical parameters: packed dtypes (U8 of FP4, I32 of GPTQ) counted unpacked where the scheme is known,
    scales and zero points of quantization not counted."""
    bytes: int
    tensors: int
    files: int


@dataclass(frozen=True, slots=True)
class Scheme:
    """One way of storing weights: bits, kind, and what its scales look like."""

    weight_bits: int | None
    weight_type: str | None
    """``int``, ``float`` ..."""
    strategy: str | None
    """``tensor``, ``channel``, ``group``, ``block``, ``token`` ..."""
    group_size: int | None
    block: tuple[int, int] | None
    activation_bits: int | None
    activation_type: str | None
    dynamic: bool | None
    symmetric: bool | None = None
    targets: tuple[str, ...] = ()
    format: str | None = None
    """compressed-tensors' storage format (``pack-quantized``, ``nvfp4-pack-quantized`` ...)."""


@dataclass(frozen=True, slots=True)
class Quantization:
    """How the checkpoint is quantized, in whichever dialect it says so."""

    method: str
    """As an engine's table names it: ``fp8``, ``compressed-tensors``, ``gptq``, ``awq``, ``modelopt``,
    ``modelopt_fp4``, ``modelopt_mixed``, ``mxfp4``, ``bitsandbytes``, ``gguf``, ``quark`` ..."""
    declared: str
    """What the file itself says (``quant_method`` or ``quant_algo``), verbatim."""
    source: str
    """``config.json: quantization_config``, ``hf_quant_config.json`` ..."""
    schemes: tuple[Scheme, ...]
    ignored: tuple[str, ...]
    """Modules left unquantized, names or patterns, verbatim."""
    kv_cache: str | None
    """Dtype of quantized KV-cache scales in the checkpoint, if any: ``fp8``."""
    raw: Mapping[str, Any]
    aliases: tuple[str, ...] = ()
    """Other names under which engines' tables list this very format: ``gptq_marlin`` beside ``gptq``,
    ``modelopt_fp8`` beside ``modelopt``, ``inc`` beside ``auto-round``. One of them suffices."""
    algorithms: tuple[str, ...] = ()
    """Every ``quant_algo`` the file names, verbatim: ``("MIXED_PRECISION", "FP8", "NVFP4")``."""


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """Tokenizer files and the class the config names."""

    files: tuple[str, ...]
    class_name: str | None
    auto_map: Mapping[str, str]
    kind: str | None
    """``fast`` (tokenizer.json), ``sentencepiece``, ``tiktoken``, ``mistral`` (tekken), ``wordpiece``
    (vocab.txt), ``bpe`` (vocab+merges), ``gguf`` (inside the weights file) or None."""


@dataclass(frozen=True, slots=True)
class Processor:
    """Processor files of a multimodal model."""

    files: tuple[str, ...]
    class_name: str | None
    auto_map: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Model:
    """One model. Broken input is a ``Missing`` with a cause in the field it broke."""

    subject: str
    """As the user named it."""
    origin: str
    """``hub``, ``folder``, ``config``, ``gguf``."""
    revision: Fact[str | None]
    files: Fact[tuple[str, ...]]
    config: Fact[Mapping[str, Any]]
    architectures: Fact[tuple[str, ...]]
    """Empty: the config names none."""
    model_type: Fact[str | None]
    nested: Fact[tuple[Nested, ...]]
    auto_map: Fact[Mapping[str, str]]
    """``AutoConfig`` -> ``configuration_x.XConfig``; where remote code lives."""
    parameters: Fact[Parameters]
    quantization: Fact[Quantization | None]
    tokenizer: Fact[Tokenizer]
    processor: Fact[Processor | None]
    """``Known(None)``: looked, there are no processor files."""
    chat_template: Fact[str | None]
    """Jinja source; ``Known(None)``: the model has none."""
    mtp_layers: Fact[int]
    weight_format: Fact[str | None]
    """``safetensors``, ``pt``, ``gguf``, ``mistral`` (consolidated) or ``Known(None)``: no weights."""
    gguf_architecture: Fact[str | None]
    """``general.architecture`` of a GGUF header; ``Known(None)`` for other formats."""
    gguf_metadata: Fact[Mapping[str, Any] | None] = NOT_READ
    """Scalars and short arrays of a GGUF header (``qwen3.block_count``); ``Known(None)``: not GGUF."""
    gguf_projectors: Fact[tuple[str, ...]] = NOT_READ
    """Kinds of multimodal projector beside a GGUF model (``clip.projector_type``); empty: none lies there."""
    config_format: Fact[str | None] = NOT_READ
    """``hf`` (config.json), ``mistral`` (params.json) or None: a GGUF file, which has no config file."""
    named_templates: Fact[Mapping[str, str]] = NOT_READ
    """Chat templates beside the default one: ``{"tool_use": ...}``."""
    generation: Fact[Mapping[str, Any] | None] = NOT_READ
    """``generation_config.json``; ``Known(None)``: there is none."""
    transformers_version: Fact[str | None] = NOT_READ
    """The transformers release that wrote the config, as it says itself."""
    dtype: Fact[str | None] = NOT_READ
    """Computation dtype the config names: ``bfloat16``."""
    tied_embeddings: Fact[bool | None] = NOT_READ
    max_positions: Fact[int | None] = NOT_READ
    """Context length in tokens, from the first key that holds one."""
    tensors: Fact[tuple[Tensor, ...]] = NOT_READ
    """What the headers of the weights list; the experts of one layer together. Missing: no headers were read."""
