"""Text to fill a context with: plain sentences, never the same twice, with one in it that is asked for."""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass

_WHO = ("baker", "farmer", "teacher", "sailor", "painter", "doctor", "gardener", "driver", "singer", "writer")
_DID = ("carried", "counted", "painted", "sold", "cleaned", "opened", "moved", "found", "packed", "weighed")
_WHAT = ("boxes", "chairs", "books", "lamps", "apples", "bottles", "stones", "letters", "baskets", "clocks")
_COLOUR = ("red", "green", "blue", "yellow", "white", "black", "brown", "grey", "orange", "purple")
_WHERE = (
    "harbour",
    "market",
    "school",
    "garden",
    "station",
    "bridge",
    "library",
    "forest",
    "village",
    "museum",
)


@dataclass(frozen=True, slots=True)
class Haystack:
    """A prompt, and the number that a right answer holds."""

    prompt: str
    needle: str


def nonce() -> str:
    """A beginning that no cache has seen."""
    return f"Notes {uuid.uuid4().hex[:12]}."


def sentences(count: int, seed: random.Random) -> list[str]:
    """So many sentences."""
    return [
        f"The {seed.choice(_WHO)} {seed.choice(_DID)} {seed.randrange(2, 90)} {seed.choice(_COLOUR)} "
        f"{seed.choice(_WHAT)} near the {seed.choice(_WHERE)}."
        for _ in range(count)
    ]


def haystack(count: int, depth: float) -> Haystack:
    """So many sentences, with one about a lighthouse ``depth`` of the way down, and the question for its number."""
    seed = random.Random(uuid.uuid4().int)  # noqa: S311 - words of a prompt, not a secret
    needle = str(seed.randrange(100_000, 999_999))
    lines = sentences(count, seed)
    lines.insert(int(depth * len(lines)), f"The secret number of the lighthouse is {needle}.")
    text = " ".join(lines)
    question = "What is the secret number of the lighthouse in the notes above? Answer with the number only."
    return Haystack(f"{nonce()} {text}\n\n{question}", needle)
