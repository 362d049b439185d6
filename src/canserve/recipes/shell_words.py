"""One word of a shell text in the making, and what lines of other shells are in one of POSIX."""

from __future__ import annotations

import re

_CARETS = re.compile(r"[ \t]\^[ \t]*$", re.MULTILINE)
_TICKS = re.compile(r"[ \t]`[ \t]*$", re.MULTILINE)


def continued(text: str) -> str:
    """Lines that cmd.exe (``^``) and PowerShell (a backtick) continue, continued by a backslash."""
    if "\\\n" in text:
        return text
    for sign, ends in (("^", _CARETS), ("`", _TICKS)):
        if len(ends.findall(text)) == text.count(sign):
            text = ends.sub(r" \\", text)
    return text


class Builder:
    """Pieces of a word; a piece with blanks in it may end one and begin the next."""

    def __init__(self) -> None:
        self.pattern = False
        self._words: list[str] = []
        self._current: list[str] | None = None

    def add(self, text: str) -> None:
        """A piece that splits nothing, and makes a word even where it is empty."""
        if self._current is None:
            self._current = []
        self._current.append(text)

    def split(self, text: str) -> None:
        """A piece that a shell splits at its blanks."""
        for number, word in enumerate(re.split(r"[ \t\n]+", text)):
            if number:
                self._end()
            if word:
                self.add(word)

    def several(self, words: list[str]) -> None:
        """Each of them a word; the first and last may have more pieces."""
        for number, word in enumerate(words):
            if number:
                self._end()
            self.add(word)

    def clear(self) -> None:
        """As if nothing had been read."""
        self._words, self._current = [], None

    def fields(self) -> list[str]:
        """The words so far."""
        return [*self._words, *([] if self._current is None else ["".join(self._current)])]

    def _end(self) -> None:
        if self._current is not None:
            self._words.append("".join(self._current))
        self._current = None
