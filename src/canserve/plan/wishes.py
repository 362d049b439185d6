"""What the user wants of a plan."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from canserve.layout import Fixed
from canserve.subjects.parallel import Parallel

Goal = Literal["latency", "throughput", "context"]
GOALS: tuple[Goal, ...] = ("latency", "throughput", "context")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,99}(\.[A-Za-z0-9_-]{1,99}){0,8}")
_SECRET = re.compile(r"(^|_)(api_keys?|hf_token|auth_token|access_token|password|passphrase|secret)$")
MAX_VALUE = 10_000
"""Characters of one option's value."""
BUILD = "build"
"""The one name in a what-if that is no engine option."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """Goal, load, degrees and engine options; None: whatever suits."""

    goal: Goal = "latency"
    context: int | None = None
    """Tokens of the longest sequence."""
    concurrency: int | None = None
    """Sequences of that length at once."""
    fixed: Fixed = field(default_factory=Fixed)
    alone: bool = False
    """Whether degrees that neither ``fixed`` nor the engine options name are 1, as engines read it."""
    spread: bool = False
    """Whether experts have to be spread over the ranks, however many these are."""
    options: Mapping[str, object] = field(default_factory=dict)
    """Engine options under the engine's own names."""

    def allows(self, parallel: Parallel) -> bool:
        """Whether these degrees are among those that were asked for."""
        return self.fixed.allows(parallel) and (not self.spread or parallel.ep > 1)


def read_option(text: str) -> tuple[str, object]:
    """``max_num_seqs=64``, ``--enforce-eager`` -> name with underscores, value as JSON says it.

    A value that is no JSON is text; none at all is True. Raises ValueError.
    """
    name, equals, value = text.partition("=")
    name = name.strip().lstrip("-")
    if not _NAME.fullmatch(name):
        raise ValueError(f"{text!r:.80} is not of the form name=value")
    if equals and _SECRET.search(name.replace("-", "_")) and not isinstance(_value(value), bool):
        raise ValueError(
            f"{name} is a secret, and a command line shows it: set it in the server's environment"
        )
    head, dot, rest = name.partition(".")
    return f"{head.replace('-', '_')}{dot}{rest}", _value(value) if equals else True


def read_options(texts: Sequence[str]) -> dict[str, object]:
    """Several of them; of two with one name the later one counts. Raises ValueError."""
    return dict(read_option(text) for text in texts)


def _value(text: str) -> object:
    if len(text) > MAX_VALUE:
        raise ValueError(f"a value of {len(text)} characters; at most {MAX_VALUE}")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{text} is no number")
    return value


def read_count(text: str) -> int:
    """``262144``, ``256k`` (of 1024), ``1m`` -> a number of tokens. Raises ValueError."""
    match = re.fullmatch(r"\s*(\d{1,12})\s*([km]?)\s*", text.replace(",", ""), re.IGNORECASE)
    if match is None or int(match[1]) == 0:
        raise ValueError(f"not a number of tokens: {text!r:.40} (write 262144 or 256k)")
    return int(match[1]) * {"": 1, "k": 1 << 10, "m": 1 << 20}[match[2].lower()]
