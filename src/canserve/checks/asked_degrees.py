"""The degrees of parallelism that engine flags ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from canserve.checks.case import Wish
from canserve.checks.wish import normalized

if TYPE_CHECKING:
    from canserve.subjects.parallel import Parallel

TENSOR = ("--tensor-parallel-size", "-tp", "--tp-size", "--tp")
PIPELINE = ("--pipeline-parallel-size", "-pp", "--pp-size", "--pp")
DATA = ("--data-parallel-size", "-dp", "--dp-size", "--dp")
EXPERTS = ("--expert-parallel-size", "--ep-size", "--ep")
SPREAD = ("--enable-expert-parallel", "-ep")
OWN = ("--enable-ep-moe", "--enable-deepep-moe")
ATTENTION = "--enable-dp-attention"
EVERY = frozenset((*TENSOR, *PIPELINE, *DATA, *EXPERTS, *SPREAD, *OWN, ATTENTION))
"""With it the tensor parallel size counts all ranks, and attention is cut over those of one replica only."""
WHOLE_ENCODER = {"--mm-encoder-tp-mode": ("data",), "--mm-enable-dp-encoder": (None, "true")}
NO_TOWERS = ("--language-model-only",)


@dataclass(frozen=True, slots=True)
class Named:
    """Degrees as flags name them, in the engine's own terms; None: not named."""

    tp: int | None
    pp: int | None
    dp: int | None
    ep: int | None
    spread: bool
    """Whether experts are spread over all ranks, however many these are."""
    own: bool
    """Whether they are spread over the tensor parallel ranks."""
    attention: bool
    """Whether the tensor parallel size counts the ranks of all replicas."""

    @property
    def sizes(self) -> tuple[int | None, ...]:
        """tp, pp, dp."""
        return self.tp, self.pp, self.dp

    def filled(self) -> Parallel | None:
        """With 1 for what is not named, as engines do; None: degrees do not describe it."""
        tp, pp, dp = (size or 1 for size in self.sizes)
        ep = tp if self.own else self.ep or 1
        if self.attention and dp > 1:
            if tp % dp or ep != tp:
                return None
            tp //= dp
        from canserve.subjects.parallel import Parallel

        return Parallel(tp, pp, dp, tp * dp if self.spread else ep)


def named(wish: Wish) -> Named:
    """What the flags name. Raises ValueError for a size that is none."""
    flags = {normalized(flag): value for flag, value in wish.flags.items()}
    tp, pp, dp, ep = (_size(flags, names) for names in (TENSOR, PIPELINE, DATA, EXPERTS))
    spread, own, attention = (any(name in flags for name in names) for names in (SPREAD, OWN, (ATTENTION,)))
    return Named(tp, pp, dp, ep, spread, own, attention)


def degrees(wish: Wish) -> Parallel | None:
    """What the flags ask for; None: they ask for no parallelism, or for one that degrees do not describe.

    Raises ValueError for a size that is none.
    """
    found = named(wish)
    if found.ep is None and not any((*found.sizes, found.spread, found.own)):
        return None
    return found.filled()


def whole_encoder(wish: Wish) -> bool:
    """Whether the flags keep the vision encoder whole on every rank."""
    flags = {normalized(flag): value for flag, value in wish.flags.items()}
    return any(name in flags and flags[name] in values for name, values in WHOLE_ENCODER.items())


def no_towers(wish: Wish) -> bool:
    """Whether the flags leave vision and audio towers out."""
    return any(
        normalized(flag) in NO_TOWERS and value in (None, "true") for flag, value in wish.flags.items()
    )


def _size(flags: Mapping[str, str | None], names: tuple[str, ...]) -> int | None:
    name = next((name for name in names if name in flags), None)
    if name is None:
        return None
    value = flags[name]
    if value is None or not value.isdecimal() or not 1 <= int(value) <= 10**9:
        raise ValueError(f"{name} takes a number from 1, not {value!r}")
    return int(value)
