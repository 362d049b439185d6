"""Small source trees of transformers written by hand, read as a wheel's files would be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import dedent

from canserve.engines.hf import HuggingFace
from canserve.engines.sources import Hole, Sources
from canserve.facts import Cause, Fact, Known, Missing
from canserve.subjects.build import Build, Identity, Transformers, Want

UNKNOWN = Missing(Cause.UNREACHED, "not part of this test")
DENIED = Missing(Cause.UNAVAILABLE, "permission denied")

MODELING_AUTO = """
    from collections import OrderedDict
    from .auto_factory import _LazyAutoMapping

    MODEL_MAPPING_NAMES = OrderedDict([("llama", "LlamaModel")])
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES = OrderedDict(
        [
            ("llama", "LlamaForCausalLM"),
            ("odd-type", ("OddForCausalLM", "OddLMHeadModel")),
            ("moved", "MovedForCausalLM"),
        ]
    )
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES = OrderedDict(
        [("see", "SeeForConditionalGeneration"), ("moved", "MovedForCausalLM")]
    )
    MODEL_FOR_MASKED_LM_MAPPING_NAMES = OrderedDict([("llama", "LlamaForMaskedLM")])
    MODEL_FOR_CAUSAL_LM_MAPPING = _LazyAutoMapping(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
"""
CONFIGURATION_AUTO = """
    from collections import OrderedDict
    CONFIG_MAPPING_NAMES = OrderedDict([("llama", "LlamaConfig"), ("odd-type", "OddConfig"), ("see", "SeeConfig")])
    SPECIAL_MODEL_TYPE_TO_MODULE_NAME = OrderedDict([("see", "eyes")])
"""
FILES: Mapping[str, str] = {
    "__init__.py": "__version__ = '9.9.9'\n",
    "models/auto/modeling_auto.py": MODELING_AUTO,
    "models/auto/configuration_auto.py": CONFIGURATION_AUTO,
    "models/llama/modeling_llama.py": "class LlamaModel: ...\nclass LlamaForCausalLM(LlamaModel): ...\n",
    "models/odd_type/modeling_odd_type.py": "class OddForCausalLM: ...\nOddLMHeadModel = OddForCausalLM\n",
    "models/eyes/modeling_eyes.py": "class SeeForConditionalGeneration: ...\n",
    "models/movedelsewhere/modeling_x.py": "class Nothing: ...\n",
    "utils/__init__.py": "SAFE_WEIGHTS_NAME = 'model.safetensors'\nWEIGHTS_NAME = 'pytorch_model.bin'\n",
}


def sources(files: Mapping[str, str | bytes | Missing], holes: Sequence[Hole] = ()) -> Sources:
    """Files below ``transformers/``, each dedented."""
    content = {f"transformers/{path}": _bytes(text) for path, text in files.items()}
    return Sources("test", content, lambda paths: {path: content[path] for path in paths}, holes)


def identity(content: Fact[str] = UNKNOWN) -> Identity:
    """A build of version 9.9.9."""
    return Identity("test", "transformers", Known("9.9.9"), "test", content, UNKNOWN, UNKNOWN, Known(()))


def read(
    files: Mapping[str, str | bytes | Missing], want: Want | None = None, holes: Sequence[Hole] = ()
) -> Build:
    """Read a source tree that has these files."""
    given = Transformers(UNKNOWN, UNKNOWN, UNKNOWN)
    return HuggingFace().read(sources(files, holes), identity(), given, want or Want.everything())


def _bytes(text: str | bytes | Missing) -> bytes | Missing:
    return dedent(text).encode() if isinstance(text, str) else text
