"""From a model's files to its facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from canserve.facts import Evidence, Fact, Known, Missing, derive
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
from canserve.probes.model.weights import Weights, find_weights, read_content
from canserve.subjects.model import Model
from canserve.trees.names import printable

_READ = (
    "config.json", "hf_quant_config.json", "tokenizer_config.json", "chat_template.jinja",
    "chat_template.json", "preprocessor_config.json", "processor_config.json",
    "video_preprocessor_config.json", "generation_config.json", "model.safetensors.index.json",
)  # fmt: skip
"""Files that are read where they are there: fetched together."""

T = TypeVar("T")

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
    files.prefetch(_READ)
    weights = find_weights(files)
    model = _from_config(files, weights)
    if isinstance(weights, Missing) or weights.value.format != "gguf":
        return model
    has_config = files.has(files.config_name) or files.gap(files.config_name) is not None
    return _with_gguf(model, gguf_model(files, target.gguf), has_config)


def _nothing(spec: str, missing: Missing) -> Model:
    """A model of which nothing is known but why."""
    facts = [field.name for field in fields(Model) if field.name not in {"subject", "origin"}]
    return Model(spec, "unknown", **dict.fromkeys(facts, missing))


def _from_config(files: Files, weights: Fact[Weights]) -> Model:
    config = configs.read_config(files)
    quantization = read_quantization(files, config)
    content = read_content(files, weights, quantization)
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
        parameters=content.parameters,
        quantization=quantization,
        tokenizer=read_tokenizer(files),
        processor=read_processor(files),
        chat_template=default_template(templates, files),
        mtp_layers=configs.mtp_layers(files, config, content.mtp_tensors),
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
        tensors=content.tensors,
    )


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


def _with_gguf(model: Model, alone: Model, has_config: bool) -> Model:
    """A folder or repository whose weights are GGUF: what its files do not say, the header does."""
    has_template = not isinstance(model.chat_template, Known) or model.chat_template.value is not None
    return replace(
        model if has_config else alone,
        origin=model.origin,
        parameters=alone.parameters,
        tensors=alone.tensors,
        quantization=alone.quantization,
        gguf_architecture=alone.gguf_architecture,
        gguf_metadata=alone.gguf_metadata,
        tokenizer=_unless(model.tokenizer, lambda tokenizer: tokenizer.kind is None, alone.tokenizer),
        processor=_unless(model.processor, lambda processor: processor is None, alone.processor),
        chat_template=(model if has_template else alone).chat_template,
        named_templates=(model if has_template else alone).named_templates,
        generation=model.generation,
    )


def _unless(fact: Fact[T], empty: Callable[[T], bool], other: Fact[T]) -> Fact[T]:
    """The first fact, the other one where it is known to be empty."""
    return other if isinstance(fact, Known) and empty(fact.value) else fact
