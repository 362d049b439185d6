"""context-within-model: the longest sequence is no longer than the model's config allows."""

from __future__ import annotations

from canserve.checks.case import Case
from canserve.checks.layout.deployed import serving
from canserve.checks.reader import Check, NotApplicable, Reader
from canserve.checks.wish import given
from canserve.memory.fields import Lacking
from canserve.memory.model_facts import model_facts
from canserve.verdict import No, Verdict, Yes

OVERRIDES = ("--hf-overrides", "--rope-scaling", "--json-model-override-args", "--rope-theta")
"""Flags that change what the config says of its positions."""


def run(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``context-within-model``."""
    found = serving(reader, case)
    if (flag := given(case.wish, *OVERRIDES)) is not None:
        raise NotApplicable(f"{flag} changes what the config says")
    config = reader.read(case.model.config)
    reader.cite(case.model.max_positions.evidence)
    try:
        limit = model_facts(case.model, config).context
    except Lacking as lack:
        raise NotApplicable(f"{lack}: see weights-fit") from lack
    if limit is None:
        raise NotApplicable("the config states no longest context")
    if found.context <= limit:
        return Yes(f"{found.context} tokens are within the {limit} that the model's config allows")
    fits = max(min(limit, int(found.max_context.low)), 1)
    fix = f"ask for a context of at most {fits} tokens, or override the config's rope scaling"
    return No(f"{found.context} tokens are more than the {limit} that the model's config allows", fix)


CHECK = Check(
    "context-within-model",
    "The longest sequence that is asked for is no longer than the model's config allows.",
    run,
    needs_layout=True,
)
