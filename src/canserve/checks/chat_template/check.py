"""chat-template-renders: what the template makes of conversations that a server will be sent."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from canserve.checks.case import Case
from canserve.checks.reader import Check, NotApplicable, Reader
from canserve.checks.wish import given
from canserve.verdict import No, Unknown, Verdict, Yes

if TYPE_CHECKING:
    from canserve.checks.chat_template.render import Rendering
    from canserve.checks.chat_template.samples import Sample

WITH_TOOLS = "tool_use"
"""The named template that transformers takes when a request names tools."""


def run(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``chat-template-renders``."""
    if (flag := given(case.wish, "--chat-template")) is not None:
        raise NotApplicable(f"{flag} names another template than the model's")
    if case.model.origin == "config":
        raise NotApplicable("only a config was given")
    source = reader.read(case.model.chat_template)
    if source is None:
        raise NotApplicable(
            "the model has no chat template: it serves completions; chat needs --chat-template FILE"
        )
    named = reader.try_read(case.model.named_templates) or {}
    return judge(renderings(source, named.get(WITH_TOOLS, source)))


@lru_cache(maxsize=4)
def renderings(source: str, with_tools: str) -> Mapping[Sample, Rendering]:
    """What the templates for requests without and with tools make of every sample, within one budget.

    The same for every build that a model is judged with.
    """
    # jinja2 takes longer to import than most checks take to run.
    from canserve.checks.chat_template.budget import Budget
    from canserve.checks.chat_template.render import render
    from canserve.checks.chat_template.samples import SAMPLES

    budget = Budget()
    return {
        sample: render(with_tools if sample.tools else source, sample.variables(), budget)
        for sample in SAMPLES
    }


def judge(rendered: Mapping[Sample, Rendering]) -> Verdict:
    """Yes when a plain user message gets through; what only some conversations need is noted."""
    from canserve.checks.chat_template.render import Failed, Undecided
    from canserve.checks.chat_template.samples import PROBE

    done = [sample for sample, text in rendered.items() if isinstance(text, str) and PROBE in text.lower()]
    failed = {sample: result for sample, result in rendered.items() if isinstance(result, Failed)}
    undecided = [result for result in rendered.values() if isinstance(result, Undecided)]
    if any(sample.plain for sample in done):
        names = ", ".join(sample.name for sample in done)
        notes = [f"; not {sample.name}: {failure.why}" for sample, failure in failed.items() if sample.told]
        return Yes(f"renders {names}{''.join(notes)}")
    if undecided:
        return Unknown(
            f"the template could not be followed to its end: {undecided[0].why}",
            "send the server one chat request; or pass a simpler template: -- --chat-template FILE",
        )
    if done:
        return Yes("renders, but only with tools", ("tools in every request",))
    if len(failed) < len(rendered):
        return Unknown(
            "the template renders, but the user's words are not in the prompt it makes",
            "send the server one chat request and read the prompt it logs",
        )
    failure = next(iter(failed.values()))
    return No(
        f"the chat template fails for a plain user message, line {failure.line}: {failure.why}",
        f"mend line {failure.line} of the template, or pass another one: -- --chat-template FILE",
    )


CHECK = Check(
    "chat-template-renders",
    "The model's own chat template turns a plain user message into a prompt that holds the user's words.",
    run,
)
