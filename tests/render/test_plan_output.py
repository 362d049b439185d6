"""Plans as text, JSON and Markdown; and a saved plan read back."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import fields, replace

import jsonschema
import pytest
from plan_reports import NO, SPEED, blocked, hostile, memory, plan, q, report

from canserve.facts import Known
from canserve.memory.quantity import Quantity
from canserve.plan.file import PlanError, read_plans
from canserve.plan.plan import Plans
from canserve.render.figures import around, layout_name, rounded, tokens
from canserve.render.page import Look
from canserve.render.plain import schema
from canserve.render.plan_markdown import plans_markdown
from canserve.render.plan_memory import bar, shared_out
from canserve.render.plan_shapes import PlansShape
from canserve.render.plan_structure import plans_output
from canserve.render.plan_text import plans_text
from canserve.render.shell import line, lines, quoted
from canserve.render.structure import to_json
from canserve.subjects.launch import Process
from canserve.subjects.parallel import Parallel
from canserve.verdict import Unknown

EMPTY = replace(report(), plans=Plans("m", "latency", (), report().plans.illegal))


def test_text_fits_the_terminal_and_says_the_verdict_first() -> None:
    text = plans_text(report(), Look(80))
    assert max(map(len, text.splitlines())) <= 80
    assert text.split("\n\n")[1].startswith("yes      vllm==0.17.1, TP2: 15.4 sequences of 262144 tokens")
    assert text.isascii() or "…" in text


def test_every_plan_and_rule_is_said_once() -> None:
    text = plans_text(report(), Look(None))
    assert " 4 no      vllm==0.17.1   TP1" in text
    assert "  no       vllm==0.17.1 TP1: 115.6 GiB of weights do not fit" in text
    assert "TP3, TP5, TP6, TP7: 32 attention heads do not divide by tensor parallel 3 (heads-divide)" in text
    assert text.count("heals: use TP2 or TP4") == 1


def test_a_pipe_gets_each_command_on_one_line() -> None:
    text = plans_text(report(), Look(None))
    assert any(
        row.endswith("--max-model-len 262144 --headless") and "vllm serve" in row for row in text.splitlines()
    )


def test_no_legal_layout_is_a_no_with_the_rule() -> None:
    text = plans_text(EMPTY, Look(80))
    assert "no       no layout is legal: 32 attention heads do not divide by tensor" in text
    assert "no layout is legal" in plans_markdown(EMPTY)


def test_bars_are_letters_in_proportion() -> None:
    letters = "".join(text for text, _ in bar(memory(), 60))
    assert len(letters) == 60 and letters == "W" * 28 + "A" + "G" + "N" + "K" * 23 + "." * 6
    assert "".join(text for text, _ in bar(memory(kv=-10), 40)).count("K") == 0
    assert shared_out([1e12, 1, 1], 10) == [8, 1, 1]
    assert shared_out([0.0, 0.0], 10) == [0, 0]


def test_ranks_that_are_alike_share_a_bar() -> None:
    many = plan(parallel=Parallel(8))
    assert isinstance(many.serving, Known)
    alike = replace(many.serving.value, ranks=(memory(),) * 8)
    one = replace(report(), plans=replace(report().plans, plans=(replace(many, serving=Known(alike)),)))
    assert plans_text(one, Look(80)).count("ranks 0 to 7 (head, second) each 121.7 GiB") == 1


def test_figures() -> None:
    assert rounded(1234.5) == "1,230" and rounded(31.04) == "31" and rounded(3.84) == "3.84"
    assert rounded(0) == "0" and rounded(999.6) == "1,000"
    assert around(q(31, 0.2), rounded) == "31 (24.8 to 37.2)" and around(q(4096), tokens) == "4096"
    assert layout_name(Parallel()) == "TP1" and layout_name(Parallel(2, 1, 4, 8)) == "TP2 DP4 EP8"


@pytest.mark.parametrize("made", [report(), hostile(), EMPTY], ids=["usual", "hostile", "empty"])
def test_json_keeps_its_schema_and_can_be_read_back(made: object) -> None:
    text = to_json(plans_output(made.plans))  # type: ignore[attr-defined]
    jsonschema.validate(json.loads(text), schema(PlansShape))
    again = read_plans(text)
    assert to_json(plans_output(again)) == text
    assert [p.verdict for p in again.plans] == [p.verdict for p in made.plans.plans]  # type: ignore[attr-defined]


def test_names_of_the_json() -> None:
    first = json.loads(to_json(plans_output(report().plans)))["plans"][0]
    assert first["layout"] == {"tp": 2, "pp": 1, "dp": 1, "ep": 1}
    rank = first["ranks"][0]
    assert rank["machine"] == "head" and set(rank["weights_bytes"]) == {"value", "low", "high", "why"}
    for name in ("kv_available_bytes", "activation_bytes", "graphs_bytes"):
        assert type(rank[name]["value"]) is int
    assert first["kv_bytes_per_token"] == 12288 and first["max_context"] == 262144
    assert first["max_concurrency"]["value"] == 15.4 and first["decode_tok_s"]["value"] == SPEED.decode.value
    assert {"findings", "commands", "verdict", "build", "prefill_tok_s"} <= set(first)
    unread = json.loads(to_json(plans_output(report().plans)))["plans"][2]
    assert unread["max_context"]["missing"] == "unavailable" and unread["ranks"][0]["weights_bytes"] is None


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"version": 2}', '{"version": 1}', "[" * 100_000, '{"version": 1, "model": 3}',
     '{"version": 1, "model": "m", "goal": "g", "plans": [{}], "illegal": [], "curve": [], "what_if": [], "notes": []}'],
)  # fmt: skip
def test_what_is_no_plan_is_said_in_one_line(text: str) -> None:
    with pytest.raises(PlanError) as error:
        read_plans(text)
    assert "\n" not in str(error.value)


def test_a_plan_of_another_version_is_not_guessed_at() -> None:
    document = json.loads(to_json(plans_output(report().plans)))
    with pytest.raises(PlanError, match="not a plan of version 1"):
        read_plans(json.dumps(document | {"version": 2}))


def test_hostile_names_cannot_break_out() -> None:
    text = plans_text(hostile(), Look(80, colour=True))
    assert "\x1b[2J" not in text and "\u202e" not in text
    page = plans_markdown(hostile())
    assert "\x1b" not in page
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", re.sub(r"~~~~sh\n.*?\n~~~~", "", page))
    assert "<script>" not in outside
    assert all(not row.startswith("|") or row.count("|") >= 3 for row in page.splitlines())


def test_markdown_has_the_table_the_memory_and_the_commands() -> None:
    page = plans_markdown(report())
    assert "| **yes** | `vllm==0.17.1` | TP2 | 47.2 | 262144 | 15.4 | 31 |  |" in page
    assert "| 0 | `head` | 121.7 | 57.8 (57.2 to 58.4) |" in page
    assert "~~~~sh\nNCCL_SOCKET_IFNAME=enp1s0f0np0 vllm serve" in page
    assert "| TP3 | `heads-divide`: 32 attention heads" in page


def test_a_command_is_what_the_shell_makes_of_it() -> None:
    words = ("vllm", "serve", "it's $HOME `x`", "--a", '{"k": "$1"}', "--addr", "$HEAD_IP:80", "--flag")
    process = Process("head", (0,), words, {"X": "a b"})
    said = line(process, {"HEAD_IP": ""})
    assert shlex.split(said) == ["X=a b", *words]
    assert '"$HEAD_IP:80"' in said
    assert quoted("$HEAD_IP $x", {"HEAD_IP": ""}) == '"$HEAD_IP \\$x"'
    assert quoted("$HEAD_IPX", {"HEAD_IP": ""}) == "'$HEAD_IPX'"
    several = lines(process, {"HEAD_IP": ""}, 30)
    assert len(several) > 2 and shlex.split(" ".join(row.removesuffix("\\") for row in several)) == [
        "X=a b",
        *words,
    ]
    assert all(row.endswith(" \\") for row in several[:-1]) and '--addr "$HEAD_IP:80"' in " ".join(several)


def test_a_reason_stands_where_there_are_no_figures() -> None:
    text = plans_text(report(), Look(None))
    assert "PP2         config.json: text_config.num_key_value_heads is missing" in text
    only = replace(report(), plans=Plans("m", "latency", (blocked(NO, Parallel()),)))
    assert plans_text(only, Look(80)).count("fix: use TP2") == 2
    doubt = replace(
        only, plans=Plans("m", "latency", (blocked(Unknown("why", "what settles it"), Parallel()),))
    )
    assert "ask: what settles it" in plans_text(doubt, Look(80))


def test_nothing_of_what_a_deployment_holds_is_lost_in_a_file() -> None:
    first = report().plans.plans[0]
    again = read_plans(to_json(plans_output(report().plans))).plans[0]
    assert isinstance(first.serving, Known) and isinstance(again.serving, Known)
    for field in fields(first.serving.value):
        saved, before = getattr(again.serving.value, field.name), getattr(first.serving.value, field.name)
        if isinstance(before, Quantity):
            assert _near(saved, before), field.name
        elif field.name != "ranks":
            assert saved == before, field.name
    assert (
        again.placement == first.placement and again.start == first.start and again.findings == first.findings
    )


def _near(one: Quantity, other: Quantity) -> bool:
    return (
        one.why == other.why
        and one.value == pytest.approx(other.value)
        and one.low == pytest.approx(other.low)
    )
