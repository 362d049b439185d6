"""flags-accepted."""

from __future__ import annotations

from typing import Any

import pytest
from small_world import SmallHistory, build, case, seen

from canserve.checks.flags import CHECK
from canserve.checks.wish import parse_wish
from canserve.facts import Cause, Fact, Known, Missing
from canserve.subjects.build import NOT_ASKED, Flag, FlagSyntax, Site
from canserve.verdict import Finding, No, Skipped, Unknown, Verdict, Yes


class Past(SmallHistory):
    def first_listing(self, engine: str, table: str, name: str) -> str | None:
        return "9.1" if (table, name) == ("flags", "--nnodes") else None


def flag(
    name: str, kind: str | None = "value", choices: tuple[str, ...] | None = None, *aliases: str
) -> Flag:
    return Flag(name, choices, Site("eng/args.py", 11), aliases, kind)


FLAGS = {
    one.name: one
    for one in (
        flag("--tensor-parallel-size", "value", None, "-tp"),
        flag("--port"),
        flag("--kv-cache-dtype", "value", ("auto", "fp8")),
        flag("--enforce-eager", "switch"),
        flag("--enable-prefix-caching", "pair"),
        flag("--speculative-config", "json", None, "-sc"),
        flag("--compilation-config", "json"),
        flag("--served-model-name", "values"),
        flag("--task-list", "values", ("embed", "score")),
        flag("--max-model-len", None),
        flag("--max-num-seqs"),
        flag("--no-cache", "switch", None, "--no-memory"),
        flag("--quantization", "value", ("fp8", "awq"), "-q"),
    )
}
FLEXIBLE: Fact[FlagSyntax] = Known(FlagSyntax(True, True, Site("eng/parser.py", 1)), seen("parser class"))
STRICT: Fact[FlagSyntax] = Known(FlagSyntax(False, False, Site("eng/parser.py", 1)), seen("argparse"))


def verdict(text: str, syntax: Fact[FlagSyntax] = FLEXIBLE, flags: Any = FLAGS) -> Verdict:
    the_build = build(flags=Known(flags, seen("flags")), flag_syntax=syntax)
    got = CHECK.judge(case(the_build=the_build, wish=parse_wish(text.split()), history=Past()))
    assert isinstance(got, Finding)
    return got.verdict


ACCEPTED = [
    "--port 8000",
    "--port=8000 --tensor-parallel-size 2",
    "-tp 2",
    "-tp=2",
    "--tensor-parallel 2",
    "--enforce-eager",
    "--enable-prefix-caching",
    "--no-enable-prefix-caching",
    "--kv-cache-dtype fp8",
    "--kv_cache_dtype fp8",
    "--speculative-config.method mtp",
    "--speculative_config.method mtp",
    "--speculative-config.a.b+ mtp",
    "-sc.method mtp",
    '--speculative-config {"method":"mtp"}',
    "--compilation-config 3",
    "--served-model-name a b c",
    "--task-list embed score",
    "--max-model-len",
    "--max-model-len 5",
    "--no-max-model-len",
    "-q awq",
    "-qawq",
    "--no-cache",
    "--no-memory",
    "--help",
    "-h",
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_accepted(text: str) -> None:
    assert isinstance(verdict(text), Yes)


REFUSED = [
    ("--swap-space 4", "--swap-space does not exist in this build"),
    ("--tensor-paralel-size 2", "nearest: --tensor-parallel-size"),
    ("--max 5", "--max is ambiguous: --max-model-len, --max-num-seqs"),
    ("--kv-cache-dtype nvfp4", "--kv-cache-dtype does not take 'nvfp4'"),
    ("--kv-cache-dtype", "--kv-cache-dtype needs a value"),
    ("--port", "--port needs a value"),
    ("--enforce-eager true", "--enforce-eager takes no value, but 'true' follows it"),
    ("--enable-prefix-caching=true", "--enable-prefix-caching takes no value"),
    ("--no-enable-prefix-caching yes", "--no-enable-prefix-caching takes no value"),
    ("--no-cache yes", "--no-cache takes no value"),
    ("--no-memory yes", "--no-memory takes no value"),
    ("--no-enforce-eager", "--no-enforce-eager does not exist in this build"),
    ("--no-port", "--no-port does not exist in this build"),
    ("--task-list embed other", "--task-list does not take 'other'"),
]


@pytest.mark.parametrize(("text", "says"), REFUSED)
def test_refused(text: str, says: str) -> None:
    got = verdict(text)
    assert isinstance(got, No)
    assert says in got.because
    assert got.fix


def test_broken_json_is_refused() -> None:
    wish = parse_wish(["--port", "1"])
    bad = type(wish)(flags={"--speculative-config": '{"method": mtp}'})
    the_build = build(flags=Known(FLAGS, seen()), flag_syntax=FLEXIBLE)
    got = CHECK.judge(case(the_build=the_build, wish=bad))
    assert isinstance(got, Finding)
    assert isinstance(got.verdict, No)
    assert "is not valid JSON" in got.verdict.because


def test_the_first_release_with_the_flag_is_named() -> None:
    got = verdict("--nnodes 2")
    assert isinstance(got, No)
    assert got.fix == "use eng>=9.1, the first release with it"


def test_every_wrong_flag_is_told_at_once() -> None:
    got = verdict("--port 1 --foo 2 --bar 3")
    assert isinstance(got, No)
    assert "--foo" in got.because
    assert "--bar" in got.because


def test_a_plain_parser_takes_names_as_they_are() -> None:
    underscores = verdict("--kv_cache_dtype fp8", STRICT)
    assert underscores == No("--kv_cache_dtype does not exist in this build", "write it as --kv-cache-dtype")
    dotted = verdict("--speculative-config.method mtp", STRICT)
    assert dotted == No(
        "--speculative-config.method does not exist in this build",
        """write it as --speculative-config '{"method": "..."}'""",
    )


def test_a_flag_that_has_underscores_itself_needs_no_rewriting() -> None:
    own = {"--a_b": flag("--a_b")}
    assert isinstance(verdict("--a_b 1", STRICT, own), Yes)


def test_pairs_answer_to_their_inverse_where_the_parser_says_so() -> None:
    inverse: Fact[FlagSyntax] = Known(FlagSyntax(True, True, Site("eng/parser.py", 1), True), seen())
    assert isinstance(verdict("--disable-prefix-caching", inverse), Yes)
    assert isinstance(verdict("--disable-prefix-caching yes", inverse), No)
    assert isinstance(verdict("--disable-prefix-caching", FLEXIBLE), No)
    flags = FLAGS | {
        "--disable-log": flag("--disable-log", "pair"),
        "--enable-x": flag("--enable-x", "switch"),
    }
    assert isinstance(verdict("--enable-log", inverse, flags), Yes)
    assert isinstance(verdict("--disable-x", inverse, flags), No)


def test_an_unread_parser_leaves_rewritten_names_open() -> None:
    assert isinstance(verdict("--kv_cache_dtype fp8", NOT_ASKED), Unknown)
    assert isinstance(verdict("--port 1", NOT_ASKED), Yes)
    assert isinstance(verdict("--kv_cache_dtype fp8 --foo 1", NOT_ASKED), No)


def test_an_unknown_short_flag_is_open_because_parsers_rewrite_some() -> None:
    got = verdict("-O3")
    assert isinstance(got, Unknown)
    assert got.ask == "write the long name"


def test_advice_for_a_value_is_the_nearest_or_all() -> None:
    near = verdict("--kv-cache-dtype fp9")
    assert isinstance(near, No)
    assert near.fix == "use fp8"
    far = verdict("--kv-cache-dtype nothing-like-it")
    assert isinstance(far, No)
    assert far.fix == "use one of auto, fp8"


def test_the_answer_counts() -> None:
    assert verdict("--port 1") == Yes("the flag is accepted")
    assert verdict("--port 1 -tp 2") == Yes("all 2 flags are accepted")


def test_no_flags_and_an_unread_table() -> None:
    assert isinstance(CHECK.judge(case()), Skipped)
    unread = build(flags=Missing(Cause.UNREADABLE, "unknown form"))
    got = CHECK.judge(case(the_build=unread, wish=parse_wish(["--port", "1"])))
    assert isinstance(got, Finding)
    assert isinstance(got.verdict, Unknown)


def test_evidence_names_the_line_of_every_flag() -> None:
    the_build = build(flags=Known(FLAGS, seen()), flag_syntax=FLEXIBLE)
    got = CHECK.judge(case(the_build=the_build, wish=parse_wish(["--port", "1", "-tp", "2"])))
    assert isinstance(got, Finding)
    assert [look.how for look in got.evidence].count("eng/args.py:11") == 2
    unknown = CHECK.judge(case(the_build=the_build, wish=parse_wish(["--foo"])))
    assert isinstance(unknown, Finding)
    assert any(look.how == "release index" for look in unknown.evidence)
