"""quantization-scheme-known: within the method, the build has a class for each way the weights are stored.

Compressed-tensors, ModelOpt, Quark and FP8 are families: a build that lists the method may still lack the
class for blocks, for FP4 or for experts. Which classes load what is in ``rules/quantization.toml``; which
classes the build has is read from it. Classes get renamed: a name that looks like a wanted one makes the
answer unknown, not no.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher

from canserve.checks.case import Case
from canserve.checks.gguf import types_known
from canserve.checks.quantization.names import effective_names, has_experts, listed, names_of, stored
from canserve.checks.reader import Check, NotApplicable, Reader
from canserve.rules import quantization as rules
from canserve.rules.table import Row
from canserve.subjects.model import Quantization, Scheme
from canserve.verdict import No, Unknown, Verdict, Yes

ALIKE = 0.75
"""How much of two class names must agree for one to be taken as perhaps the other, renamed."""
SHOWN = 8
"""How many of the build's classes an answer names."""


BEST: Mapping[bool | None, int] = {True: 0, None: 1, False: 2}
"""Which of several rows for one way of storing counts."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How one way of storing fares: the class that loads it, or why none does, or why that is in doubt."""

    label: str
    known: bool | None
    why: str


def scheme_known(reader: Reader, case: Case) -> Verdict:
    """The verdict of ``quantization-scheme-known``."""
    quantization = stored(reader, case)
    if quantization is None:
        raise NotApplicable("the model is not quantized")
    names = names_of(case, quantization)
    if effective_names(case, quantization) != names:
        raise NotApplicable("--quantization asks for another method than the checkpoint's own")
    if quantization.method == "gguf":
        return types_known(reader, case)
    if not rules.dispatches(quantization.method):
        raise NotApplicable(f"{quantization.method} stores weights in one way only")
    wanted = schemes_of(quantization)
    if not wanted:
        return Unknown(
            f"the checkpoint says {quantization.declared}, but not how its weights are stored",
            "name a checkpoint whose quantization config describes its groups",
        )
    found = listed(reader, case, names)
    if not found:
        raise NotApplicable(f"the build does not list {quantization.method}: see quantization-registered")
    known = frozenset(name for one in found for name in reader.read(one.method.schemes))
    if quantization.algorithms and known.issuperset(quantization.algorithms):
        return Yes(f"the build knows {', '.join(quantization.algorithms)} by that name")
    version = reader.read(case.build.identity.version)
    experts = has_experts(reader, case) and not _experts_ignored(quantization)
    inside = Inside(quantization.method, case.build.identity.engine, version, known, experts)
    return _verdict(quantization, known, [inside.judge(reader, scheme) for scheme in wanted])


def schemes_of(quantization: Quantization) -> tuple[Scheme, ...]:
    """The ways weights are stored, and once the mix itself where the file says it is one."""
    mixed = [name for name in quantization.algorithms if name.upper() == "MIXED_PRECISION"]
    mix = [Scheme(None, None, None, None, None, None, None, None, format=name) for name in mixed]
    return tuple(dict.fromkeys((*quantization.schemes, *mix)))


def _experts_ignored(quantization: Quantization) -> bool:
    return any("expert" in name.replace("shared_expert", "") for name in quantization.ignored)


@dataclass(frozen=True, slots=True)
class Inside:
    """A build's method: what its module tells apart."""

    method: str
    engine: str
    version: str
    known: frozenset[str]
    experts: bool

    def judge(self, reader: Reader, scheme: Scheme) -> Answer:
        """Whether the build has a class for this way of storing weights."""
        rows = rules.scheme_rows(self.method, scheme)
        if not rows:
            return Answer(described(scheme), None, "no rule says which class would load it")
        for row in rows:
            reader.cite((row.evidence(f"loaded by {', '.join(row.texts('names'))}"),))
        return min((self._row(row) for row in rows), key=lambda answer: BEST[answer.known])

    def _row(self, row: Row) -> Answer:
        label = row.text("label")
        dense = Answer(label, *self._any(row, row.texts("names")))
        if not (self.experts and row.texts("moe") and self._tells_experts_apart()):
            return dense
        experts = Answer(f"{label} of experts", *self._any(row, row.texts("moe")))
        if experts.known and dense.known is False:  # it does not matter where only experts are quantized
            return Answer(f"{label} outside the experts", None, dense.why)
        return experts if dense.known else dense

    def _any(self, row: Row, names: tuple[str, ...]) -> tuple[bool | None, str]:
        """Whether one of the names is there with the row's meaning, and which, or why not."""
        if has := [name for name in names if name in self.known]:
            holds = rules.holds_in(row, self.engine, self.version)
            if holds:
                return True, has[0]
            if holds is None:
                return None, f"whether {has[0]} of {self.version} loads it cannot be told from its name"
            return False, self._too_early(row, has[0])
        if maybe := [name for name in row.texts("maybe") if name in self.known]:
            return None, f"whether {maybe[0]} loads it cannot be told from its name"
        if renamed := self._alike(names):
            return None, f"{renamed} may be the class for it under a new name"
        return False, f"it has no {' and no '.join(names)}"

    def _too_early(self, row: Row, name: str) -> str:
        since = row.values["since"].get(self.engine)
        return f"its {name} loads it from {since} on" if since else f"its {name} loads something else"

    def _tells_experts_apart(self) -> bool:
        return any("moe" in name.lower() for name in self.known)

    def _alike(self, names: Iterable[str]) -> str | None:
        """A class that no rule speaks of and that looks like one of the names."""
        strangers = sorted(self.known - rules.class_names(self.method))
        for stranger in strangers:
            if any(_core(stranger) and _ratio(_core(stranger), _core(name)) >= ALIKE for name in names):
                return stranger
        return None


def _core(name: str) -> str:
    """``CompressedTensorsW4A4Nvfp4MoEMethod`` -> ``w4a4nvfp4``; a parameter or a helper -> nothing."""
    core = re.fullmatch(r"(?:NPU|XPU)?(?:CompressedTensors|ModelOpt|Quark)(\w+)", name)
    return re.sub(r"(Linear|MoE|Moe|FusedMoE)?(Method|Config|Scheme)?$", "", core[1]).lower() if core else ""


def _ratio(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other).ratio()


def described(scheme: Scheme) -> str:
    """A way of storing weights in a few words, for one that no rule names."""
    weights = f"{scheme.weight_type or 'weights'}{scheme.weight_bits or ''}"
    inputs = f"{scheme.activation_type or ''}{scheme.activation_bits or 16}"
    parts = (
        weights,
        f"with {inputs} activations",
        scheme.strategy and f"by {scheme.strategy}",
        scheme.format,
    )
    return " ".join(part for part in parts if part)


def _verdict(quantization: Quantization, known: frozenset[str], answers: list[Answer]) -> Verdict:
    absent = [a for a in answers if a.known is False]
    unsure = [a for a in answers if a.known is None]
    if absent:
        has = sorted(known & rules.class_names(quantization.method))
        if not has:
            return Unknown(
                f"none of the classes for {quantization.method} that any release had is in the build",
                "start it once: its code has a form that no rule knows",
            )
        shown = ", ".join(has[:SHOWN]) + (" ..." if len(has) > SHOWN else "")
        return No(
            f"the build's {quantization.method} cannot load {absent[0].label}: {absent[0].why}",
            f"use a newer build, or a checkpoint stored in a way it knows: {shown}",
        )
    if unsure:
        return Unknown(
            f"{unsure[0].label}: {unsure[0].why}", "start it once, or use a release that a rule covers"
        )
    return Yes(
        f"the build has a class for {', '.join(dict.fromkeys(f'{a.label} ({a.why})' for a in answers))}"
    )


SCHEME_KNOWN = Check(
    "quantization-scheme-known",
    "The build has a class for each way in which the checkpoint stores its quantized weights.",
    scheme_known,
)
