"""Quantities: parse and print them. Bytes, rates, dtypes and compute capabilities are types, not ints."""

from __future__ import annotations

import re
from dataclasses import dataclass

_STEP = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4, "p": 1000**5,
         "ki": 1024, "mi": 1024**2, "gi": 1024**3, "ti": 1024**4}  # fmt: skip


@dataclass(frozen=True, slots=True, order=True)
class Bytes:
    """A number of bytes."""

    count: int

    def __str__(self) -> str:
        return decimal(self.count, "B")

    @classmethod
    def parse(cls, text: str) -> Bytes:
        """``141 GB``, ``121GiB``, ``512`` -> bytes. Raises ValueError on anything else."""
        match = re.fullmatch(r"\s*([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([kmgt]i?)?b?\s*", text, re.IGNORECASE)
        if match is None:
            raise ValueError(f"not a number of bytes: {text!r} (write 141 GB or 121 GiB)")
        return cls(round(float(match[1]) * _STEP[(match[2] or "").lower()]))


@dataclass(frozen=True, slots=True, order=True)
class Rate:
    """Bytes a second."""

    per_second: int

    def __str__(self) -> str:
        return f"{decimal(self.per_second, 'B')}/s"


@dataclass(frozen=True, slots=True, order=True)
class Capability:
    """A CUDA compute capability, such as 12.1."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    @property
    def tenfold(self) -> int:
        """12.1 -> 121, the form engines compare."""
        return self.major * 10 + self.minor

    @classmethod
    def of(cls, tenfold: int) -> Capability:
        """121 -> 12.1."""
        return cls(*divmod(tenfold, 10))

    @classmethod
    def parse(cls, text: str) -> Capability:
        """``12.1`` or ``sm_121`` -> capability. Raises ValueError on anything else."""
        if match := re.fullmatch(r"(\d{1,2})\.(\d)", text):
            return cls(int(match[1]), int(match[2]))
        if match := re.fullmatch(r"sm_(\d{2,3})[af]?", text):
            return cls.of(int(match[1]))
        raise ValueError(f"not a compute capability: {text!r} (write 9.0 or sm_90)")


@dataclass(frozen=True, slots=True)
class Compute:
    """Multiplications and additions a second of dense matrix products, by the width of the numbers.

    None: no source says it, or the hardware has no such unit.
    """

    bf16: int | None = None
    """Of 16-bit numbers: FP16 where the hardware has no BF16."""
    fp8: int | None = None
    fp4: int | None = None

    def __str__(self) -> str:
        rates = (("BF16", self.bf16), ("FP8", self.fp8), ("FP4", self.fp4))
        return ", ".join(f"{name} {decimal(rate, 'FLOP/s')}" for name, rate in rates if rate is not None)

    @classmethod
    def parse(cls, text: str) -> Compute:
        """``BF16 989 TFLOP/s, FP8 1978 TFLOP/s`` -> compute. Raises ValueError on anything else."""
        rates: dict[str, int] = {}
        for part in text.split(","):
            match = re.fullmatch(
                r"\s*(BF16|FP8|FP4) ([0-9]{1,9}(?:\.[0-9]{1,6})?) ([GTP])FLOP/s\s*", part, re.IGNORECASE
            )
            if match is None or match[1].lower() in rates:
                raise ValueError(f"not a rate of computation: {text!r:.80} (write BF16 989 TFLOP/s)")
            rates[match[1].lower()] = round(float(match[2]) * _STEP[match[3].lower()])
        return cls(**rates)


def decimal(number: float, unit: str = "") -> str:
    """123_456_789 -> ``123 M``; three significant digits, SI steps."""
    for step, letter in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= step:
            return f"{number / step:.3g} {letter}{unit}"
    return f"{number:.3g} {unit}".rstrip()
