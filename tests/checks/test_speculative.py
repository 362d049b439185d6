"""speculative-class-present and pipeline-supported."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from file_world import stored
from small_world import FALLBACK, TABLE, build, case, seen, small_class, transformers

from canserve.checks import pipeline, speculative
from canserve.checks.case import Wish
from canserve.checks.wish import parse_wish
from canserve.facts import Cause, Fact, Known, Missing
from canserve.subjects.build import ModelClass, Registered, Site
from canserve.subjects.model import Nested
from canserve.verdict import Finding, No, Skipped, Unknown, Verdict, Yes

AT = Site("eng/spec.py", 4)
METHODS = dict.fromkeys(("ngram", "mtp", "small_mtp", "eagle3", "EAGLE", "MedusaModel"), AT)


def row(name: str) -> Registered:
    return Registered(name, "eng.models.mtp", name, "speculative_decoding", Site("eng/registry.py", 30))


REGISTRY = {
    "SmallForCausalLM": row("SmallForCausalLM"),
    "SmallMTP": row("SmallMTP"),
    "EagleSmall": row("EagleSmall"),
}


def finding(asked: str | None, drafts: dict[str, tuple[str, ...]] | None = None, **facts: Any) -> Finding:
    layers = facts.pop("mtp_layers", 1)
    nested = facts.pop("nested", ())
    fields: dict[str, Any] = {
        "registry": Known(REGISTRY, seen("registry")),
        "speculative": Known(METHODS, seen("methods")),
        "draft_classes": Known(drafts if drafts is not None else {"small": ("SmallMTP",)}, seen("drafts")),
    }
    the_model = stored(mtp_layers=Known(layers, seen("layers")), nested=Known(nested, seen()))
    got = speculative.CHECK.judge(case(the_model, build(**(fields | facts)), wish=Wish(speculative=asked)))
    assert isinstance(got, Finding)
    assert got.evidence
    return got


def verdict(asked: str | None, drafts: dict[str, tuple[str, ...]] | None = None, **facts: Any) -> Verdict:
    return finding(asked, drafts, **facts).verdict


def test_evidence_names_the_method_and_the_class() -> None:
    said = [look.saw for look in finding("mtp").evidence]
    assert "speculative: mtp" in said
    assert "draft class SmallMTP" in said
    assert "EagleSmall" in [look.saw for look in finding("EagleSmall").evidence]


@pytest.mark.parametrize("asked", ["mtp", "MTP", "small_mtp"])
def test_own_layers_and_their_class(asked: str) -> None:
    assert verdict(asked) == Yes("SmallMTP loads the model's prediction layers")


def test_the_class_may_hang_on_the_architecture_or_a_nested_type() -> None:
    assert isinstance(verdict("mtp", {"SmallForCausalLM": ("SmallMTP",)}), Yes)
    text = (Nested("text_config", "small_text", ()),)
    assert isinstance(verdict("mtp", {"small_text": ("SmallMTP",)}, nested=text), Yes)


def test_no_layers() -> None:
    assert isinstance(verdict("mtp", mtp_layers=0), No)


def test_no_draft_class_for_this_model() -> None:
    got = verdict("mtp", {})
    assert isinstance(got, No)
    assert "SmallForCausalLM" in got.because


def test_a_model_served_by_the_fallback_may_get_a_draft_class_at_run_time() -> None:
    table = replace(TABLE, classes={"5.0.0": {"SmallForCausalLM": frozenset({"supports_attention_backend"})}})
    got = verdict(
        "mtp",
        {},
        registry=Known({}, seen()),
        fallback=Known(FALLBACK, seen()),
        transformers=transformers(table=table),
    )
    assert isinstance(got, Unknown)


def test_a_draft_class_that_is_not_registered() -> None:
    assert isinstance(verdict("mtp", {"small": ("GoneMTP",)}), No)
    assert isinstance(verdict("mtp", {"small": ("SmallMTP", "GoneMTP")}), Unknown)
    known = METHODS | {"OtherMTP": AT}
    assert isinstance(verdict("mtp", {"small": ("OtherMTP",)}, speculative=Known(known, seen())), Yes)


def test_methods_without_a_draft_and_with_one() -> None:
    assert verdict("ngram") == Yes("the build knows ngram")
    got = verdict("eagle3")
    assert isinstance(got, Yes)
    assert "draft model" in got.needs[0]
    assert isinstance(verdict("EagleSmall"), Yes)
    assert verdict("MedusaModel") == Yes("the build knows MedusaModel")


def test_an_unknown_method_tells_the_nearest() -> None:
    got = verdict("eagle4")
    assert isinstance(got, No)
    assert "nearest: eagle3" in got.because
    assert got.fix == "use eagle3, or a build that has it"
    own = verdict("NEXTN")
    assert isinstance(own, No)
    assert "nearest: mtp" in own.because
    far = verdict("quite-something-else")
    assert isinstance(far, No)
    assert far.fix == "use one it has, or a build that has it"
    assert "it has EAGLE, eagle3, mtp, ngram, small_mtp" in far.because
    none = verdict("eagle3", speculative=Known({}, seen("none")))
    assert none == No("the build has no speculative decoding", "use a newer build")


def test_methods_that_stand_in_code_are_open() -> None:
    classes = Known({"MedusaModel": AT, "EAGLEModel": AT}, seen("classes only"))
    assert isinstance(verdict("[ngram]", speculative=classes), Unknown)
    assert isinstance(verdict("MedusaModel", speculative=classes), Yes)
    assert verdict("[ngram]") == Yes("the build knows ngram")


def test_an_algorithm_without_a_draft_model_takes_the_models_own_layers() -> None:
    argv = ["--speculative-algorithm", "EAGLE"]
    fields: dict[str, Any] = {
        "registry": Known(REGISTRY, seen("registry")),
        "speculative": Known(METHODS, seen("methods")),
        "draft_classes": Known({"SmallForCausalLM": ("SmallMTP",)}, seen("drafts")),
    }
    the_model = stored(mtp_layers=Known(1, seen()))
    own = speculative.CHECK.judge(case(the_model, build(**fields), wish=parse_wish(argv)))
    assert isinstance(own, Finding)
    assert own.verdict == Yes("SmallMTP loads the model's prediction layers")
    argv += ["--speculative-draft-model-path", "org/draft"]
    other = speculative.CHECK.judge(case(the_model, build(**fields), wish=parse_wish(argv)))
    assert isinstance(other, Finding)
    assert isinstance(other.verdict, Yes)
    assert other.verdict.needs


def test_a_draft_repository_is_judged_on_its_own() -> None:
    got = verdict("org/draft")
    assert isinstance(got, Unknown)
    assert "canserve check org/draft" in got.ask


def test_unread_and_unasked() -> None:
    unread: Fact[Any] = Missing(Cause.UNREADABLE, "unknown form", seen("unknown form"))
    assert isinstance(verdict("mtp", speculative=unread), Unknown)
    assert isinstance(verdict("mtp", draft_classes=unread), Unknown)
    assert isinstance(speculative.CHECK.judge(case()), Skipped)


# -- pipeline stages


def staged(says: bool | None, **facts: Any) -> Finding | Skipped:
    stages = facts.pop("stages", 2)
    wish = Wish(pipeline_parallel=stages, speculative=facts.pop("speculative", None))
    classes: dict[str, Fact[ModelClass | None]] = {
        "SmallForCausalLM": Known(cuttable(says), seen("class")),
        **facts.pop("classes", {}),
    }
    fields: dict[str, Any] = {
        "registry": Known(REGISTRY, seen()),
        "draft_classes": Known({"small": ("SmallMTP",)}, seen("drafts")),
    }
    return pipeline.CHECK.judge(case(stored(), build(classes=classes, **(fields | facts)), wish=wish))


def cuttable(says: bool | None) -> ModelClass:
    return replace(small_class(), interfaces={"supports_pp": says})


def test_one_stage_is_not_judged() -> None:
    assert isinstance(staged(True, stages=1), Skipped)


@pytest.mark.parametrize(("says", "expected"), [(True, Yes), (False, No), (None, Unknown)])
def test_the_class_says(says: bool | None, expected: type) -> None:
    got = staged(says)
    assert isinstance(got, Finding)
    assert isinstance(got.verdict, expected)
    assert any("supports_pp" in look.saw for look in got.evidence)


def test_the_draft_class_has_to_be_cut_as_well() -> None:
    for says, expected in ((False, No), (None, Unknown), (True, Yes)):
        got = staged(True, speculative="mtp", classes={"SmallMTP": Known(cuttable(says), seen("draft"))})
        assert isinstance(got, Finding)
        assert isinstance(got.verdict, expected)
    unread = staged(True, speculative="mtp")
    assert isinstance(unread, Finding)
    assert isinstance(unread.verdict, Unknown)


def test_a_fallback_class_is_unknown_and_no_class_is_skipped() -> None:
    table = replace(TABLE, classes={"5.0.0": {"SmallForCausalLM": frozenset({"supports_attention_backend"})}})
    got = staged(
        True,
        registry=Known({}, seen()),
        fallback=Known(FALLBACK, seen()),
        transformers=transformers(table=table),
    )
    assert isinstance(got, Finding)
    assert isinstance(got.verdict, Unknown)
    assert isinstance(staged(True, registry=Known({}, seen())), Skipped)


def test_a_registered_class_that_does_not_exist() -> None:
    got = staged(True, classes={"SmallForCausalLM": Known(None, seen("no such class"))})
    assert isinstance(got, Finding)
    assert isinstance(got.verdict, No)
