"""How layers of several kinds share one pool of blocks.

Every block of the pool serves one group of layers; all groups draw from the same pool, so a block of each group has
the same bytes. Source: vLLM 0.19.0, v1/core/kv_cache_utils.py, ``get_kv_cache_groups``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from canserve.memory.cache.spec import Spec
from canserve.memory.unserved import Unserved


class Unequal(Unserved):
    """Pages of different sizes that this release cannot bring together."""


class Pages(StrEnum):
    """What a release does about layers whose pages differ."""

    EQUAL = "equal"
    """Refuses."""
    MULTIPLE = "multiple"
    """Lengthens the blocks of the smaller ones, where the sizes divide."""
    PADDED = "padded"
    """Pads the smaller ones where they do not."""


@dataclass(frozen=True, slots=True)
class Group:
    """Layers that share one block table."""

    spec: Spec
    """What each keeps; of layers that differ in bytes alone, the first one's, with the bytes of all in ``page``."""
    layers: tuple[int, ...]
    """Their places in the list of specs."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """All groups of a model, and how much a block takes on each stage."""

    groups: tuple[Group, ...]
    stage_bytes: tuple[int, ...]
    """Bytes of one block of the pool, by pipeline stage; 0: no layer of this stage keeps anything."""
    unlike: bool = False
    """Whether it is one group of layers that differ in bytes alone."""
    overlaid: bool = False
    """Whether groups of different bytes lie over one another in a block; each group's page is then its own bytes."""

    @property
    def block(self) -> int:
        """The smallest block, in tokens."""
        return min(group.spec.block for group in self.groups)


def group(stages: Sequence[Sequence[Spec]], factor: float, pages: Pages) -> Grouping | None:
    """The groups of a model whose layers lie on these stages; None: nothing is kept at all.

    ``factor``: where the commonest kind has less than that many times as many layers as the rarest, groups are as
    large as the commonest; 0: never. Raises Unequal.
    """
    specs = [spec for stage in stages for spec in stage]
    if not specs:
        return None
    if len({kind(spec) for spec in specs}) == 1:
        return _single(stages)
    specs = unify(specs, pages)
    kinds: dict[Spec, list[int]] = {}
    for at, spec in enumerate(specs):
        kinds.setdefault(spec, []).append(at)
    size = _group_size([len(layers) for layers in kinds.values()], factor)
    groups = []
    for spec, layers in kinds.items():
        count = -(-len(layers) // size)
        groups += [Group(spec, tuple(layers[first::count])) for first in range(count)]
    return Grouping(tuple(groups), _stage_bytes(stages, groups, specs[0].page))


def kind(spec: Spec) -> tuple[object, ...]:
    """Layers alike in this need the same blocks, whatever their bytes."""
    return (spec.growth, spec.block, spec.window, spec.states)


def _single(stages: Sequence[Sequence[Spec]]) -> Grouping:
    specs = [spec for stage in stages for spec in stage]
    whole = Group(specs[0], tuple(range(len(specs))))
    unlike = len({spec.page for spec in specs}) > 1
    return Grouping((whole,), tuple(sum(spec.page for spec in stage) for stage in stages), unlike)


def _group_size(counts: Sequence[int], factor: float) -> int:
    return max(counts) if max(counts) < min(counts) * factor else min(counts)


def _stage_bytes(stages: Sequence[Sequence[Spec]], groups: Sequence[Group], page: int) -> tuple[int, ...]:
    """A stage's pool has as many layers as its largest group."""
    out, first = [], 0
    for stage in stages:
        own = range(first, first + len(stage))
        out.append(page * max(sum(at in own for at in each.layers) for each in groups))
        first += len(stage)
    return tuple(out)


def unify(specs: Sequence[Spec], pages: Pages) -> list[Spec]:
    """The same layers with pages of one size. Raises Unequal."""
    largest = max(spec.page for spec in specs)
    if all(spec.page == largest for spec in specs):
        return list(specs)
    growing = {spec.page for spec in specs if not spec.recurrent}
    if pages is Pages.EQUAL and len(growing) > 1:
        raise Unequal(
            f"cannot keep in one pool layers with blocks of {min(growing)} and of {max(growing)} bytes"
        )
    return [_unified(spec, largest, pages) for spec in specs]


def _unified(spec: Spec, largest: int, pages: Pages) -> Spec:
    if not spec.recurrent and largest % spec.page == 0:
        return spec.longer(largest // spec.page)
    if pages is Pages.PADDED or spec.recurrent:
        return replace(spec, page=largest)
    raise Unequal(
        f"cannot keep in one pool layers whose blocks differ: one of {spec.page} bytes does not divide {largest}"
    )
