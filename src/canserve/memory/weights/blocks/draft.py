"""A parameter list in the making: linear layers, which a checkpoint may quantize, and everything else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

MAX_PARTS = 200_000
"""Longest list that is made; real models stay below 10 000."""


@dataclass(frozen=True, slots=True)
class Linear:
    """A matrix that multiplies activations."""

    name: str
    """Of the module: ``model.layers.3.self_attn.q_proj``; an expert's number is a star."""
    outputs: int
    inputs: int
    bias: bool = False
    copies: int = 1
    experts: int = 0
    """How many experts lie in it, stacked along a first dimension; 0: it is an ordinary matrix."""
    flipped: bool = False
    """Whether the stacked matrices are stored with inputs first."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A parameter that is never quantized: norms, embeddings, routers, states. ``name`` is its whole name."""

    name: str
    shape: tuple[int, ...]
    dtype: str | None = None
    """None: the model's own."""
    copies: int = 1


Part = Linear | Plain


class TooLong(Exception):  # noqa: N818 - the config's numbers are absurd, not the program
    """The list would be longer than any real model's."""


class Draft:
    """Collects parts under a growing prefix."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self._prefix = ""

    @contextmanager
    def under(self, name: str) -> Iterator[None]:
        """Everything added inside lies below this module."""
        before = self._prefix
        self._prefix = f"{before}{name}." if name else before
        try:
            yield
        finally:
            self._prefix = before

    def linear(self, name: str, outputs: int, inputs: int, bias: bool = False, *, copies: int = 1) -> None:
        """A matrix, and its bias."""
        self._add(Linear(self._prefix + name, outputs, inputs, bias, copies))

    def stacked(self, name: str, experts: int, outputs: int, inputs: int, *, flipped: bool = False) -> None:
        """The same matrix of all experts in one tensor, named without ``weight``."""
        self._add(Linear(self._prefix + name, outputs, inputs, experts=experts, flipped=flipped))

    def plain(self, name: str, *shape: int, dtype: str | None = None, copies: int = 1) -> None:
        """Any other parameter."""
        self._add(Plain(self._prefix + name, shape, dtype, copies))

    def norm(self, name: str, width: int, bias: bool = False) -> None:
        """A norm's weight, and its bias."""
        self.plain(f"{name}.weight", width)
        if bias:
            self.plain(f"{name}.bias", width)

    def _add(self, part: Part) -> None:
        if len(self.parts) >= MAX_PARTS:
            raise TooLong
        self.parts.append(part)
