"""What may stand in a GGUF file beside its architecture: tensor types, vocabularies, projectors."""

from __future__ import annotations

from collections.abc import Mapping

from canserve.engines.cpp.forms import compared, enum, initializer, numbered, pairs
from canserve.engines.llamacpp.reading import Reading
from canserve.facts import Fact, Known
from canserve.subjects.build import GgufVocabularies, QuantMethod, Site

TYPES = ("ggml/include/ggml.h", "ggml.h")
PREFIX = "GGML_TYPE_"
QUANTIZATION = "gguf"
VOCABULARIES = ("src/llama-vocab.cpp", "src/llama-model.cpp", "src/llama.cpp", "llama.cpp")
PROJECTORS = (
    "tools/mtmd/clip-impl.h", "tools/mtmd/clip.cpp", "examples/llava/clip-impl.h", "examples/llava/clip.cpp",
)  # fmt: skip
PROJECTOR_NAMES = "PROJECTOR_TYPE_NAMES"
FILES = (*TYPES, *VOCABULARIES, *PROJECTORS)
MODEL, SPLIT = "tokenizer_model", "tokenizer_pre"
"""Local variables that hold ``tokenizer.ggml.model`` and ``tokenizer.ggml.pre``."""
SPLIT_MODELS = ("gpt2",)
"""Vocabularies by merges of bytes: text is split by a pattern first, which the file only names."""


def read_gguf_types(reading: Reading) -> Fact[Mapping[str, int]]:
    """Tensor types by name, without those that are commented out as removed."""
    path = reading.first(TYPES)
    if path is None:
        raise reading.unknown(reading.path(TYPES[0]), "no list of tensor types")
    members = enum(reading.code(path), "ggml_type")
    if not members:
        raise reading.unknown(path, "no enum ggml_type")
    found = {
        name.removeprefix(PREFIX): value
        for name, (value, _) in numbered(members).items()
        if name.startswith(PREFIX) and name != f"{PREFIX}COUNT"
    }
    return reading.known(found, f"{len(found)} tensor types", Site(path, members[0].line))


def read_quantization(reading: Reading) -> Fact[Mapping[str, QuantMethod]]:
    """One method: GGUF's own types. No type is bound to a compute capability."""
    types = read_gguf_types(reading)
    if not isinstance(types, Known):
        return types
    file, _, line = types.evidence[0].how.rpartition(":")
    at = Site(file, int(line))
    method = QuantMethod(QUANTIZATION, None, Known(None, types.evidence), at, (), Known(tuple(types.value)))
    return Known({QUANTIZATION: method}, types.evidence)


def read_vocabularies(reading: Reading) -> Fact[GgufVocabularies]:
    """Tokenizers that the loader compares a file's own words with."""
    for path in reading.existing(VOCABULARIES):
        code = reading.code(path)
        models = compared(code, MODEL) or compared(code, "tokenizer_name")
        if models:
            splits = compared(code, SPLIT)
            found = GgufVocabularies(
                {name: Site(path, line) for name, line in models.items()},
                {name: Site(path, line) for name, line in splits.items()} if splits else None,
                SPLIT_MODELS,
            )
            saw = f"{len(models)} kinds of vocabulary, {len(splits)} ways to split text"
            return reading.known(found, saw, Site(path, min(models.values())))
    raise reading.unknown(reading.path(VOCABULARIES[0]), "no comparison of tokenizer models")


def read_projectors(reading: Reading) -> Fact[Mapping[str, Site]]:
    """Projector types of multimodal models; none in releases that have no such tool."""
    files = reading.existing(PROJECTORS)
    for path in files:
        code = reading.code(path)
        span = initializer(code, PROJECTOR_NAMES)
        if span is not None:
            found = {row.text: Site(path, row.line) for row in pairs(span)}
            return reading.known(found, f"{len(found)} projector types", Site(path, code.line(span.start)))
    if files:
        raise reading.unknown(files[0], f"no {PROJECTOR_NAMES}")
    nothing: Mapping[str, Site] = {}
    return reading.known(nothing, "no multimodal projectors", Site(reading.path(PROJECTORS[0]), 0))
