"""Secrets: a type that cannot be printed by accident, and addresses with theirs taken out."""

from __future__ import annotations

from typing import NoReturn
from urllib.parse import unquote, urlsplit, urlunsplit

HIDDEN = "[REDACTED]"


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
