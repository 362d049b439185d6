"""How a checkpoint says that it is quantized, and under which name engines list that method.

Where the declaration stands, in the order in which engines look: ``quantization_config`` in ``config.json``;
``hf_quant_config.json`` (ModelOpt up to 0.29); ``compression_config``; the same keys inside a nested config;
``quantization`` (``params.json``, MLX); the files of AutoGPTQ, AutoAWQ, AutoRound and ModelSlim.

Names follow vLLM 0.33 (``ModelConfig._verify_quantization``, each config class's
``override_quantization_method``, ``ModelOptQuantConfigBase._extract_modelopt_quant_algo`` and
``ModelArchConfigConvertor._normalize_quantization_config``) and SGLang 0.5.23
(``ModelConfig._parse_quant_hf_config``, ``_parse_modelopt_quant_config``). Where the two, or older releases
of one, call the same format differently, the other names are aliases.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from canserve.facts import Evidence, Fact, Known, Missing
from canserve.probes.model.documents import Unreadable
from canserve.probes.model.files import Files
from canserve.probes.model.schemes import Raw, number, packed_experts, schemes_of, table, word
from canserve.subjects.model import Quantization
from canserve.trees.names import printable

_SPELLINGS = {
    "compressed_tensors": "compressed-tensors",
    "sparseml": "compressed-tensors",
    "auto_round": "auto-round",
    "autoround": "auto-round",
    "intel/auto-round": "auto-round",
    "bitsandbytes_4bit": "bitsandbytes",
    "bitsandbytes_8bit": "bitsandbytes",
}
"""Spellings of one method that its own tools have used."""

_ALIASES: Mapping[str, tuple[str, ...]] = {
    "gptq": ("gptq_marlin", "auto_gptq"),
    "awq": ("awq_marlin", "auto_awq"),
    "auto-round": ("inc", "auto_round"),
    "modelopt": ("modelopt_fp8",),
    "modelopt_fp4": ("nvfp4",),
    "modelopt_mxfp8": ("mxfp8",),
}
"""Names in the tables of vLLM 0.2 to 0.33 and SGLang 0.1.22 to 0.5.23 that load the same files."""

_IGNORED = (
    "ignore", "ignored_layers", "modules_to_not_convert", "exclude_modules", "exclude", "skip_modules",
    "llm_int8_skip_modules", "linear_weights_not_to_quantize", "modules_to_not_quantize",
)  # fmt: skip

_FILES: tuple[tuple[str, str | None], ...] = (
    ("hf_quant_config.json", None),
    ("quantize_config.json", "gptq"),
    ("quant_config.json", "awq"),
    ("quantization_config.json", "auto-round"),
    ("quant_model_description.json", "modelslim"),
)
"""Files beside a config that says nothing, and the method where the file names none itself."""


@dataclass(frozen=True, slots=True)
class _Declaration:
    raw: Raw
    source: str
    evidence: tuple[Evidence, ...]
    default: str | None = None
    """The method where the declaration names none itself."""


def read_quantization(files: Files, config: Fact[Mapping[str, Any]]) -> Fact[Quantization | None]:
    """The checkpoint's quantization; ``Known(None)``: looked everywhere, none is declared."""
    if isinstance(config, Missing):
        return config
    evidence = config.evidence
    for found in _declarations(files, config.value):
        if isinstance(found, Missing):
            return found
        evidence = tuple(dict.fromkeys(evidence + found.evidence))
        if found.raw:
            try:
                return Known(_interpret(found, config.value), evidence)
            except Unreadable as error:
                return files.unreadable(found.source, error)
    gaps = (files.gap(name) for name, _ in _FILES)
    return next((gap for gap in gaps if gap is not None), None) or Known(None, evidence)


def _declarations(files: Files, value: Raw) -> Iterator[_Declaration | Missing]:
    """Every place that may hold a declaration, in order; an empty one says that it was looked at."""
    name = files.config_name
    yield _inside(files, value, "quantization_config", f"{name}: quantization_config", _bare(value))
    yield _beside(files, *_FILES[0])
    yield _inside(files, value, "compression_config", f"{name}: compression_config", "compressed-tensors")
    for key, nested in value.items():
        if isinstance(nested, dict):
            for inner in ("quantization_config", "compression_config"):
                yield _inside(files, nested, inner, f"{name}: {printable(key)}.{inner}")
    if table(value, "quantization"):
        yield _inside(files, value, "quantization", f"{name}: quantization", "mlx")
    for file, default in _FILES[1:]:
        yield _beside(files, file, default)


def _bare(config: Raw) -> str | None:
    """MLX writes bits and group size there, and no name; every other tool writes its name."""
    return "mlx" if {"bits", "group_size"} <= table(config, "quantization_config").keys() else None


def _inside(
    files: Files, config: Raw, key: str, source: str, default: str | None = None
) -> _Declaration | Missing:
    value = config.get(key)
    if value is None:
        return _Declaration({}, source, ())
    if not isinstance(value, dict):
        return files.unreadable(source, Unreadable(f"is a {type(value).__name__}, not a table"))
    return _Declaration(value, source, (files.seen(source, f"{len(value)} keys"),), default)


def _beside(files: Files, name: str, default: str | None) -> _Declaration | Missing:
    if files.gap(name) is not None:
        return _Declaration({}, name, ())
    match files.mapping(name):
        case Known(value, evidence):
            return _Declaration(value or {}, name, evidence, default)
        case Missing() as missing:
            return missing


def _interpret(found: _Declaration, config: Raw) -> Quantization:
    raw = found.raw
    algorithms = _algorithms(raw)
    declared, method = _names(found, algorithms)
    experts = packed_experts(word(config, "expert_dtype") or "") if method == "fp8" else None
    return Quantization(
        method=method,
        declared=declared,
        source=found.source,
        schemes=schemes_of(method, raw, algorithms) + ((experts,) if experts else ()),
        ignored=_ignored(raw),
        kv_cache=_kv_cache(raw),
        raw=raw,
        aliases=_aliases(method, algorithms, word(config, "model_type")),
        algorithms=tuple(algorithms),
    )


def _names(found: _Declaration, algorithms: Mapping[str, int | None]) -> tuple[str, str]:
    """What the declaration says, and the name under which engines list it."""
    raw, declared = found.raw, found.raw.get("quant_method")
    if declared is not None and not isinstance(declared, str):
        raise Unreadable(f"quant_method is a {type(declared).__name__}, not a name")
    if declared:
        lower = declared.lower()
        method = _SPELLINGS.get(lower, lower)
        return declared, _modelopt_name(method, algorithms) if method.startswith("modelopt") else method
    if algorithms:  # ModelOpt's own files, and configs of its release 0.31
        return next(iter(algorithms)), _modelopt_name("modelopt", algorithms)
    if "load_in_4bit" in raw or "load_in_8bit" in raw:
        return "bitsandbytes", "bitsandbytes"
    if form := word(raw, "qformat_weight"):  # Mistral's params.json
        return form, "fp8" if form.lower().startswith("fp8") else form.lower()
    if found.default is not None:
        return found.default, found.default
    raise Unreadable("names no quant_method")


def _modelopt_name(method: str, algorithms: Mapping[str, int | None]) -> str:
    main = next(iter(algorithms), "").upper()
    if main == "MIXED_PRECISION":
        return "modelopt_mixed"
    if "MXFP8" in main:
        return "modelopt_mxfp8"
    if "FP4" in main:
        return "modelopt_fp4"
    return "modelopt" if main else method


def _aliases(method: str, algorithms: Mapping[str, int | None], model_type: str | None) -> tuple[str, ...]:
    family = model_type or ""
    if method == "modelopt_mixed" and not any("NVFP4" in name.upper() for name in algorithms):
        return ("w4afp8",)  # SGLang: whole numbers in four bits beside FP8
    if method == "fp8" and family.startswith("deepseek_v4"):
        return ("deepseek_v4_fp8",)
    if method == "mxfp4" and family == "gpt_oss":
        return ("gpt_oss_mxfp4",)
    return _ALIASES.get(method, ())


def _core(raw: Raw) -> Raw:
    """ModelOpt wraps its keys in ``quantization``, some tools twice."""
    inner = table(raw, "quantization")
    return table(inner, "quantization") or inner or raw


def _algorithms(raw: Raw) -> Mapping[str, int | None]:
    """``quant_algo`` names, verbatim, the main one first, with their group sizes."""
    core = _core(raw)
    found: dict[str, int | None] = {}
    for key in ("quant_algo", "moe_quant_algo"):
        if name := word(core, key):
            found.setdefault(name, number(core, "group_size"))
    for layer in table(core, "quantized_layers").values():
        if isinstance(layer, dict) and (name := word(layer, "quant_algo")):
            found.setdefault(name, number(layer, "group_size"))
    return found


def _ignored(raw: Raw) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for place in (raw, _core(raw)):
        for key in _IGNORED:
            value = place.get(key)
            if isinstance(value, list):
                names.update((name, None) for name in value if isinstance(name, str))
    return tuple(names)


def _kv_cache(raw: Raw) -> str | None:
    core = _core(raw)
    if name := word(core, "kv_cache_quant_algo", "kv_cache_scheme"):
        return name.lower()
    scheme = table(core, "kv_cache_scheme")
    kind, bits = word(scheme, "type"), number(scheme, "num_bits")
    if kind and bits:
        return f"{'fp' if kind == 'float' else kind}{bits}"
    for layer in table(raw, "kv_cache_quant_config").values():  # Quark
        if isinstance(layer, dict) and (name := word(table(layer, "output_tensors"), "dtype")):
            return name.split("_")[0].lower()
    return None
