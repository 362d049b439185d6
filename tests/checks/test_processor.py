"""processor-files-present."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from file_world import IMAGES, stored
from small_world import FALLBACK, TABLE, TRUSTED, build, case, seen, small_class, transformers

from canserve.checks.case import Wish
from canserve.checks.processor import CHECK
from canserve.facts import Cause, Known, Missing
from canserve.subjects.build import NOT_ASKED
from canserve.subjects.model import Nested
from canserve.verdict import Finding, No, Skipped, Unknown, Yes

VISION = Known((Nested("thinker_config.vision_config", "small_vision", ()),), seen("vision_config"))
CODE = Known({"AutoModel": "modeling_small.Small"}, seen("auto_map"))
SEES: dict[str, bool | str | None] = {"supports_multimodal": True}


def judge(sees: bool | str | None = True, wish: Wish | None = None, **facts: Any) -> Finding | Skipped:
    found = replace(small_class(), interfaces={} if sees is None else {"supports_multimodal": sees})
    the_build = build(classes={"SmallForCausalLM": Known(found, seen("class"))})
    return CHECK.judge(case(stored(**facts), the_build, wish=wish or Wish()))


def test_files_are_there() -> None:
    got = judge(processor=Known(IMAGES, seen("2 files")))
    assert isinstance(got, Finding)
    assert got.verdict == Yes("preprocessor_config.json, processor_config.json are there")
    assert any("supports_multimodal" in look.saw for look in got.evidence)


def test_a_quantized_copy_without_them() -> None:
    got = judge()
    assert isinstance(got, Finding)
    assert isinstance(got.verdict, No)
    assert got.verdict.fix == (
        "copy processor_config.json and preprocessor_config.json from the original repository"
    )


def test_code_without_configs_is_no_processor_file() -> None:
    only_code = replace(IMAGES, files=("processing_small.py",))
    got = judge(processor=Known(only_code, seen()))
    assert isinstance(got, Finding)
    assert isinstance(got.verdict, No)


def test_a_model_that_brings_code_may_do_without() -> None:
    got = judge(auto_map=CODE)
    assert isinstance(got, Finding)
    assert isinstance(got.verdict, Unknown)
    trusted = judge(auto_map=CODE, wish=TRUSTED)
    assert isinstance(trusted, Finding)
    assert isinstance(trusted.verdict, Yes)


def test_mistral_describes_the_encoder_in_params_json() -> None:
    got = judge(config_format=Known("mistral", seen()))
    assert isinstance(got, Finding)
    assert isinstance(got.verdict, Yes)


def test_text_models_and_gguf_are_not_judged() -> None:
    assert isinstance(judge(sees=False, nested=VISION), Skipped)
    assert isinstance(judge(sees=None), Skipped)
    assert isinstance(judge(gguf_architecture=Known("llama", seen())), Skipped)


def test_where_the_class_says_nothing_the_config_does() -> None:
    got = judge(sees=None, nested=VISION)
    assert isinstance(got, Finding)
    assert isinstance(got.verdict, No)


def test_unread_facts_are_unknown() -> None:
    unread = Missing(Cause.UNAVAILABLE, "folder cannot be listed")
    got = judge(processor=unread)
    assert isinstance(got, Finding)
    assert isinstance(got.verdict, Unknown)
    no_class = CHECK.judge(case(stored(), build(classes={"SmallForCausalLM": NOT_ASKED})))
    assert isinstance(no_class, Finding)
    assert isinstance(no_class.verdict, Unknown)


def test_a_config_alone_is_skipped() -> None:
    got = CHECK.judge(case(stored("config", nested=VISION), build(classes={})))
    assert isinstance(got, Skipped)
    assert got.because == "only a config was given"


def test_a_description_is_judged_by_the_files_it_has() -> None:
    headers = Known(("config.json", "model.headers.json"), seen())
    assert isinstance(judge(files=headers), Skipped)
    got = judge(files=headers, processor=Known(IMAGES, seen()))
    assert isinstance(got, Finding)
    assert isinstance(got.verdict, Yes)


def test_a_fallback_class_says_nothing_so_the_config_does() -> None:
    table = replace(TABLE, classes={"5.0.0": {"SmallForCausalLM": frozenset({"supports_attention_backend"})}})
    fallback = build(
        registry=Known({}, seen()),
        fallback=Known(FALLBACK, seen()),
        transformers=transformers(table=table),
    )
    assert isinstance(CHECK.judge(case(stored(), fallback)), Skipped)
    got = CHECK.judge(case(stored(nested=VISION), fallback))
    assert isinstance(got, Finding)
    assert isinstance(got.verdict, No)
