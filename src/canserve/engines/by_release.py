"""Memory by the rules of one release: what can stand in the way of an answer, in one place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from canserve.facts import Cause, Fact, Known, Missing
from canserve.memory.fields import Lacking
from canserve.memory.options import BadOption
from canserve.memory.request import Request, Serving
from canserve.memory.unserved import Unserved
from canserve.rules.memory import Rules, rules

D = TypeVar("D")


def by_release(
    engine: str,
    request: Request,
    described: Fact[D],
    compute: Callable[[D, Rules], Serving],
    shown: Sequence[str],
) -> Fact[Serving]:
    """What ``compute`` makes of a model as described, and of the release's rules; ``shown`` of them are evidence.

    Missing: a number the model lacks, an option that is none, a release whose rules are not known, or what the
    release refuses (Lacking, BadOption and Unserved are what ``compute`` raises then).
    """
    found = rules(engine, request.version)
    if isinstance(found, Missing):
        return found
    if isinstance(described, Missing):
        return described
    try:
        answer = compute(described.value, found.value)
    except Lacking as lack:
        return Missing(Cause.UNAVAILABLE, str(lack), ask=f"a model that states {lack.field}")
    except BadOption as bad:
        return bad.missing()
    except Unserved as refused:
        return refused.missing(found.value)
    return Known(answer, tuple(found.value.evidence(fact) for fact in shown))
