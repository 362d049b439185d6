"""Ask one thing and note what came: a reply of any kind is known; only what could not be asked is missing."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from canserve.checks.served.words import say, say_page
from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.subjects.served import Broken, Page, Reply, Silence
from canserve.trees.secret import shown
from canserve.verify.client import Client, CutError, RefusedError, Response, SilentError, UnreachedError
from canserve.verify.ledger import Ledger
from canserve.verify.limits import Clock
from canserve.verify.reply import Stream, read_all, read_reply
from canserve.verify.sse import StreamError

_LOST, _LOST_SLACK = 5.0, 8.0
"""Seconds, and times a first answer, that a request gets where some are lost."""
_SLACK = 2.0
"""Times what a request should take at most, before it is given up."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One chat request."""

    about: str
    """What it is for, in a few words."""
    prompt: str
    room: int
    """Tokens that the answer may have."""
    stream: bool = False
    temperature: float | None = 0.0
    """None: as the server's own default says."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the request."""
    share: float = 1.0
    """How much longer than a first, short answer it may take by what is known: its place in a queue, its length."""


@dataclass(slots=True)
class Asker:
    """Puts questions to one endpoint."""

    client: Client
    clock: Clock
    model: str = ""
    unit: float = 0.0
    """Seconds of a first, short answer: what silence means depends on how slow the server is."""

    losing: bool = False
    """Whether some requests were seen to be lost while others were answered."""
    ledger: Ledger = field(default_factory=Ledger)
    """Is told of every request."""

    def patience(self, ask: Ask) -> float:
        """Seconds after which this request is given up, while there is time."""
        usual = self.client.limits.patience
        if self.losing:  # that a request may be lost is known: the others are not waited for as long
            usual = min(usual, max(_LOST, _LOST_SLACK * self.unit))
        return max(usual, _SLACK * self.unit * ask.share)

    def reply(self, ask: Ask, leave_after: int | None = None) -> Fact[Reply]:
        """One chat request. ``leave_after``: hang up after so many pieces of a stream."""
        stream = Stream(self.client.limits, most=4 * ask.room + 256)

        def use(response: Response) -> Reply:
            return (
                stream.read(response, leave_after) if ask.stream else read_reply(response, self.client.limits)
            )

        return self.exchange(ask, use, stream)

    def exchange(self, ask: Ask, use: Any, stream: Stream) -> Fact[Reply]:
        """The same, with the open reply handed to ``use``, which makes a reply of it."""
        with self.ledger.request(stream):
            return self._exchange(ask, use, stream)

    def _exchange(self, ask: Ask, use: Any, stream: Stream) -> Fact[Reply]:
        how = f"POST /v1/chat/completions: {ask.about}{', streamed' if ask.stream else ''}"
        patience = self.patience(ask)
        seconds = min(patience, self.clock.left())
        if seconds <= 0:
            return self._late(how)
        start = time.monotonic()
        body = json.dumps(self._body(ask)).encode()
        url = self.client.endpoint.protocol("chat/completions")
        reply: Reply
        try:
            reply = self.client.send("POST", url, body, seconds, use)
        except UnreachedError as error:
            return Missing(Cause.UNREACHED, str(error), (self._look(how, str(error)),), error.ask)
        except SilentError:
            waited = time.monotonic() - start
            if waited < patience * 0.95:  # cut short by the time for all of it
                return self._late(how)
            reply = Silence(waited, stream.pieces)
        except (RefusedError, CutError) as error:
            reply = Broken(f"the connection ended: {error}", time.monotonic() - start)
        return Known(reply, (self._look(how, say(reply)),))

    def page(self, path: str, *, protocol: bool = False) -> Fact[Page]:
        """A plain look at one address. Missing where it did not answer."""
        endpoint = self.client.endpoint
        url = endpoint.protocol(path) if protocol else endpoint.page(path)
        how = f"GET {'/v1/' if protocol else ''}{path}"
        seconds = min(self.client.limits.patience, self.clock.left(), 30.0)
        if seconds <= 0:
            return self._late(how)
        try:
            page = self.client.send("GET", url, None, seconds, self._page)
        except UnreachedError as error:
            return Missing(Cause.UNREACHED, str(error), (self._look(how, str(error)),), error.ask)
        except RefusedError as error:
            return Missing(Cause.UNAVAILABLE, str(error), (self._look(how, str(error)),), "start the server")
        except SilentError as error:
            why = f"GET {path}: no whole answer within {error} s"
            return Missing(Cause.UNAVAILABLE, why, (self._look(how, why, whole=False),), "look at its log")
        except (CutError, StreamError) as error:
            why = f"{how}: {error}"
            return Missing(
                Cause.UNREADABLE, why, (self._look(how, str(error), whole=False),), "look at its log"
            )
        assert isinstance(page, Page)
        return Known(page, (self._look(how, say_page(page)),))

    def _page(self, response: Response) -> Page:
        text = read_all(response, self.client.limits.body).decode("utf-8", "replace")
        location = response.headers.get("location")
        return Page(response.status, response.kind, text, shown(location)[:200] if location else None)

    def _body(self, ask: Ask) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": "user", "content": ask.prompt}],
            "max_tokens": ask.room,
            "stream": ask.stream,
        }
        if ask.temperature is not None:
            body["temperature"] = ask.temperature
        if ask.stream:
            body["stream_options"] = {"include_usage": True}
        return body | dict(ask.more)

    def _late(self, how: str) -> Missing:
        why = f"the {self.clock.limits.total:.0f} s for all questions were over"
        return Missing(
            Cause.UNREACHED, why, (self._look(how, "not asked", whole=False),), "give it more: --time SECONDS"
        )

    def _look(self, how: str, saw: str, whole: bool = True) -> Evidence:
        when = datetime.now(UTC).isoformat(timespec="seconds")
        return Evidence(self.client.endpoint.subject, how, saw, whole, when)
