"""Prompts that fill shares of the context the server claims, and one that is longer than it."""

from __future__ import annotations

from dataclasses import dataclass

from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.subjects.served import Answer, LongAsked, Reply
from canserve.verify.asking import Ask, Asker
from canserve.verify.conversation import Rooms
from canserve.verify.filler import Haystack, haystack

_CONTROL = 12
"""Sentences of the short prompt that shows whether the model can do this at all."""
_GUESS = 18.0
"""Tokens of a sentence where the server does not count them."""
_LEAST_WORDS = 9.0
"""Words of a sentence: it takes no fewer tokens."""
_AROUND = 76
"""Tokens of a prompt beside its sentences, as a first guess."""
_ASIDE = 120
"""Tokens of the question, the template and the answer."""
_DEPTHS = (0.5, 0.1, 0.9)
"""Where the sentence is hidden; the others are tried where it was not found."""
_LEAST = 400
"""Tokens below which a share of the context is no long prompt."""
_GROWTH = 1.5
"""What a token of a prompt twice as long costs at most, against one of the shorter prompt."""
_SENDABLE = 1 << 20
"""Tokens of a prompt that is sent to be refused."""


@dataclass(slots=True)
class Lengths:
    """Long prompts to one server."""

    asker: Asker
    rooms: Rooms
    context: int
    per_sentence: float = _GUESS
    smallest: tuple[int, int] | None = None
    """Sentences and tokens of the shortest prompt: with any longer one it tells what a sentence takes."""
    measured: bool = False
    """Whether that comes from two prompts, and not from one and a guess."""
    pace: float = 0.0
    """Seconds a token of the last prompt, answer included."""
    sure: bool = False
    """Whether that was a long one, where the answer hardly counts."""

    def all(self) -> Fact[tuple[LongAsked, ...]]:
        """A short prompt, then the shares of the context, each with a sentence to be found."""
        limits = self.asker.client.limits
        asked = [self._one(0.0, _DEPTHS[0])]
        for share in limits.shares:
            tokens = min(int(self.context * share), limits.longest)
            if tokens < _LEAST:
                continue
            asked.append(self._one(tokens / self.context, _DEPTHS[0]))
            if self._missed(asked[-1]) and not self._missed(asked[0]):
                asked += [self._one(tokens / self.context, depth) for depth in _DEPTHS[1:]]
            if tokens == limits.longest:
                break
        looks: tuple[Evidence, ...] = tuple(look for each in asked for look in each.reply.evidence)
        return Known(tuple(asked), looks)

    def beyond(self) -> Fact[Reply]:
        """A prompt that is longer than the context."""
        tokens = self.context * 1.25 + 300
        per_sentence = self.per_sentence if self.measured else _LEAST_WORDS
        if tokens > _SENDABLE:
            why = f"a prompt of {tokens:.0f} tokens was not sent, only to be refused"
            return Missing(Cause.UNREACHED, why, ask="send one by hand")
        hay = haystack(int(tokens / per_sentence) + 1, _DEPTHS[0])
        return self.asker.reply(Ask(f"a prompt of about {tokens:.0f} tokens", hay.prompt, 16))

    def _one(self, share: float, depth: float) -> LongAsked:
        room = self.rooms.of(48)
        tokens = int(share * self.context) - _ASIDE - room
        count = max(int(tokens / self.per_sentence), _CONTROL) if share else _CONTROL
        expected = self.pace * tokens * _GROWTH
        hay = haystack(count, depth)
        if self.sure and share and expected > max(self.asker.clock.left(), 0) * 0.6:
            why = f"{share:.0%} of the context would take about {expected:.0f} s, more than there is time for"
            return LongAsked(
                share, depth, hay.needle, Missing(Cause.UNREACHED, why, ask="give it more: --time SECONDS")
            )
        return self._asked(share, depth, hay, count)

    def _asked(self, share: float, depth: float, hay: Haystack, count: int) -> LongAsked:
        about = (
            f"{share:.0%} of {self.context} tokens, the sentence {depth:.0%} down"
            if share
            else "a short prompt"
        )
        longer = self.pace * count * self.per_sentence * _GROWTH / self.asker.unit if self.asker.unit else 1.0
        reply = self.asker.reply(Ask(about, hay.prompt, self.rooms.of(48), share=longer))
        if isinstance(reply, Known) and isinstance(reply.value, Answer) and reply.value.prompt_tokens:
            self._learn(count, reply.value.prompt_tokens)
            self.pace, self.sure = reply.value.seconds / reply.value.prompt_tokens, bool(share)
        return LongAsked(share, depth, hay.needle, reply)

    def _learn(self, count: int, tokens: int) -> None:
        """What a sentence takes: a prompt's tokens grow with its sentences, and not from nothing."""
        if self.smallest is None:
            self.smallest = count, tokens
            self.per_sentence = max((tokens - _AROUND) / count, 4.0)
        elif count > self.smallest[0]:
            self.per_sentence = max((tokens - self.smallest[1]) / (count - self.smallest[0]), 4.0)
            self.measured = True

    def _missed(self, asked: LongAsked) -> bool:
        reply = asked.reply
        return (
            isinstance(reply, Known)
            and isinstance(reply.value, Answer)
            and asked.needle not in reply.value.said
        )
