"""What a template may spend: steps, and the size of every value it makes.

A chat template is a program written by a stranger. Each node costs a step and each value it makes costs
its size, so that neither a loop nor a doubling string nor a list of lists of lists can run away.
"""

from __future__ import annotations

from typing import Any

STEPS = 500_000
"""Steps for all conversations together; of 176 templates in use the longest takes 35 000."""
MAX_VALUE = 50_000
"""Largest weight of one value; one unit is one element or 64 characters."""
TOO_LARGE = "it makes a value larger than a check allows"
MAX_TEXT = 256 << 10
"""Longest string, in characters."""
MAX_BITS = 4096
"""Largest integer, in bits."""
MAX_WIDTH = 10_000
"""Largest width, count or precision that is handed to a formatting function."""

VIEWS: tuple[type[Any], ...] = (type({}.keys()), type({}.values()), type({}.items()))
"""What ``dict.keys()`` and its sisters give."""
CONTAINERS: tuple[type[Any], ...] = (list, tuple, set, frozenset, dict, *VIEWS)
"""Values that are weighed with what is in them; generators make theirs one by one."""


class BudgetExceeded(Exception):  # noqa: N818 - not an error of the template: we stopped looking
    """The template wants more work or space than a check gives it."""


class Unsupported(Exception):  # noqa: N818 - not an error of the template: our interpreter has a limit
    """The template uses something that this interpreter does not do."""


class Budget:
    """Steps that are left. One budget is shared by all renderings of one template."""

    def __init__(self, steps: int = STEPS) -> None:
        self.left = steps

    def spend(self, steps: int = 1) -> None:
        """Take steps away. Raises BudgetExceeded when none are left."""
        self.left -= steps
        if self.left < 0:
            raise BudgetExceeded("it takes more steps than a check allows")

    def made(self, *values: object) -> None:
        """Pay for values by their weight. Raises BudgetExceeded when one is too large."""
        for value in values:
            self.spend(weight(value))


def fits(characters: int) -> None:
    """Refuse, before it is made, a text of this many characters."""
    if characters > MAX_TEXT:
        raise BudgetExceeded("it makes a text longer than a check allows")


def width(*numbers: object) -> None:
    """Refuse a width, count or precision that would make a huge string or list."""
    if any(isinstance(number, int) and abs(number) > MAX_WIDTH for number in numbers):
        raise BudgetExceeded(f"it formats with a width over {MAX_WIDTH}")


def weight(value: object) -> int:
    """How much a value weighs with all that is in it, shared parts counted each time they are reached.

    Raises BudgetExceeded above ``MAX_VALUE``: a container is weighed when it is made, so what later walks
    over it (printing, comparing, JSON) is bounded as well.
    """
    total = 0
    stack = [value]
    while stack:
        item = stack.pop()
        total += 1
        if isinstance(item, str):
            fits(len(item))
            total += len(item) >> 6
        elif isinstance(item, int):
            if item.bit_length() > MAX_BITS:
                raise BudgetExceeded(f"it makes an integer of more than {MAX_BITS} bits")
        elif isinstance(item, CONTAINERS):
            if total + len(item) > MAX_VALUE:
                raise BudgetExceeded(TOO_LARGE)
            stack.extend(item)
            stack.extend(item.values() if isinstance(item, dict) else ())
        if total > MAX_VALUE:
            raise BudgetExceeded(TOO_LARGE)
    return total


def depth(value: object) -> int:
    """How deep lists and dicts nest, at least 1. Call it on values that ``weight`` has bounded."""
    deepest = 1
    stack = [(value, 1)]
    while stack:
        item, level = stack.pop()
        deepest = max(deepest, level)
        if isinstance(item, dict):
            stack.extend((inner, level + 1) for inner in item.values())
        elif isinstance(item, CONTAINERS):
            stack.extend((inner, level + 1) for inner in item)
    return deepest
