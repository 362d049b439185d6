"""All questions to one endpoint, in the order in which each one helps the next."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from canserve.checks.served.check import partly_lost
from canserve.facts import Evidence, Fact, Known, Missing
from canserve.rules.questions import questions
from canserve.rules.served import Told
from canserve.subjects.served import NOT_ASKED, Answer, Expected, Listed, Page, Reply, Served, Speeds
from canserve.trees.fanout import fanout
from canserve.verify import conversation as talk
from canserve.verify import crowding, ledger, status
from canserve.verify.asking import Asker
from canserve.verify.client import Client
from canserve.verify.conversation import Rooms
from canserve.verify.ledger import Ledger
from canserve.verify.length import Lengths
from canserve.verify.limits import Clock, Limits
from canserve.verify.speed import Meter
from canserve.verify.target import Endpoint

_POLL = 2.0
_CROWD_SHARE = 0.4
"""Of the time that is left, for a crowd; a server that answers one after the other gets a smaller one."""
_LEAST_CROWD = 8


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be verified, and how."""

    endpoint: Endpoint
    limits: Limits
    model: str | None = None
    context: int | None = None
    """Tokens of the longest sequence, where the user says it."""
    wants: frozenset[str] = frozenset()
    expected: Fact[Expected] | None = None
    ended: Fact[tuple[str, ...]] = NOT_ASKED
    """Processes of a deployment that are no more."""
    certificates: str | None = None
    wait: float = 0.0
    """Seconds to wait for a server that is still starting."""
    samples: Speeds | None = None
    """Speeds that were measured before; None: they are measured now."""
    tell: Callable[[str], None] = lambda _: None
    ledger: Ledger = field(default_factory=Ledger)
    """Is told of every part and request."""


def ask_all(wanted: Wanted) -> Served:
    """Everything. Never raises for what a server does."""
    client = Client(wanted.endpoint, wanted.limits, wanted.certificates)
    try:
        return _Round(wanted, Asker(client, Clock(wanted.limits), ledger=wanted.ledger)).served()
    finally:
        client.close()


@dataclass(slots=True)
class _Round:
    wanted: Wanted
    asker: Asker

    def _begin(self, part: str, doing: str, total: int = 0) -> None:
        self.wanted.tell(doing)
        self.asker.ledger.begin(part, total)

    def _end(self, served: Served) -> Served:
        self.asker.ledger.end(served)
        return served

    def served(self) -> Served:
        """The endpoint with every fact that could be had."""
        wanted = self.wanted
        served = Served(
            wanted.endpoint.subject,
            asked_for=wanted.model,
            wants=wanted.wants,
            patience=wanted.limits.patience,
            ended=wanted.ended,
        )
        if wanted.expected is not None:
            served = replace(served, expected=wanted.expected)
        self._begin(ledger.ITSELF, "asking for its models")
        served = self._end(self._status(served))
        if not _worth_asking(served):
            return served
        self._begin(ledger.FIRST, "asking a first question", 1)
        context = served.context.value if isinstance(served.context, Known) else None
        first = talk.first(self.asker, context)
        served = self._end(replace(served, first=first))
        if not isinstance(first, Known) or not isinstance(first.value, Answer) or first.value.empty:
            return served
        self.asker.unit = first.value.seconds
        rooms = Rooms(talk.thinks(first), context)
        return self._load(self._formats(self._talk(served, rooms), rooms), rooms)

    def _status(self, served: Served) -> Served:
        page = self._patiently()
        self.asker.clock.restart()
        if isinstance(page, Missing):
            return replace(served, page=page)
        listed = status.models(page)
        model = _model(self.wanted.model, listed)
        self.asker.model = model.name if model else self.wanted.model or "default"
        if page.value.status >= 300 and page.value.status != 404:
            return replace(served, page=page, models=listed)
        pages = status.pages_told(self.asker)
        told: Fact[int] = status.context(model, pages, listed)
        if self.wanted.context is not None:
            look = Evidence(served.subject, "--context", f"{self.wanted.context} tokens, as the user says")
            told = Known(self.wanted.context, (look,))
        return replace(
            served,
            model=self.asker.model,
            page=page,
            models=listed,
            health=self.asker.page("/health"),
            metrics=status.metrics(self.asker),
            context=told,
            dummy=self._dummy(pages),
        )

    def _dummy(self, pages: list[tuple[Told, Fact[Page]]]) -> Fact[str | None]:
        if "dummy" in self.wanted.wants:
            look = Evidence(
                self.wanted.endpoint.subject, "--expect dummy", "its weights are dummies, as was said"
            )
            return Known("it was said that its weights are dummies", (look,))
        return status.dummy(pages)

    def _patiently(self) -> Fact[Page]:
        """The list of models; of a server that is still starting, when it has started."""
        until = time.monotonic() + self.wanted.wait
        while True:
            self.asker.clock.restart()
            page = self.asker.page("models", protocol=True)
            starting = isinstance(page, Missing) or page.value.status in {502, 503, 504}
            if not starting or time.monotonic() >= until:
                return page
            self.wanted.tell("waiting for the server")
            self.asker.ledger.detail("waiting for the server")
            time.sleep(min(_POLL, max(until - time.monotonic(), 0.05)))

    def _talk(self, served: Served, rooms: Rooms) -> Served:
        self._begin(ledger.KNOWN, "asking what is known", len(questions("fact")))
        served = self._end(replace(served, known=talk.known(self.asker, rooms)))
        replicas = served.expected.value.replicas if isinstance(served.expected, Known) else 1
        count = max(self.wanted.limits.copies, 4 * replicas)
        self._begin(ledger.COPIES, "asking every replica", count)
        copies = crowding.copies(self.asker, rooms, count, served.known)
        served = self._end(replace(served, copies=copies))
        self.asker.losing = partly_lost(served) is not None
        self._begin(ledger.ALONE, "asking one by one", sum(each.alone for each in questions("fact")))
        served = self._end(replace(served, alone=talk.alone(self.asker, rooms)))
        self._begin(ledger.AGAIN, "asking the same again", talk.REPEATS + 1)
        repeats, streamed = talk.repeats(self.asker, rooms), talk.streamed(self.asker, rooms)
        served = self._end(replace(served, repeats=repeats, streamed=streamed))
        self._begin(ledger.TEXTS, "asking for a few sentences", len(questions("essay")))
        return self._end(replace(served, essays=talk.essays(self.asker, rooms)))

    def _formats(self, served: Served, rooms: Rooms) -> Served:
        jobs: list[Callable[[], Fact[Reply]]] = [
            lambda: talk.tool(self.asker, rooms, stream=False),
            lambda: talk.tool(self.asker, rooms, stream=True),
            lambda: talk.schema(self.asker, rooms),
            lambda: talk.stop(self.asker, rooms),
            lambda: talk.chances(self.asker, rooms),
        ]
        self._begin(ledger.FORMATS, "asking for tools, JSON, stop texts", len(jobs))
        tool, tool_streamed, schema, stop, chances = fanout(lambda job: job(), jobs, len(jobs))
        return self._end(
            replace(served, tool=tool, tool_streamed=tool_streamed, schema=schema, stop=stop, chances=chances)
        )

    def _load(self, served: Served, rooms: Rooms) -> Served:
        limits = self.wanted.limits
        per_sentence = 18.0
        self._begin(ledger.LONG, "asking with long prompts", 2 + len(limits.shares))
        if isinstance(served.context, Known):
            lengths = Lengths(self.asker, rooms, served.context.value)
            long = lengths.all()
            served = replace(served, long=long, too_long=lengths.beyond())
            per_sentence = lengths.per_sentence
        else:
            served = replace(served, long=served.context, too_long=served.context)
        self._end(served)
        self._begin(ledger.LEFT, "leaving answers in the middle", crowding.LEFT_STREAMS + 1)
        served = self._end(replace(served, cancelled=crowding.cancelled(self.asker, rooms)))
        meter = Meter(self.asker, rooms.context, per_sentence)
        self._begin(ledger.SPEED, "measuring its speed", 0 if self.wanted.samples else meter.planned)
        if self.wanted.samples is not None:
            look = Evidence(self.wanted.samples.imported, "samples", f"{len(self.wanted.samples.ramp)} runs")
            served = replace(served, speeds=Known(self.wanted.samples, (look,)))
        else:
            served = replace(served, speeds=meter.all())
        self._end(served)
        fits = max(self.asker.clock.left(), 0) * _CROWD_SHARE / max(self.asker.unit, 1e-3)
        count = max(min(limits.crowd, int(fits)), _LEAST_CROWD)
        self._begin(ledger.CROWD, "asking more than it may hold", count + 1)
        return self._end(replace(served, crowd=crowding.crowd(self.asker, count)))


def _worth_asking(served: Served) -> bool:
    """Whether there is a server, and perhaps the right model, behind the address."""
    if not isinstance(served.page, Known):
        return False
    status = served.page.value.status
    if 300 <= status < 400 or status in {401, 403} or status >= 500:
        return False
    if isinstance(served.models, Missing):
        return served.asked_for is not None
    names = {each.name for each in served.models.value}
    return bool(names) and (served.asked_for is None or served.asked_for in names)


def _model(name: str | None, listed: Fact[tuple[Listed, ...]]) -> Listed | None:
    """The model of that name; without a name the first that is listed."""
    found = listed.value if isinstance(listed, Known) else ()
    return next((each for each in found if name is None or each.name == name), None)
