"""Logins for registries, as docker and podman keep them: in a file, or with a credential helper.

Formats: docker's ``config.json`` (``auths``, ``credHelpers``, ``credsStore``) and podman's ``auth.json``, which is
the same; the helper protocol (``docker-credential-NAME get``, the server's name on standard input).
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from canserve.trees.secret import Login, Secret

MAX_CONFIG = 1 << 20
HELPER_SECONDS = 10.0
_HELPER = re.compile(r"[A-Za-z0-9._-]{1,64}")


@dataclass(frozen=True, slots=True)
class Found:
    """A login for one registry, or why one that is configured cannot be had."""

    login: Login | None = None
    token: Secret | None = None
    """An identity token, to be changed for an access token."""
    trouble: str | None = None


def login_for(host: str, environment: Mapping[str, str] | None = None) -> Found:
    """The login for a registry. Nothing configured is no trouble: many images need none."""
    for path in _places(os.environ if environment is None else environment):
        try:
            if path.stat().st_size > MAX_CONFIG:
                continue
            config = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(config, dict) and (found := _of_config(config, host, path)) is not None:
            return found
    return Found()


def _places(environment: Mapping[str, str]) -> Iterator[Path]:
    if named := environment.get("REGISTRY_AUTH_FILE"):
        yield Path(named)
    if runtime := environment.get("XDG_RUNTIME_DIR"):
        yield Path(runtime) / "containers" / "auth.json"
    if folder := environment.get("DOCKER_CONFIG"):
        yield Path(folder) / "config.json"
    elif home := environment.get("HOME"):
        yield Path(home) / ".docker" / "config.json"


def _of_config(config: Mapping[str, Any], host: str, path: Path) -> Found | None:
    helpers = config.get("credHelpers")
    named = helpers.get(host) if isinstance(helpers, dict) else None
    auths = config.get("auths")
    entry = _entry(auths, host) if isinstance(auths, dict) else None
    helper = named or (config.get("credsStore") if entry is not None or named else None)
    if isinstance(helper, str) and helper:
        return _of_helper(helper, host)
    return _of_entry(entry, host, path) if entry is not None else None


def _entry(auths: Mapping[str, Any], host: str) -> Mapping[str, Any] | None:
    """The entry of a host; older programs wrote whole addresses."""
    for name, entry in auths.items():
        bare = re.sub(r"^https?://", "", str(name)).split("/")[0]
        if bare == host and isinstance(entry, dict):
            return entry
    return None


def _of_entry(entry: Mapping[str, Any], host: str, path: Path) -> Found | None:
    if isinstance(entry.get("identitytoken"), str) and entry["identitytoken"]:
        return Found(token=Secret(entry["identitytoken"]))
    text = entry.get("auth")
    if not isinstance(text, str) or not text:
        return None
    try:
        user, colon, password = base64.b64decode(text, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        colon = ""
    if not colon:
        return Found(trouble=f"{path}: the login for {host} cannot be decoded")
    return Found((Secret(user), Secret(password)))


def _of_helper(name: str, host: str) -> Found:
    if not _HELPER.fullmatch(name):
        return Found(trouble=f"the credential helper for {host} has no usable name")
    command = f"docker-credential-{name}"
    try:
        done = subprocess.run(  # noqa: S603 - the user's own configuration names it; no shell
            [command, "get"], input=host, capture_output=True, text=True, timeout=HELPER_SECONDS, check=False
        )
    except FileNotFoundError:
        return Found(trouble=f"{command} is configured for {host}, but not installed")
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return Found(trouble=f"{command} did not answer for {host}")
    if done.returncode:
        return Found()  # it knows no login for this host
    try:
        told = json.loads(done.stdout)
        user, secret = told["Username"], told["Secret"]
    except (ValueError, KeyError, TypeError):
        return Found(trouble=f"{command} answered in an unknown form")
    if user == "<token>":
        return Found(token=Secret(str(secret)))
    return Found((Secret(str(user)), Secret(str(secret))))
