"""The server over HTTP: on this machine alone, and only for who knows the token.

A page in a browser reaches loopback as well: its requests carry an Origin, or a Host that is not ours once a name was made to
point here. Both are refused, whatever token they bring.
"""

from __future__ import annotations

import hmac
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from canserve.trees.secret import Secret

HOST = "127.0.0.1"
PATH = "/mcp"
_LEAVE = 5
"""Seconds for open requests once it is to end."""


class OnlyWithToken:
    """Lets requests through that carry the token, compared in constant time."""

    def __init__(self, app: ASGIApp, token: Secret) -> None:
        self._app = app
        self._expected = f"Bearer {token.reveal()}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "http":
            given = Headers(scope=scope).get("authorization", "").encode("utf-8", "replace")
            if not hmac.compare_digest(given, self._expected):
                refused = PlainTextResponse(
                    "the token is missing or wrong\n", 401, {"WWW-Authenticate": "Bearer"}
                )
                await refused(scope, receive, send)
                return
        await self._app(scope, receive, send)


def listening(port: int) -> socket.socket:
    """A socket on loopback; port 0: any that is free. Raises OSError."""
    opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((HOST, port))
        opened.listen()  # who is told that it is ready may connect at once
    except OSError:
        opened.close()
        raise
    return opened


async def serve(
    server: Server[Any], opened: socket.socket, token: Secret, ready: Callable[[str], None]
) -> None:
    """Serve until it is interrupted; ``ready`` is told the address."""
    port = opened.getsockname()[1]
    here = [f"{name}:{port}" for name in (HOST, "localhost")]
    security = TransportSecuritySettings(allowed_hosts=here, allowed_origins=[])
    app = OnlyWithToken(
        server.streamable_http_app(streamable_http_path=PATH, transport_security=security), token
    )
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, timeout_graceful_shutdown=_LEAVE, server_header=False
    )
    ready(f"http://{HOST}:{port}{PATH}")
    await uvicorn.Server(config).serve(sockets=[opened])
