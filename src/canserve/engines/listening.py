"""Where processes listen, from their own words: what has to be free before, and what is waited for after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from canserve.engines import ray

_SERVERS = {"vllm": 8000, "sglang": 30000, "llama.cpp": 8080, "lmdeploy": 23333}
"""The port that each engine's server takes where none is named: its own documentation."""
_JOINS = "rpc-server"
"""End of the name of a program that lends its machine to a server on another one."""
_PROGRAMS = {
    "vllm": "vllm",
    "vllm.entrypoints.openai.api_server": "vllm",
    "sglang": "sglang",
    "sglang.launch_server": "sglang",
    "llama-server": "llama.cpp",
    "lmdeploy": "lmdeploy",
}
"""Programs and modules that start a server, with their engine."""


@dataclass(frozen=True, slots=True)
class Listens:
    """Ports of one process; None: it has none of that kind."""

    api: int | None = None
    """Requests come here."""
    join: int | None = None
    """Further processes come here."""

    @property
    def all(self) -> tuple[int, ...]:
        """Those that must be free before it starts."""
        return tuple(port for port in (self.api, self.join) if port is not None)


def listens(engine: str, argv: Sequence[str]) -> Listens:
    """The ports of one process."""
    if ray.starts(argv):
        return Listens(join=_number(argv, "--port") if "--head" in argv else None)
    if argv[:1] and argv[0].endswith(_JOINS):
        return Listens(join=_number(argv, "--port"))
    if "--headless" in argv or (_word(argv, "--node-rank") or "0") != "0":
        return Listens()
    join = _number(argv, "--master-port") if _word(argv, "--nnodes") else None
    if (first := _word(argv, "--dist-init-addr")) is not None and first.rpartition(":")[2].isdecimal():
        join = int(first.rpartition(":")[2])
    return Listens(_number(argv, "--port", "--server-port") or _SERVERS.get(engine), join)


def api_port(argv: Sequence[str]) -> int | None:
    """Where a server answers whose engine only its words tell; None: these words start none."""
    names = (word.rpartition("/")[2] for word in argv[:6] if not word.startswith("-"))
    engine = next((_PROGRAMS[name] for name in names if name in _PROGRAMS), None)
    return listens(engine, argv).api if engine is not None else None


def asked_at(argv: Sequence[str], port: int) -> str:
    """The URL at which a server is asked on its own machine: ``http://127.0.0.1:8000``."""
    host = _word(argv, "--host", "--server-name") or ""
    host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - read, not bound
    shown = f"[{host}]" if ":" in host else host
    scheme = "https" if any(word.startswith(("--ssl-key", "--ssl-cert")) for word in argv) else "http"
    return f"{scheme}://{shown}:{port}{_word(argv, '--api-prefix') or ''}"


def _word(argv: Sequence[str], *names: str) -> str | None:
    """The value of a flag, in either form; the last one counts."""
    found = None
    for number, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if name in names:
            found = value if equals else next(iter(argv[number + 1 : number + 2]), None)
    return found


def _number(argv: Sequence[str], *names: str) -> int | None:
    word = _word(argv, *names)
    return int(word) if word is not None and word.isdecimal() and 0 < int(word) < 1 << 16 else None
