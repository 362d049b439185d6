"""Several words in one name of a table, and back: ``("awq", "75")`` is written ``awq 75``."""

from __future__ import annotations

NOTHING = "%"
"""How an empty word is written; alone in a table it says that the fact is known to be None."""


def word(text: str) -> str:
    """One word without spaces and line ends."""
    if not text.isascii():  # half of a surrogate pair cannot be written to any file
        text = text.encode(errors="backslashreplace").decode()
    return text.replace("%", "%25").replace(" ", "%20").replace("\n", "%0A") or NOTHING


def unword(text: str) -> str:
    """The text that ``word`` was given."""
    if "%" not in text:
        return text
    return "" if text == NOTHING else text.replace("%0A", "\n").replace("%20", " ").replace("%25", "%")


def join(*texts: str) -> str:
    """Words with a space between them."""
    return " ".join(map(word, texts))


def split(name: str) -> list[str]:
    """The texts that ``join`` was given."""
    return [unword(part) for part in name.split(" ")]
