"""A check of a served endpoint: a claim, judged from what it answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from canserve.checks.reader import Claim, NotApplicable, Reader
from canserve.checks.served.dummy import stated_dummy, suspected_dummy
from canserve.checks.served.words import say
from canserve.facts import Evidence, Fact, Known, Missing
from canserve.subjects.served import NOT_ASKED, Answer, Asked, Refusal, Reply, Served
from canserve.verdict import Finding, No, Skipped, Unknown, Verdict

LOG = "read the server's log of that moment: canserve diagnose LOG"
UNSUPPORTED = frozenset({400, 404, 405, 415, 422, 501})
"""Statuses by which servers say that they do not offer something."""


@dataclass(frozen=True, slots=True)
class ServedCheck(Claim):
    """A question about a served endpoint."""

    run: Callable[[Reader, Served], Verdict]
    of_text: bool = False
    """Whether it judges what the model says, which is nothing where the weights are dummies."""
    at_once: bool = False
    """Whether it can be judged before the server has answered a question."""

    @property
    def when(self) -> str:
        """When it is judged, in words."""
        return "of a served endpoint"

    def judge(self, served: Served) -> Finding | Skipped:
        """Run the check on one endpoint."""
        return self.found(served.subject, lambda reader: self._asked(reader, served))

    def _asked(self, reader: Reader, served: Served) -> Verdict:
        if not self.at_once:
            answering(served)
        if self.of_text:
            _speaking(served, self.name)
        return self.run(reader, served)


def answering(served: Served) -> None:
    """Ends a check as skipped where the server answers nothing at all: one finding says so already."""
    if served.first is NOT_ASKED:
        raise NotApplicable("nothing was asked: see ready and right-model")
    if (
        isinstance(served.first, Missing)
        or not isinstance(served.first.value, Answer)
        or served.first.value.empty
    ):
        raise NotApplicable("the server answers no question: see answers")


def _speaking(served: Served, name: str) -> None:
    if (why := stated_dummy(served)) is not None:
        raise NotApplicable(f"{why}: what it says is not judged")
    if name != "answer-correct" and suspected_dummy(served):
        raise NotApplicable("its answers look like those of dummy weights: see answer-correct")


def offered(reader: Reader, served: Served, fact: Fact[Reply], what: str) -> Reply:
    """The reply; where the server says that it does not offer this, the check does not apply, unless it is wanted."""
    reply = reader.read(fact)
    if isinstance(reply, Refusal) and reply.status in UNSUPPORTED and what not in served.wants:
        raise NotApplicable(f"the server does not offer it ({say(reply)}); --expect {what} makes that a no")
    return reply


def unanswered(served: Served, reply: Reply) -> Verdict:
    """The verdict for a reply that is no answer: a no, unless every other request is lost in the same way."""
    if (elsewhere := partly_lost(served)) is not None:
        return Unknown(
            f"it got no answer ({say(reply)}), and neither did {elsewhere}", "see every-rank-alive"
        )
    return No(f"it got no answer: {say(reply)}", LOG)


def partly_lost(served: Served) -> str | None:
    """How many copies of one question were lost while others were answered; None: none, or all."""
    if not isinstance(served.copies, Known):
        return None
    replies = served.copies.value.replies
    lost = sum(not isinstance(reply, Answer) for reply in replies)
    return f"{lost} of {len(replies)} copies of one question" if 0 < lost < len(replies) else None


def answers_in(*facts: Fact[tuple[Asked, ...]]) -> Iterator[tuple[str, Answer, tuple[Evidence, ...]]]:
    """Every answer in these facts, with its question and the look that saw it; the rest is passed over."""
    for fact in facts:
        if isinstance(fact, Known):
            for number, asked in enumerate(fact.value):
                if isinstance(asked.reply, Answer):
                    yield asked.name, asked.reply, fact.evidence[number : number + 1]


def spoken(served: Served) -> Iterator[tuple[str, Answer, tuple[Evidence, ...]]]:
    """Every answer in words."""
    yield from answers_in(served.known, served.alone, served.essays)
    for name, fact in (("first question", served.first), ("streamed text", served.streamed)):
        if isinstance(fact, Known) and isinstance(fact.value, Answer):
            yield name, fact.value, fact.evidence
