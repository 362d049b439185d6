"""Small builds written by hand: a few files in vLLM's places, read as a wheel's files would be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import dedent

from canserve.engines.sources import Hole, Sources
from canserve.engines.vllm import VLLM
from canserve.engines.vllm.reading import Reading
from canserve.facts import Cause, Known, Missing
from canserve.subjects.build import Build, Identity, ModelClass, Transformers, Want

UNKNOWN = Missing(Cause.UNREACHED, "not part of this test")
DENIED = Missing(Cause.UNAVAILABLE, "permission denied")
REGISTRY = "vllm/model_executor/models/registry.py"

INTERFACES = """
    from typing import ClassVar, Literal, Protocol, runtime_checkable
    from vllm.utils import supports_kw

    @runtime_checkable
    class SupportsPP(Protocol):
        supports_pp: ClassVar[Literal[True]] = True
        def make_empty_intermediate_tensors(self): ...

    @runtime_checkable
    class _SupportsPPType(Protocol):
        supports_pp: Literal[True]
        def make_empty_intermediate_tensors(self): ...

    def supports_pp(model):
        forward = getattr(model, "forward", None)
        return isinstance(model, _SupportsPPType) and supports_kw(forward, "intermediate_tensors")
"""
TABLES = """
    from .interfaces import supports_pp

    _TEXT_GENERATION_MODELS = {
        "LlamaForCausalLM": ("llama", "LlamaForCausalLM"),
    }
    _MULTIMODAL_MODELS = {"SeeingModel": ("seeing", "Seeing")}
    _SPECULATIVE_DECODING_MODELS = {"EagleModel": ("eagle", "Eagle")}
    _PREVIOUSLY_SUPPORTED_MODELS = {"GoneModel": "0.9.1"}
    _OOT_SUPPORTED_MODELS = {"FarModel": "https://example.org/plugin"}
    _VLLM_MODELS = {**_TEXT_GENERATION_MODELS, **_MULTIMODAL_MODELS, **_SPECULATIVE_DECODING_MODELS}

    class _ModelInfo:
        @staticmethod
        def from_model_cls(model):
            return _ModelInfo(
                architecture=model.__name__,
                supports_pp=supports_pp(model),
                is_pooling_model=True,  # any model can be made one
                kinds=getattr(model, "kinds", ()),
            )
"""
LLAMA = """
    from transformers import LlamaConfig
    from torch import nn
    from .interfaces import SupportsPP

    class LlamaForCausalLM(nn.Module, SupportsPP):
        def forward(self, input_ids, positions, intermediate_tensors=None): ...
"""
BUILD: Mapping[str, str] = {
    REGISTRY: TABLES,
    "vllm/model_executor/models/interfaces.py": INTERFACES,
    "vllm/model_executor/models/__init__.py": "",
    "vllm/model_executor/models/llama.py": LLAMA,
    "vllm/model_executor/models/seeing.py": "class Seeing:\n    kinds = ('image', 'video')\n",
    "vllm/transformers_utils/config.py": "_CONFIG_REGISTRY = {}\nif x in _CONFIG_REGISTRY: ...\n",
    "vllm/utils.py": "def supports_kw(function, name): ...\n",
    "vllm/engine/arg_utils.py": "def add(parser):\n    parser.add_argument('--model')\n",
}


def sources(files: Mapping[str, str], holes: Sequence[Hole] = ()) -> Sources:
    """The files of a distribution, each dedented; ``__init__.py`` files need not be there."""

    def fetch(paths: Sequence[str]) -> Mapping[str, bytes | Missing]:
        return {path: dedent(files[path]).encode() for path in paths}

    return Sources("vllm==9.9", files, fetch, holes)


def reading(files: Mapping[str, str], holes: Sequence[Hole] = ()) -> Reading:
    """What the parts of the reader take."""
    return Reading(sources(files, holes))


def built(
    files: Mapping[str, str] | None = None, want: Want | None = None, holes: Sequence[Hole] = ()
) -> Build:
    """A whole reading of the small build with some files added or replaced; everything unless said."""
    identity = Identity("vllm==9.9", "vllm", Known("9.9"), "test", *(UNKNOWN,) * 3, Known(("ray>=2",)))
    transformers = Transformers(UNKNOWN, UNKNOWN, UNKNOWN)
    given = sources({**BUILD, **(files or {})}, holes)
    return VLLM().read(given, identity, transformers, want or Want.everything())


def model_class(build: Build, architecture: str) -> ModelClass:
    """A class that was resolved."""
    fact = build.classes[architecture]
    assert isinstance(fact, Known) and fact.value is not None, fact
    return fact.value
