"""SGLang's memory: from a request and the weights of every rank to the tokens of its pool, by release.

The pool gets ``free before loading * mem_fraction_static - weights``; nothing is profiled. What the fraction leaves
must hold activations and graphs. What differs between releases is in ``rules/memory_sglang.toml``.
Source: sglang 0.5.12, model_executor/model_runner_kv_cache_mixin.py and pool_configurator.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from canserve.engines.by_release import by_release
from canserve.engines.sglang.compressed import RUNNING, Rings, Sizing
from canserve.engines.sglang.start import Start, read_start
from canserve.facts import Fact
from canserve.memory.activation import Batch, Sampling, Work, activation, stage_layers
from canserve.memory.cache.rows import attention_row, index_row, latent_row
from canserve.memory.cache.state import state_bytes
from canserve.memory.graphs import graph_memory
from canserve.memory.layers.kinds import Attention, Compressed, Latent, Layer, Recurrent, Span
from canserve.memory.overhead import free_at_start, taken_at_start, total_memory
from canserve.memory.quantity import GIB, Quantity
from canserve.memory.request import RankMemory, Request, Serving
from canserve.memory.unserved import Unserved
from canserve.subjects.parallel import Rank

SHOWN = ("fraction", "batch", "windows", "states", "sized")
STATES_A_SEQUENCE = 3
"""States kept for one running sequence while the prefix cache is on."""


def holds(request: Request, weights: Sequence[Quantity]) -> Fact[Serving]:
    """What this release can hold. ``weights``: bytes a rank, in the order of the placement's ranks.

    Missing: a number the config lacks, an option that is none, a release whose rules are not known.
    """
    return by_release(
        "sglang",
        request,
        request.model.config,
        lambda config, found: _serving(read_start(request, config, found), weights),
        SHOWN,
    )


@dataclass(frozen=True, slots=True)
class Cell:
    """What one token costs on a stage, and what one sequence keeps beside it."""

    full: float
    """Bytes of a token in all layers whose cache grows with the sequence."""
    window: float
    """Bytes of a token in all layers that have a pool of their own for a sliding window."""
    ratio: float
    """Tokens of that pool for one of the other."""
    state: int
    """Bytes of recurrent state of one sequence."""
    fixed: float = 0
    """Bytes that neither tokens nor recurrent state decide."""

    @property
    def bytes(self) -> float:
        """Of the pool, for one token that is printed. Without full layers the window's pool is what is printed."""
        return self.full + self.ratio * self.window if self.full else float(self.window)


def _serving(start: Start, weights: Sequence[Quantity]) -> Serving:
    done: dict[tuple[object, ...], RankMemory] = {}
    for at, rank in enumerate(start.placement.ranks):
        key = (rank.pp, id(start.devices[at]), weights[at])
        if key not in done:
            done[key] = _rank(start, at, rank, weights[at])
    ranks = tuple(
        done[rank.pp, id(start.devices[at]), weights[at]] for at, rank in enumerate(start.placement.ranks)
    )
    cells = [_cell(start, number) for number in range(start.placement.parallel.pp)]
    if not any(cell.bytes for cell in cells):
        raise Unserved("no layer of this model has a cache that grows")
    pool = _Pools(start, cells, ranks)
    widest = max(cells, key=lambda cell: cell.bytes)
    return Serving(
        ranks=ranks,
        kv_bytes_per_token=round(widest.bytes),
        state_bytes_per_sequence=max(cell.state for cell in cells),
        block=start.page,
        kv_tokens=pool.over(pool.tokens, "printed as max_total_num_tokens"),
        context=start.length,
        max_context=pool.over(
            lambda end: min(pool.tokens(end), start.model_length),
            "tokens of the pool, at most the model's own",
        ),
        max_concurrency=pool.over(
            pool.sequences, f"sequences of {start.length} tokens, at most those running"
        ),
        starts=min((_starts(start, rank) for rank in done.values()), key=lambda each: each.value),
        notes=_notes(start, ranks),
        refuses=False,
    )


@dataclass(frozen=True, slots=True)
class _Pools:
    """The pools for the low, the expected and the high figure of the memory for them."""

    start: Start
    cells: Sequence[Cell]
    ranks: Sequence[RankMemory]

    def over(self, count: Callable[[str], float], why: str) -> Quantity:
        """A count, as an interval."""
        low, value, high = (count(end) for end in ("low", "value", "high"))
        return Quantity(value, min(low, value), max(high, value), why)

    def tokens(self, end: str) -> float:
        """Tokens of the pool on every rank: those of the stage with the fewest, whole pages."""
        counts = []
        for rank, memory in zip(self.start.placement.ranks, self.ranks, strict=True):
            cell = self.cells[rank.pp]
            room = max(getattr(memory.kv_available, end), 0) - cell.fixed
            if cell.state:
                room -= self._states(rank.pp, room) * cell.state
            if cell.bytes:
                counts.append(int(max(room, 0) // cell.bytes))
        most = min(counts, default=0)
        if self.start.most_tokens is not None:
            most = min(most, self.start.most_tokens)
        return most // self.start.page * self.start.page

    def _states(self, stage: int, room: float) -> int:
        """Sequences whose state is kept."""
        cell = self.cells[stage]
        if self.start.states is not None:
            return self.start.states
        share = self.start.state_ratio / (1 + self.start.state_ratio)
        return int(room * share // cell.state)

    def sequences(self, end: str) -> float:
        """Sequences of the longest context at once."""
        tokens = self.tokens(end)
        running = float(self.start.running or min(max(tokens / self.start.length * 512, 2048), 4096))
        for rank, memory in zip(self.start.placement.ranks, self.ranks, strict=True):
            if self.cells[rank.pp].state:
                kept = self._states(rank.pp, max(getattr(memory.kv_available, end), 0))
                running = min(running, kept // (STATES_A_SEQUENCE if self.start.prefix_cache else 1))
        return min(tokens / self.start.length, running)


def _cell(start: Start, stage: int) -> Cell:
    own = stage_layers(start.model.layers, start.placement.layers, stage)
    if start.rings is not None:
        return _compressed(start, start.rings, own, last=stage == start.placement.parallel.pp - 1)
    if stage == start.placement.parallel.pp - 1:
        own += start.draft_layers
    full: float = 0
    window: float = 0
    state = 0
    for layer in own:
        one = _layer(start, layer)
        full, window, state = full + one.full, window + one.window, state + one.state
    return Cell(full, window, start.window_ratio, state)


def _layer(start: Start, layer: Layer) -> Cell:
    full: float = 0
    window: float = 0
    state = 0
    for mixer in layer.mixers:
        match mixer:
            case Attention(shares=None, span=span) as own:
                row = attention_row(own, start.attention_ranks, start.dtype)
                row += own.index_dim * 2
                apart = start.windows_apart and span is not Span.FULL
                full, window = (full, window + row) if apart else (full + row, window)
            case Attention():
                continue
            case Latent() as latent:
                full += latent_row(latent, start.dtype) + (
                    index_row(latent.index_dim) if latent.index_dim else 0
                )
            case Recurrent() as recurrent:
                state += state_bytes(recurrent, start.attention_ranks, start.state_dtypes)
            case Compressed():
                raise Unserved("compressed layers beside others")
    return Cell(full, window, 0, state)


def _compressed(start: Start, rings: Rings, own: Sequence[Layer], *, last: bool) -> Cell:
    """A stage of such layers. Those that draft have windows whether or not they are used."""
    layers = [*own, *(start.model.drafted() if last else ())]
    mixers = [mixer for layer in layers for mixer in layer.mixers if isinstance(mixer, Compressed)]
    running = max((start.running or RUNNING) * start.attention_ranks // start.placement.parallel.tp, 1)
    more = (len(layers) + 1) / len(layers) if rings.drafting else 1
    full, window = (more * sum(map(cost, mixers)) for cost in (rings.full, rings.window))
    fixed = float(sum(rings.of_sequence(mixer, running) for mixer in mixers))
    if rings.sizing is not Sizing.CAPPED or start.window_ratio_asked:
        return Cell(full, window, start.window_ratio, 0, fixed)
    tokens = rings.window_tokens(running, start.chunk, mixers[0].window, start.prefix_cache)
    return Cell(full, 0, 0, 0, fixed + tokens * window)


def _rank(start: Start, at: int, rank: Rank, weights: Quantity) -> RankMemory:
    device = start.devices[at]
    free = free_at_start(start.devices, start.placement, at)
    budget = free.times(
        start.fraction, f"{start.fraction:g} of what is free before loading ({start.why_fraction})"
    )
    available = budget.minus(weights, "budget - weights")
    if start.after_capture:
        later = budget.minus(weights).minus(_graphs(start, rank))
        low, high = later.low - 2 * GIB, later.high
        available = Quantity(
            later.value, min(low, later.value), max(high, later.value), "sized after capture"
        )
    if start.fixed_cache is not None:
        available = Quantity.exact(start.fixed_cache, "as given")
    return RankMemory(
        total=total_memory(device),
        budget=budget,
        weights=weights,
        activation=_activation(start, rank),
        graphs=_graphs(start, rank),
        non_torch=taken_at_start(device, start.placement)
        if device.free is None and not device.unified
        else Quantity.exact(0, "counted in what is free"),
        kv_available=available,
        host=Quantity(8 * GIB, 4 * GIB, 16 * GIB, "left to the system and to the page cache")
        if device.unified
        else None,
    )


def _starts(start: Start, memory: RankMemory) -> Quantity:
    """The pool must be above zero; and what the fraction leaves must hold the graphs and a forward pass."""
    left = memory.budget.low / start.fraction * (1 - start.fraction)
    short = left - memory.activation.low - memory.graphs.low
    room = memory.kv_available
    why = "the pool, or what the fraction leaves beside graphs and a forward pass"
    return Quantity(room.value, min(room.low, short, room.value), room.high, why)


def _activation(start: Start, rank: Rank) -> Quantity:
    work = Work.of(rank, start.placement, start.model)
    sampling = Sampling(2.5, 1.0, 4.0, "taken from what the fraction leaves")
    return activation(work, Batch(start.chunk, min(start.graph_batch, start.chunk)), sampling)


def _graphs(start: Start, rank: Rank) -> Quantity:
    layers = start.placement.layers[rank.pp]
    return graph_memory(start.graph_sizes, layers, start.model.experts)


def _notes(start: Start, ranks: Sequence[RankMemory]) -> tuple[str, ...]:
    notes: list[str] = list(start.notes)
    short = [
        rank
        for rank in ranks
        if rank.budget.value / start.fraction * (1 - start.fraction) < rank.activation.low + rank.graphs.low
    ]
    if short and not start.after_capture:
        notes.append(
            f"mem_fraction_static {start.fraction:g} leaves less than activations and graphs are likely to take"
        )
    return tuple(notes)
