"""What a server sent, read as a reply. Everything is hostile: any field may be absent, huge or of another type."""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass, field
from typing import Any

from canserve.subjects.served import Answer, Broken, Chance, Refusal, Reply, ToolCall
from canserve.verify.client import Response
from canserve.verify.limits import Limits
from canserve.verify.sse import StreamError, events

_REASONING = ("reasoning_content", "reasoning")
_MOST_CALLS = 64


def read_all(response: Response, most: int) -> bytes:
    """The whole body. Raises StreamError where it is larger than ``most`` bytes."""
    held, size = [], 0
    for chunk in response.chunks:
        size += len(chunk)
        if size > most:
            raise StreamError(f"a reply of more than {most} bytes")
        held.append(chunk)
    return b"".join(held)


def read_reply(response: Response, limits: Limits) -> Reply:
    """A reply that is not streamed."""
    if (redirect := _redirected(response)) is not None:
        return redirect
    try:
        body = read_all(response, limits.body)
    except StreamError as error:
        return Broken(str(error), _since(response))
    seconds = _since(response)
    if response.status != 200:
        return refusal(response, body, seconds)
    document = parsed(body)
    if not isinstance(document, dict):
        return Broken(f"{_what(response, body)} instead of a JSON object", seconds)
    return _answer(document, seconds)


def refusal(response: Response, body: bytes, seconds: float) -> Refusal:
    """A reply with an error status, in its own words."""
    document = parsed(body)
    orderly = isinstance(document, dict)
    return Refusal(response.status, _message(document) or _start(body), orderly, seconds)


def parsed(body: bytes | str) -> Any:
    """JSON, or None where it is none."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _redirected(response: Response) -> Broken | None:
    if 300 <= response.status < 400:
        from canserve.trees.secret import shown

        where = shown(response.headers.get("location", ""))[:200]
        return Broken(
            f"a redirect ({response.status}) to {where or 'nowhere'}; it was not followed", _since(response)
        )
    return None


def _since(response: Response) -> float:
    return time.monotonic() - response.start


def _what(response: Response, body: bytes) -> str:
    if "html" in response.kind or body.lstrip()[:1] == b"<":
        return f"a page of {response.kind or 'markup'}"
    return f"{response.kind or 'an untyped reply'} ({_start(body)!r})"


def _start(body: bytes) -> str:
    return " ".join(body[:400].decode("utf-8", "replace").split())[:200]


def _message(document: Any) -> str:
    if not isinstance(document, dict):
        return ""
    error = document.get("error", document)
    for key in ("message", "detail", "msg", "error"):
        if isinstance(error, dict) and isinstance(error.get(key), str):
            return str(error[key])[:500]
    return error[:500] if isinstance(error, str) else json.dumps(document)[:300]


def _answer(document: dict[str, Any], seconds: float) -> Reply:
    choice = _first(document.get("choices"))
    if choice is None:
        said = _message(document) if "error" in document else ", ".join(sorted(map(str, document))[:8])
        return Broken(f"a JSON object without choices: {said}"[:300], seconds)
    message = choice.get("message")
    if not isinstance(message, dict):
        return Broken("a choice without a message", seconds)
    usage = document.get("usage")
    return Answer(
        text=_text(message.get("content")),
        finish=_text(choice.get("finish_reason")) or None,
        seconds=seconds,
        model=_text(document.get("model")) or None,
        reasoning=_reasoning(message),
        calls=_calls(message.get("tool_calls")),
        chances=chances(choice.get("logprobs")),
        prompt_tokens=_count(usage, "prompt_tokens"),
        completion_tokens=_count(usage, "completion_tokens"),
    )


def _reasoning(message: dict[str, Any]) -> str:
    return next((text for name in _REASONING if (text := _text(message.get(name)))), "")


def _first(choices: Any) -> dict[str, Any] | None:
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        return choices[0]
    return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _count(usage: Any, name: str) -> int | None:
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _calls(found: Any) -> tuple[ToolCall, ...]:
    calls = found[:_MOST_CALLS] if isinstance(found, list) else []
    functions = [call.get("function") for call in calls if isinstance(call, dict)]
    return tuple(
        ToolCall(_text(f.get("name")), _arguments(f.get("arguments")))
        for f in functions
        if isinstance(f, dict)
    )


def _arguments(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value) if value is not None else ""


def chances(found: Any) -> tuple[Chance, ...] | None:
    """Token by token; None where there is nothing of that form."""
    content = found.get("content") if isinstance(found, dict) else None
    if not isinstance(content, list) or not content:
        return None
    return tuple(
        Chance(_text(one.get("token")), _number(one.get("logprob")), _tops(one.get("top_logprobs")))
        for one in content[:4096]
        if isinstance(one, dict)
    )


def _tops(found: Any) -> tuple[float, ...]:
    rows = found[:64] if isinstance(found, list) else []
    return tuple(_number(row.get("logprob")) for row in rows if isinstance(row, dict))


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan


@dataclass(slots=True)
class _Gathered:
    """A streamed answer, piece by piece."""

    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: dict[int, tuple[list[str], list[str]]] = field(default_factory=dict)
    """By index: pieces of names and of arguments."""
    arrivals: list[float] = field(default_factory=list)
    finish: str | None = None
    model: str | None = None
    usage: Any = None
    chances: list[Chance] = field(default_factory=list)

    def take(self, document: dict[str, Any], when: float) -> None:
        """One event."""
        self.model = self.model or _text(document.get("model")) or None
        self.usage = document.get("usage") or self.usage
        choice = _first(document.get("choices"))
        if choice is None:
            return
        self.finish = _text(choice.get("finish_reason")) or self.finish
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            return
        text, thought = _text(delta.get("content")), _reasoning(delta)
        self.text.append(text)
        self.reasoning.append(thought)
        for position, call in enumerate(_list(delta.get("tool_calls"))):
            self._call(position, call)
        self.chances.extend(chances(choice.get("logprobs")) or ())
        if text or thought or delta.get("tool_calls"):
            self.arrivals.append(when)

    def _call(self, position: int, call: Any) -> None:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            return
        index = call.get("index")
        index = index if isinstance(index, int) else position
        if index in self.calls or len(self.calls) < _MOST_CALLS:
            names, arguments = self.calls.setdefault(index, ([], []))
            names.append(_text(function.get("name")))
            arguments.append(_arguments(function.get("arguments")))

    def answer(self, seconds: float, ended: bool) -> Answer:
        """All of it."""
        calls = (ToolCall("".join(names), "".join(args)) for _, (names, args) in sorted(self.calls.items()))
        return Answer(
            "".join(self.text), self.finish, seconds, self.model, "".join(self.reasoning), tuple(calls),
            tuple(self.chances) or None, _count(self.usage, "prompt_tokens"), _count(self.usage, "completion_tokens"),
            tuple(self.arrivals), streamed=True, ended=ended,
        )  # fmt: skip


def _list(value: Any) -> list[Any]:
    return value[:_MOST_CALLS] if isinstance(value, list) else []


@dataclass(slots=True, eq=False)
class Stream:
    """A streamed reply being read: ``pieces`` counts as it goes, for whoever gives up waiting."""

    limits: Limits
    most: int
    """Pieces that the request can have: more are no answer to it."""
    pieces: int = 0
    gathered: _Gathered = field(default_factory=_Gathered)

    @property
    def arrived(self) -> int:
        """Pieces with text that have come."""
        return len(self.gathered.arrivals)

    @property
    def first(self) -> float | None:
        """Seconds from sending to the first of them; None: none has come."""
        return self.gathered.arrivals[0] if self.gathered.arrivals else None

    @property
    def counted(self) -> int | None:
        """Tokens of the answer by the server's own count; None: it has not said."""
        return _count(self.gathered.usage, "completion_tokens")

    def read(self, response: Response, leave_after: int | None = None) -> Reply:
        """All of it, or ``leave_after`` pieces: the rest is left where it is, and the connection closed."""
        if (redirect := _redirected(response)) is not None:
            return redirect
        try:
            return self._read(response, leave_after)
        except StreamError as error:
            return Broken(str(error), _since(response))

    def _read(self, response: Response, leave_after: int | None) -> Reply:
        if response.status != 200 or response.kind != "text/event-stream":
            body = read_all(response, self.limits.body)
            if response.status != 200:
                return refusal(response, body, _since(response))
            return Broken(f"{_what(response, body)} instead of a stream of events", _since(response))
        for data in events(response.chunks, self.limits.line, self.limits.body):
            if data.strip() == "[DONE]":
                return self.gathered.answer(_since(response), ended=True)
            document = parsed(data)
            if not isinstance(document, dict):
                return Broken(f"an event that is no JSON object: {data[:80]!r}", _since(response))
            if "error" in document and not document.get("choices"):
                return Broken(f"an error in the stream: {_message(document)}", _since(response))
            self.pieces += 1
            if self.pieces > self.most:
                return Broken(f"a stream without an end: more than {self.most} pieces", _since(response))
            self.gathered.take(document, _since(response))
            if leave_after is not None and len(self.gathered.arrivals) >= leave_after:
                return self.gathered.answer(_since(response), ended=False)
        return self.gathered.answer(_since(response), ended=False)
