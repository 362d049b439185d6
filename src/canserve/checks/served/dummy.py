"""Deployments with dummy weights: what says so, and what looks like it."""

from __future__ import annotations

from canserve.checks.served.texts import right
from canserve.facts import Known
from canserve.rules.questions import named
from canserve.subjects.served import Answer, Served

_FLAT = -6.5
"""The likeliest token of a model that has learned anything is far likelier than one in 650."""


def stated_dummy(served: Served) -> str | None:
    """What says that the weights are dummies; None: nothing does."""
    if isinstance(served.dummy, Known) and served.dummy.value is not None:
        return served.dummy.value
    if isinstance(served.expected, Known) and "dummy" in served.expected.value.wants:
        return "the plan loads dummy weights"
    return None


def suspected_dummy(served: Served) -> bool:
    """Whether no answer is right and every token is about as likely as any other: weights nobody trained."""
    return flat(served) and not any_right(served)


def flat(served: Served) -> bool:
    """Whether even the likeliest tokens are unlikely."""
    reply = served.chances.value if isinstance(served.chances, Known) else None
    found = reply.chances if isinstance(reply, Answer) else None
    if not found:
        return False
    best = [max((chance.logprob, *chance.top)) for chance in found]
    return all(logprob < _FLAT for logprob in best)


def any_right(served: Served) -> bool:
    """Whether any question with a known answer was answered rightly."""
    asked = served.known.value if isinstance(served.known, Known) else ()
    return any(isinstance(each.reply, Answer) and right(named(each.name), each.reply) for each in asked)
