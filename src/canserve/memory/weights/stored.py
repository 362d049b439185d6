"""The tensors of a model: what its headers list, else what its config implies; and where the two disagree."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.memory.remembered import per_model
from canserve.memory.weights.cuts import Place, layers_ahead, spot
from canserve.memory.weights.implied import implied
from canserve.memory.weights.loading import loading
from canserve.subjects.model import Model
from canserve.subjects.tensor import Tensor

PLAIN = frozenset({"F64", "F32", "BF16", "F16"})
"""Dtypes of parameters that are not quantized."""


def stored(model: Model) -> Fact[tuple[Tensor, ...]]:
    """What the headers list. Missing: none were read, or they list nothing."""
    match model.tensors:
        case Known(tensors, evidence) if not tensors:
            return Missing(Cause.UNAVAILABLE, "the headers of the weights list no tensors", evidence)
        case fact:
            return fact


@per_model
def tensors_of(model: Model, towers: bool = True) -> Fact[tuple[Tensor, ...]]:
    """The tensors to reckon with: headers win over the config, which is asked where there are none.

    Without ``towers`` a config need not describe them. Where headers and config contradict each other, the
    evidence says so.
    """
    found = stored(model)
    if isinstance(found, Missing):
        meant = implied(model, towers)
        if isinstance(meant, Missing):
            return meant
        look = Evidence(model.subject, "headers of the weights", f"none to go by: {found.why}", whole=False)
        return Known(meant.value, (*meant.evidence, look))
    looks = tuple(
        Evidence(model.subject, "config.json against headers", note) for note in contradictions(model)
    )
    return Known(found.value, found.evidence + looks)


@per_model
def contradictions(model: Model) -> tuple[str, ...]:
    """Where the headers do not hold what the config implies, in words; empty where nothing can be compared."""
    found, meant = stored(model), implied(model)
    if isinstance(found, Missing) or isinstance(meant, Missing):
        return ()
    return _compared(found.value, meant.value, loading(model).depth)


@lru_cache(maxsize=32)
def _compared(found: tuple[Tensor, ...], meant: tuple[Tensor, ...], depth: int | None) -> tuple[str, ...]:
    headers, config = {each.name: each for each in found}, {each.name: each for each in meant}
    both = [name for name in headers if name in config]
    notes = [
        _differ(both, "shape", {n: _shapes(headers[n].shape, config[n].shape) for n in both}),
        _differ(both, "copies", {n: (str(headers[n].copies), str(config[n].copies)) for n in both}),
        _differ(both, "dtype", {n: _kinds(headers[n], config[n]) for n in both}),
        _layers(headers, depth) if both else None,
    ]
    return tuple(note for note in notes if note is not None)


def _differ(names: Sequence[str], what: str, values: dict[str, tuple[str, str]]) -> str | None:
    """The first difference, and how many there are."""
    different = [name for name in names if values[name][0] != values[name][1]]
    if not different:
        return None
    name = different[0]
    more = f", and {len(different) - 1} more" if len(different) > 1 else ""
    return f"{name}: {what} {values[name][0]} in the headers, {values[name][1]} by the config{more}"


def _shapes(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[str, str]:
    """Two shapes; the order of dimensions, and those of one, are a matter of taste."""
    alike = sorted(size for size in one if size != 1) == sorted(size for size in other if size != 1)
    return ("alike", "alike") if alike else (_shape(one), _shape(other))


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def _kinds(one: Tensor, other: Tensor) -> tuple[str, str]:
    """Their dtypes; floating ones that are not quantized count as alike."""
    return ("plain", "plain") if {one.dtype, other.dtype} <= PLAIN else (one.dtype, other.dtype)


def _layers(headers: dict[str, Tensor], depth: int | None) -> str | None:
    """Layers in the headers beyond or below what the config says; layers that predict ahead may follow."""
    ahead = layers_ahead(headers)
    places = [spot(name, ahead) for name in headers]
    numbers = {found.layer for found in places if found.place is Place.LAYER}
    if depth is None or numbers == set(range(depth)):
        return None
    return f"layers: {len(numbers)} in the headers, {depth} by the config"
