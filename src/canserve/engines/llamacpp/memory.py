"""llama.cpp's memory: weights, a cache for the whole context, state of every sequence, one compute buffer.

Nothing is paged or profiled: it allocates, and fails where that does not fit. Several accelerators get whole layers.
Source: llama.cpp as llama-cpp-python 0.3.36 carries it, src/llama-kv-cache.cpp and src/llama-kv-cache-iswa.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from canserve.engines.by_release import by_release
from canserve.facts import Fact, Known
from canserve.memory.cache.state import StateDtypes, state_bytes
from canserve.memory.fields import Lacking
from canserve.memory.layers import layers
from canserve.memory.layers.kinds import Attention, Compressed, Dense, Experts, Latent, Layer, Recurrent, Span
from canserve.memory.options import BadOption, Options
from canserve.memory.overhead import free_at_start, total_memory
from canserve.memory.quantity import GIB, Quantity
from canserve.memory.request import RankMemory, Request, Serving
from canserve.memory.unserved import Unserved
from canserve.rules.memory import Rules

TYPES = {
    "f32": (1, 4), "f16": (1, 2), "bf16": (1, 2), "q8_0": (32, 34), "q5_1": (32, 24), "q5_0": (32, 22),
    "q4_1": (32, 20), "q4_0": (32, 18), "iq4_nl": (32, 18),
}  # fmt: skip
"""Elements and bytes of a block, by cache type. Source: ggml/src/ggml.c, ``type_traits``."""
CELLS = 256
"""The context is rounded up to a multiple of this."""
SHOWN = ("context", "parallel", "windows", "latent_values")


@dataclass(frozen=True, slots=True)
class Start:
    """One start: the cache it allocates and what its buffers depend on."""

    rules: Rules
    request: Request
    layers: tuple[Layer, ...]
    hidden: int
    vocabulary: int
    cells: int
    """Of the context, all sequences together."""
    sequences: int
    shared: bool
    batch: int
    """Tokens of one physical batch."""
    key: tuple[int, int]
    value: tuple[int, int]
    windows: str
    flash: bool
    model_length: int


def holds(request: Request, weights: Sequence[Quantity]) -> Fact[Serving]:
    """What this release can hold. ``weights``: bytes a rank, in the order of the placement's ranks."""
    return by_release(
        "llama.cpp",
        request,
        layers(request.model),
        lambda read, found: _serving(_start(request, read, found), weights),
        SHOWN,
    )


def _start(request: Request, read: tuple[Layer, ...], found: Rules) -> Start:
    options = Options(request.options)
    model = request.model
    own = model.max_positions.value if isinstance(model.max_positions, Known) else None
    default = found.value("parallel")
    sequences = options.number("parallel", "n_parallel")
    asked = options.get("ctx_size", "n_ctx")
    length = None if asked in {None, 0, "0"} else options.number("ctx_size", "n_ctx")
    if length is None:
        length = found.value("context") or own
    if length is None:
        raise Lacking("context_length")
    shared = options.flag("kv_unified", sequences is None and default["shared"])
    return Start(
        rules=found,
        request=request,
        layers=read,
        hidden=_number(request, "embedding_length", "hidden_size"),
        vocabulary=_vocabulary(request),
        cells=-(-length // CELLS) * CELLS,
        sequences=sequences or default["sequences"],
        shared=shared,
        batch=min(options.number("ubatch_size", "n_ubatch", default=512) or 512, length),
        key=_type(options, "cache_type_k"),
        value=_type(options, "cache_type_v"),
        windows="full" if options.flag("swa_full") else found.value("windows"),
        flash=_flash(options, found),
        model_length=own or length,
    )


def _type(options: Options, name: str) -> tuple[int, int]:
    text = options.text(name, "f16").lower()
    if text not in TYPES:
        raise BadOption(name, text, f"one of {', '.join(TYPES)}")
    return TYPES[text]


def _flash(options: Options, found: Rules) -> bool:
    text = options.get("flash_attn")
    if text in {None, "auto"}:
        return bool(found.value("flash"))
    return options.flag("flash_attn")


def _number(request: Request, gguf: str, config: str) -> int:
    model = request.model
    if isinstance(model.gguf_metadata, Known) and model.gguf_metadata.value is not None:
        name = model.gguf_architecture.value if isinstance(model.gguf_architecture, Known) else None
        value = model.gguf_metadata.value.get(f"{name}.{gguf}")
    else:
        text = model.config.value if isinstance(model.config, Known) else {}
        value = text.get(config, text.get("text_config", {}).get(config))
    if type(value) is not int:
        raise Lacking(gguf, value)
    return value


def _vocabulary(request: Request) -> int:
    """From the header or, where it does not say, from the embedding's shape."""
    try:
        return _number(request, "vocab_size", "vocab_size")
    except Lacking:
        tensors = request.model.tensors
        if isinstance(tensors, Known):
            for tensor in tensors.value:
                if tensor.name == "token_embd.weight" and len(tensor.shape) == 2:
                    return max(tensor.shape)
        raise


def _serving(start: Start, weights: Sequence[Quantity]) -> Serving:
    ranks = start.request.placement.ranks
    owned = _owned(start, len(ranks))
    made = [_rank(start, at, owned[at], weights[at]) for at in range(len(ranks))]
    rows = [sum(_row(layer, start) for layer in own) for own in owned]
    fixed = [_fixed(own, start) for own in owned]

    def longest(end: str) -> float:
        room = [getattr(rank.kv_available, end) - fixed[at] for at, rank in enumerate(made)]
        most = min((have // row for have, row in zip(room, rows, strict=True) if row), default=0)
        return float(max(most // CELLS * CELLS, 0))

    most = Quantity(longest("value"), longest("low"), longest("high"), "cells that the memory left holds")
    per = start.cells if start.shared else start.cells // start.sequences
    needed = [rows[at] * start.cells + fixed[at] for at in range(len(ranks))]
    left = [rank.kv_available.minus(Quantity.exact(needed[at], "the cache")) for at, rank in enumerate(made)]
    return Serving(
        ranks=tuple(made),
        kv_bytes_per_token=max(rows),
        state_bytes_per_sequence=max(fixed) // start.sequences,
        block=CELLS,
        kv_tokens=Quantity.exact(start.cells, "cells of the cache, as asked for"),
        context=per,
        max_context=_at_most(most, start.model_length),
        max_concurrency=most.times(1 / per, f"sequences of {per} tokens"),
        starts=min(left, key=lambda each: each.value),
        notes=(
            f"the cache is allocated for {start.cells} tokens and {start.sequences} sequences at the start",
        ),
        sequences=start.sequences,
        refuses=False,
    )


def _at_most(amount: Quantity, limit: float) -> Quantity:
    value, low, high = (min(end, limit) for end in (amount.value, amount.low, amount.high))
    return Quantity(value, low, high, amount.why)


def _owned(start: Start, count: int) -> list[tuple[Layer, ...]]:
    """Layers of every accelerator: by stages where there are any, else as evenly as can be."""
    sizes = start.request.placement.layers
    if len(sizes) != count:
        base, more = divmod(len(start.layers), count)
        sizes = tuple(base + (at < more) for at in range(count))
    out, first = [], 0
    for size in sizes:
        out.append(start.layers[first : first + size])
        first += size
    return out


def _row(layer: Layer, start: Start) -> int:
    """Bytes of one cell, of mixers whose cache grows with the context."""
    total = 0
    for mixer in layer.mixers:
        match mixer:
            case Attention(shares=None, span=span) as own if span is Span.FULL or start.windows == "full":
                total += _vectors(own, start)
            case Attention():
                continue
            case Latent(kv_rank=rank, rope_dim=rope):
                values = _bytes(rank, start.value) if start.rules.value("latent_values") else 0
                total += _bytes(rank + rope, start.key) + values
            case Recurrent():
                continue
            case Compressed():
                raise Unserved("what it keeps of a cache that is compressed along the sequence is not known")
    return total


def _vectors(own: Attention, start: Start) -> int:
    return _bytes(own.kv_heads * own.head_dim, start.key) + _bytes(own.kv_heads * own.v_head_dim, start.value)


def _bytes(elements: int, kind: tuple[int, int]) -> int:
    return -(-elements // kind[0]) * kind[1]


def _fixed(own: Sequence[Layer], start: Start) -> int:
    """Windows and recurrent state of all sequences."""
    total = 0
    for layer in own:
        for mixer in layer.mixers:
            if isinstance(mixer, Attention) and mixer.span is not Span.FULL and start.windows != "full":
                total += _window_cells(mixer.window or 0, start) * (
                    _vectors(mixer, start) if mixer.shares is None else 0
                )
            elif isinstance(mixer, Recurrent):
                total += start.sequences * state_bytes(mixer, 1, StateDtypes(4, 4))
    return total


def _window_cells(window: int, start: Start) -> int:
    streams = 1 if start.shared or start.windows == "window" else start.sequences
    held = window * (start.sequences if streams == 1 else 1) + start.batch
    cells = min(start.cells // streams, held)
    return streams * (-(-cells // CELLS) * CELLS if start.windows == "padded" else cells)


def _rank(start: Start, at: int, own: Sequence[Layer], weights: Quantity) -> RankMemory:
    device = start.request.devices[at]
    free = free_at_start(start.request.devices, start.request.placement, at)
    last = at == len(start.request.devices) - 1
    buffer = _buffer(start, own, last)
    return RankMemory(
        total=total_memory(device),
        budget=free.times(1, "what is free; it sets itself no limit"),
        weights=weights,
        activation=buffer,
        graphs=Quantity.exact(0, "counted in the compute buffer"),
        non_torch=Quantity(0.3 * GIB, 0.1 * GIB, 0.8 * GIB, "context and libraries"),
        kv_available=free.minus(weights)
        .minus(buffer)
        .minus(Quantity(0.3 * GIB, 0.1 * GIB, 0.8 * GIB, ""), "free - weights - compute buffer - context"),
        host=Quantity(8 * GIB, 4 * GIB, 16 * GIB, "left to the system") if device.unified else None,
    )


def _buffer(start: Start, own: Sequence[Layer], last: bool) -> Quantity:
    """One graph's intermediate results, in float32: logits of a physical batch, hidden states, the widest MLP."""
    width = max((_width(layer) for layer in own), default=0)
    value = 4.0 * start.batch * (6 * start.hidden + 2 * width + (start.vocabulary if last else 0))
    high = 2.0 * value + 0.3 * GIB
    if not start.flash:
        heads = max(
            (m.heads for layer in own for m in layer.mixers if isinstance(m, Attention | Latent)), default=0
        )
        high += 4.0 * start.batch * start.cells * heads
        value += 4.0 * start.batch * start.cells * heads
    why = f"a physical batch of {start.batch} tokens" + ("" if start.flash else ", with a matrix of scores")
    return Quantity(value, 0.5 * value, max(high, value), why)


def _width(layer: Layer) -> int:
    widths = [0]
    for mlp in layer.mlps:
        match mlp:
            case Dense(width=width):
                widths.append(width)
            case Experts(per_token=taken, width=width, shared_width=shared):
                widths.append(taken * width + shared)
    return max(widths)
