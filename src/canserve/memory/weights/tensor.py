"""The tensor type, under its place among the weights."""

from canserve.subjects.tensor import BITS, Tensor

__all__ = ["BITS", "Tensor"]
