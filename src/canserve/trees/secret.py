"""Secrets: a type that cannot be printed by accident, and addresses with theirs taken out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NoReturn
from urllib.parse import unquote, urlsplit, urlunsplit

HIDDEN = "[REDACTED]"

_NAME = r"(?:[\w-]*[_-])?(?:(?:api|access|private|secret)[_-]?keys?|(?:hf|hub|auth|access|bearer|api)[_-]?token|password|passwd|passphrase|secret)"
"""Names of options and variables whose value is one; ``--max-token`` and ``--tokenizer`` are none."""
_OPTION = re.compile(rf"--?(?:{_NAME}|token)", re.IGNORECASE)
_SET = re.compile(
    rf"((?<![\w-])(?:--?(?:{_NAME}|token)(?:=|\s+)|{_NAME}=))"
    # What the shell fills in says where a secret is, and is none; neither is the next option.
    r"(?![\"']?\$|-)(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s\"';]+)",
    re.IGNORECASE,
)
_LOOKS_LIKE = re.compile(
    r"\b(?:hf_|sk-|gh[pousr]_|nvapi-|glpat-)[A-Za-z0-9_-]{8,}|(?<=://)[^/\s@]*:[^/\s@]+(?=@)"
)
"""Tokens of well-known places by their beginnings; a login within an address."""


class Secret:
    """Text that prints as ``[REDACTED]``; only ``reveal()`` gives it out."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return HIDDEN

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not written anywhere")

    def reveal(self) -> str:
        """The text, for the one call that needs it."""
        return self._text


Login = tuple[Secret, Secret]
"""User name and password. The name is a secret too: many indexes take a token there."""


def without_login(url: str) -> tuple[str, Login | None]:
    """The address without user name and password, and those."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url.rpartition("@")[2], None
    user, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, None
    name, _, password = user.partition(":")
    return urlunsplit(parts._replace(netloc=host)), (Secret(unquote(name)), Secret(unquote(password)))


def shown(url: str) -> str:
    """An address fit to be printed: no login, no query (signed addresses carry their key there)."""
    bare = without_login(url)[0]
    return bare.partition("#")[0].partition("?")[0]


def hidden(text: str) -> str:
    """Somebody else's command line or address as text, without what looks like a secret in it.

    >>> hidden("serve --api-key abc --max-token 5"), hidden("http://me:secret@host:1")
    ('serve --api-key [REDACTED] --max-token 5', 'http://[REDACTED]@host:1')
    """
    return _SET.sub(rf"\1{HIDDEN}", _LOOKS_LIKE.sub(HIDDEN, text))


def hidden_words(words: Iterable[str]) -> tuple[str, ...]:
    """The words of a command line without its secrets; an option's value may be the next word.

    >>> hidden_words(["vllm", "serve", "--api-key", "abc", "--port", "1"])
    ('vllm', 'serve', '--api-key', '[REDACTED]', '--port', '1')
    """
    found: list[str] = []
    follows = False
    for word in words:
        found.append(HIDDEN if follows and not word.lstrip("\"'").startswith(("$", "-")) else hidden(word))
        follows = _OPTION.fullmatch(word) is not None
    return tuple(found)
