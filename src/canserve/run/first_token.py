"""One small request to a server that is ready: the first token is a phase of its own, and may take its time."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from canserve.commands import watching
from canserve.probes.live import Way, asked
from canserve.run.watching_look import Eyes
from canserve.transport.frames import Answer, Section
from canserve.transport.reach import Limits

SECONDS = 300
"""For the first token: kernels may be built for it."""
_BYTES = 256_000
_MODELS, _COMPLETIONS = "/v1/models", "/v1/completions"


@dataclass(frozen=True, slots=True)
class First:
    """What became of the request."""

    answered: bool | None
    """None: it was not sent, or refused for a reason that says nothing of the server."""
    why: str = ""


def first_token(eyes: Eyes, stop: Callable[[], bool]) -> First:
    """Ask the deployment's own machine to ask it, for one token of its first model."""
    where = eyes.endpoint
    if where is None:
        return First(None, "its address is not known")
    status, body = _said(eyes, watching.request(where[1] + _MODELS, None, 20), 30, stop)
    name = _model(body) if status == 200 else None
    if name is None:
        return First(
            None, f"{_MODELS} names no model (HTTP {status})" if status else "nothing there can ask it"
        )
    asking = json.dumps({"model": name, "prompt": "Hello", "max_tokens": 1})
    script = watching.request(where[1] + _COMPLETIONS, asking, SECONDS)
    status, body = _said(eyes, script, SECONDS + 20, stop)
    if status is None:
        return First(False, f"ready, but gave no answer to its first request within {SECONDS} s")
    if status == 200:
        return First(True)
    said = " ".join(body.split())[:300]
    if status >= 500:
        return First(False, f"ready, but its first request failed with HTTP {status}: {said}")
    return First(None, f"HTTP {status}: {said}")


def _said(eyes: Eyes, script: str, seconds: float, stop: Callable[[], bool]) -> tuple[int | None, str]:
    """Status and body; a status of None: no answer."""
    assert eyes.endpoint is not None
    node = eyes.nodes[eyes.endpoint[0]]
    limits = Limits(whole=seconds, stop=stop)
    found = asked(node, eyes.nodes, (Section("request", script, _BYTES),), Way(), limits).section("request")
    if not isinstance(found, Answer):
        return None, ""
    body, _, status = found.text.rstrip().rpartition("\n")
    return (int(status), body) if status.isdecimal() and 100 <= int(status) < 600 else (None, "")


def _model(body: str) -> str | None:
    """The first model that the server lists."""
    try:
        listed = json.loads(body)["data"][0]["id"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return listed if isinstance(listed, str) and listed.isprintable() and len(listed) < 1000 else None
