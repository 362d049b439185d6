"""Engine flags, as the user gives them after ``--``, parsed into what the checks ask for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from canserve.checks.case import Wish

_NUMBER = re.compile(r"-\d+(\.\d*)?([eE][+-]?\d+)?|-\.\d+")
"""What argparse takes for a negative number, and so for a value."""

_POLICIES = {"8": "int8", "16": "fp8", "17": "fp8_e5m2", "42": "turbo_quant", "fp8_e4m3": "fp8"}
"""What the numbers of ``--quant-policy`` stand for."""
_SPECULATIVE = "--speculative-config"
_PIPELINE = ("--pipeline-parallel-size", "--pp-size", "-pp")
_CACHES = ("--kv-cache-dtype", "--cache-type-k", "-ctk")
_DRAFTS = (
    "--speculative-algorithm",
    "--speculative-algo",
    "--speculative-model",
    "--speculative-draft-model-path",
    "--spec-type",
)


def parse_wish(argv: Sequence[str]) -> Wish:
    """Read engine flags. Raises ValueError for what can be no flag, and for a number that is none."""
    flags = dict(_pairs(argv))
    by_name = {normalized(flag): value for flag, value in flags.items()}
    return Wish(
        flags=flags,
        trust_remote_code=_switched_on(by_name, "--trust-remote-code"),
        quantization=_first(by_name, "--quantization", "-q", "--model-format"),
        kv_cache_dtype=_first(by_name, *_CACHES) or _policy(by_name),
        reasoning_parser=_first(by_name, "--reasoning-parser"),
        tool_parser=_first(by_name, "--tool-call-parser", "--tool-parser"),
        speculative=_speculative(by_name),
        pipeline_parallel=_count(by_name, *_PIPELINE),
        model_impl=_first(by_name, "--model-impl"),
        load_format=_first(by_name, "--load-format"),
    )


def meant_for(engine: str, wish: Wish) -> Wish:
    """The wish without the flags of a recipe that starts another engine: they say nothing of a build of this one.

    ``recipe-engine-matches`` says so, once.
    """
    recipe = wish.recipe
    if recipe is None or recipe.engine in (None, engine):
        return wish
    own = [(flag, value) for flag, value in wish.flags.items() if recipe.line_of(flag) is None]
    words = [word for flag, value in own for word in ((flag,) if value is None else (f"{flag}={value}",))]
    return replace(parse_wish(words), recipe=recipe)


def normalized(flag: str) -> str:
    """``--kv_cache_dtype`` -> ``--kv-cache-dtype``; what follows a dot keeps its underscores."""
    head, dot, rest = flag.partition(".")
    return (head.replace("_", "-") if head.startswith("--") else head) + dot + rest


def given(wish: Wish, *names: str) -> str | None:
    """The first of these flags that the user gave, as it was written."""
    return next((flag for flag in wish.flags if normalized(flag) in names), None)


def _pairs(argv: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Flags with their values; several values are joined by a space, as they were typed."""
    flag, values = "", list[str]()
    for word in argv:
        if not is_flag(word):
            if not flag:
                raise ValueError(f"{word!r} after -- is not an engine flag: flags begin with a dash")
            values.append(word)
            continue
        if flag:
            yield flag, " ".join(values) if values else None
        flag, equals, value = word.partition("=")
        values = [value] if equals else []
    if flag:
        yield flag, " ".join(values) if values else None


def is_flag(word: str) -> bool:
    """Whether argparse takes a word for a flag."""
    return len(word) > 1 and word.startswith("-") and " " not in word and not _NUMBER.fullmatch(word)


def _first(flags: Mapping[str, str | None], *names: str) -> str | None:
    return next((value for name in names if (value := flags.get(name)) is not None), None)


def _policy(flags: Mapping[str, str | None]) -> str | None:
    """The cache's type that ``--quant-policy`` asks for; 4 has meant more than one, and is left to the flag."""
    value = flags.get("--quant-policy")
    if value is None or value in ("0", "4", "none"):
        return None
    return _POLICIES.get(value, value)


def _switched_on(flags: Mapping[str, str | None], name: str) -> bool:
    return name in flags and (flags[name] or "true").lower() in ("true", "1", "yes")


def _count(flags: Mapping[str, str | None], *names: str) -> int:
    value = _first(flags, *names)
    if value is None:
        return 1
    if not value.isdecimal() or int(value) < 1:
        raise ValueError(f"{names[0]} takes a number from 1, not {value!r}")
    return int(value)


def _speculative(flags: Mapping[str, str | None]) -> str | None:
    """Method or draft, from JSON, from dotted flags, or from flags of their own."""
    config: dict[str, Any] = {}
    if (text := flags.get(_SPECULATIVE)) is not None:
        config |= _object(text)
    for key in ("method", "model"):
        if (value := flags.get(f"{_SPECULATIVE}.{key}")) is not None:
            config[key] = value
    named = config.get("method") or config.get("model") or _first(flags, *_DRAFTS)
    return named if isinstance(named, str) else None


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{_SPECULATIVE} takes a JSON object: {error}") from error
    match value:
        case dict():
            return value
        case _:
            raise ValueError(f"{_SPECULATIVE} takes a JSON object, not {text!r}")
