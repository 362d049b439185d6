"""What an engine's memory rules are asked, and what they answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from canserve.memory.quantity import Quantity
from canserve.subjects.model import Model
from canserve.subjects.parallel import Device, Placement


@dataclass(frozen=True, slots=True)
class Request:
    """One model on one layout with one release of an engine. Everything that changes memory."""

    model: Model
    version: str
    """Of the engine: ``0.25.1``."""
    placement: Placement
    devices: tuple[Device, ...]
    """One a rank, in the order of ``placement.ranks``."""
    options: Mapping[str, object] = field(default_factory=dict)
    """Engine options under the engine's own names, dashes as underscores: ``gpu_memory_utilization``,
    ``max_model_len``, ``max_num_seqs``, ``kv_cache_dtype``, ``enforce_eager``, ``mem_fraction_static`` ..."""
    server: bool = True
    """Whether the OpenAI-compatible server is started (batch defaults differ from the offline class)."""


@dataclass(frozen=True, slots=True)
class RankMemory:
    """Where one rank's memory goes, in bytes."""

    total: Quantity
    """The device's, as CUDA reports it."""
    budget: Quantity
    """What the engine lets itself use of it."""
    weights: Quantity
    activation: Quantity
    graphs: Quantity
    non_torch: Quantity
    """CUDA context, NCCL buffers, other allocations outside torch's."""
    kv_available: Quantity
    """For KV cache and recurrent state together; negative where the weights alone are too much."""
    load_peak: Quantity | None = None
    """The highest use while loading, where it exceeds the steady use."""
    host: Quantity | None = None
    """Host memory beside it; on unified memory the reserve that the system needs."""


@dataclass(frozen=True, slots=True)
class Serving:
    """What a deployment can hold."""

    ranks: tuple[RankMemory, ...]
    """In the order of ``placement.ranks``."""
    kv_bytes_per_token: int
    """Of all layers on the rank with the most, at the full cost of a token (``bytes of a block * layers /
    block size``); layers whose state does not grow with the context are not counted."""
    state_bytes_per_sequence: int
    """Recurrent state and the bounded part of sliding windows of one sequence, on that rank."""
    block: int
    """Tokens of one block of the KV cache."""
    kv_tokens: Quantity
    """As this release prints it (``GPU KV cache size``, ``max_total_num_tokens``)."""
    context: int
    """Tokens of the longest sequence it is started with (``max_model_len``)."""
    max_context: Quantity
    """The longest context of one sequence that the cache could hold, at most what the model allows."""
    max_concurrency: Quantity
    """Sequences of ``context`` tokens at once, as this release prints it."""
    starts: Quantity
    """The budget's reserve: how many bytes free memory exceeds (negative: falls short of) what the engine
    demands at start; where its low end is below zero the start is not certain."""
    notes: tuple[str, ...] = ()
    sequences: int = 0
    """The most sequences it lets run at once (``max_num_seqs``); 0: not stated."""
    state_slots: Quantity | None = None
    """Sequences whose recurrent state the pool has room for, where the release refuses to start with fewer of them
    than ``sequences``; None: it does not look, or the model keeps no such state."""
    refuses: bool = True
    """Whether the release refuses to start when one sequence of ``context`` tokens does not fit; False: it starts
    and serves what fits."""
