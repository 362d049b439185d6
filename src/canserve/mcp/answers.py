"""What tools have answered, kept while the server runs, so that views can refer to the rest of it."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from canserve.mcp.folding import at, parts, view, worst_first

SCHEME = "canserve"
PLACE = "answers"
MOST = 64
"""Answers that are kept; the oldest go first."""
MOST_CHARACTERS = 64_000_000
"""Of all of them together, as JSON."""


class NoSuchPartError(LookupError):
    """Nothing is at an address."""


@dataclass(frozen=True, slots=True)
class Address:
    """A part of an answer."""

    number: int
    pointer: tuple[str, ...]
    start: int

    @classmethod
    def read(cls, text: str) -> Address:
        """The address in a text. Raises NoSuchPartError."""
        try:
            split = urlsplit(text)
            number, *pointer = parts(split.path)
            start = int(parse_qs(split.query).get("from", ["0"])[0])
            if (split.scheme, split.netloc) != (SCHEME, PLACE) or start < 0:
                raise ValueError(text)
            return cls(int(number), tuple(pointer), start)
        except ValueError as error:
            raise NoSuchPartError(f"no address of an answer: {text[:200]}") from error


class Answers:
    """The latest answers, by number. Safe to be used by several threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()
        self._last = 0

    def keep(self, value: Any) -> str:
        """Keep an answer; its address."""
        value = worst_first(value)
        size = len(json.dumps(value))
        with self._lock:
            self._last += 1
            self._kept[self._last] = value, size
            while len(self._kept) > MOST or (
                len(self._kept) > 1 and sum(each for _, each in self._kept.values()) > MOST_CHARACTERS
            ):
                self._kept.popitem(last=False)
            return f"{SCHEME}://{PLACE}/{self._last}"

    def part(self, address: Address) -> Any:
        """What is there, whole. Raises NoSuchPartError."""
        with self._lock:
            found = self._kept.get(address.number)
        if found is None:
            raise NoSuchPartError(f"answer {address.number} is not kept any more: ask again")
        try:
            return at(found[0], address.pointer)
        except LookupError as error:
            raise NoSuchPartError(f"answer {address.number} has no part {error.args[0]!r}") from error

    def view(self, text: str) -> Any:
        """What is at an address, as much as fits. Raises NoSuchPartError."""
        address = Address.read(text)
        return view(self.part(address), text.partition("?")[0], address.start)
