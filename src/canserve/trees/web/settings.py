"""How to reach the network here: certificates, proxy, patience, logins. Filled from pip's configuration."""

from __future__ import annotations

import netrc
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from canserve.trees.secret import Login, Secret


@dataclass(frozen=True, slots=True)
class Settings:
    """What one ``Web`` needs to know."""

    timeout: float = 15.0
    """Seconds without a byte, after which a connection is given up; pip's default."""
    patience: float = 60.0
    """Seconds a request may take altogether, retries included, before its size is counted."""
    retries: int = 4
    """Repeated attempts after a failure that may pass; pip's default is 5."""
    certificates: str | None = None
    """A file or folder of certificate authorities; None: the system's."""
    client_certificate: str | None = None
    proxy: Secret | None = None
    """For every host; None: as the environment says. A secret, for it may hold a login."""
    trusted: frozenset[str] = frozenset()
    """Hosts, perhaps with port, whose certificates are not verified."""
    logins: Mapping[str, Login] = field(default_factory=dict)
    """By host and port, as they stand in an address."""

    authorities: Mapping[str, str] = field(default_factory=dict)
    """Certificate authorities of single hosts, a file or folder each, beside all others."""

    def trusting(self, host: str, authority: str | None, blindly: bool) -> Settings:
        """The same, with one more host that is taken at an authority's word, or without any proof."""
        named = {**self.authorities, host: authority} if authority else self.authorities
        return replace(self, authorities=named, trusted=self.trusted | {host} if blindly else self.trusted)

    def authority(self, url: str) -> str | None:
        """The certificate authority of the host of an address, where it has one of its own."""
        return self.authorities.get(urlsplit(url).netloc.rpartition("@")[2])

    def trusts(self, url: str) -> bool:
        """Whether the user said that this host need not prove who it is."""
        parts = urlsplit(url)
        return bool({parts.hostname or "", parts.netloc.rpartition("@")[2]} & self.trusted)

    def secure(self, url: str) -> bool:
        """Whether pip would take content from here: encrypted, on this machine, or trusted by name."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        local = host in {"localhost", "::1"} or host.startswith("127.")
        return parts.scheme == "https" or (parts.scheme == "http" and (local or self.trusts(url)))

    def login(self, url: str) -> Login | None:
        """The login for an address: of the index, else of netrc."""
        parts = urlsplit(url)
        place = parts.netloc.rpartition("@")[2]
        return self.logins.get(place) or (_netrc(parts.hostname) if parts.hostname else None)

    def context(self, verify: bool, authority: str | None = None) -> ssl.SSLContext:
        """TLS as configured, with one more authority. Raises OSError or ssl.SSLError when a certificate file cannot be used."""
        where = self.certificates
        if where is None:
            context = ssl.create_default_context()
            if not context.cert_store_stats()["x509_ca"] and not _has_system_store():
                import certifi

                context.load_verify_locations(certifi.where())
        elif Path(where).is_dir():
            context = ssl.create_default_context(capath=where)
        else:
            context = ssl.create_default_context(cafile=where)
        if authority is not None and Path(authority).is_dir():
            for path in sorted(Path(authority).glob("*.crt")):
                context.load_verify_locations(path)
        elif authority is not None:
            context.load_verify_locations(authority)
        if self.client_certificate:
            context.load_cert_chain(self.client_certificate)
        if not verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def _has_system_store() -> bool:
    folder = ssl.get_default_verify_paths().capath
    try:
        return any(os.scandir(folder))
    except OSError:
        return False


def _netrc(host: str) -> Login | None:
    place = os.environ.get("NETRC")
    try:
        home = Path.home()
    except RuntimeError:  # no home folder, as in some containers
        return None
    for path in [Path(place)] if place else [home / ".netrc", home / "_netrc"]:
        try:
            found = netrc.netrc(str(path)).authenticators(host)
        except (OSError, netrc.NetrcParseError, UnicodeDecodeError):
            continue
        if found:
            return Secret(found[0] or found[1] or ""), Secret(found[2] or "")
    return None
