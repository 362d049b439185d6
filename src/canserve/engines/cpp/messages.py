"""Messages that a C++ source throws, aborts with or logs as errors: their constant parts.

A message is kept as a template, ``{}`` where a value is filled in, with the level it is said at: ``raise`` or
``error``. What stands in no literal of the call itself is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from canserve.engines.cpp.text import Code, CppError, read
from canserve.engines.static.messages import HOLE, MAX_TEMPLATE, Message

_CALL = re.compile(
    r"\b(?:(?P<throw>throw\s+[\w:]+)|(?P<abort>(?:GGML_ABORT|TM_CHECK_FAIL))|"
    r"(?P<log>(?:\w+_LOG_|LOG_|SRV_|SLT_|QUE_|TM_LOG_)(?:ERR|ERROR|FATAL)))\s*\("
)
_PRINTF = re.compile(
    r"%[-#0 +']{0,4}(?:\d{1,4}|\*)?(?:\.(?:\d{1,4}|\*))?(?:hh|h|ll|l|z|j|t|L)?[diouxXeEfFgGaAcspn]|%%|%$"
)
_BRACES = re.compile(r"\{[^{}]{0,40}\}")
_FUNCTION = re.compile(r"^\s*(?:\{\}\s*:?\s*)+")
"""The name of the function, that most lines begin with."""
_SPACE = re.compile(r"\s+")


def messages(text: str) -> tuple[Message, ...]:
    """All messages of one file, in its order; empty where its strings or brackets do not close."""
    try:
        return tuple(_messages(read(text)))
    except CppError:
        return ()


def _messages(code: Code) -> Iterator[Message]:
    for call in _CALL.finditer(code.text):
        opening = call.end() - 1
        template = _template(code, opening + 1, code.closing(opening))
        said = _FUNCTION.sub("", _SPACE.sub(" ", template).strip())
        if said:
            yield Message("error" if call["log"] else "raise", said[:MAX_TEMPLATE], code.line(call.start()))


def _template(code: Code, start: int, end: int) -> str:
    """The literals of a call in order, joined where something is added between them; of a format the first."""
    pieces: list[str] = []
    at, position = start, start
    while (position := code.text.find('"', position, end)) >= 0:
        between = code.text[at:position]
        if pieces and "," in between.partition("+")[0]:
            break  # what follows a format is filled into it
        if (pieces and between.strip()) or "+" in between:
            pieces = [*pieces[:-1], pieces[-1].removesuffix("%"), HOLE] if pieces else [HOLE]
        pieces.append(code.strings.get(position, ""))
        at = position = code.text.index('"', position + 1) + 1
    if pieces and "+" in code.text[at:end].partition(",")[0]:
        pieces.append(HOLE)
    return _BRACES.sub(HOLE, _PRINTF.sub(lambda hit: "%" if hit[0] == "%%" else HOLE, "".join(pieces)))
