"""Engine options that change memory, under the engine's own names, read from values or from text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from canserve.facts import Cause, Evidence, Missing

TRUE, FALSE = {"true", "yes", "on", "1"}, {"false", "no", "off", "0"}
STEPS = {"k": 1000, "m": 1000**2, "g": 1000**3, "K": 1024, "M": 1024**2, "G": 1024**3}

MOST = 10**15
"""More bytes, tokens or sequences than any option can mean."""


class BadOption(Exception):  # noqa: N818 - what the user wrote, not a fault of the program
    """An option holds something that it cannot hold."""

    def __init__(self, name: str, value: object, wanted: str) -> None:
        super().__init__(f"{name}={value!r:.60} is not {wanted}")
        self.name = name

    def missing(self) -> Missing:
        """As the value of a fact."""
        look = Evidence("options", self.name, str(self))
        return Missing(Cause.UNREADABLE, str(self), (look,), f"another value for {self.name}")


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a request. All readers raise BadOption; an absent one, or an empty text, is the default."""

    values: Mapping[str, object]

    def get(self, *names: str) -> object | None:
        """The value of the first of these names that is set."""
        for name in names:
            value = self.values.get(name)
            if value is not None and value != "":
                return value
        return None

    def number(self, *names: str, default: int | None = None) -> int | None:
        """A whole number of at least one; ``32k`` is 32,000 and ``32K`` 32,768."""
        value = self.get(*names)
        if value is None:
            return default
        number = _whole(value)
        if number is None or not 1 <= number <= MOST:
            raise BadOption(names[0], value, "a whole number above zero that fits")
        return number

    def fraction(self, name: str, default: float) -> float:
        """A number above 0, at most 1."""
        number = self._positive(name, default)
        if number is None or number > 1:
            raise BadOption(name, self.get(name), "a number above 0 and at most 1")
        return number

    def ratio(self, name: str, default: float) -> float:
        """A number above 0."""
        number = self._positive(name, default)
        if number is None or number > MOST:
            raise BadOption(name, self.get(name), "a number above 0")
        return number

    def _positive(self, name: str, default: float) -> float | None:
        value = self.get(name)
        if value is None:
            return default
        try:
            number = float(value) if isinstance(value, int | float | str) else 0.0
        except (ValueError, OverflowError):
            number = 0.0
        return number if number > 0 and not isinstance(value, bool) else None

    def flag(self, name: str, default: bool = False) -> bool:
        """A truth value; the text of one counts."""
        value = self.get(name)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        text = str(value).lower()
        if text in TRUE | FALSE:
            return text in TRUE
        raise BadOption(name, value, "true or false")

    def text(self, name: str, default: str) -> str:
        """A short text."""
        value = self.get(name)
        if value is None:
            return default
        if not isinstance(value, str) or len(value) > 100:
            raise BadOption(name, value, "a short text")
        return value

    def table(self, name: str) -> Mapping[str, Any]:
        """A mapping, or its JSON; empty where the option is absent."""
        value = self.get(name)
        if isinstance(value, str):
            try:
                value = json.loads(value[:100_000])
            except (ValueError, RecursionError):
                raise BadOption(name, value, "JSON") from None
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise BadOption(name, value, "a table")
        return value


def _whole(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    text = str(value).replace("_", "").replace(",", "").strip()
    step = STEPS.get(text[-1:], 1)
    digits = text[:-1] if step > 1 else text
    try:
        number = float(digits) if len(digits) <= 20 else None
    except ValueError:
        return None
    if number is None or not (number * step).is_integer():
        return None
    return int(number * step)
