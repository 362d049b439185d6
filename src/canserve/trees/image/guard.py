"""Logging in to a registry: what its ``WWW-Authenticate`` asks for, answered with what docker and podman keep.

Protocols: RFC 7617 (basic), and the token authentication of the distribution project: a token for name and password by
GET, or for an identity token by POST ("Docker Registry v2 authentication", "OAuth 2.0 token endpoint").
Logins go to the registry that they are for, and to the token server that it names; no token goes anywhere else.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from urllib.parse import urlencode, urlsplit

from canserve.facts import Missing
from canserve.trees.image.login import Found, login_for
from canserve.trees.image.manifest import MAX_DOCUMENT
from canserve.trees.names import unreadable
from canserve.trees.secret import Login, Secret
from canserve.trees.tree import TreeError
from canserve.trees.web.client import Web, WebError

CLIENT = "canserve"
"""Who asks, in token requests."""
_BEARER = re.compile(r"(?:^|,\s*)bearer\s+(.*)", re.IGNORECASE)
_BASIC = re.compile(r"(?:^|,\s*)basic(?:\s|$)", re.IGNORECASE)
_FIELD = re.compile(r'([a-z_]+)="([^"]*)"')


class Guard:
    """The way into one repository; a challenge that comes again, for a token has run out, is answered again."""

    def __init__(self, web: Web, base: str, host: str, told: Callable[[WebError], Missing]) -> None:
        """``base``: address of the repository; ``told``: a failed request as a value."""
        self._web = web
        self._prefix = f"{base}/"
        self._host = host
        self._repository = urlsplit(base).path.removeprefix("/v2/")
        self._told = told
        self.found: Found | None = None
        """The login that was looked up; None: none was asked for."""
        web.renews(self._prefix, self._answer)

    def _answer(self, challenge: str) -> None:
        """Do what a challenge says: a token of a server it names, or the login itself. Raises TreeError."""
        if self.found is None:
            self.found = login_for(self._host, repository=self._repository)
        bearer = _BEARER.search(challenge)
        if bearer is None and _BASIC.search(challenge):
            if self.found.login:
                self._web.authorize(self._prefix, basic(self.found.login))
            return
        fields = dict(reversed(_FIELD.findall(bearer[1]))) if bearer else {}  # the first of each name
        realm = fields.get("realm", "")
        parts = urlsplit(realm)
        if parts.scheme not in {"http", "https"} or not parts.path:
            raise TreeError(unreadable(self._host, "", "the registry asks for an unknown kind of login"))
        asked = {"scope": fields.get("scope") or f"repository:{self._repository}:pull"}
        if "service" in fields:
            asked["service"] = fields["service"]
        token = self._token(realm, asked, self.found)
        self._web.authorize(self._prefix, Secret(f"Bearer {token}"))

    def _token(self, realm: str, asked: Mapping[str, str], found: Found) -> str:
        """A token of the server that the registry named."""
        try:
            if found.token is not None:
                fields = {name: Secret(value) for name, value in asked.items()}
                fields |= {"grant_type": Secret("refresh_token"), "client_id": Secret(CLIENT)}
                told = self._web.form(realm, fields | {"refresh_token": found.token}, MAX_DOCUMENT)
            else:
                if found.login:
                    self._web.authorize(realm, basic(found.login))
                url = f"{realm}{'&' if '?' in realm else '?'}{urlencode(asked)}"
                told = self._web.page(url, "application/json", MAX_DOCUMENT).body or b""
            answer = json.loads(told)
            token = answer.get("token") or answer.get("access_token")
        except WebError as error:
            raise TreeError(self._told(error)) from None
        except (ValueError, AttributeError, RecursionError):
            token = None
        if not isinstance(token, str) or not re.fullmatch(r"[\x21-\x7e]+", token):
            raise TreeError(unreadable(self._host, "", "the registry's token server gave no token"))
        return token


def basic(login: Login) -> Secret:
    """The ``Authorization`` of a name and a password."""
    pair = f"{login[0].reveal()}:{login[1].reveal()}"
    return Secret(f"Basic {base64.b64encode(pair.encode()).decode()}")
