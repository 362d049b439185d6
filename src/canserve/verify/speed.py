"""How fast it is: raw samples of decoding, of first tokens and along a ramp of concurrency, within bounds of time."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from canserve.checks.served import rates
from canserve.facts import Evidence, Fact, Known, Missing
from canserve.subjects.served import Refusal, Reply, Speeds, Step
from canserve.trees.fanout import fanout
from canserve.verify.asking import Ask, Asker
from canserve.verify.filler import haystack, nonce

_GAIN = 1.05
"""What a step has to win over the best one before, or the ramp has seen its top."""
_PATIENT = 3
"""Steps without a gain after which it ends."""
_SHARE = 0.5
"""Of the context: the longest prompt whose prefill is timed."""


@dataclass(slots=True)
class Meter:
    """Measures one server."""

    asker: Asker
    context: int | None
    per_sentence: float
    """Tokens of one sentence of filler."""
    forced: bool = True
    """Whether the server can be told not to end an answer by itself."""

    def all(self) -> Fact[Speeds]:
        """Every sample there is time for. Missing where the very first one does not come."""
        limits = self.asker.client.limits
        ledger = self.asker.ledger
        ledger.detail("warming up")
        warm = self._decode("warm-up", 16)
        if isinstance(warm, Missing):
            return warm
        if isinstance(warm.value, Refusal):
            self.forced = False
        ledger.detail("one stream")
        alone = [self._decode(f"decoding, sample {n + 1}", limits.decode) for n in range(limits.samples)]
        ledger.detail("short prompts")
        short = [self._prompt(f"short prompt, sample {n + 1}", 4) for n in range(limits.samples)]
        ledger.detail("long prompts")
        long = [
            self._prompt(f"long prompt, sample {n + 1}", self._sentences()) for n in range(limits.samples)
        ]
        steps, ended = self._ramp()
        speeds = Speeds(_known(alone), _known(short), _known(long), tuple(steps), ended)
        return Known(speeds, tuple(look for look in _looks([*alone, *short, *long])) + self._said(steps))

    @property
    def planned(self) -> int:
        """Requests before the ramp."""
        return 1 + 3 * self.asker.client.limits.samples

    def _sentences(self) -> int:
        limits = self.asker.client.limits
        tokens = min(limits.prefill, int((self.context or 4096) * _SHARE) - 100)
        return max(int(tokens / self.per_sentence), 8)

    def _decode(self, about: str, room: int) -> Fact[Reply]:
        ask = Ask(about, f"{nonce()} Count from 1 to 1000, one number a line.", self._room(room), stream=True)
        return self.asker.reply(replace(ask, more={"ignore_eos": True}) if self.forced else ask)

    def _room(self, room: int) -> int:
        return min(room, max(self.context // 4, 8)) if self.context else room

    def _prompt(self, about: str, count: int) -> Fact[Reply]:
        ask = Ask(about, haystack(count, 0.5).prompt, 4, stream=True)
        return self.asker.reply(replace(ask, more={"ignore_eos": True}) if self.forced else ask)

    def _ramp(self) -> tuple[list[Step], str]:
        limits, steps, best, without = self.asker.client.limits, list[Step](), 0.0, 0
        for width in limits.ramp:
            expected = steps[-1].seconds * 1.5 if steps else 0.0
            if expected > min(limits.step, self.asker.clock.left() * 0.5):
                return steps, f"{width} at once would take longer than there is time for"
            step = self.step(width)
            if step is None:
                return steps, "the time was over"
            steps.append(step)
            if rates.failed(step):
                return steps, f"{rates.failed(step)} of {width} requests at once were not answered"
            gained = rates.throughput(step) or 0.0
            without = 0 if gained > best * _GAIN else without + 1
            best = max(best, gained)
            if without >= _PATIENT:
                return steps, f"{width} at once made no more tokens a second than fewer did"
        return steps, "all steps were made" if steps else "it was not asked for"

    def step(self, width: int) -> Step | None:
        """So many streams at once; None where the time was over."""
        limits = self.asker.client.limits
        asks = list(range(width))
        place = f", step {limits.ramp.index(width) + 1} of {len(limits.ramp)}" if width in limits.ramp else ""
        self.asker.ledger.detail(f"{width} at once{place}", width)
        start = time.monotonic()
        looked = fanout(
            lambda n: self._decode(f"one of {width} streams, {n + 1}", limits.decode // 2), asks, width
        )
        seconds = time.monotonic() - start
        replies = _known(looked)
        return Step(width, seconds, replies) if len(replies) == width else None

    def _said(self, steps: list[Step]) -> tuple[Evidence, ...]:
        subject = self.asker.client.endpoint.subject
        return tuple(
            Evidence(
                subject,
                f"POST /v1/chat/completions: {step.concurrency} streams at once",
                f"{rates.throughput(step) or 0:.1f} tokens a second, {rates.failed(step)} not answered",
            )
            for step in steps
        )


def _known(looked: list[Fact[Reply]]) -> tuple[Reply, ...]:
    return tuple(reply.value for reply in looked if isinstance(reply, Known))


def _looks(looked: list[Fact[Reply]]) -> tuple[Evidence, ...]:
    return tuple(look for reply in looked for look in reply.evidence)
