"""Views of answers: bounded whatever is in them, and nothing is lost to who follows the references."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from canserve.mcp.answers import Address, Answers, NoSuchPartError
from canserve.mcp.approvals import MOST, VALID, Approvals
from canserve.mcp.folding import BUDGET, view, worst_first

SMALL = 1500
SEARCH = (Phase.explicit, Phase.reuse, Phase.generate)
"""Without shrinking, which takes minutes with values of that size."""
NAMES = st.text(max_size=12) | st.sampled_from(["evidence", "a/b", "why?", "100%", ""])
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=900),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(NAMES, inner, max_size=30),
    max_leaves=80,
)


def references(value: Any) -> Iterator[str]:
    match value:
        case {"folded": str(address)} | {"more": str(address)}:
            yield address
        case dict():
            for item in value.values():
                yield from references(item)
        case list():
            for item in value:
                yield from references(item)
        case _:
            pass


@settings(max_examples=40, phases=SEARCH)
@given(VALUES)
def test_a_view_is_bounded_and_its_references_lead_somewhere(value: Any) -> None:
    answers = Answers()
    address = answers.keep(value)
    seen, left = 0, [address]
    while left and seen < 60:
        shown = answers.view(left.pop())
        assert len(json.dumps(shown)) <= BUDGET * 1.5
        left += references(shown) if shown is not value else []
        seen += 1


@settings(max_examples=40, phases=SEARCH)
@given(st.dictionaries(st.text("abcdef", min_size=1, max_size=8), VALUES, max_size=8))
def test_a_small_room_is_kept_too(value: Any) -> None:
    assert len(json.dumps(view(value, "canserve://answers/1", budget=SMALL))) <= max(SMALL * 8, 6000)


def test_the_room_is_used() -> None:
    """A record with many fields, tables among them: something of each is shown."""
    tables = {f"table{n}": {f"name{i}": {"class": "x" * 20, "line": i} for i in range(300)} for n in range(8)}
    record = {**{f"field{n}": n for n in range(60)}, **tables, "many": {str(n): n for n in range(5000)}}
    answers = Answers()
    shown = answers.view(answers.keep({"facts": record}))
    assert BUDGET / 2 < len(json.dumps(shown)) <= BUDGET
    assert shown["facts"].keys() == record.keys()
    assert all("name0" in shown["facts"][name] for name in tables)
    assert shown["facts"]["many"]["more"]["items"] > 4000


def test_a_long_list_is_read_to_its_end() -> None:
    value = [{"number": number, "text": "x" * 300} for number in range(500)]
    answers, found = Answers(), []
    address: str | None = answers.keep(value)
    while address:
        shown = answers.view(address)
        more = shown.pop()["more"] if "more" in shown[-1] else None
        found += [item["number"] for item in shown]
        address = more
    assert found == list(range(500))


def test_a_long_text_is_read_to_its_end() -> None:
    text = "".join(chr(97 + number % 26) for number in range(BUDGET * 3))
    answers, found = Answers(), ""
    address: str | None = f"{answers.keep({'log': text})}/log"
    while address:
        shown = answers.view(address)
        found += shown if isinstance(shown, str) else shown["text"]
        address = shown.get("more") if isinstance(shown, dict) else None
    assert found == text


def test_a_no_stands_first_and_evidence_aside() -> None:
    def finding(name: str, verdict: str, needs: list[str]) -> dict[str, Any]:
        return {"check": name, "verdict": verdict, "needs": needs, "evidence": [{"saw": "x"}]}

    rows = [
        finding("a", "yes", []),
        finding("b", "unknown", []),
        finding("c", "yes", ["x"]),
        finding("d", "no", []),
    ]
    assert [row["check"] for row in worst_first({"findings": rows})["findings"]] == ["d", "b", "c", "a"]
    answers = Answers()
    shown = answers.view(answers.keep({"findings": rows}))
    assert shown["findings"][0]["evidence"] == {
        "folded": "canserve://answers/1/findings/0/evidence",
        "items": 1,
    }
    assert answers.view("canserve://answers/1/findings/0/evidence") == [{"saw": "x"}]


def test_what_would_hide_from_a_reader_is_shown() -> None:
    answers = Answers()
    shown = answers.view(answers.keep({"name\u202e": "evil\u202egnp.exe \x1b[2J \u200bhidden"}))
    assert shown == {"name\\u202e": "evil\\u202egnp.exe \\x1b[2J \\u200bhidden"}


@pytest.mark.parametrize(
    "address",
    ["", "x", "canserve://answers", "canserve://answers/x", "canserve://answers/1/b", "canserve://answers/1/a/9",
     "canserve://answers/1/a?from=-1", "canserve://answers/1/a?from=x", "canserve://schema/1", "file:///1",
     "canserve://answers/1/a/-1", "canserve://[/1", "canserve://answers/1/"],
)  # fmt: skip
def test_no_address_leads_astray(address: str) -> None:
    answers = Answers()
    answers.keep({"a": [1], "\ud800/": 1})
    with pytest.raises(NoSuchPartError):
        answers.view(address)


def test_any_name_can_be_followed() -> None:
    names = ["", "/", "..", "a?b#c", "%2F", "\ud800", "\u202e"]
    answers = Answers()
    shown = answers.view(answers.keep({name: {"evidence": [name]} for name in names}))
    for name, address in zip(names, references(shown), strict=True):
        assert answers.part(Address.read(address)) == [name]


def test_old_answers_go() -> None:
    answers = Answers()
    first = answers.keep([1])
    for _ in range(100):
        answers.keep([2])
    with pytest.raises(NoSuchPartError, match="not kept"):
        answers.view(first)
    assert Address.read("canserve://answers/7/a%2Fb/0?from=3") == Address(7, ("a/b", "0"), 3)


def test_an_approval_counts_once_for_its_tool_and_for_a_while() -> None:
    now = 0.0
    approvals = Approvals(lambda: now)
    word = approvals.ask("up", "steps")
    for tool, said in (("down", word), ("up", "else")):
        with pytest.raises(LookupError):
            approvals.take(tool, said)
    assert approvals.take("up", word) == "steps"
    with pytest.raises(LookupError):
        approvals.take("up", word)
    late = approvals.ask("up", "steps")
    now = VALID + 1
    with pytest.raises(LookupError):
        approvals.take("up", late)
    words = [approvals.ask("up", number) for number in range(MOST + 1)]
    with pytest.raises(LookupError):
        approvals.take("up", words[0])
    assert approvals.take("up", words[-1]) == MOST
