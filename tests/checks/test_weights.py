"""weights-format-loadable."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from file_world import PARAMETERS, stored
from small_world import build, case, seen

from canserve.checks.case import Wish
from canserve.checks.tokenizer import CHECK as TOKENIZER
from canserve.checks.weights import CHECK
from canserve.facts import Cause, Known, Missing
from canserve.subjects.model import Tokenizer
from canserve.verdict import Finding, No, Skipped, Unknown, Verdict, Yes

ALL = ("auto", "safetensors", "pt", "gguf", "mistral", "dummy", "tensorizer")


def verdict(form: str | None = "safetensors", asked: str | None = None, **facts: Any) -> Verdict:
    formats = facts.pop("load_formats", ALL)
    methods = facts.pop("quantization", {"gguf": None})
    the_build = build(
        load_formats=Known(formats, seen("formats")), quantization=Known(methods, seen("methods"))
    )
    the_model = stored(weight_format=Known(form, seen("weights")), **facts)
    got = CHECK.judge(case(the_model, the_build, wish=Wish(load_format=asked)))
    assert isinstance(got, Finding)
    assert got.evidence
    return got.verdict


def test_safetensors_are_counted() -> None:
    assert verdict() == Yes("safetensors: 10 tensors in 2 files")
    assert verdict(parameters=Known(replace(PARAMETERS, files=1), seen())) == Yes(
        "safetensors: 10 tensors in 1 file"
    )
    assert verdict(asked="tensorizer") == Yes(
        "safetensors: 10 tensors in 2 files through --load-format tensorizer"
    )


def test_no_weights_and_no_tensors() -> None:
    assert isinstance(verdict(None), No)
    assert isinstance(verdict(parameters=Known(replace(PARAMETERS, tensors=0), seen())), Unknown)


@pytest.mark.parametrize("form", ["pt", "gguf", "mistral", "safetensors"])
def test_a_form_that_the_build_has_no_loader_for(form: str) -> None:
    got = verdict(form, load_formats=("auto", "npcache"))
    assert isinstance(got, No)
    assert got.because == f"the build has no loader for {form} weights"
    assert got.fix


def test_pickles_are_not_opened() -> None:
    got = verdict("pt", parameters=Missing(Cause.UNREADABLE, "a pickle"))
    assert isinstance(got, Yes)


def test_mistral_files_need_the_engine_to_be_told() -> None:
    got = verdict("mistral")
    assert isinstance(got, Yes)
    assert got.needs == ("--load-format mistral --config-format mistral",)
    told = verdict("mistral", "mistral")
    assert isinstance(told, Yes)
    assert told.needs == ()


def test_gguf_needs_the_loader_and_the_method() -> None:
    assert isinstance(verdict("gguf"), Yes)
    got = verdict("gguf", quantization={"fp8": None})
    assert isinstance(got, No)
    assert "no longer has the gguf quantization method" in got.because


def test_the_loader_that_was_asked_for() -> None:
    assert verdict(asked="sharded") == No(
        "the build has no --load-format sharded", f"use one it has: {', '.join(ALL)}"
    )
    assert verdict("pt", "safetensors") == No(
        "the weights are pt, but --load-format safetensors was given", "use --load-format pt"
    )
    assert isinstance(verdict(None, "dummy"), Yes)


def test_broken_weights_are_unknown_with_their_cause() -> None:
    pointer = Missing(Cause.UNAVAILABLE, "model.safetensors: a Git LFS pointer", ask="git lfs pull")
    assert verdict(parameters=pointer) == Unknown("model.safetensors: a Git LFS pointer", "git lfs pull")
    got = CHECK.judge(case(stored(weight_format=pointer)))
    assert isinstance(got, Finding)
    assert isinstance(got.verdict, Unknown)


def test_a_config_alone_is_skipped() -> None:
    assert isinstance(CHECK.judge(case(stored("config"))), Skipped)
    described = stored(files=Known(("config.json", "model.headers.json"), seen()))
    assert isinstance(CHECK.judge(case(described)), Skipped)


def test_a_folder_of_a_config_alone_says_what_a_model_is_and_is_not_judged_as_one() -> None:
    none = Known(Tokenizer((), None, {}, None), seen("no tokenizer files"))
    bare = stored(weight_format=Known(None, seen("no weights")), tokenizer=none)
    for check in (CHECK, TOKENIZER):
        assert isinstance(check.judge(case(bare)), Skipped)
    unweighted = TOKENIZER.judge(case(stored(tokenizer=none)))
    assert isinstance(unweighted, Finding)
    assert isinstance(unweighted.verdict, No), "weights without a tokenizer are an incomplete model"
