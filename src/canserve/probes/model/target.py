"""From what a user typed to where the model's files lie."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from canserve.facts import Cause, Evidence, Missing
from canserve.probes.model.files import Repository
from canserve.probes.model.folder import Folder, NamedFiles
from canserve.probes.model.gguf_files import SHARD
from canserve.probes.model.hub import open_online
from canserve.probes.model.hub_cache import ONLINE, open_cached
from canserve.probes.model.hub_client import HubClient
from canserve.probes.model.options import Options
from canserve.subjects.model import ONLY_CONFIG
from canserve.trees.names import printable

_HUB = re.compile(
    r"(?P<repo>[\w.-]+(/[\w.-]+)?)(/(?P<file>[^@:]+\.gguf))?(:(?P<variant>[\w.-]+))?(@(?P<revision>[^@\s]+))?"
)
_ONLY_GGUF = Missing(Cause.UNREACHED, "only a GGUF file was named")


@dataclass(frozen=True, slots=True)
class Target:
    """Where a model lies, and which of its GGUF files is meant."""

    repository: Repository
    gguf: str | None = None


def locate(spec: str, options: Options) -> Target | Missing:
    """``org/name[@revision]``, a folder, a config or a GGUF file. What exists on this disk is not the Hub's.

    Of a Hub repository with several GGUF quantizations, ``org/name:Q4_K_M`` or ``org/name/file.gguf`` is one.
    """
    if not spec:
        return _refused(spec, "an empty name is not a Hub id", "write org/name, or a path that exists")
    path = Path(os.path.expanduser(spec))  # noqa: PTH111 - Path.expanduser raises for unknown users
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return _elsewhere(spec, options)
    except (OSError, ValueError) as error:  # ValueError: a NUL inside
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return _refused(spec, printable(reason))
    if stat.S_ISDIR(mode):
        return Target(Folder(path, spec))
    if not stat.S_ISREG(mode):
        return _refused(spec, "not a regular file")
    return _file(spec, path)


def _file(spec: str, path: Path) -> Target | Missing:
    name = path.name.lower()
    if name.endswith((".safetensors", ".bin", ".pt", ".pth")):
        return _refused(spec, "a file of weights", f"name its folder: {printable(str(path.parent))}")
    if name.endswith(".gguf") or _magic(path) == b"GGUF":
        parts = _parts(path)
        return Target(NamedFiles("gguf", parts, spec, _ONLY_GGUF), printable(path.name, 255))
    return Target(NamedFiles("config", [path], spec, ONLY_CONFIG))


def _magic(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(4)
    except OSError:
        return b""


def _parts(path: Path) -> list[Path]:
    """The file, and the other parts of the split model it belongs to."""
    match = SHARD.fullmatch(path.name)
    if match is None or not 0 < int(match["count"]) <= 1000:
        return [path]
    names = (f"{match['stem']}-{n:05}-of-{match['count']}.gguf" for n in range(1, int(match["count"]) + 1))
    return [part for name in names if (part := path.with_name(name)).is_file()]


def _elsewhere(spec: str, options: Options) -> Target | Missing:
    looks_local = spec.startswith((".", "/", "~")) or spec.endswith(".json") or os.sep * 2 in spec
    match = None if looks_local else _HUB.fullmatch(spec)
    if match is None:
        return _refused(
            spec, "no such file or folder, and not a Hub id", "write org/name, or a path that exists"
        )
    opened = _open_hub(match["repo"], match["revision"], spec, options)
    return opened if isinstance(opened, Missing) else Target(opened, match["file"] or match["variant"])


def _open_hub(repo: str, revision: str | None, subject: str, options: Options) -> Repository | Missing:
    """On the Hub; where that cannot be reached, as far as it lies in the local cache."""
    from huggingface_hub import constants
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(repo)
    except HFValidationError as error:
        return _refused(subject, f"not a Hub id: {printable(str(error).split('.')[0], 160)}")
    cache = options.cache or Path(constants.HF_HUB_CACHE)
    if options.offline or constants.HF_HUB_OFFLINE:
        why = f"offline, and {repo} is not in the Hub's cache on this disk"
        nothing = Missing(Cause.UNREACHED, why, (Evidence(subject, "Hub cache", why, whole=False),), ONLINE)
        return open_cached(repo, revision, subject, cache, "offline") or nothing
    opened = open_online(repo, revision, HubClient(subject, options))
    if isinstance(opened, Missing) and opened.cause is Cause.UNREACHED:
        return open_cached(repo, revision, subject, cache, f"not the Hub: {opened.why}") or opened
    return opened


def _refused(spec: str, why: str, ask: str | None = None) -> Missing:
    return Missing(
        Cause.UNAVAILABLE, f"{printable(spec, 200)}: {why}", (Evidence(spec, "name", why, whole=False),), ask
    )
