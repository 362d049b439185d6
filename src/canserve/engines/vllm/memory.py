"""vLLM's memory: from a request and the weights of every rank to the cache, as each release counts and prints it.

What differs between releases is in ``rules/memory_vllm.toml``; ``cache`` makes the layers' cache specs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from canserve.engines.by_release import by_release
from canserve.engines.vllm.batch import Start, read_start
from canserve.engines.vllm.cache import grouping
from canserve.facts import Fact
from canserve.memory.activation import Sampling, Work, activation
from canserve.memory.cache.capacity import Pool
from canserve.memory.cache.spec import Growth
from canserve.memory.graphs import graph_memory
from canserve.memory.layers.kinds import Latent
from canserve.memory.overhead import free_at_start, outside_torch, spread_groups, total_memory
from canserve.memory.quantity import GIB, Quantity
from canserve.memory.request import RankMemory, Request, Serving
from canserve.memory.unserved import Unserved
from canserve.subjects.parallel import Rank

FRAGMENTS = 2 * GIB
"""What torch may hold beyond what it uses once graphs are captured."""
NOTHING = Quantity.exact(0, "not taken")


def serving(request: Request, weights: Sequence[Quantity]) -> Fact[Serving]:
    """What this release can hold. ``weights``: bytes a rank, in the order of the placement's ranks.

    Missing: a number the config lacks, an option that is none, a release whose rules are not known, or layers
    that the release cannot keep together.
    """
    return by_release(
        "vllm",
        request,
        request.model.config,
        lambda config, found: _serving(read_start(request, config, found), weights),
        SHOWN,
    )


SHOWN = ("utilization", "used", "graphs", "grouping", "tokens", "batch")
"""The rules that decided most; they are the answer's evidence."""


def _serving(start: Start, weights: Sequence[Quantity]) -> Serving:
    ranks = _ranks(start, weights)
    stages = [start.stage(number) for number in range(start.placement.parallel.pp)]
    shared = grouping(stages, start.cache)
    first = {id(memory): at for at, memory in reversed(tuple(enumerate(ranks)))}
    starts = min((_starts(start, at, ranks[at]) for at in first.values()), key=lambda each: each.value)
    if shared is None:
        raise Unserved("no layer of this model keeps a cache")
    pool = Pool(
        shared,
        start.in_flight,
        start.shards,
        int(start.rules.value("null_block")),
        whole=start.rules.value("projected") == "no",
        by_bytes=start.rules.value("concurrency") == "bytes",
    )
    holding = _Holding(start, pool, ranks)
    return Serving(
        ranks=ranks,
        kv_bytes_per_token=holding.token_bytes(),
        state_bytes_per_sequence=holding.state_bytes(),
        block=shared.block,
        kv_tokens=holding.over(holding.tokens, "printed as GPU KV cache size: " + start.rules.why("tokens")),
        context=start.length,
        max_context=holding.over(
            lambda blocks: pool.longest(blocks, max(start.model_length, start.length)),
            "the longest sequence whose blocks the pool has",
        ),
        max_concurrency=holding.over(
            lambda blocks: pool.concurrency(blocks, start.length), f"sequences of {start.length} tokens"
        ),
        starts=starts,
        notes=start.notes,
        sequences=start.batch.sequences,
        state_slots=holding.over(float, "blocks of recurrent state") if _slots_matter(start) else None,
    )


def _slots_matter(start: Start) -> bool:
    return bool(start.rules.value("state_slots") and start.graph_sizes and start.model.recurrent)


@dataclass(frozen=True, slots=True)
class _Holding:
    """What the pool holds, for the low, the expected and the high figure of the memory for it."""

    start: Start
    pool: Pool
    ranks: tuple[RankMemory, ...]

    def over(self, count: Callable[[int], float], why: str) -> Quantity:
        """A count of the blocks, as an interval."""
        low, value, high = (count(self.blocks(end)) for end in ("low", "value", "high"))
        return Quantity(value, min(low, value), max(high, value), why)

    def blocks(self, end: str) -> int:
        """Blocks on every rank."""
        room: dict[int, float] = {}
        for rank, memory in zip(self.start.placement.ranks, self.ranks, strict=True):
            have = getattr(memory.kv_available, end)
            room[rank.pp] = min(have, room.get(rank.pp, have))
        return self.start.blocks or self.pool.blocks([room[stage] for stage in sorted(room)])

    def tokens(self, blocks: int) -> float:
        """As this release prints them."""
        groups = self.pool.grouping
        match self.start.rules.value("tokens"):
            case "concurrency":
                return int(self.pool.concurrency(blocks, self.start.length) * self.start.length)
            case "groups":
                return blocks // len(groups.groups) * groups.block * self.start.shards
            case _:
                return blocks * groups.block

    def token_bytes(self) -> int:
        """Of all layers that grow, on the stage with the most."""
        groups = self.pool.grouping
        if groups.overlaid:
            return sum(
                each.spec.page // each.spec.block for each in groups.groups if each.spec.growth is Growth.FULL
            )
        growing = [each.spec for each in groups.groups if each.spec.growth is not Growth.STATE]
        return max(sum(size // spec.block for spec in growing) for size in groups.stage_bytes)

    def state_bytes(self) -> int:
        """Of recurrent state and windows, on the stage with the most."""
        bounded = [
            each.spec
            for each in self.pool.grouping.groups
            if each.spec.growth not in {Growth.FULL, Growth.STATES}
        ]
        blocks = sum(spec.blocks(self.start.length, self.pool.in_flight) for spec in bounded)
        return max(self.pool.grouping.stage_bytes) * blocks


def _ranks(start: Start, weights: Sequence[Quantity]) -> tuple[RankMemory, ...]:
    """Every rank; those of one stage on like devices with like weights are worked out once."""
    spread = spread_groups(start.placement)
    done: dict[tuple[object, ...], RankMemory] = {}
    out = []
    for at, rank in enumerate(start.placement.ranks):
        apart = (rank.dp, rank.pp) in spread
        key = (rank.pp, id(start.devices[at]), weights[at], apart)
        if key not in done:
            outside = outside_torch(start.placement.parallel, start.devices[at], apart)
            done[key] = _rank(start, at, weights[at], outside)
        out.append(done[key])
    return tuple(out)


def _rank(start: Start, at: int, weights: Quantity, outside: Quantity) -> RankMemory:
    rank = start.placement.ranks[at]
    device = start.devices[at]
    total = total_memory(device)
    budget = total.times(start.utilization, f"{start.utilization:g} of it ({start.rules.why('utilization')})")
    used = activation(_work(start, rank), start.batch, _sampling(start))
    graphs = _graphs(start, rank)
    taken = weights.plus(used).plus(outside)
    if start.rules.value("graphs") == "subtracted":
        taken = taken.plus(graphs.estimate)
    if start.fixed_cache is not None:
        available = Quantity.exact(start.fixed_cache, "as the option kv_cache_memory_bytes says")
    else:
        available = budget.minus(taken, "budget - weights - activation - outside torch - graphs' estimate")
    return RankMemory(
        total=total,
        budget=budget,
        weights=weights,
        activation=used,
        graphs=graphs.actual,
        non_torch=outside,
        kv_available=available,
        host=Quantity(
            8 * GIB, 4 * GIB, 16 * GIB, "left to the system and to the page cache that weights stream through"
        )
        if device.unified
        else None,
    )


@dataclass(frozen=True, slots=True)
class _Graphs:
    actual: Quantity
    estimate: Quantity


def _graphs(start: Start, rank: Rank) -> _Graphs:
    layers = start.stage(rank.pp)
    latent = max((m.heads for layer in layers for m in layer.mixers if isinstance(m, Latent)), default=0)
    heads = latent / start.placement.parallel.tp
    actual = graph_memory(start.graph_sizes, len(layers), start.model.experts, heads)
    if start.second_runner and not start.rules.value("runner_graphs"):
        return _Graphs(actual, NOTHING)
    estimate = Quantity(actual.value * 0.85, 0, actual.high, f"estimated from two captures ({actual.why})")
    return _Graphs(actual, estimate if start.graph_sizes else NOTHING)


def _work(start: Start, rank: Rank) -> Work:
    work = Work.of(rank, start.placement, start.model)
    return replace(work, encoder=work.encoder and not start.text_only, context=_context(start))


def _context(start: Start) -> int:
    """Tokens of context that latent attention projects up at once; the start-up run allocates that much.

    Source: ``determine_chunked_prefill_workspace_size``: eight requests of full length, or four blocks a sequence
    if that is more, at most the rule's number, and at least a block a sequence.
    """
    most = int(start.rules.value("latent_context"))
    blocks = start.batch.sequences * (start.cache.block or start.cache.latent_block)
    return max(min(max(8 * start.length, 4 * blocks), most), blocks) if most else 0


def _sampling(start: Start) -> Sampling:
    if start.second_runner:
        return Sampling(1.6, 0.5, 2.6, "the second model runner skips top-k and top-p (0.25.1)")
    value, low, high = start.rules.value("sampling")
    return Sampling(value, low, high, f"{value:g} copies of the logits ({start.rules.why('sampling')})")


def _starts(start: Start, at: int, memory: RankMemory) -> Quantity:
    """What stays free beside the budget, less what is taken outside it before the first request.

    Graphs lie outside the budget where their estimate is not taken off; and torch holds more than it uses: of two
    starts of one model at 0.95 on H100s, with 1.6 and 0.4 GiB left after capture, both ran out (0.19.0).
    """
    free = free_at_start(start.devices, start.placement, at)
    if start.rules.value("start_check"):
        looked = start.devices[at].free is not None  # else both are reckoned from the device's total
        less = free.minus if looked else free.beside
        left = less(memory.budget, f"free memory less what it asks for ({start.rules.why('start_check')})")
    else:
        left = free.minus(
            memory.weights, "free memory less the weights; this release asks for nothing at start"
        )
    if start.rules.value("graphs") == "subtracted" or start.fixed_cache is not None:
        return left
    later = left.minus(memory.graphs, f"{left.why}, less graphs, which lie outside the budget")
    return Quantity(later.value, later.low - FRAGMENTS, max(later.high, later.value), later.why)
