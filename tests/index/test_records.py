"""Records as JSON and back, whatever fields they get one day."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from canserve.facts import Cause, Fact, Known, Missing
from canserve.index.records import NOT_READ, parsed, written
from canserve.subjects.build import Converter, Fallback, FlagSyntax, Site, Taker

HERE, THERE = Site("eng/here.py", 7), Site("the index", 0)


@dataclass(frozen=True, slots=True)
class Part:
    """All forms that fields have."""

    names: tuple[str, ...]
    perhaps: str | None
    at: Site
    by_name: Mapping[str, tuple[int, ...]]
    none: Mapping[str, Site] | None
    plain: int | str | bool | tuple[int, ...] | None
    fact: Fact[tuple[int, ...]]
    lost: Fact[int | None]
    parts: tuple[FlagSyntax, ...]


def part(at: Site, lost: Fact[int | None]) -> Part:
    syntax = FlagSyntax(True, False, at)
    return Part(("b", "a"), None, at, {"z": (1,), "a": ()}, None, (1, 2), Known((80, 90)), lost, (syntax,))


def test_every_form_survives() -> None:
    text = written(part(HERE, Missing(Cause.UNREADABLE, "gone")), Part)
    back: Part = parsed(text, Part, THERE)
    assert back == part(THERE, NOT_READ)
    assert list(back.by_name) == ["z", "a"]


def test_none_is_none_and_not_the_empty_one() -> None:
    assert parsed(written(None, Converter | None), Converter | None, THERE) is None
    empty = Converter({}, {})
    assert parsed(written(empty, Converter | None), Converter | None, THERE) == empty
    assert parsed(written(HERE, Site | None), Site | None, THERE) == THERE
    assert parsed(written(None, Site | None), Site | None, THERE) is None


def test_a_rule_with_orders_in_it() -> None:
    rule = Fallback(
        ("B", "A"), ("x",), True, False, {"Reward": "", "Model": "ForCausalLM"}, False, THERE, ("Z",)
    )
    assert parsed(written(rule, Fallback), Fallback, THERE) == rule
    takers = (Taker("one", flag="--x"), Taker("two"))
    assert parsed(written(takers, tuple[Taker, ...]), tuple[Taker, ...], THERE) == takers


@pytest.mark.parametrize("text", ["", "{", "[1]"])
def test_what_is_no_record_is_an_error(text: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        parsed(text, Fallback, THERE)
