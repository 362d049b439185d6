"""From GGUF headers to the facts of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from canserve.facts import Fact, Known, Missing, derive
from canserve.probes.model.documents import Unreadable
from canserve.probes.model.files import Files
from canserve.probes.model.gguf import Header, Long
from canserve.probes.model.gguf_files import Reading, projector_kinds, read_gguf
from canserve.subjects.model import Model, Processor, Tokenizer

T = TypeVar("T")

_TEMPLATE = "tokenizer.chat_template"


def gguf_model(files: Files, wanted: str | None) -> Model:
    """A model as its GGUF headers describe it; its config is Missing, class names are known to be absent."""
    found = read_gguf(files, wanted)
    none: Known[Any] = Known(None, found.evidence)

    def said(change: Callable[[Header], T]) -> Fact[T]:
        return derive(found.header, change)

    def nothing(value: T) -> Fact[T]:
        return said(lambda _: value)

    return Model(
        subject=files.subject,
        origin=files.kind,
        revision=files.revision,
        files=files.listed(),
        config=_no_config(files, found),
        architectures=nothing(()),
        model_type=nothing(None),
        nested=nothing(()),
        auto_map=nothing({}),
        parameters=found.parameters,
        tensors=found.tensors,
        quantization=found.quantization,
        tokenizer=said(lambda header: _tokenizer(header, found.name)),
        processor=Known(Processor(found.projectors, None, {}) if found.projectors else None, found.evidence),
        chat_template=said(lambda header: header.text(_TEMPLATE)),
        mtp_layers=said(lambda header: header.number(f"{_family(header)}.nextn_predict_layers") or 0),
        weight_format=Known("gguf", found.evidence),
        gguf_architecture=_architecture(files, found),
        gguf_metadata=said(_metadata),
        gguf_projectors=projector_kinds(files, found),
        config_format=none,
        named_templates=said(_named_templates),
        generation=none,
        transformers_version=none,
        dtype=none,
        max_positions=said(lambda header: header.number(f"{_family(header)}.context_length")),
    )


def _no_config(files: Files, found: Reading) -> Missing:
    ask = "for what only a config says, name the model it was made from"
    return files.unavailable(found.name or "GGUF", "a GGUF file has no config.json", ask)


def _architecture(files: Files, found: Reading) -> Fact[str | None]:
    if isinstance(found.header, Missing):
        return found.header
    name = found.header.value.text("general.architecture")
    if name is None:
        return files.unreadable(found.name, Unreadable("names no general.architecture"))
    return Known(name, found.evidence)


def _family(header: Header) -> str:
    return header.text("general.architecture") or ""


def _tokenizer(header: Header, name: str) -> Tokenizer:
    kind = header.text("tokenizer.ggml.model")
    return Tokenizer((name,), kind, {}, "gguf") if kind else Tokenizer((), None, {}, None)


def _metadata(header: Header) -> Mapping[str, object]:
    return {key: value for key, value in header.metadata.items() if not isinstance(value, Long)}


def _named_templates(header: Header) -> Mapping[str, str]:
    prefix = _TEMPLATE + "."
    return {
        key.removeprefix(prefix): text
        for key, text in header.metadata.items()
        if key.startswith(prefix) and isinstance(text, str)
    }
