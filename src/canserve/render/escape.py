"""Text from outside, made safe to print: control characters become visible, markup loses its meaning."""

from __future__ import annotations

import re
import unicodedata

MAX_TEXT = 2000
"""Longest piece of outside text that text and Markdown output carry; JSON carries all of it."""

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories that move the cursor, reorder, hide or cannot be encoded."""

_MARKUP = re.compile(r"[\\`*\[\]|~$]|(?<![^\W_])_|_(?![^\W_])")
"""Markup inside a line; an underscore within a word is none. Outside text never begins a line."""
_REFERENCE = re.compile(r"([@#])(?=[0-9A-Za-z])")
_LINK = re.compile(r"(https?|ftp|mailto|www)([:.])", re.IGNORECASE)


def visible(text: str, limit: int = MAX_TEXT) -> str:
    """The text on one line with every control, format and surrogate character written as an escape."""
    if len(text) > limit:
        text = f"{text[:limit]}... ({len(text) - limit} more characters)"
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escape(c) if unicodedata.category(c) in _HIDDEN else c for c in text)


def _escape(character: str) -> str:
    code = ord(character)
    if character in "\n\r\t":
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}[character]
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def markdown(text: str) -> str:
    """The text as it stands, in a Markdown page: no markup, HTML, links, mentions or issue references."""
    text = visible(text).replace("&", "&amp;").replace("<", "&lt;")
    text = _MARKUP.sub(r"\\\g<0>", text)
    text = _LINK.sub("\\1\u200b\\2", text)
    # A zero-width space parts the sign from the name: hosts would notify people or link issues.
    return _REFERENCE.sub("\\1\u200b", text)


def code(text: str) -> str:
    """The text as a Markdown code span; its fence is longer than any run of backticks inside."""
    text = visible(text)
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"
