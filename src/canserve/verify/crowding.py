"""Many at once: one question to every replica, more requests than there is room for, clients that hang up."""

from __future__ import annotations

import threading
import time
import uuid
from dataclasses import replace
from functools import partial

from canserve.checks.served.prometheus import made, total
from canserve.checks.served.texts import right
from canserve.facts import Evidence, Fact, Known, Missing
from canserve.rules.questions import named, questions
from canserve.subjects.served import Answer, Asked, Cancelled, Copies, Crowd, Reply
from canserve.trees.fanout import fanout
from canserve.verify.asking import Ask, Asker
from canserve.verify.client import Response
from canserve.verify.conversation import ROOM, Rooms, joined
from canserve.verify.reply import Stream
from canserve.verify.status import busy, metrics

LEFT_STREAMS = 2
_PIECES = 12
"""Of each stream, before it is left."""
_POLL = 0.25
_QUIET = 1.0
"""Seconds between two looks at what a server makes."""


def copies(asker: Asker, rooms: Rooms, count: int, known: Fact[tuple[Asked, ...]]) -> Fact[Copies]:
    """One question that it knows the answer to, many times at once, each with a beginning of its own."""
    question = named(_mastered(known))
    before = _made(asker)
    asks = [
        Ask(
            f"copy {n + 1} of {count}",
            f"(Request {uuid.uuid4().hex[:8]}.) {question.ask}",
            rooms.of(ROOM),
            share=2 * count,
        )
        for n in range(count)
    ]
    replies = joined(fanout(asker.reply, asks, count))
    if isinstance(replies, Missing):
        return replies
    shares = (
        {label: value - before.get(label, 0.0) for label, value in _made(asker).items()} if before else {}
    )
    return Known(Copies(question.name, replies.value, shares), replies.evidence)


def _mastered(known: Fact[tuple[Asked, ...]]) -> str:
    """A question that was answered rightly before; the first where none was."""
    asked = known.value if isinstance(known, Known) else ()
    names = (
        each.name for each in asked if isinstance(each.reply, Answer) and right(named(each.name), each.reply)
    )
    return next(names, questions("fact")[0].name)


def _made(asker: Asker) -> dict[str, float]:
    page = metrics(asker)
    return made(page.value.text) if isinstance(page, Known) and page.value.status == 200 else {}


def crowd(asker: Asker, count: int) -> Fact[Crowd]:
    """More requests at once than a small server holds, and a question afterwards."""
    asks = [
        Ask(f"one of {count} at once", f"(Request {uuid.uuid4().hex[:8]}.) Say hello.", 16, share=2 * count)
        for _ in range(count)
    ]
    replies = joined(fanout(asker.reply, asks, count))
    if isinstance(replies, Missing):
        return replies
    after = asker.reply(Ask("after the crowd", named("week").ask, 16))
    if isinstance(after, Missing):
        return after
    return Known(Crowd(replies.value, after.value), (*replies.evidence, *after.evidence))


def cancelled(asker: Asker, rooms: Rooms) -> Fact[Cancelled]:
    """Long streams that are left after a few pieces, and what the server still runs afterwards."""
    limits = asker.client.limits
    before, room = busy(asker), min(4096, rooms.context // 2 if rooms.context else 1024)
    seen: list[float] = []
    lock = threading.Lock()

    def use(stream: Stream, response: Response) -> Reply:
        reply = stream.read(response, _PIECES)
        count = busy(asker)  # while the stream is still open
        with lock:
            seen.extend(() if count is None else (count,))
        return reply

    def leave(number: int) -> Fact[Reply]:
        prompt = f"(Request {uuid.uuid4().hex[:8]}.) Tell a very long story about a lighthouse."
        ask = Ask(f"a story that is left, {number + 1}", prompt, room, stream=True, more={"ignore_eos": True})
        stream = Stream(limits, most=4 * room + 256)
        reply = asker.exchange(ask, partial(use, stream), stream)
        if isinstance(reply, Known) and not isinstance(reply.value, Answer):  # it may not know that field
            stream = Stream(limits, most=4 * room + 256)
            return asker.exchange(replace(ask, more={}), partial(use, stream), stream)
        return reply

    left = joined(fanout(leave, range(LEFT_STREAMS), LEFT_STREAMS))
    if isinstance(left, Missing):
        return left
    start = time.monotonic()
    after = busy(asker)
    while after is not None and after > (before or 0) and time.monotonic() - start < limits.settle:
        time.sleep(_POLL)
        after = busy(asker)
    waited = time.monotonic() - start
    following = asker.reply(Ask("after the streams that were left", named("week").ask, rooms.of(16)))
    if isinstance(following, Missing):
        return following
    if after is not None and after > (before or 0):
        after = busy(asker)  # once more: some servers count only while they work
    growing = after is not None and after > (before or 0) and _grows(asker)
    during = max(seen, default=None)
    looks = (*left.evidence, _counted(asker, before, during, after), *following.evidence)
    found = Cancelled(
        LEFT_STREAMS, before, during, after, waited, _rest(left.value, room), following.value, growing
    )
    return Known(found, looks)


def _grows(asker: Asker) -> bool:
    """Whether the server makes tokens while nobody asks for any."""
    counts = []
    for turn in range(2):
        time.sleep(turn * _QUIET)
        page = metrics(asker)
        counts.append(
            total(page.value.text) if isinstance(page, Known) and page.value.status == 200 else None
        )
    sooner, later = counts
    return sooner is not None and later is not None and later > sooner


def _rest(replies: tuple[Reply, ...], room: int) -> float | None:
    """Seconds that these streams would have gone on. Pieces that came together make one look fast: the slower counts."""
    paces = [
        (reply.arrivals[-1] - reply.arrivals[0]) / (len(reply.arrivals) - 1)
        for reply in replies
        if isinstance(reply, Answer) and len(reply.arrivals) > 1
    ]
    return max(paces) * (room - _PIECES) if paces and len(paces) == len(replies) else None


def _counted(asker: Asker, before: float | None, during: float | None, after: float | None) -> Evidence:
    said = ", ".join(f"{'?' if count is None else f'{count:g}'} {when}" for count, when in
                     ((before, "before"), (during, "with the streams"), (after, "after they were left")))  # fmt: skip
    return Evidence(asker.client.endpoint.subject, "GET metrics: requests running", said, before is not None)
