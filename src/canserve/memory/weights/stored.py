"""The tensors of a model: what its headers list, else what its config implies; and where the two disagree."""

from __future__ import annotations

from canserve.facts import Cause, Fact, Known, Missing
from canserve.memory.weights.implied import implied
from canserve.subjects.model import Model
from canserve.subjects.tensor import Tensor


def stored(model: Model) -> Fact[tuple[Tensor, ...]]:
    """What the headers list. Missing: none were read, or they list nothing."""
    match model.tensors:
        case Known(tensors, evidence) if not tensors:
            return Missing(Cause.UNAVAILABLE, "the headers of the weights list no tensors", evidence)
        case fact:
            return fact


def tensors_of(model: Model, towers: bool = True) -> Fact[tuple[Tensor, ...]]:
    """The tensors to reckon with: headers win over the config, which is asked where there are none.

    Without ``towers`` a config need not describe them.
    """
    found = stored(model)
    if isinstance(found, Known):
        return found
    return implied(model, towers)
