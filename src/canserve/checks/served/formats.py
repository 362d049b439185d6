"""reasoning-in-its-field, reasoning-closed, tool-call-parsed, tool-call-streamed, schema-kept: parsers of answers."""

from __future__ import annotations

import json

from canserve.checks.reader import NotApplicable, Reader
from canserve.checks.served.check import ServedCheck, offered, spoken, unanswered
from canserve.checks.served.texts import fits, spoken_part
from canserve.checks.served.words import say, short
from canserve.facts import Known
from canserve.rules.served import marks_in
from canserve.subjects.served import Answer, Reply, Served
from canserve.verdict import No, Unknown, Verdict, Yes

CALLED = "get_weather"
SCHEMA = {
    "properties": {
        "city": {"type": "string", "enum": ["Paris", "Rome", "Vienna"]},
        "country": {"type": "string", "enum": ["France", "Italy", "Austria"]},
        "capital": {"type": "boolean"},
    },
    "required": ["city", "country", "capital"],
}
_PARSER = "start it with the parser of this model: canserve check MODEL --build BUILD names it"


def reasoning(reader: Reader, served: Served) -> Verdict:
    """The verdict of ``reasoning-in-its-field``."""
    thought = 0
    for name, answer, look in spoken(served):
        if found := marks_in("reasoning", answer.text):
            reader.cite(look)
            return No(f"the answer to {name} holds {found[0]}: {short(answer.text)}", _PARSER)
        if answer.reasoning:
            reader.cite(look)
            thought += 1
    if not thought:
        if "reasoning" in served.wants:
            return Unknown("no answer holds reasoning", "ask it something that makes the model think")
        raise NotApplicable("no answer holds reasoning")
    return Yes(f"{thought} answers have their reasoning in a field of its own")


def closed(reader: Reader, served: Served) -> Verdict:
    """The verdict of ``reasoning-closed``."""
    thoughts = [(name, answer, look) for name, answer, look in spoken(served) if answer.reasoning]
    if not thoughts:
        raise NotApplicable("no answer holds reasoning")
    open_ones = [(n, a, look) for n, a, look in thoughts if not a.text.strip() and not a.calls]
    for name, answer, look in open_ones:
        if answer.finish == "stop":
            reader.cite(look)
            return No(
                f"all of the answer to {name} stands in its reasoning: {short(answer.reasoning[-100:])}",
                _PARSER,
            )
    for _, _, look in thoughts:
        reader.cite(look)
    if len(open_ones) == len(thoughts):
        return Unknown(
            "no answer came to the end of its reasoning", "the model thinks longer than it was given room for"
        )
    return Yes(f"{len(thoughts) - len(open_ones)} of {len(thoughts)} answers follow their reasoning")


def tool(reader: Reader, served: Served) -> Verdict:
    """The verdict of ``tool-call-parsed``."""
    return _call(served, offered(reader, served, served.tool, "tools"))


def tool_streamed(reader: Reader, served: Served) -> Verdict:
    """The verdict of ``tool-call-streamed``."""
    reply = offered(reader, served, served.tool_streamed, "tools")
    verdict = _call(served, reply)
    if isinstance(verdict, Unknown) and isinstance(reply, Answer) and _called(served):
        reader.cite(served.tool.evidence)
        return No(f"streamed, the same question calls no tool: {say(reply)}", _PARSER)
    return verdict


def _called(served: Served) -> bool:
    fact = served.tool
    return (
        isinstance(fact, Known)
        and isinstance(fact.value, Answer)
        and isinstance(_call(served, fact.value), Yes)
    )


def _call(served: Served, reply: Reply) -> Verdict:
    if not isinstance(reply, Answer):
        return unanswered(served, reply)
    if not reply.calls:
        if marks_in("tool", reply.text) or (CALLED in reply.text and "{" in reply.text):
            return No(f"the call stands in the text, nothing has read it: {short(reply.text)}", _PARSER)
        return Unknown(f"the model called no tool: {say(reply)}", "a small model may not; ask it by hand")
    call = reply.calls[0]
    if not call.name:
        return No(f"the call has no name: {say(reply)}", _PARSER)
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return No(f"the arguments of {call.name} are no JSON: {short(call.arguments)}", _PARSER)
    if not isinstance(arguments, dict):
        return No(f"the arguments of {call.name} are no JSON object: {short(call.arguments)}", _PARSER)
    if call.name != CALLED or "paris" not in str(arguments.get("city", "")).casefold():
        return Unknown(
            f"parsed, but not what was asked for: {say(reply)}", "a small model may err; ask it by hand"
        )
    return Yes(f"{call.name}({short(call.arguments)})")


def schema(reader: Reader, served: Served) -> Verdict:
    """The verdict of ``schema-kept``."""
    reply = offered(reader, served, served.schema, "schema")
    if not isinstance(reply, Answer):
        return unanswered(served, reply)
    if reply.finish == "length":
        return Unknown(f"the answer was cut: {say(reply)}", "ask by hand, with more room")
    said = spoken_part(reply)
    if reply.reasoning and not said.strip():
        raise NotApplicable("all of the answer stands in its reasoning: see reasoning-closed")
    try:
        value = json.loads(said)
    except (ValueError, RecursionError):
        return No(f"the answer is no JSON, so that the schema is not enforced: {short(said)}",
                  "look for the structured-output backend where it is started")  # fmt: skip
    if (why := fits(value, SCHEMA)) is not None:
        return No(
            f"the answer breaks the schema, {why}: {short(said)}",
            "look for the structured-output backend where it is started",
        )
    return Yes(short(said))


REASONING = ServedCheck(
    "reasoning-in-its-field",
    "Reasoning stands in a field of its own, and no mark of it in the text.",
    reasoning,
    True,
)
CLOSED = ServedCheck(
    "reasoning-closed", "Reasoning ends, and the answer follows it in the text.", closed, True
)
TOOL = ServedCheck("tool-call-parsed", "A call of a tool comes as a call, with JSON arguments.", tool, True)
TOOL_STREAMED = ServedCheck("tool-call-streamed", "The same, streamed.", tool_streamed, True)
SCHEMA_KEPT = ServedCheck("schema-kept", "An answer to be of a JSON schema is of that schema.", schema)
