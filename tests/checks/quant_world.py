"""Quantized models, builds that list methods, and machines, by hand; tests change one fact of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from small_world import build, case, model, seen

from canserve.checks.case import Case, Wish
from canserve.checks.reader import Check
from canserve.facts import Cause, Fact, Known, Missing
from canserve.rules.machines import FIELDS, unstated
from canserve.subjects.build import NOT_ASKED, AttentionBackend, Build, QuantMethod, Site
from canserve.subjects.machine import Machine
from canserve.subjects.model import Quantization, Scheme
from canserve.units import Capability
from canserve.verdict import Finding, Skipped, Verdict, word

UNREAD = Missing(Cause.UNREADABLE, "unknown form", ask="read it by hand")
FP8_BLOCKS = Scheme(8, "float", "block", None, (128, 128), 8, "float", True)
FP8_TENSOR = Scheme(8, "float", "tensor", None, None, 8, "float", False)
NVFP4 = Scheme(4, "float", "tensor_group", 16, None, 4, "float", None, format="nvfp4-pack-quantized")
INT4 = Scheme(4, "int", "group", 128, None, None, None, None, True, format="pack-quantized")

EXPERTS = {"model_type": "small", "num_experts": 128}


def quantization(method: str, *schemes: Scheme, declared: str | None = None, **more: Any) -> Quantization:
    fields: dict[str, Any] = {"ignored": (), "kv_cache": None, "raw": {}}
    return Quantization(method, declared or method, "config.json", schemes, **(fields | more))


def method(
    name: str,
    capability: Fact[int | None] | int | None = 80,
    guards: tuple[str, ...] = (),
    schemes: tuple[str, ...] | Missing = NOT_ASKED,
    minima: Mapping[str, int | None] | Missing = NOT_ASKED,
) -> QuantMethod:
    minimum = capability if isinstance(capability, Known | Missing) else Known(capability, seen())
    return QuantMethod(
        name,
        f"{name}-class",
        minimum,
        Site("eng/quantization.py", 12),
        guards,
        schemes if isinstance(schemes, Missing) else Known(schemes, seen("classes")),
        minima if isinstance(minima, Missing) else Known(minima, seen("minima")),
    )


def listing(*methods: QuantMethod, engine: str = "eng", version: str = "1.0", **facts: Any) -> Build:
    table = Known({one.name: one for one in methods}, seen(f"{len(methods)} methods"))
    made = build(quantization=table, **facts)
    return replace(made, identity=replace(made.identity, engine=engine, version=Known(version, seen())))


def quantized(quant: Quantization | None, the_build: Build, wish: str | None = None, **rest: Any) -> Case:
    facts: dict[str, Any] = {"quantization": Known(quant, seen("quantization"))}
    if config := rest.pop("config", None):
        facts["config"] = Known(config, seen())
    return case(model(**facts), the_build, wish=Wish(quantization=wish), **rest)


def machine(**facts: Any) -> Machine:
    """An NVIDIA machine that states the given values and nothing else."""
    values = {"vendor": "nvidia"} | facts
    stated = {k: v if isinstance(v, Known | Missing) else Known(v, seen(k)) for k, v in values.items()}
    return Machine("box", **({name: unstated("box", name) for name in FIELDS} | stated))


def gpu(capability: str, **facts: Any) -> Machine:
    return machine(capability=Capability.parse(capability), **facts)


def backend(name: str, capabilities: tuple[int, ...] | Missing, dtypes: tuple[str, ...]) -> AttentionBackend:
    capable = capabilities if isinstance(capabilities, Missing) else Known(capabilities, seen())
    return AttentionBackend(name, capable, Known(dtypes, seen()), Site("eng/attention.py", 3))


def judged(check: Check, the_case: Case) -> Verdict:
    found = check.judge(the_case)
    assert isinstance(found, Finding), found
    assert found.evidence or word(found.verdict) != "yes"
    return found.verdict


def skipped(check: Check, the_case: Case) -> str:
    found = check.judge(the_case)
    assert isinstance(found, Skipped), found
    return found.because
