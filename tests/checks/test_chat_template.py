"""chat-template-renders."""

from __future__ import annotations

from typing import Any

from file_world import stored
from small_world import case, seen

from canserve.checks.case import Wish
from canserve.checks.chat_template import CHECK
from canserve.facts import Cause, Known, Missing
from canserve.verdict import Finding, No, Skipped, Unknown, Verdict, Yes

PLAIN = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"


def verdict(source: str) -> Verdict:
    got = CHECK.judge(case(stored(chat_template=Known(source, seen("chat_template.jinja")))))
    assert isinstance(got, Finding)
    assert got.evidence
    return got.verdict


def skipped(wish: Wish | None = None, origin: str = "folder", **facts: Any) -> str:
    got = CHECK.judge(case(stored(origin, **facts), wish=wish or Wish()))
    assert isinstance(got, Skipped)
    return got.because


def test_a_template_that_renders_everything() -> None:
    got = verdict(PLAIN)
    assert isinstance(got, Yes)
    assert got.because.startswith("renders a user message, a user message in parts, a system message")
    assert "not " not in got.because


def test_a_model_for_text_alone_is_not_blamed_for_images() -> None:
    got = verdict(
        "{% for m in messages %}{% if m.content is not string %}{{ raise_exception('text only') }}{% endif %}"
        "{{ m.content }}{% endfor %}"
    )
    assert isinstance(got, Yes)
    assert "text only" not in got.because


def test_what_only_some_conversations_need_is_noted() -> None:
    got = verdict(
        "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}" + PLAIN
    )
    assert isinstance(got, Yes)
    assert "; not a system message: TemplateError: no system" in got.because


def test_a_template_for_parts_only_renders_too() -> None:
    source = "{% for m in messages %}{% for p in m.content %}{{ p.text or '' }}{% endfor %}{% endfor %}"
    got = verdict(source)
    assert isinstance(got, Yes)
    assert got.because.startswith("renders a user message in parts")


def test_a_template_that_needs_tools() -> None:
    got = verdict("{% if tools | length > 0 %}{{ tools | tojson }}{% endif %}" + PLAIN)
    assert got == Yes("renders, but only with tools", ("tools in every request",))


def test_a_template_of_its_own_for_tools() -> None:
    facts: dict[str, Any] = {
        "chat_template": Known(PLAIN + "{{ raise_exception('no tools') if tools }}", seen("template")),
        "named_templates": Known({"tool_use": PLAIN}, seen("tool_use template")),
    }
    got = CHECK.judge(case(stored(**facts)))
    assert isinstance(got, Finding)
    assert isinstance(got.verdict, Yes)
    assert "a tool call and its result" in got.verdict.because
    assert "no tools" not in got.verdict.because
    assert any(look.saw == "tool_use template" for look in got.evidence)


def test_a_template_that_cannot_be_parsed() -> None:
    got = verdict("line one\n{{ if .System }}{{ .System }}{{ end }}")
    assert isinstance(got, No)
    assert got.because.startswith(
        "the chat template fails for a plain user message, line 2: TemplateSyntaxError"
    )
    assert got.fix == "mend line 2 of the template, or pass another one: -- --chat-template FILE"


def test_a_template_that_fails_for_every_conversation() -> None:
    got = verdict(PLAIN + "{{ functions.names }}")
    assert isinstance(got, No)
    assert "UndefinedError: 'functions' is undefined" in got.because


def test_a_template_that_loses_the_users_words() -> None:
    got = verdict("<s>{% for m in messages %}{{ m.role }}{% endfor %}")
    assert isinstance(got, Unknown)
    assert "the user's words are not in the prompt" in got.because


def test_a_template_that_is_not_followed_to_its_end() -> None:
    for source in ("{% extends 'base' %}", "{% for i in range(99999) %}{{ messages }}{% endfor %}"):
        got = verdict(source)
        assert isinstance(got, Unknown)
        assert got.because.startswith("the template could not be followed to its end")


def test_a_limit_of_ours_in_a_side_case_does_not_hide_a_yes() -> None:
    got = verdict("{% if tools %}{{ 'x' | urlize }}{% endif %}" + PLAIN)
    assert isinstance(got, Yes)
    assert "tools" not in got.because


def test_nothing_to_judge() -> None:
    assert "completions" in skipped()
    assert "--chat_template names another" in skipped(Wish(flags={"--chat_template": "x.jinja"}))
    assert skipped(origin="config") == "only a config was given"


def test_an_unread_template_is_unknown() -> None:
    unread = Missing(Cause.UNREADABLE, "chat_template.jinja: not UTF-8")
    got = CHECK.judge(case(stored(chat_template=unread)))
    assert isinstance(got, Finding)
    assert isinstance(got.verdict, Unknown)
