"""Text and Markdown: verdict first, nothing hidden, nothing from outside that acts."""

from __future__ import annotations

import unicodedata
from dataclasses import replace

import pytest
from reports import (
    HOSTILE,
    hostile_report,
    model,
    no_report,
    report,
    unknown_report,
    unread_report,
    yes_report,
)

from canserve.render.markdown import check_markdown
from canserve.render.page import Look
from canserve.render.subject_structure import model_output
from canserve.render.subject_text import model_text
from canserve.render.text import check_text

PIPED = Look()
TERMINAL = Look(width=80)
ALL = frozenset({"all"})


def test_one_line_a_build_with_the_verdict_first() -> None:
    lines = check_text(report(), TERMINAL).splitlines()
    table = lines[lines.index("") + 1 :][:3]
    assert [line.split()[:2] for line in table] == [
        ["no", "vllm==0.14.0"],
        ["yes", "vllm==0.17.1"],
        ["unknown", "sglang==0.5.9"],
    ]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_lines_fit_the_terminal(width: int) -> None:
    text = check_text(report(), Look(width=width, explain=ALL))
    assert max(map(len, text.splitlines())) <= width


def test_a_pipe_keeps_every_reason_on_one_line() -> None:
    text = check_text(report(), PIPED)
    reason = "Qwen3_5MoeForConditionalGeneration is not among the 262 architectures it lists; near: Qwen3Moe"
    assert any(line.lstrip().startswith("no") and reason in line for line in text.splitlines())
    assert "\x1b" not in text
    assert not [line for line in text.splitlines() if line != line.rstrip()]


def test_colour_changes_nothing_but_colour() -> None:
    coloured = check_text(report(), Look(width=80, colour=True))
    assert "\x1b[1;31m" in coloured
    plain = coloured
    for code in ("0", "1", "2", "1;31", "1;32", "1;33", "1;36"):
        plain = plain.replace(f"\x1b[{code}m", "")
    assert [line.rstrip() for line in plain.splitlines()] == check_text(report(), TERMINAL).splitlines()


def test_no_unknown_and_yes_say_what_to_do() -> None:
    text = check_text(
        report(no_report(), unknown_report(), yes_report(needs=("transformers>=5.5.1",))), PIPED
    )
    assert text.count("fix: use vllm 0.17.0 or newer") == 1, "two checks with one fix say it once"
    assert "ask: make it readable for this user" in text
    assert "with: transformers>=5.5.1" in text


def test_builds_with_the_same_reasons_share_a_section() -> None:
    text = check_text(report(no_report("a"), no_report("b"), yes_report("c")), PIPED)
    assert "a, b: no\n" in text
    assert "c: yes\n" in text


def test_what_was_skipped_is_said() -> None:
    assert "skipped  driver-new-enough: the profile names no driver" in check_text(report(), PIPED)


def test_a_build_that_could_not_be_read_is_unknown() -> None:
    text = check_text(report(unread_report()), PIPED)
    assert "unknown  vllm==9.9.9" in text
    assert "ask: name a release: 0.33.0 is newest" in text
    assert "note     its index was not asked in full" in text


def test_explain_shows_file_and_line() -> None:
    assert "registry.py:507" not in check_text(report(), PIPED)
    text = check_text(report(), Look(explain=frozenset({"architecture-registered"})))
    assert "vllm/model_executor/models/registry.py:507: 262 architectures in _VLLM_MODELS" in text
    assert "release index: vllm: first listed by 0.17.0 (partial look)" in text
    assert "config.py:74" not in text
    assert "config.py:74" in check_text(report(), Look(explain=ALL))


@pytest.mark.parametrize("width", [None, 60])
def test_text_from_outside_cannot_act(width: int | None) -> None:
    look = Look(width=width, explain=ALL)
    outputs = [
        check_text(report(hostile_report()), look),
        check_markdown(report(hostile_report()), ALL),
        model_text(model_output(model(HOSTILE)), look, whole=True),
    ]
    for text in outputs:
        bad = {c for c in text if unicodedata.category(c) in {"Cc", "Cf", "Cs"}} - {"\n", "\u200b"}
        assert not bad
        assert "\\x1b[2J" in text or "\\x1b\\[2J" in text


def test_markdown_keeps_its_table_and_its_readers() -> None:
    text = check_markdown(report(hostile_report()))
    row = next(line for line in text.splitlines() if line.startswith("| **no**"))
    assert row.replace("\\|", "").count("|") == 4
    outside_code = "".join(text.split("``")[::2])
    assert "<script>" not in outside_code
    assert "@someone" not in outside_code
    assert "#12" not in outside_code


def test_markdown_gives_reasons_and_advice() -> None:
    text = check_markdown(report(), frozenset({"config-parsable"}))
    assert "| **no** | `vllm==0.14.0` | Qwen3_5MoeForConditionalGeneration is not" in text
    assert "  - fix: use vllm 0.17.0 or newer" in text
    assert "  - ask: make it readable for this user" in text
    assert "`vllm/transformers_utils/config.py:74`" in text


def test_what_is_skipped_for_every_build_is_said_once_at_the_end() -> None:
    text = check_text(report(no_report(), yes_report()), PIPED)
    assert text.count("the profile names no driver") == 1
    assert text.endswith("every build:\n  skipped  driver-new-enough: the profile names no driver\n")
    text = check_text(report(no_report(), unknown_report()), PIPED)
    assert "every build:" not in text
    assert text.count("the profile names no driver") == 1


def test_several_machines_with_several_results_are_told_apart() -> None:
    build = no_report()
    twice = [replace(build.findings[0], about=f"vllm==0.14.0 on {name}") for name in ("head", "second")]
    both = replace(build, findings=(*twice, *build.findings[1:]))
    text = check_text(report(both), PIPED)
    assert "tokenizer-loadable (vllm==0.14.0 on head), tokenizer-loadable (vllm==0.14.0 on second)" in text
    assert "architecture-registered: " in text
    assert "`tokenizer-loadable (vllm==0.14.0 on head)`" in check_markdown(report(both))
