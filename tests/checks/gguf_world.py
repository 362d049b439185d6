"""A build that serves GGUF files alone, with its converter, and a model in such a file; tests change one fact."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from small_world import SmallHistory, build, model, seen

from canserve.facts import Known, Missing
from canserve.subjects.build import Build, Converted, Converter, GgufVocabularies, QuantMethod, Site
from canserve.subjects.model import Model, Parameters, Quantization, Tokenizer

AT = Site("src/arch.cpp", 7)
CONVERTER = Converter(
    {
        "SmallForCausalLM": Converted(
            "SmallForCausalLM", "SmallModel", "text", "small", Site("convert.py", 3)
        ),
        "EarlyForCausalLM": Converted(
            "EarlyForCausalLM", "EarlyModel", "text", "early", Site("convert.py", 9)
        ),
        "LateForCausalLM": Converted("LateForCausalLM", "LateModel", "text", None, Site("convert.py", 12)),
    },
    {"SmallForCausalLM": Converted("SmallForCausalLM", "SmallEyes", "mmproj", None, Site("convert.py", 30))},
    script=Site("convert_hf_to_gguf.py", 1),
    quantizations={"fp8": Site("convert.py", 90)},
)
METHOD = QuantMethod("gguf", None, Known(None, seen()), AT)


def gguf_build(**facts: Any) -> Build:
    """Knows one architecture, three tensor types and two kinds of vocabulary."""
    fields: dict[str, Any] = {
        "registry": Known({}, seen("no classes")),
        "quantization": Known({"gguf": METHOD}, seen("gguf")),
        "load_formats": Known(("gguf",), seen("gguf only")),
        "gguf_architectures": Known({"small": AT, "other": AT}, seen("2 architectures")),
        "gguf_types": Known({"F32": 0, "Q4_K": 12, "Q2_0": 42}, seen("3 types")),
        "gguf_vocabularies": Known(
            GgufVocabularies({"gpt2": AT, "llama": AT}, {"llama-bpe": AT, "qwen2": AT}, ("gpt2",)),
            seen("tokenizers"),
        ),
        "converter": Known(CONVERTER, seen("converter")),
    }
    return build(**(fields | facts))


def gguf_model(
    architecture: str = "small", types: tuple[str, ...] = ("Q4_K", "F32"), **metadata: Any
) -> Model:
    """A model in one GGUF file; ``metadata``: of its tokenizer (``model``, ``pre``)."""
    said = {
        f"tokenizer.ggml.{key}": value
        for key, value in ({"model": "gpt2", "pre": "qwen2"} | metadata).items()
    }
    parameters = Parameters(dict.fromkeys(types, 256), 512, 1000, 2, 1)
    found = model(
        "",
        None,
        parameters=Known(parameters, seen("headers")),
        quantization=Known(Quantization("gguf", "Q4_K_M", "x.gguf", (), (), None, {}), seen("file type")),
        tokenizer=Known(Tokenizer(("x.gguf",), "gpt2", {}, "gguf"), seen("inside")),
        weight_format=Known("gguf", seen("gguf")),
        gguf_architecture=Known(architecture, seen(architecture)),
        gguf_projectors=Known((), seen("no projector")),
        gguf_metadata=Known({key: value for key, value in said.items() if value is not None}, seen("header")),
    )
    missing = (
        Missing(found.files.cause, "only a GGUF file was named") if isinstance(found.files, Missing) else None
    )
    return replace(found, origin="gguf", files=missing or found.files)


@dataclass(frozen=True)
class Listings(SmallHistory):
    """A past that knows the first release with a name in a table."""

    first: dict[tuple[str, str], str] = field(default_factory=dict)

    def first_listing(self, engine: str, table: str, name: str) -> str | None:
        del engine
        return self.first.get((table, name))
