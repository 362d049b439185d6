"""Bytes of recurrent state: one sequence, one layer, one rank.

Source of the shapes: vLLM 0.25.1, model_executor/layers/mamba/mamba_utils.py, ``MambaStateShapeCalculator``.
"""

from __future__ import annotations

from dataclasses import dataclass

from canserve.memory.layers.kinds import Recurrence, Recurrent
from canserve.memory.unserved import Unserved


@dataclass(frozen=True, slots=True)
class StateDtypes:
    """Bytes of an element of the convolution's and of the recurrent state."""

    conv: int
    state: int


def state_bytes(layer: Recurrent, ranks: int, dtypes: StateDtypes, drafted: int = 0) -> int:
    """The state of one sequence. ``drafted`` tokens ahead lengthen the convolution's window. Raises Unserved."""
    if (layer.heads and layer.heads % ranks) or _channels(layer, ranks) % ranks:
        raise Unserved(f"{layer.heads} heads of recurrent state cannot be cut for {ranks} ranks")
    ahead = drafted if layer.kind in {Recurrence.GDN, Recurrence.MAMBA2} else 0
    kept = layer.conv_kernel - 1 + ahead if layer.conv_kernel else 0
    conv = _channels(layer, ranks) // ranks * kept * dtypes.conv
    return conv + layer.heads // ranks * layer.head_dim * layer.state_dim * dtypes.state


def _channels(layer: Recurrent, ranks: int) -> int:
    """Mamba 2 repeats whole groups where the ranks do not divide them."""
    if layer.kind is not Recurrence.MAMBA2 or layer.key_heads % ranks == 0:
        return layer.conv_channels
    return layer.conv_channels + 2 * (ranks - layer.key_heads) * layer.state_dim
