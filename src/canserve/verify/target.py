"""The address of an endpoint, as the user writes it, and the key that opens it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from canserve.trees.secret import Secret, shown

_ENDINGS = ("/v1/chat/completions", "/chat/completions", "/v1/completions", "/v1/models", "/models", "/v1")


class TargetError(ValueError):
    """An address that cannot be asked. ``hint`` says what can be written instead."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One server."""

    root: str
    """Without a path of the protocol: ``http://10.0.0.1:8000``."""
    key: Secret | None = None
    socket: str | None = None
    """Path of a socket that leads there over ssh; None: it is reached by its address."""
    name: str = ""
    """What it is called where its address says too little."""

    @property
    def subject(self) -> str:
        """Its name or address, fit to be printed."""
        return self.name or shown(self.root)

    @property
    def exposes_key(self) -> bool:
        """Whether a key would cross a network that anybody may read."""
        parts = urlsplit(self.root)
        host = parts.hostname or ""
        return (
            self.socket is None
            and parts.scheme == "http"
            and host not in {"localhost", "::1"}
            and not host.startswith("127.")
        )

    def page(self, path: str) -> str:
        """An address beside the protocol."""
        return self.root + path

    def protocol(self, path: str) -> str:
        """An address of the protocol: ``models``, ``chat/completions``."""
        return f"{self.root}/v1/{path}"


def endpoint(text: str, key: Secret | None = None) -> Endpoint:
    """The endpoint at an address; what belongs to the protocol at its end is taken off. Raises TargetError."""
    wanted = "canserve verify http://HOST:PORT"
    written = text.strip()
    if "://" not in written:
        written = f"http://{written}"
    if any(ord(letter) < 33 or ord(letter) == 127 for letter in written):
        raise TargetError("the address holds a blank or control character", wanted)
    try:
        parts = urlsplit(written)
        parts.port  # noqa: B018 - it is what raises
    except ValueError as error:
        raise TargetError(f"{shown(text)!r} is no address: {error}", wanted) from error
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise TargetError(f"{shown(text)!r} is no address of a web server", wanted)
    if "@" in parts.netloc:
        hint = "a key comes from a file (--key-file) or the environment (CANSERVE_API_KEY)"
        raise TargetError("a login in an address is seen by everybody who lists processes", hint)
    path = parts.path.rstrip("/")
    for ending in _ENDINGS:
        if path.endswith(ending):
            path = path[: -len(ending)]
            break
    return Endpoint(urlunsplit((parts.scheme, parts.netloc, path, "", "")), key)
