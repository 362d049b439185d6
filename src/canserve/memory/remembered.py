"""Answers about one model that many layouts ask for again: worked out once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from canserve.subjects.model import Model

P = ParamSpec("P")
T = TypeVar("T")

KEPT = 16
"""Answers of one function that are kept, the latest ones."""


def per_model(function: Callable[Concatenate[Model, P], T]) -> Callable[Concatenate[Model, P], T]:
    """Remember what a pure function says of a model, which is told from others by identity.

    A model holds mappings and has no hash; it is kept with the answer, so that no other can take its place.
    The further arguments have a hash.
    """
    kept: dict[tuple[object, ...], tuple[Model, T]] = {}

    @wraps(function)
    def remembered(model: Model, /, *args: P.args, **more: P.kwargs) -> T:
        key = (id(model), args, tuple(more.items()))
        if key in kept:
            return kept[key][1]
        answer = function(model, *args, **more)
        if len(kept) >= KEPT:
            del kept[next(iter(kept))]
        kept[key] = (model, answer)
        return answer

    return remembered
