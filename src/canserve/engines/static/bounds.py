"""Limits that keep hostile sources from costing time or memory."""

from __future__ import annotations

import ast

STEPS = 400_000
"""Nodes evaluated and elements built for one module; the largest real one measured needs under 60,000."""
DEPTH = 150
"""Nesting of expressions and statements that is followed."""
TEXT = 65_536
"""Longest string, in characters, that a computation may build."""
BITS = 4096
"""Largest integer, in bits, that a computation may build."""
EXCERPT = 160
"""Longest excerpt of source text that is kept."""


class Exhausted(Exception):  # noqa: N818 - a bound was reached; the source is not necessarily at fault
    """The budget is spent: the source asks for more work than any real one does."""


class Impossible(Exception):  # noqa: N818 - not an error of ours
    """This expression cannot be evaluated without running it."""


class Budget:
    """Steps that are left, and how deep the evaluation stands."""

    __slots__ = ("depth", "left")

    def __init__(self, steps: int = STEPS) -> None:
        self.left = steps
        self.depth = 0

    def spend(self, steps: int) -> None:
        """Pay for work that is about to be done. Raises Exhausted."""
        self.left -= steps
        if self.left < 0:
            raise Exhausted


def source_of(node: ast.AST) -> str:
    """The node's source text on one line, shortened; never costs more than a few hundred nodes."""
    pending, seen = [node], 0
    while pending:
        seen += 1
        if seen > 2 * EXCERPT:
            return f"<{type(node).__name__} of line {getattr(node, 'lineno', '?')}>"
        pending.extend(ast.iter_child_nodes(pending.pop()))
    try:
        text = " ".join(ast.unparse(node).split())
    except (RecursionError, ValueError):
        return f"<{type(node).__name__}>"
    return text if len(text) <= EXCERPT else text[: EXCERPT - 3] + "..."
