"""Python's order of base classes (C3), for classes of which some lie outside what can be read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from canserve.engines.static.sites import ClassSite, External, Resolved, Unseen

MAX_CLASSES = 400
"""Longest order that is built; real model classes have under 40 bases."""


def linearize(
    site: ClassSite, bases: Sequence[Resolved], order_of: Callable[[ClassSite], list[Resolved]]
) -> list[Resolved]:
    """The class, then its bases in look-up order.

    Where the orders of the bases contradict each other (Python would refuse the class), or a class
    outside the package hides part of them, the first remaining base is taken.
    """
    rest = [list(order_of(base)) if isinstance(base, ClassSite) else [base] for base in bases]
    rest.append(list(bases))
    order: list[Resolved] = [site]
    while (rest := [chain for chain in rest if chain]) and len(order) < MAX_CLASSES:
        tails = {key(item) for chain in rest for item in chain[1:]}
        head = next((chain[0] for chain in rest if key(chain[0]) not in tails), rest[0][0])
        order.append(head)
        taken = key(head)
        rest = [[item for item in chain if key(item) != taken] for chain in rest]
    return order


def key(base: Resolved) -> object:
    """What makes two mentions of a base the same class."""
    if isinstance(base, ClassSite):
        return base
    return base.name if isinstance(base, External | Unseen) else id(base)
