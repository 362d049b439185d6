"""Where packages come from on this machine: pip's own configuration files and environment variables.

The order is pip's (its user guide, "Configuration"): the system's files, the user's, the environment's,
the file that PIP_CONFIG_FILE names, then PIP_* variables; later ones win.
"""

from __future__ import annotations

import configparser
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from canserve.facts import Missing
from canserve.trees.index.default_index import default_index
from canserve.trees.names import unavailable, unreadable
from canserve.trees.secret import Login, Secret, without_login
from canserve.trees.web.settings import Settings

SECTIONS = ("global", "index", "download", "install")
"""Sections that apply, a later one winning over an earlier one."""
MAX_FILE = 1 << 20
_SUBJECT = "pip's configuration"
_TRUE = frozenset({"1", "true", "yes", "y", "on", "t"})
_CURL = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


@dataclass(frozen=True, slots=True)
class PipConfig:
    """What matters here of it. Addresses hold no logins; those are in ``settings``."""

    indexes: tuple[str, ...] = ()
    """Simple indexes, in order: the index and the extra ones."""
    find_links: tuple[str, ...] = ()
    """Folders and pages that list files directly."""
    settings: Settings = field(default_factory=Settings)
    unknown_default: Missing | None = None
    """Set when no index is configured and pip's own default could not be learned."""


def pip_config(
    environ: Mapping[str, str] | None = None, files: Sequence[Path] | None = None
) -> PipConfig | Missing:
    """Read it. Missing when a file that pip would read cannot be: its index might be named there."""
    env = os.environ if environ is None else environ
    values: dict[str, str] = {}
    for path in config_files(env) if files is None else files:
        found = _read(path)
        if isinstance(found, Missing):
            return found
        values.update(found)
    values.update(_from_environment(env))
    return _config(values, env)


def config_files(env: Mapping[str, str]) -> list[Path]:
    """The files that pip would read, in its order."""
    import platformdirs

    named = env.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return []
    name = "pip.ini" if os.name == "nt" else "pip.conf"
    system = platformdirs.site_config_dir("pip", appauthor=False, multipath=True).split(os.pathsep)
    files = [Path(folder, name) for folder in system]
    if os.name != "nt":
        files.append(Path("/etc", name))
    if not (named and Path(named).exists()):
        files += _user_files(name)
    files.append(Path(sys.prefix, name))
    return [*files, Path(named)] if named else files


def _user_files(name: str) -> list[Path]:
    import platformdirs

    try:
        home = Path.home()
    except RuntimeError:  # no home folder, as in some containers
        return []
    own = Path(platformdirs.user_config_dir("pip", appauthor=False, roaming=True))
    if sys.platform == "darwin" and not own.is_dir():
        own = home / ".config" / "pip"
    return [home / ("pip" if os.name == "nt" else ".pip") / name, own / name]


def _read(path: Path) -> dict[str, str] | Missing:
    try:
        if not path.is_file():
            return {}
        with path.open(encoding="utf-8") as handle:
            text = handle.read(MAX_FILE + 1)
    except PermissionError as error:
        return unavailable(_SUBJECT, str(path), error.strerror or "permission denied")
    except OSError:
        return {}
    except UnicodeDecodeError as error:
        return unreadable(_SUBJECT, str(path), f"not UTF-8: {error.reason}")
    if len(text) > MAX_FILE:
        return unreadable(_SUBJECT, str(path), f"more than {MAX_FILE} bytes")
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(text)
    except configparser.Error as error:
        return unreadable(_SUBJECT, str(path), str(error).splitlines()[0])
    found: dict[str, str] = {}
    for section in SECTIONS:
        if parser.has_section(section):
            found.update((_key(key), value) for key, value in parser.items(section) if value)
    return found


def _from_environment(env: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    for name, value in sorted(env.items()):
        if name.startswith("PIP_") and value:
            yield _key(name.removeprefix("PIP_")), value


def _key(name: str) -> str:
    plain = name.lower().replace("_", "-").removeprefix("--")
    return {"default-timeout": "timeout", "pypi-url": "index-url"}.get(plain, plain)


def _config(values: Mapping[str, str], env: Mapping[str, str]) -> PipConfig:
    logins: dict[str, Login] = {}
    unknown: Missing | None = None
    indexes: list[str] = []
    if values.get("no-index", "").lower() not in _TRUE:
        main = values.get("index-url") or default_index()
        if isinstance(main, Missing):
            unknown, main = main, ""
        indexes = [_bare(url, logins) for url in (main, *values.get("extra-index-url", "").split()) if url]
    links = tuple(_bare(link, logins) for link in values.get("find-links", "").split())
    return PipConfig(tuple(dict.fromkeys(indexes)), links, _settings(values, env, logins), unknown)


def _settings(values: Mapping[str, str], env: Mapping[str, str], logins: Mapping[str, Login]) -> Settings:
    timeout = _number(values.get("timeout"), 15.0)
    certificates = values.get("cert") or next((env[name] for name in _CURL if env.get(name)), None)
    return Settings(
        timeout=timeout,
        patience=max(60.0, timeout),
        retries=int(min(_number(values.get("retries"), 4.0), 10)),
        certificates=certificates,
        client_certificate=values.get("client-cert"),
        proxy=Secret(values["proxy"]) if "proxy" in values else None,
        trusted=frozenset(values.get("trusted-host", "").split()),
        logins=logins,
    )


def _number(text: str | None, default: float) -> float:
    try:
        number = float(text) if text is not None else default
    except ValueError:
        return default
    return number if 0 <= number < 86_400 else default


def _bare(url: str, logins: dict[str, Login]) -> str:
    """The address without its login, which is noted."""
    bare, login = without_login(url)
    if login:
        logins.setdefault(urlsplit(bare).netloc, login)
    return bare
