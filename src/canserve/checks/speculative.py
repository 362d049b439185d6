"""speculative-class-present: the method that guesses ahead, and the class that its draft would load.

A model's own extra layers (MTP, NextN) are loaded by a draft class that the build chooses by architecture or
model type; a draft model of its own is a model like any other, and is judged like one.
"""

from __future__ import annotations

from collections.abc import Mapping

from canserve.checks.architecture import route
from canserve.checks.case import Case
from canserve.checks.config import effective_type
from canserve.checks.gates import look
from canserve.checks.names import near, some
from canserve.checks.reader import Check, NotApplicable, Reader
from canserve.checks.wish import given
from canserve.subjects.build import Site, gguf_only
from canserve.verdict import No, Unknown, Verdict, Yes

OWN_LAYERS = frozenset({"mtp", "nextn"})
"""Methods that predict with the model's own extra layers; so do names that end in ``_mtp``."""
ALGORITHM, DRAFT = "--speculative-algorithm", "--speculative-draft-model-path"
WITH_OR_WITHOUT = frozenset({"eagle"})
"""Algorithms that take a draft model, and without one the model's own layers."""
WITHOUT_DRAFT = ("ngram", "suffix", "lookahead")
"""How methods begin that need no second model: ``ngram``, ``ngram_gpu``, ``ngram-map-k`` ..."""


def run(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``speculative-class-present``."""
    asked = (case.wish.speculative or "").strip("[]")  # older releases write [ngram]
    if not asked:
        raise NotApplicable("no speculative decoding was asked for")
    known = reader.read(case.build.speculative)
    by_lower = {name.lower(): name for name in known}
    if asked.lower() not in by_lower:
        return _unknown_method(reader, case, asked, known)
    name = by_lower[asked.lower()]
    reader.cite((look(case, str(known[name]), f"speculative: {name}"),))
    if uses_own_layers(case):
        return _own_layers(reader, case, asked, known)
    if asked.lower().startswith(WITHOUT_DRAFT) or name.endswith(("Model", "ForCausalLM", "MTP")):
        return Yes(f"the build knows {asked}")
    return Yes(
        f"the build knows the method {asked}",
        ("a draft model whose class the build registers: judge it as a model of its own",),
    )


def uses_own_layers(case: Case) -> bool:
    """Whether the method that was asked for predicts with the model's own extra layers."""
    method = (case.wish.speculative or "").lower()
    if given(case.wish, ALGORITHM) and method in WITH_OR_WITHOUT:
        return given(case.wish, DRAFT) is None
    return method in OWN_LAYERS or method.endswith(("_mtp", "-mtp"))


def _unknown_method(reader: Reader, case: Case, asked: str, known: Mapping[str, Site]) -> Verdict:
    if "/" in asked:
        return Unknown(
            f"{asked} is a model of its own, whose config decides",
            f"judge it too (canserve check {asked}), and name the method",
        )
    registry = reader.try_read(case.build.registry) or {}
    if asked in registry:
        reader.cite((look(case, str(registry[asked].at), asked),))
        return Yes(f"the build registers {asked}")
    if not known:
        return No("the build has no speculative decoding", "use a newer build")
    methods = [name for name in known if name.islower() or name.isupper()]
    if not methods:
        return Unknown(
            f"the build's speculative methods stand in code that is not read; {asked} may be one of them",
            "start it once",
        )
    like = [name for name in methods if uses_own_layers(case) and name.lower() in OWN_LAYERS]
    like = like or near(asked, known)
    shown = f"nearest: {', '.join(like)}" if like else f"it has {some(methods)}"
    return No(
        f"the build knows no speculative method or draft class {asked}; {shown}",
        f"use {like[0] if like else 'one it has'}, or a build that has it",
    )


def draft_classes(reader: Reader, case: Case) -> tuple[str, ...]:
    """The classes that the build may load for the model's own extra layers; empty: it has none for it."""
    by_name = reader.read(case.build.draft_classes)
    nested = reader.read(case.model.nested)
    names = (*reader.read(case.model.architectures), effective_type(reader, case))
    names += tuple(part.model_type for part in nested)
    return next((by_name[name] for name in names if name is not None and name in by_name), ())


def _own_layers(reader: Reader, case: Case, asked: str, known: Mapping[str, Site]) -> Verdict:
    if reader.read(case.model.mtp_layers) == 0:
        if case.model.origin == "config":  # a shortened config proves nothing about the checkpoint
            return Unknown(
                f"{asked} needs extra prediction layers, of which this config says nothing",
                "name the model's folder or Hub id instead of its config",
            )
        return No(
            f"{asked} needs extra prediction layers, which the model has not", "name a draft model instead"
        )
    if gguf_only(case.build):
        return Yes(f"the file holds the layers that {asked} predicts with")
    wanted = draft_classes(reader, case)
    if not wanted:
        way, _ = route(reader, case)
        if way is not None and way.way not in ("native", "converted"):
            return Unknown(
                f"the build names no draft class for this model; {way.served_by} may make one at run time",
                "start it once, or leave speculative decoding out",
            )
        return No(
            f"the build has no draft class for the prediction layers of {_model(reader, case)}",
            "leave speculative decoding out, or use a newer build",
        )
    registry = reader.read(case.build.registry)
    sites = {name: registry[name].at for name in wanted if name in registry}
    sites |= {name: known[name] for name in wanted if name in known}
    for name, at in sites.items():
        reader.cite((look(case, str(at), f"draft class {name}"),))
    lacking = [name for name in wanted if name not in sites]
    if not lacking:
        return Yes(f"{' or '.join(wanted)} loads the model's prediction layers")
    if sites:
        return Unknown(
            f"the build chooses {' or '.join(wanted)} at run time, and lacks {', '.join(lacking)}",
            "start it once",
        )
    return No(
        f"the build would load {' or '.join(lacking)}, which it does not register",
        "leave speculative decoding out, or use a newer build",
    )


def _model(reader: Reader, case: Case) -> str:
    names = reader.read(case.model.architectures)
    return names[0] if names else case.model.subject


CHECK = Check(
    "speculative-class-present",
    "The build knows the speculative method, and has the class that loads the model's own prediction layers.",
    run,
)
