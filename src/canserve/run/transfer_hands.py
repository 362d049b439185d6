"""With what something is copied, and what came of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from canserve.commands.ssh import Route
from canserve.plan.roads import Leg, Road, eta
from canserve.run.transfer_talk import Came, Far, TransferError, follow, secret
from canserve.subjects.cluster import Node
from canserve.trees.fanout import fanout
from canserve.units import Bytes

ATTEMPTS = 4
WIDE = 8
"""Machines that something is copied to at once."""
PAUSE = 2.0
"""Seconds before another attempt, times the attempts so far."""
NOTHING = Bytes(0)
ENDING = 10.0
"""Seconds that what was interrupted has to end."""
WIDTH = 4
"""Connections between two machines at once."""


@dataclass(frozen=True, slots=True)
class Carried:
    """What became of one thing on one machine."""

    what: str
    machine: str
    road: Road
    source: str | None
    """The machine it came from."""
    moved: Bytes = NOTHING
    """What passed over the network."""
    seconds: float = 0.0
    digest: str | None = None
    """Verified on that machine."""
    note: str = ""
    problem: str | None = None
    """Why it is not there; None: it is."""
    argv: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Commands by machine: what is run, or with a dry run would be."""


@dataclass(frozen=True, slots=True)
class Hands:
    """With what something is copied."""

    nodes: Mapping[str, Node]
    routes: Mapping[str, Route]
    tell: Callable[[str], None] = lambda _: None
    dry: bool = False
    broken: dict[tuple[str, str], str] = field(default_factory=dict)
    """Pairs of machines between which no direct way was found, and why."""

    stopped: threading.Event = field(default_factory=threading.Event)
    live: list[Far] = field(default_factory=list)
    """Programs that are running."""

    def together(self, leg: Callable[[Leg], Carried], legs: Sequence[Leg]) -> list[Carried]:
        """All of them at the same time. Interrupted, it ends at once, and what runs over there with it."""
        late = float("inf")
        found: list[Carried] = []
        worker = threading.Thread(target=lambda: found.extend(fanout(leg, legs, WIDE)), daemon=True)
        worker.start()
        try:
            while worker.is_alive():
                worker.join(0.1)
                if not self.stopped.is_set():
                    continue
                self.end()
                late = min(late, time.monotonic() + ENDING)
                if time.monotonic() > late:  # a machine that fetches something itself is not waited for
                    return [Carried("", one.to, one.road, one.source, problem="interrupted") for one in legs]
        finally:
            if worker.is_alive():
                self.stopped.set()
                self.end()
        if len(found) != len(legs):
            raise RuntimeError("a copy ended without a result")
        return found

    def end(self) -> None:
        """End what runs."""
        for each in tuple(self.live):
            each.kill()

    def route(self, name: str) -> Route | None:
        """To a machine; None: it is this one."""
        return self.routes.get(name)


@dataclass(frozen=True, slots=True)
class Job:
    """One copy, as both programs are told of it."""

    what: str
    send: Mapping[str, Any]
    take: Mapping[str, Any]
    settle: Callable[
        [Mapping[str, Any], Mapping[str, Any]], tuple[dict[str, Any], dict[str, Any], int | None]
    ]
    """From what the sender and the taker said at first to both their orders, and to the bytes that will come.
    Raises TransferError where it cannot succeed."""
    width: int = 1


def carried_over(job: Job, leg: Leg, hands: Hands) -> tuple[dict[str, Any], Road, str]:
    """Carry out a leg, on after every cut: what the taker says, by which road it came, a remark. Raises TransferError."""
    assert leg.source is not None
    road, remark = leg.road, ""
    attempt = 0
    while True:
        attempt += 1
        try:
            return _understood(job, leg, road, hands), road, remark
        except TransferError as error:
            if error.kind == "Unreached" and road == "direct":
                road, remark = "through", f"not straight: {error}"
                continue
            if error.kind not in {"Cut", "Unreached"} or attempt == ATTEMPTS or hands.stopped.is_set():
                raise
            hands.tell(f"{job.what} to {leg.to}: {error}; going on from there")
            time.sleep(PAUSE * attempt)


def _understood(job: Job, leg: Leg, road: Road, hands: Hands) -> dict[str, Any]:
    """One attempt, in which a machine may say anything."""
    try:
        done = _once(job, leg, road, hands)
        return {**done, "wire": int(done["wire"]), "got": int(done["got"])}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        why = f"{leg.source} or {leg.to} answered in another form than was asked for"
        raise TransferError(f"{why}: {type(error).__name__}: {error}") from None


def _once(job: Job, leg: Leg, road: Road, hands: Hands) -> dict[str, Any]:
    """One attempt."""
    assert leg.source is not None
    ask, answer = secret(), secret()
    listen = hands.nodes[leg.to].ip if road == "direct" else None
    hands.tell(f"{job.what}: {leg.source} to {leg.to}")
    with ExitStack() as stack:
        sender, taker = _both(leg.source, leg.to, hands, stack)
        sender.order(**job.send, direct=road == "direct")
        first = sender.answer()
        taker.order(**job.take, files=first.get("files", []), listen=listen, ask=ask, answer=answer)
        has = taker.answer()
        if road == "direct" and not has.get("port"):
            raise TransferError(f"{leg.to} has no address {listen}", "Unreached")
        to_send, to_take, whole = job.settle(first, has)
        taker.order(**to_take, direct=road == "direct", width=job.width)
        to = [listen, has["port"], ask, answer] if road == "direct" else None
        sender.order(**to_send, to=to, width=job.width)
        if road != "direct":
            sender.pass_on(taker)

        def tell(came: Came) -> None:
            hands.tell(
                f"{job.what} to {leg.to}: {came.phase}, {eta(came.got, total(whole, came), came.seconds)}"
            )

        return follow(taker, sender if road == "direct" else None, tell)


def total(expected: int | None, came: Came) -> int | None:
    """Bytes of which so many came. ``expected``: what engines say of an image is the contents of its files alone.

    An archive holds their names and owners too, and a file may differ that was thought to be the same: once what is
    announced is more than what was expected, that is the better number.
    """
    return None if expected is None else max(expected, came.announced, came.got)


def _both(source: str, to: str, hands: Hands, stack: ExitStack) -> tuple[Far, Far]:
    """Both programs, started at the same time. Raises TransferError."""

    def start(name: str) -> Far | TransferError:
        try:
            return Far(name, hands.route(name))
        except TransferError as error:
            return error

    found = fanout(start, (source, to), 2)
    for each in found:
        if isinstance(each, Far):
            stack.callback(each.close)
            hands.live.append(each)
            stack.callback(hands.live.remove, each)
    for each in found:
        if isinstance(each, TransferError):
            raise each
    sender, taker = (each for each in found if isinstance(each, Far))
    return sender, taker


def by_name(nodes: Sequence[Node]) -> dict[str, Node]:
    """Machines by their names."""
    return {node.name: node for node in nodes}
