"""A figure is never a bare number: a value, the interval it lies in, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Quantity:
    """A figure with its interval: bytes, tokens, sequences or tokens a second, as its field says."""

    value: float
    low: float
    high: float
    why: str
    """One line: the formula or the measurement that it comes from."""

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"{self.low} <= {self.value} <= {self.high} does not hold ({self.why})")

    @classmethod
    def exact(cls, value: float, why: str) -> Quantity:
        """A figure that is computed, not estimated."""
        return cls(value, value, value, why)

    def plus(self, other: Quantity, why: str | None = None) -> Quantity:
        """The sum; the ends of the intervals add up, as errors of one release often share their sign."""
        return Quantity(
            self.value + other.value, self.low + other.low, self.high + other.high, why or self.why
        )

    def minus(self, other: Quantity, why: str | None = None) -> Quantity:
        """The difference; the widest interval that the two allow."""
        return Quantity(
            self.value - other.value, self.low - other.high, self.high - other.low, why or self.why
        )

    def beside(self, part: Quantity, why: str | None = None) -> Quantity:
        """What is left beside a part that was reckoned from this very figure: both are large, or both are small."""
        ends = sorted((self.low - part.low, self.high - part.high, self.value - part.value))
        return Quantity(self.value - part.value, ends[0], ends[-1], why or self.why)

    def times(self, factor: float, why: str | None = None) -> Quantity:
        """Scaled by a factor that is not negative."""
        return Quantity(self.value * factor, self.low * factor, self.high * factor, why or self.why)


def total(quantities: Iterable[Quantity], why: str) -> Quantity:
    """The sum of several."""
    out = Quantity.exact(0, why)
    for each in quantities:
        out = out.plus(each, why)
    return out
