"""From a quantization dialect to schemes: how many bits, of what kind, scaled how.

Each dialect's keys are those its own library writes: compressed-tensors ``QuantizationArgs``, ModelOpt's
``quant_algo`` names (``modelopt.torch.export``), AutoGPTQ and GPTQModel, AutoAWQ, AutoRound, bitsandbytes
through transformers, Quark's ``global_quant_config``, torchao's ``quant_type``.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Callable, Mapping
from typing import Any

from canserve.subjects.model import Scheme

Raw = Mapping[str, Any]


def scheme(bits: int | None, kind: str | None, strategy: str | None = None, **more: Any) -> Scheme:
    """A scheme with the fields that are known; the rest None."""
    rest: dict[str, Any] = {
        "group_size": None, "block": None, "activation_bits": None, "activation_type": None, "dynamic": None,
    }  # fmt: skip
    return Scheme(bits, kind, strategy, **{**rest, **more})


def schemes_of(method: str, raw: Raw, algorithms: Mapping[str, int | None]) -> tuple[Scheme, ...]:
    """The schemes a declaration describes; empty where the dialect is not known, or says nothing of bits.

    ``algorithms`` are ModelOpt's ``quant_algo`` names with their group sizes.
    """
    layers = tuple(_modelopt(name, size) for name, size in algorithms.items() if name != "MIXED_PRECISION")
    if method in _DIALECTS:
        return _DIALECTS[method](raw) + layers
    return layers or _generic(raw)


def number(raw: Raw, *keys: str) -> int | None:
    """The first of these keys that holds an integer."""
    return next((raw[key] for key in keys if type(raw.get(key)) is int), None)


def word(raw: Raw, *keys: str) -> str | None:
    """The first of these keys that holds a string."""
    return next((raw[key] for key in keys if isinstance(raw.get(key), str)), None)


def truth(raw: Raw, key: str) -> bool | None:
    """The key's value when it is a truth value."""
    value = raw.get(key)
    return value if isinstance(value, bool) else None


def table(raw: Raw, key: str) -> Raw:
    """The key's value when it is a table, else an empty one."""
    value = raw.get(key)
    return value if isinstance(value, dict) else {}


def block(value: object) -> tuple[int, int] | None:
    """``[128, 128]`` or ``"128x128"`` -> a block of rows by columns."""
    if isinstance(value, str) and (match := re.fullmatch(r"(\d{1,6})x(\d{1,6})", value)):
        return int(match[1]), int(match[2])
    if isinstance(value, list) and len(value) == 2 and all(type(item) is int for item in value):
        return value[0], value[1]
    return None


_MODELOPT: Mapping[str, Scheme] = {
    "FP8": scheme(8, "float", "tensor", activation_bits=8, activation_type="float", dynamic=False),
    "FP8_PER_CHANNEL_PER_TOKEN": scheme(
        8, "float", "channel", activation_bits=8, activation_type="float", dynamic=True
    ),
    "FP8_PB_WO": scheme(8, "float", "block", block=(128, 128)),
    "FP8_BLOCK_SCALES": scheme(
        8, "float", "block", block=(128, 128), activation_bits=8, activation_type="float", dynamic=True
    ),
    "NVFP4": scheme(4, "float", "group", group_size=16, activation_bits=4, activation_type="float"),
    "NVFP4_AWQ": scheme(4, "float", "group", group_size=16, activation_bits=4, activation_type="float"),
    "W4A16_NVFP4": scheme(4, "float", "group", group_size=16),
    "W4A8_NVFP4_FP8": scheme(4, "float", "group", group_size=16, activation_bits=8, activation_type="float"),
    "MXFP4": scheme(4, "float", "group", group_size=32, activation_bits=4, activation_type="float"),
    "W4A8_MXFP4_FP8": scheme(4, "float", "group", group_size=32, activation_bits=8, activation_type="float"),
    "MXFP8": scheme(
        8, "float", "group", group_size=32, activation_bits=8, activation_type="float", dynamic=True
    ),
    "W4A16_AWQ": scheme(4, "int", "group", group_size=128),
    "INT4_AWQ": scheme(4, "int", "group", group_size=128),
    "W4A8_AWQ": scheme(4, "int", "group", group_size=128, activation_bits=8, activation_type="float"),
    "W8A16": scheme(8, "int", "channel"),
    "INT8_WO": scheme(8, "int", "channel"),
    "INT8_SQ": scheme(8, "int", "channel", activation_bits=8, activation_type="int"),
    "W8A8_SQ_PER_CHANNEL": scheme(8, "int", "channel", activation_bits=8, activation_type="int"),
}
"""ModelOpt's algorithms as its export writes them."""


def _modelopt(name: str, group_size: int | None) -> Scheme:
    known = _MODELOPT.get(name.upper(), scheme(None, None))
    return Scheme(
        known.weight_bits,
        known.weight_type,
        known.strategy,
        group_size if group_size and known.strategy in {"group", None} else known.group_size,
        known.block,
        known.activation_bits,
        known.activation_type,
        known.dynamic,
        format=name,
    )


def _compressed_tensors(raw: Raw) -> tuple[Scheme, ...]:
    groups = raw.get("config_groups")
    named = (
        groups if isinstance(groups, dict) else dict(enumerate(groups)) if isinstance(groups, list) else {}
    )
    return tuple(_group(str(name), group, word(raw, "format")) for name, group in named.items())


def _group(name: str, group: object, default: str | None) -> Scheme:
    """One config group; a list of targets under the name of a preset such as ``W4A16`` is one, too."""
    if not isinstance(group, dict):
        bits = re.match(r"[A-Z]*W(\d{1,2})A\d", name)
        return scheme(int(bits[1]) if bits else None, None, targets=_words(group), format=default or name)
    weights, inputs = table(group, "weights"), table(group, "input_activations")
    size = number(weights, "group_size")
    fallback = None if not weights else "tensor" if size is None else "group" if size > 0 else "channel"
    return Scheme(
        number(weights, "num_bits"),
        word(weights, "type"),
        word(weights, "strategy") or fallback,
        size if size and size > 0 else None,
        block(weights.get("block_structure")),
        number(inputs, "num_bits"),
        word(inputs, "type"),
        truth(inputs, "dynamic"),
        truth(weights, "symmetric"),
        _words(group.get("targets")),
        word(group, "format") or default,
    )


def _words(value: object) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def packed_experts(dtype: str) -> Scheme | None:
    """Experts stored in four bits beside FP8 (``expert_dtype: fp4`` of a config)."""
    return scheme(4, "float", "group", group_size=32, targets=("experts",)) if dtype == "fp4" else None


def _fp8(raw: Raw) -> tuple[Scheme, ...]:
    blocks = block(raw.get("weight_block_size"))
    activation = word(raw, "activation_scheme")
    return (
        scheme(
            8,
            "float",
            "block" if blocks else "tensor",
            block=blocks,
            activation_bits=8,
            activation_type="float",
            dynamic=None if activation is None else activation == "dynamic",
            format=word(raw, "fmt"),
        ),
    )


def _integer_groups(raw: Raw) -> tuple[Scheme, ...]:
    """GPTQ, AWQ, AutoRound: whole numbers in groups along the input, -1 for one group a channel.

    ``dynamic`` holds deviating rules by module pattern.
    """
    rules = [rule for rule in table(raw, "dynamic").values() if isinstance(rule, dict)]
    return tuple(dict.fromkeys([_integer(raw), *(_integer(ChainMap(rule, raw)) for rule in rules)]))  # type: ignore[arg-type]


def _integer(raw: Raw) -> Scheme:
    size = number(raw, "group_size", "q_group_size")
    kind = word(raw, "data_type") or "int"
    zero_point = truth(raw, "zero_point")
    return scheme(
        number(raw, "bits", "w_bit"),
        "float" if "fp" in kind else "int",
        None if size is None else "group" if size > 0 else "channel",
        group_size=size if size and size > 0 else None,
        activation_bits=number(raw, "act_bits"),
        symmetric=truth(raw, "sym") if zero_point is None else not zero_point,
        format=word(raw, "packing_format", "checkpoint_format", "version"),
    )


def _bitsandbytes(raw: Raw) -> tuple[Scheme, ...]:
    if truth(raw, "load_in_4bit") or truth(raw, "_load_in_4bit"):
        return (scheme(4, "float", "group", format=word(raw, "bnb_4bit_quant_type")),)
    if truth(raw, "load_in_8bit") or truth(raw, "_load_in_8bit"):
        return (scheme(8, "int", "channel", activation_bits=8, activation_type="int"),)
    return ()


_QUARK_STRATEGY = {
    "per_tensor": "tensor",
    "per_channel": "channel",
    "per_group": "group",
    "per_block": "block",
}


def _quark(raw: Raw) -> tuple[Scheme, ...]:
    layers = [raw.get("global_quant_config"), *table(raw, "layer_quant_config").values()]
    described = [layer for layer in layers if isinstance(layer, dict) and layer.get("weight")]
    return tuple(dict.fromkeys(_quark_layer(layer) for layer in described))


def _quark_layer(layer: Raw) -> Scheme:
    weight, inputs = _first(layer.get("weight")), _first(layer.get("input_tensors"))
    kind, activation = word(weight, "dtype"), word(inputs, "dtype")
    return scheme(
        _digits(kind),
        None if kind is None else "float" if "fp" in kind else "int",
        _QUARK_STRATEGY.get(word(weight, "qscheme") or ""),
        group_size=number(weight, "group_size"),
        activation_bits=_digits(activation),
        activation_type=None if activation is None else "float" if "fp" in activation else "int",
        dynamic=truth(inputs, "is_dynamic"),
        symmetric=truth(weight, "symmetric"),
        format=kind,
    )


def _first(value: object) -> Raw:
    """A spec, or the first of a list of specs (two-level scales)."""
    item = value[0] if isinstance(value, list) and value else value
    return item if isinstance(item, dict) else {}


def _digits(text: str | None) -> int | None:
    """``fp8_e4m3``, ``Int4WeightOnlyConfig`` -> 8, 4."""
    found = re.search(r"(?:fp|int|float|mx)_?(\d{1,2})", text or "", re.IGNORECASE)
    return int(found[1]) if found else None


def _torchao(raw: Raw) -> tuple[Scheme, ...]:
    kind = raw.get("quant_type")
    if isinstance(kind, dict):
        kind = table(kind, "default").get("_type") or kind.get("_type")
    if not isinstance(kind, str):
        return ()
    return (scheme(_digits(kind), "float" if "float" in kind.lower() else "int", format=kind),)


def _hqq(raw: Raw) -> tuple[Scheme, ...]:
    weight = table(table(raw, "quant_config"), "weight_quant_params") or raw
    size = number(weight, "group_size")
    return (scheme(number(weight, "nbits"), "int", "group" if size else None, group_size=size),)


def _generic(raw: Raw) -> tuple[Scheme, ...]:
    bits = number(raw, "bits", "num_bits", "nbits", "w_bit", "weight_bits")
    size = number(raw, "group_size", "q_group_size")
    return () if bits is None else (scheme(bits, None, "group" if size else None, group_size=size),)


def _constant(known: Scheme) -> Callable[[Raw], tuple[Scheme, ...]]:
    return lambda _raw: (known,)


_DIALECTS: Mapping[str, Callable[[Raw], tuple[Scheme, ...]]] = {
    "compressed-tensors": _compressed_tensors,
    "fp8": _fp8,
    "gptq": _integer_groups,
    "awq": _integer_groups,
    "auto-round": _integer_groups,
    "bitsandbytes": _bitsandbytes,
    "quark": _quark,
    "torchao": _torchao,
    "hqq": _hqq,
    "mxfp4": _constant(scheme(4, "float", "group", group_size=32, format="mxfp4")),
    "mxfp8": _constant(_MODELOPT["MXFP8"]),
    "fbgemm_fp8": _constant(_MODELOPT["FP8_PER_CHANNEL_PER_TOKEN"]),
    "eetq": _constant(scheme(8, "int", "channel")),
    "bitnet": _constant(scheme(2, "int", "tensor", activation_bits=8, activation_type="int")),
}
