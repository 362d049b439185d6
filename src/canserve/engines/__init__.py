"""Engine readers: text of a build's files in, facts out. Engine names live here and in ``rules`` only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # whoever asks for the names alone loads none of it
    from canserve.engines.sources import Sources
    from canserve.facts import Fact
    from canserve.memory.quantity import Quantity
    from canserve.memory.request import Request, Serving
    from canserve.memory.weights.loading import Loading
    from canserve.subjects.build import Build, Identity, Transformers, Want


@dataclass(frozen=True, slots=True)
class Checkout:
    """How a source tree of an engine is told that is no Python package."""

    marks: tuple[str, ...]
    """Files, from its top; a folder that has one of them is such a tree."""
    carried: str
    """Where the Python package that brings the engine has that tree, from the folder the package lies in."""


class Engine(Protocol):
    """How to read one serving engine. An engine is one file or folder here and one entry of ``ENGINES``."""

    name: str
    """``vllm``; as users call it and as the release index lists it."""
    distribution: str
    """Its project on the package index; most often the same name."""
    package: str
    """Import package whose folder marks the engine in a tree."""

    @property
    def checkout(self) -> Checkout | None:
        """How its source tree is told where that is no Python package; None: it is one."""
        ...

    def first_files(self, sources: Sources, want: Want) -> Sequence[str]:
        """The files that a reading with this want certainly needs, fetched together up front."""
        ...

    def read(self, sources: Sources, identity: Identity, transformers: Transformers, want: Want) -> Build:
        """Read the build. Never raises on hostile or unknown input: what cannot be read is Missing."""
        ...

    def requirement(self, requires: Sequence[str], name: str) -> str | None:
        """The specifier under which a usual installation of this engine requires another package.

        ``requires`` are ``Requires-Dist`` lines; ``""``: any version, ``None``: not required. Most engines
        return ``requirements.requirement(requires, name)``; one that keeps its runtime in extras names them.
        """
        ...

    def loading(self, request: Request) -> Fact[Loading]:
        """How its options make it load the model; Missing where one of them holds nonsense."""
        ...

    def weights(self, request: Request) -> Fact[tuple[Quantity, ...]]:
        """Bytes of weights on every rank of the placement, as its options make it load the model."""
        ...

    def memory(self, request: Request, weights: Sequence[Quantity]) -> Fact[Serving]:
        """What one release can hold. ``weights``: bytes a rank, in the order of the placement's ranks."""
        ...


LIBRARIES = frozenset({"transformers"})
"""Engines that others bring along as their library: one of these counts only where there is no other."""


NAMES = ("vllm", "sglang", "lmdeploy", "tensorrt-llm", "llama.cpp", "transformers")
"""All engines, in the order in which they are tried on a tree; to be had without their readers."""


def engines() -> tuple[Engine, ...]:
    """The readers of all engines, in the order of ``NAMES``."""
    return tuple(engine for name in NAMES if (engine := engine_named(name)) is not None)


def engine_named(name: str) -> Engine | None:
    """The engine of that name, if there is one; the readers of the others are not loaded."""
    match name:
        case "vllm":
            from canserve.engines.vllm import VLLM

            return VLLM()
        case "sglang":
            from canserve.engines.sglang import SGLang

            return SGLang()
        case "lmdeploy":
            from canserve.engines.lmdeploy import LMDeploy

            return LMDeploy()
        case "tensorrt-llm":
            from canserve.engines.tensorrt_llm import TensorRTLLM

            return TensorRTLLM()
        case "llama.cpp":
            from canserve.engines.llamacpp import LlamaCpp

            return LlamaCpp()
        case "transformers":
            from canserve.engines.hf import HuggingFace

            return HuggingFace()
        case _:
            return None
