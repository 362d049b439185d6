"""parsers-known."""

from __future__ import annotations

from typing import Any

from small_world import SmallHistory, build, case, seen

from canserve.checks.case import Wish
from canserve.checks.parsers import CHECK
from canserve.facts import Cause, Known, Missing
from canserve.subjects.build import Flag, Site
from canserve.verdict import Finding, No, Skipped, Unknown, Yes

QWEN = Wish(reasoning_parser="qwen3", tool_parser="hermes")


class Past(SmallHistory):
    def first_listing(self, engine: str, table: str, name: str) -> str | None:
        return "0.6.3" if (table, name) == ("tool_parsers", "llama3_json") else None


def judge(wish: Wish, **facts: Any) -> Finding | Skipped:
    tables: dict[str, Any] = {
        "reasoning_parsers": Known(("qwen3", "deepseek_r1"), seen("2 parsers")),
        "tool_parsers": Known(("hermes", "mistral"), seen("2 parsers")),
    }
    return CHECK.judge(case(the_build=build(**(tables | facts)), wish=wish, history=Past()))


def test_nothing_asked_is_nothing_judged() -> None:
    assert isinstance(judge(Wish()), Skipped)


def test_both_known() -> None:
    got = judge(QWEN)
    assert isinstance(got, Finding)
    assert got.verdict == Yes("reasoning parser qwen3 and tool parser hermes known")
    assert len(got.evidence) == 1


def test_unknown_name_tells_the_nearest_and_the_first_release() -> None:
    got = judge(Wish(tool_parser="llama3_json"))
    assert isinstance(got, Finding)
    assert got.verdict == No(
        "the build has no tool parser llama3_json; it has hermes, mistral",
        "use one it has, or eng>=0.6.3, the first release with it",
    )
    assert any(look.how == "release index" for look in got.evidence)
    near = judge(Wish(reasoning_parser="qwen"))
    assert isinstance(near, Finding)
    assert near.verdict == No(
        "the build has no reasoning parser qwen; nearest: qwen3", "use qwen3, or a build that has it"
    )


def test_both_unknown_are_both_told() -> None:
    got = judge(Wish(reasoning_parser="x", tool_parser="y"))
    assert isinstance(got, Finding)
    assert isinstance(got.verdict, No)
    assert "reasoning parser x" in got.verdict.because
    assert "tool parser y" in got.verdict.because


def test_a_build_without_parsers() -> None:
    got = judge(Wish(reasoning_parser="qwen3"), reasoning_parsers=Known((), seen("none")))
    assert isinstance(got, Finding)
    assert isinstance(got.verdict, No)
    assert "it has none at all" in got.verdict.because


def test_a_list_of_choices_that_was_written_by_hand_decides() -> None:
    flag = Flag("--tool-call-parser", ("mistral",), Site("eng/args.py", 5))
    got = judge(Wish(tool_parser="hermes"), flags=Known({"--tool-call-parser": flag}, seen()))
    assert isinstance(got, Finding)
    assert isinstance(got.verdict, No)
    assert got.verdict.because == (
        "--tool-call-parser refuses hermes, although the build has that tool parser; it has mistral"
    )
    assert any(look.how == "eng/args.py:5" for look in got.evidence)


def test_a_plugin_may_add_it() -> None:
    wish = Wish(flags={"--tool-parser-plugin": "mine.py"}, tool_parser="mine")
    got = judge(wish)
    assert isinstance(got, Finding)
    assert isinstance(got.verdict, Unknown)


def test_auto_is_left_to_the_engine() -> None:
    got = judge(Wish(reasoning_parser="auto"))
    assert isinstance(got, Finding)
    assert isinstance(got.verdict, Yes)


def test_an_unread_table_is_unknown() -> None:
    got = judge(QWEN, tool_parsers=Missing(Cause.UNREADABLE, "unknown form"))
    assert isinstance(got, Finding)
    assert isinstance(got.verdict, Unknown)
