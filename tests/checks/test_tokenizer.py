"""tokenizer-loadable."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from file_world import FAST, TokenizerTable, stored
from small_world import TRUSTED, build, case, seen, transformers

from canserve.checks.case import Wish
from canserve.checks.tokenizer import CHECK
from canserve.facts import Cause, Known, Missing
from canserve.subjects.model import Tokenizer
from canserve.verdict import Finding, No, Skipped, Unknown, Verdict, Yes

FOUR = frozenset({"SmallTokenizer", "SmallTokenizerFast", "PreTrainedTokenizerFast"})
FIVE = frozenset({"SmallTokenizer", "TokenizersBackend", "PreTrainedTokenizerFast"})
TABLE = TokenizerTable(
    {version: frozenset({"small"}) for version in ("4.0.0", "4.1.0", "5.0.0")},
    tokenizers={"4.0.0": FOUR, "4.1.0": FOUR, "5.0.0": FIVE},
)
FRESH = replace(FAST, class_name="TokenizersBackend")
NEWER = replace(FAST, class_name="NewTokenizer")
REMOTE = replace(FAST, class_name="OwnTokenizer", auto_map={"AutoTokenizer": "tokenization_own.OwnTokenizer"})


def finding(
    tokenizer: Tokenizer, wish: Wish | None = None, requirement: str = ">=4", **facts: Any
) -> Finding:
    the_build = build(transformers=transformers(requirement, table=facts.pop("table", TABLE)), **facts)
    the_model = stored(tokenizer=Known(tokenizer, seen("tokenizer")))
    got = CHECK.judge(case(the_model, the_build, wish=wish or Wish()))
    assert isinstance(got, Finding)
    return got


def verdict(
    tokenizer: Tokenizer, wish: Wish | None = None, requirement: str = ">=4", **facts: Any
) -> Verdict:
    return finding(tokenizer, wish, requirement, **facts).verdict


def test_a_class_that_every_release_has() -> None:
    got = finding(FAST)
    assert got.verdict == Yes("SmallTokenizerFast reads tokenizer.json")
    assert any(look.subject == "transformers==5.0.0" for look in got.evidence)


def test_slow_and_fast_names_stand_for_each_other() -> None:
    table = replace(TABLE, tokenizers=dict.fromkeys(TABLE.versions, frozenset({"SmallTokenizer"})))
    assert isinstance(verdict(FAST, table=table), Yes)
    table = replace(TABLE, tokenizers=dict.fromkeys(TABLE.versions, frozenset({"SmallTokenizerFast"})))
    assert isinstance(verdict(replace(FAST, class_name="SmallTokenizer"), table=table), Yes)


def test_a_checkpoint_saved_by_a_newer_release() -> None:
    assert verdict(FRESH, requirement="<5") == No(
        "transformers 4.0.0 to 4.1.0 has no tokenizer class TokenizersBackend",
        "write the model family's own class into tokenizer_config.json; "
        "transformers 5.0.0 is the first to have it",
    )
    assert verdict(FRESH) == Yes(
        "TokenizersBackend of transformers 5.0.0 reads tokenizer.json", ("transformers>=5.0.0",)
    )


def test_the_catch_all_reads_any_fast_tokenizer_and_no_slow_one() -> None:
    assert isinstance(verdict(NEWER, requirement=">=5"), Yes)
    slow = replace(NEWER, kind="sentencepiece", files=("tokenizer.model",))
    assert isinstance(verdict(slow, requirement=">=5"), No)


def test_a_class_that_no_release_has() -> None:
    got = verdict(replace(NEWER, kind="bpe"))
    assert isinstance(got, No)
    assert got.fix == "write the model family's own class into tokenizer_config.json"


def test_what_the_table_does_not_record_is_unknown() -> None:
    table = replace(TABLE, tokenizers={})
    assert isinstance(verdict(FAST, table=table), Unknown)


def test_without_a_class_the_model_type_decides() -> None:
    nameless = replace(FAST, class_name=None, kind="sentencepiece")
    assert isinstance(verdict(nameless), Yes)
    table = replace(TABLE, types=dict.fromkeys(TABLE.versions, frozenset()))
    got = verdict(nameless, table=table)
    assert isinstance(got, Unknown)
    assert "tokenizer_class" in got.ask


def test_remote_code_is_asked_for_unless_it_is_trusted_or_not_needed() -> None:
    got = verdict(REMOTE, requirement="<5")
    assert isinstance(got, Unknown)
    assert "--trust-remote-code" in got.ask
    assert isinstance(verdict(REMOTE, TRUSTED, requirement="<5"), Yes)
    assert verdict(replace(REMOTE, class_name="SmallTokenizer"), requirement="<5") == Yes(
        "SmallTokenizer reads tokenizer.json"
    )
    without = replace(REMOTE, kind=None, files=("tokenization_own.py", "own.vocab"))
    assert isinstance(verdict(without, requirement=">=5"), Unknown)
    assert isinstance(verdict(without, TRUSTED, requirement=">=5"), Yes)


def test_no_files_and_files_of_an_unknown_kind() -> None:
    assert isinstance(verdict(Tokenizer((), None, {}, None)), No)
    got = verdict(Tokenizer(("tokenizer_config.json",), "ByteTokenizer", {}, None))
    assert isinstance(got, Unknown)
    assert "tokenizer_config.json" in got.because


def test_a_gguf_file_has_its_tokenizer_inside() -> None:
    assert isinstance(verdict(Tokenizer(("small.gguf",), None, {}, "gguf")), Yes)


def test_mistral_format_needs_an_engine_that_reads_it() -> None:
    tekken = Tokenizer(("tekken.json",), None, {}, "mistral")
    reads = Known(("auto", "mistral"), seen("formats"))
    assert verdict(tekken, load_formats=reads) == Yes(
        "the engine reads Mistral's own tokenizer format", ("--tokenizer-mode mistral",)
    )
    said = Wish(flags={"--tokenizer-mode": "mistral"})
    assert verdict(tekken, said, load_formats=reads) == Yes("the engine reads Mistral's own tokenizer format")
    assert isinstance(verdict(tekken), No)


@pytest.mark.parametrize("name", ["--tokenizer", "--tokenizer_path", "--skip-tokenizer-init"])
def test_another_tokenizer_is_not_judged(name: str) -> None:
    got = CHECK.judge(case(stored(), wish=Wish(flags={name: "other"})))
    assert isinstance(got, Skipped)


def test_a_description_of_a_model_is_skipped_and_an_unread_one_unknown() -> None:
    assert isinstance(CHECK.judge(case(stored("config"))), Skipped)
    headers = Known(("config.json", "model.headers.json"), seen())
    described = stored(files=headers, tokenizer=Known(Tokenizer((), None, {}, None), seen()))
    assert isinstance(CHECK.judge(case(described)), Skipped)
    with_tokenizer = CHECK.judge(case(stored(files=headers), build(transformers=transformers(table=TABLE))))
    assert isinstance(with_tokenizer, Finding)
    assert isinstance(with_tokenizer.verdict, Yes)
    broken = stored(tokenizer=Missing(Cause.UNREADABLE, "tokenizer.json: a Git LFS pointer", ask="fetch it"))
    got = CHECK.judge(case(broken))
    assert isinstance(got, Finding)
    assert got.verdict == Unknown("tokenizer.json: a Git LFS pointer", "fetch it")
