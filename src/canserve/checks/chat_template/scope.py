"""Names: where jinja2's compiler would keep each variable, and what it holds while rendering.

Jinja2 decides before rendering which scope a name belongs to, and a template can notice: a name that is set
anywhere in a macro's surroundings hides the variable that was passed in, even before it is set. So its own
analysis (``jinja2.idtracking``) is used instead of a chain of dictionaries that would be right most times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jinja2.idtracking import (
    VAR_LOAD_ALIAS,
    VAR_LOAD_PARAMETER,
    VAR_LOAD_RESOLVE,
    Symbols,
)
from jinja2.utils import missing


@dataclass(slots=True, eq=False)
class Cells:
    """The variables of one running function: the template itself, one call of a macro, one recursive loop.

    Keys are the identifiers that the analysis gives, ``l_1_message``: depth of the scope and name.
    """

    values: dict[str, Any] = field(default_factory=dict)
    outer: Cells | None = None

    def get(self, identifier: str) -> Any:
        """The value here or in a surrounding function; ``missing`` when it was never set."""
        cells: Cells | None = self
        while cells is not None:
            if identifier in cells.values:
                return cells.values[identifier]
            cells = cells.outer
        return missing


@dataclass(slots=True, eq=False)
class Frame:
    """One scope: its analysed names and the cells they live in."""

    symbols: Symbols
    cells: Cells
    captured: str = ""
    """Text of the filter block or set block that this scope is the body of."""
    binding: bool = False
    """Whether the arguments of a macro call are being bound: some may have no value yet."""

    def enter(self, resolve: Callable[[str], Any]) -> None:
        """Set the names to what they hold when the scope is entered."""
        for identifier, (action, source) in self.symbols.loads.items():
            if action == VAR_LOAD_RESOLVE:
                self.cells.values[identifier] = resolve(source)
            elif action == VAR_LOAD_ALIAS:
                self.cells.values[identifier] = self.cells.get(source)
            elif action != VAR_LOAD_PARAMETER:
                self.cells.values[identifier] = missing

    def leave(self) -> None:
        """Forget the names, as a loop does after its last round."""
        self.cells.values.update(dict.fromkeys(self.symbols.loads, missing))

    def get(self, name: str) -> Any:
        """The variable's value, or ``missing``."""
        return self.cells.get(self.symbols.ref(name))

    def is_parameter(self, name: str) -> bool:
        """Whether the name is a loop variable, a ``with`` variable or an argument that must have a value.

        Jinja2 does not look whether such a name is set; outside of its scope a template would get to see
        an object of jinja2's own.
        """
        load = self.symbols.find_load(self.symbols.ref(name))
        return load is not None and load[0] == VAR_LOAD_PARAMETER and not self.binding

    def set(self, name: str, value: Any) -> None:
        """Assign to a variable of this scope."""
        self.cells.values[self.symbols.ref(name)] = value

    def fill(self, values: Mapping[str, Any]) -> None:
        """Assign several."""
        for name, value in values.items():
            self.set(name, value)
