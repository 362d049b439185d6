"""How many values flags take: which word behind them is a flag's own, and which the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from canserve.checks.wish import is_flag, normalized
from canserve.rules.recipes import takes
from canserve.subjects.build import Flag

Count = Literal["none", "one", "several"]
_KINDS: Mapping[str, Count] = {
    "switch": "none",
    "pair": "none",
    "value": "one",
    "json": "one",
    "values": "several",
}


@dataclass(frozen=True, slots=True)
class Arity:
    """Flags by name, and how many words behind each belong to it."""

    counts: Mapping[str, Count] = field(default_factory=dict)

    @classmethod
    def of(cls, engine: str) -> Arity:
        """What releases of an engine agree on, as the rules know it."""
        return cls(takes(engine))

    @classmethod
    def in_build(cls, flags: Mapping[str, Flag], engine: str = "") -> Arity:
        """As a build's own table says it; of flags that it does not know, what the rules know."""
        own = {
            normalized(name): _KINDS[kind]
            for flag in flags.values() if (kind := flag.kind) is not None and kind in _KINDS
            for name in (flag.name, *flag.aliases)
        }  # fmt: skip
        return cls({**takes(engine), **own})

    def count(self, flag: str) -> Count | None:
        """None: not known."""
        name = normalized(flag)
        if "." in name:
            return "one"
        negated = f"--{name[5:]}" if name.startswith("--no-") else name
        return self.counts.get(name) or ("none" if self.counts.get(negated) == "none" else None)


def positional(words: Sequence[str], arity: Arity) -> tuple[int | None, bool]:
    """Where the first word stands that belongs to no flag, and whether that is certain."""
    doubtful: list[int] = []
    at = 0
    while at < len(words):
        flag, start = words[at], at + 1
        at = start
        while at < len(words) and not is_flag(words[at]):
            at += 1
        if at == start or not is_flag(flag):
            continue
        count = "none" if "=" in flag else arity.count(flag)
        if count == "none" or (count == "one" and at - start > 1):
            return start + (count == "one"), True
        if count is None:
            doubtful.append(at - 1)
    likely = [number for number in doubtful if "/" in words[number]]
    return next(iter(likely or doubtful), None), False
