"""kv-cache-dtype-supported, every branch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from quant_world import UNREAD, backend, gpu, judged, machine, quantization, skipped
from small_world import build, case, model, seen

from canserve.checks.case import Case, Wish
from canserve.checks.kv_cache import KV_CACHE
from canserve.facts import Known
from canserve.verdict import No, Unknown, Yes

DTYPES = Known(("auto", "fp8", "fp8_e5m2"), seen("3 dtypes"))
ALL = (80, 90, 121)


def cached(wish: str | None = None, carried: str | None = None, **rest: Any) -> Case:
    quant = quantization("fp8", kv_cache=carried) if carried else None
    facts = {"kv_cache_dtypes": DTYPES} | rest.pop("facts", {})
    return case(
        model(quantization=Known(quant, seen())), build(**facts), wish=Wish(kv_cache_dtype=wish), **rest
    )


def attention(*backends: Any) -> dict[str, Any]:
    return {"attention_backends": Known({one.name: one for one in backends}, seen())}


def test_nothing_asked_and_nothing_carried_is_not_judged() -> None:
    assert "own dtype" in skipped(KV_CACHE, cached())
    assert "own dtype" in skipped(KV_CACHE, cached("auto"))


def test_what_is_asked_for_must_be_listed() -> None:
    assert isinstance(judged(KV_CACHE, cached("fp8")), Yes)
    verdict = judged(KV_CACHE, cached("fp8_e4m3"))
    assert isinstance(verdict, No) and "fp8" in verdict.fix
    assert "auto, fp8" in judged(KV_CACHE, cached("zzz")).fix  # type: ignore[union-attr]


def test_what_the_checkpoint_carries_is_spelled_as_the_build_does() -> None:
    assert isinstance(judged(KV_CACHE, cached(carried="fp8")), Yes)
    only = {"kv_cache_dtypes": Known(("auto", "fp8_e4m3"), seen())}
    verdict = judged(KV_CACHE, cached(carried="fp8", facts=only))
    assert isinstance(verdict, Yes) and "fp8_e4m3" in verdict.because
    assert isinstance(judged(KV_CACHE, cached("auto", carried="fp8")), Yes)


def test_scales_for_a_dtype_the_build_lacks_are_unknown() -> None:
    verdict = judged(KV_CACHE, cached(carried="nvfp4"))
    assert isinstance(verdict, Unknown) and "ignores" in verdict.because


def test_a_list_that_could_not_be_read_is_unknown() -> None:
    assert isinstance(judged(KV_CACHE, cached("fp8", facts={"kv_cache_dtypes": UNREAD})), Unknown)


def test_the_attention_back_ends_narrow_it_on_a_known_gpu() -> None:
    takes, not_here = backend("A", ALL, ("auto", "fp8")), backend("B", (100,), ("auto", "fp8"))
    refuses = backend("C", ALL, ("auto",))
    verdict = judged(KV_CACHE, cached("fp8", machine=gpu("9.0"), facts=attention(takes, refuses)))
    assert isinstance(verdict, Yes) and "through A" in verdict.because
    verdict = judged(KV_CACHE, cached("fp8", machine=gpu("8.0"), facts=attention(not_here, refuses)))
    assert isinstance(verdict, No) and verdict.fix == "use --kv-cache-dtype auto"


def test_a_back_end_whose_rule_was_not_read_makes_it_unknown() -> None:
    unread, refuses = backend("A", UNREAD, ("auto", "fp8")), backend("C", ALL, ("auto",))
    verdict = judged(KV_CACHE, cached("fp8", machine=gpu("8.0"), facts=attention(unread, refuses)))
    assert isinstance(verdict, Unknown)


def test_a_gpu_that_no_back_end_accepts_is_unknown() -> None:
    elsewhere = backend("B", (100,), ("auto", "fp8"))
    verdict = judged(KV_CACHE, cached("fp8", machine=gpu("9.0"), facts=attention(elsewhere)))
    assert isinstance(verdict, Unknown)


def test_dtypes_of_one_back_end_that_were_not_read_make_it_unknown() -> None:
    unread, refuses = replace(backend("A", ALL, ()), kv_dtypes=UNREAD), backend("C", ALL, ("auto",))
    verdict = judged(KV_CACHE, cached("fp8", machine=gpu("9.0"), facts=attention(unread, refuses)))
    assert isinstance(verdict, Unknown)


def test_back_ends_that_say_nothing_do_not_narrow_it() -> None:
    unread = replace(backend("A", UNREAD, ()), kv_dtypes=UNREAD)
    assert isinstance(judged(KV_CACHE, cached("fp8", machine=gpu("9.0"), facts=attention(unread))), Yes)
    assert isinstance(judged(KV_CACHE, cached("fp8", machine=gpu("9.0"), facts=attention())), Yes)


def test_gpus_without_the_type_are_unknown() -> None:
    takes = backend("A", ALL, ("auto", "fp8", "fp8_e5m2"))
    verdict = judged(KV_CACHE, cached("fp8", machine=gpu("8.0"), facts=attention(takes)))
    assert isinstance(verdict, Unknown) and "8.9" in verdict.because
    verdict = judged(KV_CACHE, cached("fp8_e5m2", machine=gpu("8.0"), facts=attention(takes)))
    assert isinstance(verdict, Yes)


def test_a_capability_nobody_evaluated_is_unknown() -> None:
    verdict = judged(
        KV_CACHE, cached("fp8", machine=gpu("9.9"), facts=attention(backend("C", ALL, ("fp8",))))
    )
    assert isinstance(verdict, Unknown)


def test_back_ends_that_were_not_asked_for_add_nothing() -> None:
    assert isinstance(judged(KV_CACHE, cached("fp8", machine=gpu("8.0"))), Yes)
    assert isinstance(
        judged(KV_CACHE, cached("fp8", machine=machine(), facts=attention(backend("A", (90,), ("fp8",))))),
        Yes,
    )
