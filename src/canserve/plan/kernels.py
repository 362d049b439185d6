"""Which small kernels tell in seconds whether an accelerator computes what a plan needs: chosen, not run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from canserve.facts import Known
from canserve.subjects.model import Model, Quantization, Scheme

DTYPES = {
    "bfloat16": "bfloat16",
    "bf16": "bfloat16",
    "float16": "float16",
    "half": "float16",
    "fp16": "float16",
    "float32": "float32",
    "float": "float32",
    "fp32": "float32",
}
"""Names of computation types, with the kernel that multiplies in them."""
BOTH = ("bfloat16", "float16")
_MX = 32
"""Values that share a scale in the formats of the Open Compute Project's MX specification; NVFP4 has 16."""
_WORDS = {"mxfp4": "mxfp4", "fp4": "fp4", "fp8": "fp8-scaled", "awq": "int4", "gptq": "int4"}
"""In names of methods, the first that is found, where no scheme says more."""
_CACHES = ("fp8", "fp8_e4m3")


@dataclass(frozen=True, slots=True)
class Need:
    """A kernel, and why it is tried."""

    kernel: str
    because: str


def needed(model: Model, options: Mapping[str, object]) -> tuple[Need, ...]:
    """Kernels for one model with these engine options, each once: its dtype, the compiler, its quantization."""
    found: dict[str, Need] = {}
    for need in (*_dtype(model, options), Need("triton", "engines compile kernels when they start")):
        found.setdefault(need.kernel, need)
    quantization = model.quantization.value if isinstance(model.quantization, Known) else None
    asked = options.get("quantization")
    for need in _quantized(quantization, asked if isinstance(asked, str) else None):
        found.setdefault(need.kernel, need)
    cache = options.get("kv_cache_dtype")
    if cache in _CACHES:
        found.setdefault("fp8-scaled", Need("fp8-scaled", f"the cache is {cache}"))
    return tuple(found.values())


def _dtype(model: Model, options: Mapping[str, object]) -> Iterator[Need]:
    asked = options.get("dtype")
    if isinstance(asked, str) and asked in DTYPES:
        yield Need(DTYPES[asked], f"the plan computes in {asked}")
        return
    stated = model.dtype.value if isinstance(model.dtype, Known) else None
    name = (stated or "").removeprefix("torch.")
    if name in DTYPES:
        yield Need(DTYPES[name], f"the model computes in {name}")
        return
    yield from (Need(each, "which dtype it computes in is not known") for each in BOTH)


def _quantized(stored: Quantization | None, asked: str | None) -> Iterator[Need]:
    """By how weights are stored; by the name alone where they are quantized on loading."""
    if stored is None:
        if asked is not None and asked.startswith("fp8"):
            yield Need("fp8-scaled", f"weights become {asked} as they are loaded")
        return
    schemes = [(scheme, _of_scheme(scheme)) for scheme in stored.schemes]
    for scheme, kernel in schemes:
        if kernel is not None:
            yield Need(kernel, f"{stored.source}: {said(scheme)}")
    if not any(kernel for _, kernel in schemes):
        yield from _of_name(stored)


def _of_scheme(scheme: Scheme) -> str | None:
    match scheme.weight_type, scheme.weight_bits:
        case "float", 8:
            return "fp8" if scheme.block is not None else "fp8-scaled"
        case "float", 4:
            return "mxfp4" if scheme.group_size == _MX else "fp4"
        case "int", 4:
            return "int4"
        case "int", 8 if scheme.activation_type == "int" and scheme.activation_bits == 8:
            return "int8"
        case _:
            return None


def _of_name(stored: Quantization) -> Iterator[Need]:
    names = " ".join((stored.method, stored.declared, *stored.algorithms)).lower()
    kernel = next((kernel for word, kernel in _WORDS.items() if word in names), None)
    if kernel is not None:
        yield Need(kernel, f"{stored.source}: {stored.declared}")


def said(scheme: Scheme) -> str:
    """A scheme in a few words: ``4 bits float in groups of 32``."""
    words = [f"{scheme.weight_bits} bits", scheme.weight_type or ""]
    if scheme.block is not None:
        words.append(f"in blocks of {scheme.block[0]} by {scheme.block[1]}")
    elif scheme.group_size:
        words.append(f"in groups of {scheme.group_size}")
    return " ".join(word for word in words if word)
