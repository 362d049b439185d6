"""From a model's files to its facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from canserve.facts import Cause, Evidence, Fact, Known, Missing, derive
from canserve.probes.model import config as configs
from canserve.probes.model.files import Files
from canserve.probes.model.gguf_model import gguf_model
from canserve.probes.model.options import Options
from canserve.probes.model.quantization import read_quantization
from canserve.probes.model.target import locate
from canserve.probes.model.tokenizer import (
    default_template,
    other_templates,
    read_processor,
    read_templates,
    read_tokenizer,
)
from canserve.probes.model.weights import Weights, find_weights, read_parameters
from canserve.subjects.model import Model
from canserve.trees.names import printable

_FORMATS = {"recorded": "safetensors"}


def read_model(spec: str, options: Options | None = None) -> Model:
    """Read a model; every field that could not be read is Missing. Raises nothing for the input's sake.

    ``spec``: ``org/name[@revision]``, ``org/name:Q4_K_M``, ``org/name/file.gguf``, a folder, a config file of
    any name, a GGUF file.
    """
    target = locate(spec, options or Options())
    if isinstance(target, Missing):
        return _nothing(spec, target)
    files = Files(target.repository)
    if files.kind == "gguf":
        return gguf_model(files, target.gguf)
    weights = find_weights(files)
    model = _from_config(files, weights)
    is_gguf = isinstance(weights, Known) and weights.value.format == "gguf"
    return _with_gguf(model, gguf_model(files, target.gguf)) if is_gguf else model


def _nothing(spec: str, missing: Missing) -> Model:
    """A model of which nothing is known but why."""
    facts = [field.name for field in fields(Model) if field.name not in {"subject", "origin"}]
    return Model(spec, "unknown", **dict.fromkeys(facts, missing))


def _from_config(files: Files, weights: Fact[Weights]) -> Model:
    config = configs.read_config(files)
    quantization = read_quantization(files, config)
    parameters, mtp_tensors = read_parameters(files, weights, quantization)
    templates = read_templates(files)
    none: Known[Any] = Known(None, (files.seen("file list", "no GGUF file"),))
    return Model(
        subject=files.subject,
        origin=files.kind,
        revision=files.revision,
        files=files.listed(),
        config=config,
        architectures=configs.architectures(files, config),
        model_type=configs.text(files, config, "model_type"),
        nested=configs.nested(files, config),
        auto_map=_code(files, config),
        parameters=parameters,
        quantization=quantization,
        tokenizer=read_tokenizer(files),
        processor=read_processor(files),
        chat_template=default_template(templates, files),
        mtp_layers=configs.mtp_layers(files, config, mtp_tensors),
        weight_format=_format(files, weights),
        gguf_architecture=none,
        gguf_metadata=none,
        config_format=derive(config, lambda _: "mistral" if files.config_name == "params.json" else "hf"),
        named_templates=other_templates(templates),
        generation=files.mapping("generation_config.json"),
        transformers_version=configs.text(files, config, "transformers_version"),
        dtype=configs.text(files, config, "dtype", "torch_dtype"),
        tied_embeddings=configs.flag(files, config, "tie_word_embeddings", "tied_embeddings"),
        max_positions=configs.positions(files, config),
    )


def _names(files: Files) -> Fact[tuple[str, ...]]:
    hole = files.gap("")
    if hole is not None and (files.kind == "config" or not files.names):
        return hole
    names = tuple(sorted(files.names))
    return Known(names, (files.seen("file list", f"{len(names)} files", whole=not files.holes),))


def _format(files: Files, weights: Fact[Weights]) -> Fact[str | None]:
    if isinstance(weights, Missing):
        return weights
    form = weights.value.format
    named = ", ".join(printable(name) for name in list(weights.value.files)[:3])
    seen = files.seen("file list", f"weights: {named or 'none'}")
    return Known(_FORMATS.get(form, form) if form else None, (*weights.evidence, seen))


def _code(files: Files, config: Fact[Mapping[str, Any]]) -> Fact[Mapping[str, str]]:
    """``auto_map`` of the config, and below it those of the tokenizer and the processor."""
    if isinstance(config, Missing):
        return config
    found: dict[str, str] = {}
    evidence: list[Evidence] = []
    for name in ("preprocessor_config.json", "processor_config.json", "tokenizer_config.json"):
        if files.has(name) and isinstance(table := files.mapping(name), Known):
            found.update(configs.code_map(table.value or {}))
            evidence.extend(table.evidence)
    found.update(configs.code_map(config.value))
    shown = ", ".join(f"{printable(key)}: {printable(value)}" for key, value in list(found.items())[:4])
    return Known(found, (files.seen(files.config_name, f"auto_map: {shown or 'none'}"), *evidence))


def _with_gguf(model: Model, alone: Model) -> Model:
    """A folder or repository whose weights are GGUF: what its config does not say, the header does."""
    tokenizer, template = model.tokenizer, model.chat_template
    has_tokenizer = not isinstance(tokenizer, Known) or tokenizer.value.kind is not None
    has_template = not isinstance(template, Known) or template.value is not None
    merged = replace(
        alone,
        origin=model.origin,
        tokenizer=tokenizer if has_tokenizer else alone.tokenizer,
        chat_template=template if has_template else alone.chat_template,
        named_templates=model.named_templates if has_template else alone.named_templates,
        generation=model.generation,
    )
    if isinstance(model.config, Missing) and model.config.cause is Cause.UNAVAILABLE:
        return merged  # there is none; one that is there and cannot be read stays in the way
    return replace(
        model,
        **{name: getattr(merged, name) for name in _FROM_HEADERS},
        processor=alone.processor
        if isinstance(model.processor, Known) and not model.processor.value
        else model.processor,
    )


_FROM_HEADERS = (
    "tokenizer", "chat_template", "named_templates", "parameters", "quantization", "gguf_architecture",
    "gguf_metadata",
)  # fmt: skip
