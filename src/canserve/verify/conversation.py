"""Questions whose answers are known, the same ones again, free text, and the formats an answer can have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from canserve.checks.served.formats import SCHEMA as JUDGED
from canserve.facts import Evidence, Fact, Known, Missing
from canserve.rules.questions import Question, questions
from canserve.rules.served import marks_in
from canserve.subjects.served import Answer, Asked, Reply
from canserve.trees.fanout import fanout
from canserve.verify.asking import Ask, Asker

THINKING_ROOM = 2048
ROOM = 96
ESSAY_ROOM = 320
REPEATS = 3
_FIRST = 16
"""Tokens of a first, short answer, about."""

TOOLS: Sequence[Mapping[str, Any]] = (
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather in a city, now.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "description": "Name of the city."}},
                "required": ["city"],
            },
        },
    },
)
SCHEMA: Mapping[str, Any] = {"type": "object", **JUDGED, "additionalProperties": False}


@dataclass(frozen=True, slots=True)
class Rooms:
    """Tokens that answers may have; a model that reasons needs more before it says anything."""

    thinking: bool
    context: int | None

    def share(self, plain: int) -> float:
        """How much longer than the first answer one of so many tokens may take; reasoning was in that one too."""
        return 2.0 if self.thinking else max(plain / _FIRST, 1.0)

    def of(self, plain: int) -> int:
        """Of an answer that is ``plain`` tokens long without reasoning."""
        wanted = plain + THINKING_ROOM if self.thinking else plain
        return min(wanted, max(self.context // 2, 16)) if self.context else wanted


def first(asker: Asker, context: int | None) -> Fact[Reply]:
    """The first question, with room enough to see whether the model reasons."""
    question = questions("fact")[0]
    room = min(THINKING_ROOM, context // 2) if context else THINKING_ROOM
    return asker.reply(Ask(f"first question, {question.name}", question.ask, room))


def thinks(reply: Fact[Reply]) -> bool:
    """Whether an answer holds reasoning, in its field or in the text."""
    if not isinstance(reply, Known) or not isinstance(reply.value, Answer):
        return False
    return bool(reply.value.reasoning or marks_in("reasoning", reply.value.text))


def known(asker: Asker, rooms: Rooms) -> Fact[tuple[Asked, ...]]:
    """All questions with known answers, at once."""
    return _together(asker, questions("fact"), rooms, "at once")


def alone(asker: Asker, rooms: Rooms) -> Fact[tuple[Asked, ...]]:
    """Some of them again, one after the other."""
    chosen = [each for each in questions("fact") if each.alone]
    replies = [asker.reply(_fact(each, rooms, "alone")) for each in chosen]
    return gathered(chosen, replies)


def essays(asker: Asker, rooms: Rooms) -> Fact[tuple[Asked, ...]]:
    """A few sentences each, as the server samples by itself."""
    chosen = questions("essay")
    room = rooms.of(ESSAY_ROOM)
    share = len(chosen) * rooms.share(ESSAY_ROOM)
    asks = [Ask(f"text, {each.name}", each.ask, room, temperature=None, share=share) for each in chosen]
    return gathered(chosen, fanout(asker.reply, asks, len(asks)))


def repeats(asker: Asker, rooms: Rooms) -> Fact[tuple[Reply, ...]]:
    """One prompt several times at temperature 0, one after the other."""
    prompt = "Write two sentences about the sea."
    looked = [
        asker.reply(Ask(f"same prompt, {turn + 1}", prompt, rooms.of(48), share=rooms.share(48)))
        for turn in range(REPEATS)
    ]
    return joined(looked)


def streamed(asker: Asker, rooms: Rooms) -> Fact[Reply]:
    """A text, streamed."""
    return asker.reply(
        Ask("a text", "Name the days of the week, one after the other.", rooms.of(ROOM), stream=True)
    )


def tool(asker: Asker, rooms: Rooms, stream: bool) -> Fact[Reply]:
    """A question that a tool answers."""
    prompt = "What is the weather in Paris now? Use the tool get_weather."
    more = {"tools": TOOLS, "tool_choice": "auto"}
    return asker.reply(Ask("with a tool", prompt, rooms.of(256), stream, more=more))


def schema(asker: Asker, rooms: Rooms) -> Fact[Reply]:
    """An answer of a given JSON schema."""
    form = {"type": "json_schema", "json_schema": {"name": "city", "schema": SCHEMA, "strict": True}}
    prompt = "Paris is the capital of France. Write that as a JSON object with city, country and capital."
    return asker.reply(Ask("JSON by a schema", prompt, rooms.of(256), more={"response_format": form}))


def stop(asker: Asker, rooms: Rooms) -> Fact[Reply]:
    """An answer that a stop text cuts."""
    prompt = "Count from 1 to 9, separated by commas: 1, 2, 3, 4, 5, 6, 7, 8, 9."
    return asker.reply(Ask('stop ["5"]', prompt, rooms.of(ROOM), more={"stop": ["5"]}))


def chances(asker: Asker, rooms: Rooms) -> Fact[Reply]:
    """An answer with its logarithmic probabilities."""
    more = {"logprobs": True, "top_logprobs": 5}
    return asker.reply(Ask("logprobs", questions("fact")[0].ask, min(rooms.of(8), 64), more=more))


def _fact(question: Question, rooms: Rooms, how: str, at_once: int = 1) -> Ask:
    share = at_once * rooms.share(ROOM)
    return Ask(f"{question.name}, {how}", question.ask, rooms.of(ROOM), share=share)


def _together(asker: Asker, chosen: Sequence[Question], rooms: Rooms, how: str) -> Fact[tuple[Asked, ...]]:
    asks = [_fact(each, rooms, how, len(chosen)) for each in chosen]
    return gathered(chosen, fanout(asker.reply, asks, len(asks)))


def gathered(chosen: Sequence[Question], replies: Sequence[Fact[Reply]]) -> Fact[tuple[Asked, ...]]:
    """Replies with the names of their questions; missing where one of them is."""
    together = joined(replies)
    if isinstance(together, Missing):
        return together
    pairs = zip(chosen, together.value, strict=True)
    return Known(tuple(Asked(each.name, reply) for each, reply in pairs), together.evidence)


def joined(replies: Sequence[Fact[Reply]]) -> Fact[tuple[Reply, ...]]:
    """Several replies as one fact; missing where one of them is."""
    looks: tuple[Evidence, ...] = tuple(look for reply in replies for look in reply.evidence)
    found: list[Reply] = []
    for reply in replies:
        if isinstance(reply, Missing):
            return Missing(reply.cause, reply.why, looks, reply.ask)
        found.append(reply.value)
    return Known(tuple(found), looks)
