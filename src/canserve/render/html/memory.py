"""Where memory goes: a bar for each rank, with its figures as a list below, so that nothing hangs on a colour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from canserve.memory.quantity import Quantity
from canserve.memory.request import RankMemory
from canserve.render.figures import around, gib
from canserve.render.html.frame import text
from canserve.render.plan_memory import PARTS, ranks_name
from canserve.subjects.parallel import Rank

_KINDS = {"W": "w", "A": "a", "G": "g", "N": "o", "K": "k"}


def memory_bars(ranks: Sequence[Rank], memory: Sequence[RankMemory]) -> Iterator[str]:
    """Ranks that are alike share one bar."""
    groups: dict[RankMemory, list[Rank]] = {}
    for rank, part in zip(ranks, memory, strict=True):
        groups.setdefault(part, []).append(rank)
    for part, alike in groups.items():
        each = "each " if len(alike) > 1 else ""
        name = f"{ranks_name(alike)} {each}{gib(part.total.value)} GiB, of which the engine takes {gib(part.budget.value)}"
        pieces = list(_pieces(part))
        heard = "; ".join(f"{label} {said}" for _, label, said, _ in pieces)
        bar = "".join(
            f'<i class="{kind}" style="flex-grow:{size:.4f}"></i>' for kind, _, _, size in pieces if size > 0
        )
        key = "".join(
            f'<li><i class="{kind}" aria-hidden="true"></i>{text(label)} {text(said)}</li>'
            for kind, label, said, _ in pieces
        )
        yield (
            f'<div class="rank"><p class="name">{text(name)}</p>'
            f'<div class="memory" role="img" aria-label="{text(heard)}">{bar}</div><ul class="key">{key}</ul></div>'
        )


def _pieces(part: RankMemory) -> Iterator[tuple[str, str, str, float]]:
    """Class, name, figure and share of the whole."""
    whole, used = max(part.total.value, 1.0), 0.0
    for letter, label, field, _ in PARTS:
        figure: Quantity = getattr(part, field)
        used += max(figure.value, 0.0)
        if figure.high > 0 or field == "kv_available":
            yield _KINDS[letter], label, f"{around(figure, gib)} GiB", max(figure.value, 0.0) / whole
    left = max(part.total.value - used, 0.0)
    yield "l", "left", f"{gib(left)} GiB", left / whole
