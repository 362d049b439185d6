"""The degrees of parallelism that engine flags ask for."""

from __future__ import annotations

from collections.abc import Mapping

from canserve.checks.case import Wish
from canserve.checks.wish import normalized
from canserve.subjects.parallel import Parallel

TENSOR = ("--tensor-parallel-size", "-tp", "--tp-size", "--tp")
PIPELINE = ("--pipeline-parallel-size", "-pp", "--pp-size", "--pp")
DATA = ("--data-parallel-size", "-dp", "--dp-size", "--dp")
EXPERTS = ("--expert-parallel-size", "--ep-size", "--ep")
SPREAD = ("--enable-expert-parallel", "-ep")
ATTENTION = "--enable-dp-attention"
"""With it the tensor parallel size counts all ranks, and attention is cut over those of one replica only."""
WHOLE_ENCODER = {"--mm-encoder-tp-mode": ("data",), "--mm-enable-dp-encoder": (None, "true")}
NO_TOWERS = ("--language-model-only",)


def degrees(wish: Wish) -> Parallel | None:
    """What the flags ask for; None: they ask for no parallelism, or for one that degrees do not describe.

    Raises ValueError for a size that is none.
    """
    flags = {normalized(flag): value for flag, value in wish.flags.items()}
    sizes = [_size(flags, names) for names in (TENSOR, PIPELINE, DATA, EXPERTS)]
    spread = any(name in flags for name in SPREAD)
    if all(size is None for size in sizes) and not spread:
        return None
    tp, pp, dp, ep = (size or 1 for size in sizes)
    if ATTENTION in flags:
        if dp == 1 or tp % dp or ep != tp:
            return None
        tp //= dp
    return Parallel(tp, pp, dp, tp * dp if spread else ep)


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
