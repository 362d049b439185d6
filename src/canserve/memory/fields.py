"""Numbers of a model's config, read so that a missing one is named, never guessed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MOST = 10**12
"""No number of a model is larger; products of several stay within what floats hold."""


class Lacking(Exception):  # noqa: N818 - not a fault of the program: the estimate ends here as unknown
    """The config lacks a number that is needed, or holds something else there. ``field`` names it."""

    def __init__(self, field: str, saw: object = None) -> None:
        what = "is missing" if saw is None else f"is {_shown(saw)}, not what it should be"
        super().__init__(f"config.json: {field} {what}")
        self.field = field


@dataclass(frozen=True, slots=True)
class Fields:
    """One (nested) config. ``path`` is its dotted place in the file: ``text_config``, or empty."""

    values: Mapping[str, Any]
    path: str = ""

    def name(self, field: str) -> str:
        """The dotted name of a field, for messages."""
        return f"{self.path}.{field}" if self.path else field

    def has(self, field: str) -> bool:
        """Whether the field is there and not null."""
        return self.values.get(field) is not None

    def number(self, *names: str, default: int | None = None) -> int:
        """A whole number from zero to MOST, from the first of these names that is there. Raises Lacking."""
        for name in names:
            value = self.values.get(name)
            if value is None:
                continue
            if type(value) is float and value.is_integer():
                value = int(value)
            if type(value) is not int or not 0 <= value <= MOST:
                raise Lacking(self.name(name), value)
            return value
        if default is None:
            raise Lacking(self.name(names[0]))
        return default

    def flag(self, name: str, default: bool) -> bool:
        """A truth value. Raises Lacking where something else stands there."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise Lacking(self.name(name), value)
        return value

    def text(self, name: str, default: str = "") -> str:
        """A string. Raises Lacking where something else stands there."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise Lacking(self.name(name), value)
        return value

    def sequence(self, name: str) -> tuple[Any, ...] | None:
        """A list as a tuple; None where it is absent. Raises Lacking where something else stands there."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, list | tuple):
            raise Lacking(self.name(name), value)
        return tuple(value)

    def inner(self, *names: str) -> Fields | None:
        """The first nested config of these names; None: there is none."""
        for name in names:
            value = self.values.get(name)
            if isinstance(value, Mapping) and value:
                return Fields(value, self.name(name))
        return None


def _shown(value: object) -> str:
    """Short, whatever it is; numbers of thousands of digits cannot even be written."""
    return f"{float(MOST):g} or more" if type(value) is int and value > MOST else f"{value!r:.60}"
