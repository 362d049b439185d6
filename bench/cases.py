"""Case rows of ../shared/cases as inputs of `check`: a config, a build, a machine, flags."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

SHARED = Path(__file__).resolve().parents[2] / "shared"
FAMILY = {name: name for name in ("vllm", "sglang", "lmdeploy", "transformers")}
"""Engines that static reading covers; rows of others are counted as out of scope."""
CLASS_NAME = re.compile(r"[A-Z][A-Za-z0-9_]*(For|Model|LM|MTP)[A-Za-z0-9_]*$")
QUANT_CONFIGS: dict[str, dict[str, Any]] = {
    "fp8": {"quant_method": "fp8", "activation_scheme": "dynamic"},
    "fp8-block": {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]},
    "awq": {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"},
    "gptq": {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True},
    "mxfp4": {"quant_method": "mxfp4"},
    "nvfp4": {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16},
}
"""The plainest checkpoint of each kind, for rows that name a kind but no config."""


@dataclass(frozen=True, slots=True)
class Row:
    """One case row, with what could be made of it."""

    id: str
    data: Mapping[str, Any]
    engine: str | None
    version: str | None
    transformers: str | None
    architecture: str | None
    model_type: str | None
    quantization: str | None
    flags: tuple[str, ...]
    gpu: str | None
    why_not: str = ""
    """Why it cannot be an input of a static check, if so."""
    model_folder: Path | None = field(default=None)


def rows(name: str) -> Iterator[Row]:
    """All rows of a case file."""
    with (SHARED / "cases" / name).open() as lines:
        for line in lines:
            yield row(json.loads(line))


def row(data: Mapping[str, Any]) -> Row:
    """What a row says, as far as `check` can be asked about it."""
    engine = FAMILY.get(str(data.get("engine")))
    text = str(data.get("engine_version") or "")
    version = exact_version(text) if data.get("engine_version_kind") in ("exact", "min", "nightly") else None
    pinned = re.search(r"transformers (\d[\w.]*)", text)
    architecture = data.get("architecture")
    model_type: str | None = None
    if isinstance(architecture, str) and architecture.startswith("model_type:"):
        model_type = architecture.split(":", 1)[1]
        architecture = None
    why_not = ""
    if engine is None:
        why_not = f"engine {data.get('engine')} is not read statically"
    elif version is None:
        why_not = "no exact version" if data.get("engine_version") is None else f"{text} is no release"
    elif architecture is None and model_type is None:
        why_not = "no known class"
    elif architecture is not None and not CLASS_NAME.match(architecture):
        why_not = f"{architecture} is not a class"
    folder = SHARED / "models" / str(data["model"]).replace("/", "__")
    return Row(
        data["id"],
        data,
        engine,
        version,
        pinned[1] if pinned else None,
        architecture,
        model_type,
        data.get("quantization"),
        tuple(data.get("flags") or ()),
        (data.get("hardware") or {}).get("gpu"),
        why_not,
        folder if folder.is_dir() else None,
    )


def exact_version(text: str) -> str | None:
    """`0.9.0 (transformers 4.53.2)` -> `0.9.0`; None when the text names no single version."""
    word = text.split(" ", maxsplit=1)[0].rstrip("+")
    if word.startswith("<") or not word:
        return None
    try:
        version = Version(word)
        return (
            None if version.is_devrelease and version.release < (0, 2) else str(version)
        )  # no release number
    except InvalidVersion:
        return None


def config_of(one: Row, model_types: Mapping[str, str]) -> dict[str, Any]:
    """The model's real config where there is one; else the least config that names the class."""
    if one.model_folder is not None:
        config: dict[str, Any] = json.loads((one.model_folder / "config.json").read_text())
        if one.architecture and not config.get("architectures"):
            config["architectures"] = [one.architecture]
        return config
    config = {}
    if one.architecture:
        config["architectures"] = [one.architecture]
    model_type = one.model_type or model_types.get(one.architecture or "")
    if model_type:
        config["model_type"] = model_type
    if not model_type or any("--trust-remote-code" in flag for flag in one.flags):
        config["auto_map"] = {"AutoConfig": "configuration_unknown.UnknownConfig"}
    if one.quantization in QUANT_CONFIGS:
        config["quantization_config"] = QUANT_CONFIGS[one.quantization]
    return config
