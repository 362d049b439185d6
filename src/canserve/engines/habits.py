"""What engines do by themselves when they load a model; apart from what reckons with it, which loads much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from canserve.facts import Fact
    from canserve.memory.quantity import Quantity
    from canserve.memory.request import Request
    from canserve.memory.weights.loading import Loading


@dataclass(frozen=True, slots=True)
class Habits:
    """What an engine does by itself, and under which options it does otherwise."""

    engine: str
    """As its rules are listed by; empty: there are none."""
    across_replicas: bool
    """Whether experts are cut over all data-parallel replicas."""
    absorbs: bool
    """Whether latent attention keeps a second copy of its up-projection."""
    sections: int
    """How many times as long the table of a multimodal rotary embedding is."""
    text_only: tuple[str, ...]
    """Options that leave towers out."""
    whole_towers: tuple[tuple[str, str], ...]
    """Options, and their values, under which every rank holds whole towers."""
    draft: tuple[str, ...]
    """Options that name a way to speculate; ``mtp`` and the like load the layers that predict ahead."""
    pads: bool = False
    """Whether the table of padded experts describes its kernels."""
    online: tuple[str, ...] = ("fp8",)
    """Values of ``quantization`` that quantize an unquantized checkpoint while loading."""


PLAIN = Habits(
    engine="", across_replicas=False, absorbs=False, sections=1, text_only=(), whole_towers=(), draft=()
)
"""Of an engine of which nothing else is known than that it cuts as others do."""


class Habitual:
    """The part of an ``Engine`` that its habits decide."""

    habits = PLAIN

    def loading(self, request: Request) -> Fact[Loading]:
        """How it loads the model."""
        from canserve.engines.loaded import loading_of

        return loading_of(request, self.habits)

    def weights(self, request: Request) -> Fact[tuple[Quantity, ...]]:
        """Bytes of weights on every rank."""
        from canserve.engines.loaded import weights_of

        return weights_of(request, self.habits)
