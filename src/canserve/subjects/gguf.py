"""What a build says of GGUF files: the converter that makes them, and the tokenizers inside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from canserve.facts import Fact, Known
from canserve.subjects.site import Site


@dataclass(frozen=True, slots=True)
class Converted:
    """A class of the Hub that a build's own converter turns into GGUF."""

    architecture: str
    """As config.json names it."""
    name: str
    """The converter's class, or script."""
    part: str
    """What it makes: ``text`` (the model) or ``mmproj`` (the projector beside it)."""
    gguf: str | None
    """The ``general.architecture`` it writes; None: a projector, or decided at run time."""
    at: Site


@dataclass(frozen=True, slots=True)
class Converter:
    """What a build that serves GGUF files turns into them."""

    classes: Mapping[str, Converted]
    projectors: Mapping[str, Converted]
    """Those of the classes for which it can make the multimodal projector too."""
    unnamed: tuple[Site, ...] = ()
    """Scripts beside it that take checkpoints without looking at their class: not all is listed then."""
    script: Site | None = None
    """What is started to convert; None: a script for each class."""
    quantizations: Mapping[str, Site] = field(default_factory=dict)
    """Methods of quantized checkpoints that it takes apart, whatever the class."""


NO_CONVERTER: Fact[Converter | None] = Known(None)


@dataclass(frozen=True, slots=True)
class GgufVocabularies:
    """Which tokenizers inside GGUF files a build knows."""

    models: Mapping[str, Site]
    """Values of ``tokenizer.ggml.model``: ``llama``, ``gpt2`` ..."""
    splits: Mapping[str, Site] | None
    """Values of ``tokenizer.ggml.pre``: how text is split before it; None: the build does not look at it."""
    split_models: tuple[str, ...] = ()
    """Of the models those that need one of ``splits``."""
