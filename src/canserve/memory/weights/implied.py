"""The exact parameter list that a config implies, under the names of published checkpoints."""

from __future__ import annotations

from canserve.facts import Cause, Fact, Known, Missing
from canserve.subjects.model import Model
from canserve.subjects.tensor import Tensor


def implied(model: Model) -> Fact[tuple[Tensor, ...]]:
    """Every tensor of a checkpoint with this config: names, shapes, dtypes, quantized as it says.

    Missing names the number that the config lacks, or the model type whose parameter list is not known: such a
    model is never taken for another one.
    """
    match model.config:
        case Missing():
            return model.config
        case Known():
            return Missing(Cause.UNAVAILABLE, "the parameter list of this model type is not known")
