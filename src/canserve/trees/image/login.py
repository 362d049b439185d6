"""Logins for registries, as docker and podman keep them: in a file, or with a credential helper.

Formats: docker's ``config.json`` (``auths``, ``credHelpers``, ``credsStore``) and podman's ``auth.json``, which is
the same; the helper protocol (``docker-credential-NAME get``, the server's name on standard input).
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from canserve.trees.secret import Login, Secret

MAX_CONFIG = 1 << 20
HELPER_SECONDS = 10.0
MAX_ANSWER = 1 << 20
_KEYS = {"docker.io": "https://index.docker.io/v1/"}
"""Names of logins that differ from the host's."""
_HELPER = re.compile(r"[A-Za-z0-9._-]{1,64}")


@dataclass(frozen=True, slots=True)
class Found:
    """A login for one registry, or why one that is configured cannot be had."""

    login: Login | None = None
    token: Secret | None = None
    """An identity token, to be changed for an access token."""
    trouble: str | None = None


def login_for(
    host: str,
    environment: Mapping[str, str] | None = None,
    repository: str = "",
    patience: float = HELPER_SECONDS,
) -> Found:
    """The login for a registry, or a part of it. Nothing configured is no trouble: many images need none.

    ``patience``: seconds that a credential helper may take.
    """
    trouble: Found | None = None
    for path in _places(os.environ if environment is None else environment):
        try:
            if path.stat().st_size > MAX_CONFIG:
                continue
            config = json.loads(path.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            trouble = trouble or Found(trouble=f"{path} cannot be read: {error.strerror}")
            continue
        except (ValueError, RecursionError):
            trouble = trouble or Found(trouble=f"{path} is no JSON: its logins are not known")
            continue
        found = _of_config(config, (host, repository), path, patience) if isinstance(config, dict) else None
        if found is not None and found.trouble is None:
            return found
        trouble = trouble or found
    return trouble or Found()


def _places(environment: Mapping[str, str]) -> Iterator[Path]:
    if named := environment.get("REGISTRY_AUTH_FILE"):
        yield Path(named)
    if runtime := environment.get("XDG_RUNTIME_DIR"):
        yield Path(runtime) / "containers" / "auth.json"
    if folder := environment.get("DOCKER_CONFIG"):
        yield Path(folder) / "config.json"
    elif home := environment.get("HOME"):
        yield Path(home) / ".docker" / "config.json"


def _of_config(
    config: Mapping[str, Any], wanted: tuple[str, str], path: Path, patience: float
) -> Found | None:
    """What one file holds for a host and repository; None: nothing."""
    host = wanted[0]
    helpers, auths = config.get("credHelpers"), config.get("auths")
    named = helpers.get(host) if isinstance(helpers, dict) else None
    trouble: Found | None = None
    for helper in (named, config.get("credsStore")):
        if isinstance(helper, str) and helper:
            found = _of_helper(helper, _KEYS.get(host, host), patience)
            if found.login or found.token:
                return found
            trouble = trouble or (found if found.trouble else None)
    entry = _entry(auths, wanted) if isinstance(auths, dict) else None
    return (_of_entry(entry, host, path) if entry is not None else None) or trouble


def _entry(auths: Mapping[str, Any], wanted: tuple[str, str]) -> Mapping[str, Any] | None:
    """The entry that fits best: podman's may be for a part of a registry; older programs wrote whole addresses."""
    host, repository = wanted
    best: tuple[int, Mapping[str, Any] | None] = (0, None)
    for name, entry in auths.items():
        bare = re.sub(r"^https?://", "", str(name)).rstrip("/")
        known = (
            bare == host or str(name) == _KEYS.get(host) or re.fullmatch(rf"{re.escape(host)}/v[12]", bare)
        )
        part = f"{host}/{repository}/".startswith(f"{bare}/")
        if (known or part) and isinstance(entry, dict) and len(bare) > best[0]:
            best = (len(bare), entry)
    return best[1]


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


def _of_helper(name: str, host: str, patience: float) -> Found:
    if not _HELPER.fullmatch(name):
        return Found(trouble=f"the credential helper for {host} has no usable name")
    command = f"docker-credential-{name}"
    try:
        code, told = _asked([command, "get"], host, patience)
    except FileNotFoundError:
        return Found(trouble=f"{command} is configured for {host}, but not installed")
    except OSError as error:
        return Found(trouble=f"{command} is configured for {host}, but cannot be run: {error.strerror}")
    if code is None:
        return Found(trouble=f"{command} did not answer for {host} within {patience:.0f} s")
    if code:  # what it says then is not shown: nobody knows what is in it
        known = b"credentials not found" in told
        return Found() if known else Found(trouble=f"{command} failed for {host} with exit code {code}")
    try:
        answer = json.loads(told)
        user, secret = answer["Username"], answer["Secret"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return Found(trouble=f"{command} answered for {host} in an unknown form")
    if not isinstance(user, str) or not isinstance(secret, str) or not secret:
        return Found(trouble=f"{command} answered for {host} in an unknown form")
    return Found(token=Secret(secret)) if user == "<token>" else Found((Secret(user), Secret(secret)))


def _asked(command: list[str], told: str, patience: float) -> tuple[int | None, bytes]:
    """Exit code and output of a program that is told a line; no code: its time was over. Raises OSError."""
    with tempfile.TemporaryFile() as said:
        said.write(told.encode())
        said.seek(0)
        process = subprocess.Popen(  # noqa: S603 - the user's own configuration names it; no shell
            command, stdin=said, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )
        assert process.stdout is not None
        timer = threading.Timer(patience, _end, [process])
        timer.start()
        try:
            answer = process.stdout.read(MAX_ANSWER)
            process.stdout.close()  # who says more than that is not listened to
            code = process.wait()
        finally:
            ended = not timer.is_alive()
            timer.cancel()
            _end(process)
    return (None if ended else code), answer


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it, and what it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
