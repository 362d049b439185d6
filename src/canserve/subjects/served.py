"""A served endpoint: what it answered to each question that was put to it, as facts.

A reply of any kind is something that was seen, and so ``Known``: a refusal, silence and nonsense too. ``Missing`` is
only what could not be asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from canserve.facts import Cause, Fact, Missing

NOT_ASKED = Missing(Cause.UNREACHED, "it was not asked")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call as the server took it from the model's text."""

    name: str
    arguments: str
    """JSON text, as it was sent."""


@dataclass(frozen=True, slots=True)
class Chance:
    """One token with its logarithmic probability, and those of the likeliest ones in its place."""

    token: str
    logprob: float
    top: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply in the protocol's form."""

    text: str
    finish: str | None
    """``stop``, ``length``, ``tool_calls``; None: the server did not say."""
    seconds: float
    """From sending to the last byte."""
    model: str | None = None
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    chances: tuple[Chance, ...] | None = None
    """None: the answer holds none."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    arrivals: tuple[float, ...] = ()
    """Streamed: seconds after sending at which each piece with text came."""
    streamed: bool = False
    ended: bool = True
    """Streamed: the end was marked (``data: [DONE]``)."""

    @property
    def empty(self) -> bool:
        """Whether it says and does nothing at all."""
        return not (self.text or self.reasoning or self.calls)

    @property
    def said(self) -> str:
        """Reasoning and text, one after the other."""
        return f"{self.reasoning}\n{self.text}" if self.reasoning else self.text


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reply with an error status."""

    status: int
    message: str
    orderly: bool
    """Whether it is of the form in which these servers say what is wrong: a JSON object."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Silence:
    """Nothing more came for so long that waiting was given up."""

    seconds: float
    pieces: int = 0
    """That had come before."""


@dataclass(frozen=True, slots=True)
class Broken:
    """Something that is no reply of this protocol: a page of HTML, a cut connection, a stream without an end."""

    why: str
    seconds: float = 0.0


Reply: TypeAlias = Answer | Refusal | Silence | Broken


@dataclass(frozen=True, slots=True)
class Page:
    """A plain look at an address of the server."""

    status: int
    kind: str
    """Media type, in small letters, without parameters."""
    text: str
    location: str | None = None
    """Where a redirect points, its query left out."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A model that the server lists."""

    name: str
    root: str | None = None
    """What the name stands for, where the server says it."""
    context: int | None = None
    """Tokens of its longest sequence."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question by its name, and the reply."""

    name: str
    reply: Reply


@dataclass(frozen=True, slots=True)
class LongAsked:
    """A prompt that fills a share of the context, with a sentence hidden in it."""

    share: float
    depth: float
    """Where the sentence stands: 0 at the start, 1 at the end."""
    needle: str
    """What a right answer holds."""
    reply: Fact[Reply]


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Streams that were left in the middle, and how many requests the server ran before, with and after them."""

    streams: int
    before: float | None
    """Requests running, by the server's own count; None: it does not say."""
    during: float | None
    after: float | None
    waited: float
    """Seconds between leaving and the last count."""
    rest: float | None
    """Seconds that the answers would have gone on, had nobody left; None: not known."""
    next: Reply
    """To a short question asked afterwards."""
    growing: bool = False
    """Whether it still made tokens after all that, while nobody asked for any."""


@dataclass(frozen=True, slots=True)
class Crowd:
    """More requests at once than it may hold, and what it says afterwards."""

    replies: tuple[Reply, ...]
    afterwards: Reply


@dataclass(frozen=True, slots=True)
class Copies:
    """One question, many times at once, so that every replica and rank takes part."""

    right: str
    """Pattern of a right answer."""
    replies: tuple[Reply, ...]
    shares: Mapping[str, float] = field(default_factory=dict)
    """By replica, where the server counts them apart: tokens it made for these."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the ramp."""

    concurrency: int
    seconds: float
    """Wall clock, from the first request to the last byte."""
    replies: tuple[Reply, ...]


@dataclass(frozen=True, slots=True)
class Speeds:
    """Raw samples; rates are reckoned from them (``checks/served/rates.py``)."""

    alone: tuple[Reply, ...] = ()
    """One stream at a time."""
    short: tuple[Reply, ...] = ()
    """Time to first token of short prompts, one at a time."""
    long: tuple[Reply, ...] = ()
    """The same of long ones, never seen before: their difference is the speed of prefill."""
    ramp: tuple[Step, ...] = ()
    ended: str = ""
    """Why the ramp ended where it did."""
    imported: str = ""
    """The file these came from; empty: measured now."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What a plan promises, in tokens a second."""

    decode: tuple[float, float, float]
    """Value, low, high of one sequence."""
    decode_bound: float
    prefill: tuple[float, float, float] | None
    limit: str
    """What decode waits for, in the plan's words."""
    machines: int
    ranks: int
    """Of one replica's tensor parallel group."""
    layers: int
    model: str
    wants: frozenset[str] = frozenset()
    """What its flags ask for: ``tools``, ``reasoning``, ``dummy``."""
    replicas: int = 1


@dataclass(frozen=True, slots=True)
class Served:
    """One endpoint, asked."""

    subject: str
    """Its address, fit to be printed."""
    model: str = ""
    """The name that requests carried."""
    asked_for: str | None = None
    """The name that the user gave."""
    wants: frozenset[str] = frozenset()
    """What the user or the plan expects of it: ``tools``, ``reasoning``, ``schema``, ``logprobs``, ``metrics``."""
    patience: float = 60.0
    """Seconds after which a request was given up."""
    page: Fact[Page] = NOT_ASKED
    """``/v1/models``."""
    health: Fact[Page] = NOT_ASKED
    models: Fact[tuple[Listed, ...]] = NOT_ASKED
    metrics: Fact[Page] = NOT_ASKED
    context: Fact[int] = NOT_ASKED
    dummy: Fact[str | None] = NOT_ASKED
    """What says that its weights are dummies; None: nothing does."""
    first: Fact[Reply] = NOT_ASKED
    """To the first question."""
    known: Fact[tuple[Asked, ...]] = NOT_ASKED
    """To questions whose answers are known, all at once."""
    alone: Fact[tuple[Asked, ...]] = NOT_ASKED
    """To some of the same, one after the other."""
    repeats: Fact[tuple[Reply, ...]] = NOT_ASKED
    """To one prompt, several times, at temperature 0."""
    streamed: Fact[Reply] = NOT_ASKED
    essays: Fact[tuple[Asked, ...]] = NOT_ASKED
    """To questions that want a few sentences, in several languages."""
    tool: Fact[Reply] = NOT_ASKED
    tool_streamed: Fact[Reply] = NOT_ASKED
    schema: Fact[Reply] = NOT_ASKED
    long: Fact[tuple[LongAsked, ...]] = NOT_ASKED
    too_long: Fact[Reply] = NOT_ASKED
    stop: Fact[Reply] = NOT_ASKED
    chances: Fact[Reply] = NOT_ASKED
    cancelled: Fact[Cancelled] = NOT_ASKED
    crowd: Fact[Crowd] = NOT_ASKED
    copies: Fact[Copies] = NOT_ASKED
    speeds: Fact[Speeds] = NOT_ASKED
    expected: Fact[Expected] = NOT_ASKED
    """What a plan says of it."""
    ended: Fact[tuple[str, ...]] = NOT_ASKED
    """Of a deployment: its processes that are no more, each in a few words."""
