"""Engine flags after ``--``, as users write them for either engine."""

from __future__ import annotations

import pytest

from canserve.checks.case import Wish
from canserve.checks.wish import given, normalized, parse_wish


def test_no_flags_wish_nothing() -> None:
    assert parse_wish([]) == Wish()


def test_every_way_of_writing_a_flag_is_kept_as_it_was_written() -> None:
    wish = parse_wish(
        [
            "-tp",
            "2",
            "--port=8000",
            "--enforce-eager",
            "--max_model_len",
            "-1",
            "--served-model-name",
            "a",
            "b",
        ]
    )
    assert wish.flags == {
        "-tp": "2",
        "--port": "8000",
        "--enforce-eager": None,
        "--max_model_len": "-1",
        "--served-model-name": "a b",
    }


def test_what_the_checks_ask_for() -> None:
    wish = parse_wish(
        ["--trust-remote-code", "--quantization", "fp8", "--kv-cache-dtype=fp8_e4m3", "--reasoning-parser",
         "qwen3", "--tool-call-parser", "hermes", "--model-impl", "transformers", "--load-format", "gguf"]
    )  # fmt: skip
    assert wish.trust_remote_code
    assert (wish.quantization, wish.kv_cache_dtype) == ("fp8", "fp8_e4m3")
    assert (wish.reasoning_parser, wish.tool_parser) == ("qwen3", "hermes")
    assert (wish.model_impl, wish.load_format) == ("transformers", "gguf")


def test_underscores_and_short_flags_mean_the_same() -> None:
    wish = parse_wish(["--kv_cache_dtype", "fp8", "--trust_remote_code", "-q", "awq"])
    assert (wish.kv_cache_dtype, wish.trust_remote_code, wish.quantization) == ("fp8", True, "awq")


@pytest.mark.parametrize("text", ["false", "False", "0", "no"])
def test_a_switch_that_is_said_to_be_off_is_off(text: str) -> None:
    assert not parse_wish([f"--trust-remote-code={text}"]).trust_remote_code


@pytest.mark.parametrize("flag", ["-pp", "--pp-size", "--pipeline-parallel-size", "--pipeline_parallel_size"])
def test_pipeline_stages(flag: str) -> None:
    assert parse_wish([flag, "4"]).pipeline_parallel == 4


@pytest.mark.parametrize(
    "argv",
    [
        ["--speculative-config", '{"method": "mtp", "num_speculative_tokens": 1}'],
        ["--speculative-config.method", "mtp"],
        ["--speculative_config.method=mtp"],
        ["--speculative-algorithm", "mtp"],
        ["--speculative-config", '{"num_speculative_tokens": 1}', "--speculative-config.method", "mtp"],
    ],
)
def test_speculative_method(argv: list[str]) -> None:
    assert parse_wish(argv).speculative == "mtp"


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--speculative-config", '{"model": "org/draft"}'], "org/draft"),
        (["--speculative-model", "org/draft"], "org/draft"),
        (["--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "org/draft"], "EAGLE3"),
        (["--speculative-config", '{"method": 3}'], None),
        (["--speculative-config", "{}"], None),
    ],
)
def test_a_draft_model_counts_where_no_method_is_named(argv: list[str], expected: str | None) -> None:
    assert parse_wish(argv).speculative == expected


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["serve"], "'serve' after -- is not an engine flag"),
        (["-pp", "two"], "takes a number"),
        (["-pp", "0"], "takes a number"),
        (["--speculative-config", "{broken"], "takes a JSON object"),
        (["--speculative-config", "[1]"], "takes a JSON object"),
        (["--speculative-config", "[" * 100_000], "takes a JSON object"),
    ],
)
def test_what_cannot_be_meant_is_refused(argv: list[str], says: str) -> None:
    with pytest.raises(ValueError, match=says.replace("(", r"\(")):
        parse_wish(argv)


def test_names_are_compared_without_underscores_up_to_the_first_dot() -> None:
    assert (
        normalized("--speculative_config.num_speculative_tokens")
        == "--speculative-config.num_speculative_tokens"
    )
    assert normalized("-tp") == "-tp"
    assert given(parse_wish(["--chat_template", "x"]), "--chat-template") == "--chat_template"
    assert given(parse_wish(["--port", "1"]), "--chat-template") is None
