"""CUDA graphs: how many are captured, and what they keep.

A graph keeps its own pool of buffers and the driver's record of every kernel. The figures are an interval around
what public start-up logs print: vLLM 0.19.0 on H100 (51 graphs), 0.25.1 on H200, 0.21.0 on GB10 (4 graphs).
"""

from __future__ import annotations

from canserve.memory.quantity import GIB, Quantity

MOST = 512
"""The largest batch that is captured by default."""


def capture_sizes(sequences: int, drafted: int = 0, most: int = MOST) -> int:
    """How many sizes are captured: 1, 2, 4, then steps of 8 up to 256 and of 16 beyond.

    ``drafted``: tokens predicted ahead of each sequence. Source: vLLM 0.19.0, config/vllm.py,
    ``_set_cudagraph_sizes``: the largest is twice the tokens of a full decode step, at most 512.
    """
    largest = min(2 * sequences * (1 + drafted), most)
    small = sum(size <= largest for size in (1, 2, 4))
    return small + max(min(largest, 255) // 8, 0) + (max(largest - 256, 0) // 16 + 1 if largest >= 256 else 0)


LATENT = (0.035, 0.067)
"""GiB that captured steps of latent attention keep for each of a rank's heads: expected, and at most. DeepSeek-V3 cut
to 9 layers kept 8.5 GiB at 128 heads and 4.3 at 64 (vLLM 0.25.1, H200), Kimi-VL 1.5 at 16 (0.19.0, H100)."""


def graph_memory(count: int, layers: int, experts: bool, latent_heads: float = 0) -> Quantity:
    """What that many captured sizes keep on one rank with that many layers.

    ``latent_heads``: of one layer on the rank, where attention is latent.
    """
    if not count:
        return Quantity.exact(0, "no graphs are captured")
    share = count / 51
    plain = 0.1 + share * (0.35 + 0.014 * layers + (0.2 if experts else 0))
    value = plain + share * LATENT[0] * latent_heads
    low, high = 0.25 * plain, 1.6 * plain + 0.6 + share * LATENT[1] * latent_heads
    return Quantity(
        value * GIB, low * GIB, high * GIB, f"{count} graph sizes of {layers} layers, from printed figures"
    )
