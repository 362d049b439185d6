"""GGUF files against builds that serve nothing else, and checkpoints of the Hub against their converters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from gguf_world import AT, CONVERTER, Listings, gguf_build, gguf_model
from small_world import build, case, model, ruling, seen

from canserve.checks import CHECKS
from canserve.checks.architecture import REGISTERED
from canserve.checks.flags import CHECK as FLAGS
from canserve.checks.kv_cache import CHECK as KV_CACHE
from canserve.checks.processor import CHECK as PROCESSOR
from canserve.checks.quantization.registered import REGISTERED as QUANTIZED
from canserve.checks.quantization.schemes import SCHEME_KNOWN
from canserve.checks.speculative import CHECK as SPECULATIVE
from canserve.checks.tokenizer import CHECK as TOKENIZER
from canserve.checks.weights import CHECK as WEIGHTS
from canserve.checks.wish import parse_wish
from canserve.facts import Cause, Known, Missing
from canserve.subjects.build import Converter, Flag, FlagSyntax, GgufVocabularies, Site
from canserve.subjects.model import Quantization
from canserve.verdict import No, Skipped, Unknown, Yes

LOST = Missing(Cause.UNAVAILABLE, "no sources", ask="name the release")


def test_a_known_file_gets_a_yes_from_every_check_that_applies() -> None:
    findings = [check.judge(case(gguf_model(), gguf_build())) for check in CHECKS if not check.needs_machine]
    judged = {one.check: one.verdict for one in findings if not isinstance(one, Skipped)}
    assert {name for name, verdict in judged.items() if not isinstance(verdict, Yes)} <= {
        "chat-template-renders"
    }
    assert {
        "architecture-registered",
        "weights-format-loadable",
        "quantization-scheme-known",
    } <= judged.keys()
    skipped = {one.check for one in findings if isinstance(one, Skipped)}
    assert {"config-parsable", "transformers-satisfied", "architecture-module-present"} <= skipped


def test_an_architecture_the_build_does_not_list() -> None:
    verdict = ruling(REGISTERED, case(gguf_model("smal"), gguf_build()))
    assert isinstance(verdict, No)
    assert "nearest: small" in verdict.because
    past = Listings(first={("gguf_architectures", "smal"): "2.0"})
    verdict = ruling(REGISTERED, case(gguf_model("smal"), gguf_build(), history=past))
    assert isinstance(verdict, No)
    assert verdict.fix == "use eng>=2.0, the first release that lists it"


def test_a_release_before_this_one_is_no_newer_build() -> None:
    past = Listings(first={("gguf_architectures", "gone"): "0.5"})
    verdict = ruling(REGISTERED, case(gguf_model("gone"), gguf_build(), history=past))
    assert isinstance(verdict, No)
    assert ">=0.5" not in verdict.fix


def test_a_projector_alone_is_no_model() -> None:
    verdict = ruling(REGISTERED, case(gguf_model("clip"), gguf_build()))
    assert isinstance(verdict, No)
    assert "projector" in verdict.because


def test_sources_that_are_not_there_prove_nothing() -> None:
    lost = gguf_build(gguf_architectures=LOST, gguf_types=LOST, gguf_vocabularies=LOST, converter=LOST)
    for check in (REGISTERED, SCHEME_KNOWN, TOKENIZER):
        assert ruling(check, case(gguf_model(), lost)) == Unknown("no sources", "name the release")
    assert isinstance(ruling(REGISTERED, case(model(), lost)), Unknown)


@pytest.mark.parametrize("kinds", [("Q4_K",), ("type 42", "F32"), ("Q2_0",)])
def test_tensor_types_are_known_by_name_or_number(kinds: tuple[str, ...]) -> None:
    assert isinstance(ruling(SCHEME_KNOWN, case(gguf_model(types=kinds), gguf_build())), Yes)


@pytest.mark.parametrize("kind", ["NVFP4", "type 99", "type x"])
def test_a_tensor_type_the_build_does_not_know(kind: str) -> None:
    verdict = ruling(SCHEME_KNOWN, case(gguf_model(types=("Q4_K", kind)), gguf_build()))
    assert isinstance(verdict, No)
    assert kind in verdict.because


def test_other_engines_are_not_judged_by_tensor_types() -> None:
    reads_gguf = build(load_formats=Known(("auto", "safetensors", "gguf"), seen()))
    assert isinstance(SCHEME_KNOWN.judge(case(gguf_model(), reads_gguf)), Skipped)


def test_a_vocabulary_and_the_way_its_text_is_split() -> None:
    plain: tuple[dict[str, Any], ...] = ({}, {"pre": None}, {"model": "llama", "pre": "anything"})
    for metadata in plain:
        assert isinstance(ruling(TOKENIZER, case(gguf_model(**metadata), gguf_build())), Yes)
    odd: tuple[tuple[dict[str, Any], str], ...] = (
        ({"pre": "qwen3"}, "split text as qwen3"),
        ({"model": "new"}, "kind new"),
    )
    for metadata, what in odd:
        verdict = ruling(TOKENIZER, case(gguf_model(**metadata), gguf_build()))
        assert isinstance(verdict, No)
        assert what in verdict.because


def test_builds_that_do_not_look_at_how_text_is_split_take_any() -> None:
    old = gguf_build(gguf_vocabularies=Known(GgufVocabularies({"gpt2": AT}, None, ("gpt2",)), seen()))
    assert isinstance(ruling(TOKENIZER, case(gguf_model(pre="new"), old)), Yes)


def test_a_checkpoint_whose_class_the_converter_knows() -> None:
    verdict = ruling(REGISTERED, case(model(), gguf_build()))
    assert isinstance(verdict, Yes)
    assert verdict.needs == ("the model converted to GGUF",)
    weights = ruling(WEIGHTS, case(model(), gguf_build()))
    assert isinstance(weights, No)
    assert "converter knows SmallForCausalLM (convert_hf_to_gguf.py)" in weights.fix
    assert "projector" in weights.fix


def test_a_converter_that_writes_what_the_build_does_not_serve() -> None:
    verdict = ruling(REGISTERED, case(model("EarlyForCausalLM"), gguf_build()))
    assert isinstance(verdict, No)
    assert "early" in verdict.because
    assert isinstance(ruling(REGISTERED, case(model("LateForCausalLM"), gguf_build())), Yes)


def test_a_checkpoint_whose_class_no_converter_knows() -> None:
    past = Listings(first={("converted", "SmalForCausalLM"): "3.0"})
    for history, fix in ((Listings(), "another engine"), (past, "eng>=3.0")):
        verdict = ruling(REGISTERED, case(model("SmalForCausalLM"), gguf_build(), history=history))
        assert isinstance(verdict, No)
        assert fix in verdict.fix
    weights = ruling(WEIGHTS, case(model("SmalForCausalLM"), gguf_build()))
    assert isinstance(weights, No)
    assert "convert" not in weights.fix


@pytest.mark.parametrize(
    "converter", [None, Converter({}, {}, (Site("convert.py", 1),)), Converter(CONVERTER.classes, {}, (AT,))]
)
def test_nothing_is_absent_where_not_every_class_is_listed(converter: Converter | None) -> None:
    found = gguf_build(converter=Known(converter, seen()))
    assert isinstance(ruling(REGISTERED, case(model("NewForCausalLM"), found)), Unknown)


def test_quantized_checkpoints_go_through_the_converter() -> None:
    def of(method: str) -> Any:
        quantization = Quantization(method, method, "config.json", (), (), None, {})
        return model(quantization=Known(quantization, seen()))

    assert isinstance(ruling(QUANTIZED, case(of("fp8"), gguf_build())), Yes)
    assert isinstance(ruling(QUANTIZED, case(of("awq"), gguf_build())), Unknown)


def test_builds_from_before_gguf_read_no_such_file() -> None:
    old = gguf_build(load_formats=Known(("ggml",), seen()), gguf_architectures=Known({}, seen()))
    for check in (REGISTERED, WEIGHTS):
        verdict = ruling(check, case(gguf_model(), old))
        assert isinstance(verdict, No)
        assert verdict.fix == "use a newer build" or "newer build" in verdict.fix
    assert isinstance(TOKENIZER.judge(case(gguf_model(), old)), Skipped)


def test_names_of_flags_may_not_be_cut_short_where_the_build_takes_them_whole() -> None:
    at = Site("arg.cpp", 1)
    flags = Known({"--ctx-size": Flag("--ctx-size", None, at, ("-c",), "value")}, seen())
    whole = FlagSyntax(underscores=True, dotted=False, at=at, abbreviations=False)
    strict = gguf_build(flags=flags, flag_syntax=Known(whole, seen()))
    loose = gguf_build(flags=flags, flag_syntax=Known(FlagSyntax(True, dotted=False, at=at), seen()))
    short = parse_wish(["--ctx", "1"])
    assert isinstance(ruling(FLAGS, case(gguf_model(), strict, wish=short)), No)
    assert isinstance(ruling(FLAGS, case(gguf_model(), loose, wish=short)), Yes)
    assert isinstance(ruling(FLAGS, case(gguf_model(), strict, wish=parse_wish(["--ctx_size", "1"]))), Yes)


def test_the_type_of_the_cache_by_its_other_name() -> None:
    offering = gguf_build(kv_cache_dtypes=Known(("f16", "q8_0"), seen()))
    for given, kind in ((["--cache-type-k", "q8_0"], Yes), (["-ctk", "fp8"], No)):
        assert isinstance(ruling(KV_CACHE, case(gguf_model(), offering, wish=parse_wish(given))), kind)
    none = gguf_build(kv_cache_dtypes=Known((), seen()))
    verdict = ruling(KV_CACHE, case(gguf_model(), none, wish=parse_wish(["--cache-type-k", "f16"])))
    assert isinstance(verdict, No)
    assert "no choice" in verdict.because


def test_speculation_by_the_files_own_layers_and_without_a_second_model() -> None:
    kinds = Known({"draft-mtp": AT, "ngram-map-k": AT, "draft-eagle3": AT}, seen())
    offering = gguf_build(speculative=kinds)
    for layers, kind in ((1, Yes), (0, No)):
        one = replace(gguf_model(), mtp_layers=Known(layers, seen()))
        asked = parse_wish(["--spec-type", "draft-mtp"])
        assert isinstance(ruling(SPECULATIVE, case(one, offering, wish=asked)), kind)
    for name, needs in (("ngram-map-k", 0), ("draft-eagle3", 1)):
        verdict = ruling(SPECULATIVE, case(gguf_model(), offering, wish=parse_wish(["--spec-type", name])))
        assert isinstance(verdict, Yes)
        assert len(verdict.needs) == needs


def test_the_projector_beside_the_model() -> None:
    seeing = gguf_build(gguf_projectors=Known({"mlp": AT, "qwen2vl_merger": AT}, seen()))

    def of(*kinds: str) -> Any:
        return case(replace(gguf_model(), gguf_projectors=Known(kinds, seen())), seeing)

    assert isinstance(ruling(PROCESSOR, of("qwen2vl_merger", "mlp")), Yes)
    verdict = ruling(PROCESSOR, of("qwen3vl_merger"))
    assert isinstance(verdict, No)
    assert "nearest: qwen2vl_merger" in verdict.because
    assert isinstance(PROCESSOR.judge(of()), Skipped)
    assert isinstance(PROCESSOR.judge(case(gguf_model(), build())), Skipped)
