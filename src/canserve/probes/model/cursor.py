"""A walk through large JSON of a known form, entry by entry: memory stays near the size of its text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from canserve.probes.model.documents import Unreadable
from canserve.trees.names import printable

MAX_ENTRY = 4096
"""Longest text of a flat object: a tensor's dtype, shape and two offsets."""

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


class Cursor:
    """A place in a JSON text, moved forward by what is expected there."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def space(self) -> str:
        """Skip white space; the character that follows, empty at the end."""
        match = _SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return self.text[self.at : self.at + 1]

    def expect(self, char: str) -> None:
        """Step over one character that must stand here."""
        if self.space() != char:
            raise Unreadable(f"this is not JSON: expected {char!r} at character {self.at}")
        self.at += 1

    def string(self) -> str:
        """Step over a string."""
        self.expect('"')
        try:
            found, self.at = _DECODER.raw_decode(self.text, self.at - 1)
        except ValueError as error:
            raise Unreadable(f"this is not JSON: {printable(str(error))}") from None
        return str(found)

    def members(self) -> Iterator[str]:
        """The keys of an object; the caller consumes each value before it asks for the next key."""
        self.expect("{")
        if self.space() == "}":
            self.at += 1
            return
        while True:
            key = self.string()
            self.expect(":")
            yield key
            if self.space() == "}":
                self.at += 1
                return
            self.expect(",")

    def flat_object(self) -> dict[str, object]:
        """Step over a small object without objects inside."""
        if self.space() != "{":
            raise Unreadable(f"no table at character {self.at}")
        end = self.text.find("}", self.at, self.at + MAX_ENTRY)
        if end < 0:
            raise Unreadable(f"an entry is longer than {MAX_ENTRY} characters")
        try:
            found = json.loads(self.text[self.at : end + 1])
        except (ValueError, RecursionError) as error:
            raise Unreadable(f"this is not JSON: {printable(str(error))}") from None
        self.at = end + 1
        return dict(found)

    def finish(self) -> None:
        """Nothing but white space may follow."""
        if self.space():
            raise Unreadable(f"text goes on after its end, at character {self.at}")
