"""Where a registry's images are really had from, as this machine's container engines are configured.

Read, and never written:

* containers-registries.conf(5): ``CONTAINERS_REGISTRIES_CONF``, else the user's, else ``/etc/containers``, with its
  drop-in folder: mirrors, moved locations, blocked and insecure registries. Short names are not looked up: a registry
  is always named.
* ``/etc/docker/daemon.json``: ``registry-mirrors`` (of Docker Hub, as Docker has it) and ``insecure-registries``.
* containers-certs.d(5) and Docker's ``certs.d``: ``*.crt`` files of a host are certificate authorities for that host.

What cannot be read counts as not there: a mirror spares a long way, it decides nothing, for images are known by their
digests. Only what is named insecure here is taken without proof of who it is, or without encryption.
"""

from __future__ import annotations

import ipaddress
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

HUB = "docker.io"
HUB_SERVER = "registry-1.docker.io"
"""The host that answers for Docker Hub."""
MAX_FILE = 1 << 20
_LOCATION = re.compile(r"[A-Za-z0-9.\[\]:_-]+(?:/[a-z0-9._/-]+)?")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One place to ask for a repository."""

    host: str
    """With its port."""
    repository: str
    insecure: bool = False
    authority: str | None = None
    """A folder with certificate authorities for this host."""
    mirror: bool = False
    tags: bool = True
    """Whether tags may be asked for here, and not only digests."""

    @property
    def bases(self) -> tuple[str, ...]:
        """Addresses to try, one after the other: HTTPS, and plain HTTP first on this machine, last where insecure."""
        server = HUB_SERVER if self.host == HUB else self.host
        rest = f"://{server}/v2/{self.repository}"
        if is_here(self.host):
            return f"http{rest}", f"https{rest}"
        return (f"https{rest}", f"http{rest}") if self.insecure else (f"https{rest}",)


def is_here(host: str) -> bool:
    """Whether a host is this machine, by its name; container engines speak plain HTTP to it."""
    name = re.sub(r":\d+$", "", host)
    return name in {"localhost", "[::1]"} or re.fullmatch(r"127(\.\d{1,3}){3}", name) is not None


class BlockedError(Exception):
    """The machine's configuration forbids this registry; carries the file that does."""


def endpoints(
    host: str, repository: str, environment: Mapping[str, str], root: Path = Path("/")
) -> tuple[Endpoint, ...]:
    """The places to ask, mirrors first. Raises BlockedError. ``root``: where the system's files are."""
    own = Endpoint(host, repository)
    found: list[Endpoint] = []
    for path in _registries(environment, root):
        entry = _longest(_toml(path).get("registry"), host, repository)
        if entry is None:
            continue
        if entry.get("blocked") is True:
            raise BlockedError(str(path))
        prefix = entry.get("prefix") or entry.get("location")
        own = _at({**entry, "prefix": prefix}, host, repository) or own
        mirrors = entry.get("mirror")
        for each in mirrors if isinstance(mirrors, list) else ():
            if (
                isinstance(each, dict)
                and (there := _at({**each, "prefix": prefix}, host, repository)) is not None
            ):
                digests = (
                    each.get("pull-from-mirror") == "digest-only"
                    or entry.get("mirror-by-digest-only") is True
                )
                found.append(replace(there, mirror=True, tags=not digests))
        break
    docker = _json(root / "etc/docker/daemon.json")
    if host == HUB and not found:
        found = list(_docker_mirrors(docker, repository))
    insecure = docker.get("insecure-registries")
    listed = [each for each in insecure if isinstance(each, str)] if isinstance(insecure, list) else []
    return tuple(_known(each, listed, environment, root) for each in (*found, own))


def _registries(environment: Mapping[str, str], root: Path) -> Iterator[Path]:
    """Files of registries, those that win first."""
    if named := environment.get("CONTAINERS_REGISTRIES_CONF"):
        yield Path(named)
        return
    folders = [Path(home) / ".config/containers" for home in [environment.get("HOME")] if home]
    for folder in (*folders, root / "etc/containers"):
        main = folder / "registries.conf"
        dropped = sorted(folder.glob("registries.conf.d/*.conf"), reverse=True)
        if main.is_file() or dropped:
            yield from (*dropped, main)


def _longest(entries: Any, host: str, repository: str) -> Mapping[str, Any] | None:
    """The entry whose prefix fits an image best."""
    name, best = f"{host}/{repository}", ("", None)
    for entry in entries if isinstance(entries, list) else ():
        prefix = entry.get("prefix") or entry.get("location") if isinstance(entry, dict) else None
        if not isinstance(prefix, str):
            continue
        wild = prefix.startswith("*.") and host.endswith(prefix[1:])
        if (wild or name == prefix or name.startswith(f"{prefix}/")) and len(prefix) > len(best[0]):
            best = (prefix, entry)
    return best[1]


def _at(entry: Mapping[str, Any], host: str, repository: str) -> Endpoint | None:
    """What an entry makes of an image's name: its prefix, which fits, is replaced by its location."""
    prefix, location = entry.get("prefix"), entry.get("location")
    if not isinstance(prefix, str) or prefix.startswith("*."):
        prefix = host
    if not isinstance(location, str) or not _LOCATION.fullmatch(location):
        location = prefix
    there, _, path = f"{location}{f'{host}/{repository}'[len(prefix) :]}".partition("/")
    return Endpoint(there, path, entry.get("insecure") is True) if path else None


def _docker_mirrors(docker: Mapping[str, Any], repository: str) -> Iterator[Endpoint]:
    mirrors = docker.get("registry-mirrors")
    for each in mirrors if isinstance(mirrors, list) else ():
        parts = urlsplit(each) if isinstance(each, str) else None
        if parts is not None and parts.netloc and _LOCATION.fullmatch(parts.netloc):
            yield Endpoint(parts.netloc, repository, parts.scheme == "http", mirror=True)


def _known(endpoint: Endpoint, insecure: list[str], environment: Mapping[str, str], root: Path) -> Endpoint:
    """With what else this machine holds of the host."""
    folders = [root / "etc/containers/certs.d", root / "etc/docker/certs.d"]
    if home := environment.get("HOME"):
        folders.insert(0, Path(home) / ".config/containers/certs.d")
    authority = next(
        (str(path / endpoint.host) for path in folders if any(path.glob(f"{_plain(endpoint.host)}/*.crt"))),
        None,
    )
    named = any(_is(endpoint.host, each) for each in insecure)
    return replace(endpoint, authority=authority, insecure=endpoint.insecure or named)


def _plain(host: str) -> str:
    return re.sub(r"([*?\[\]])", r"[\1]", host)


def _is(host: str, named: str) -> bool:
    """Whether a host is one that Docker's list names: itself, or an address in a network."""
    if host == named:
        return True
    try:
        return ipaddress.ip_address(re.sub(r":\d+$", "", host)) in ipaddress.ip_network(named, strict=False)
    except ValueError:
        return False


def _toml(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(_text(path))
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _json(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(_text(path) or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _text(path: Path) -> str:
    try:
        if not path.is_file() or path.stat().st_size > MAX_FILE:
            return ""
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
