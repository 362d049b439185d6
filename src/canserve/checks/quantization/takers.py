"""Builds with several engines in them: which of those that serve the model take its weights.

An engine of a build takes some methods and not others, and may demand more of a checkpoint than its method. The
one that comes first for the architecture is used unless a flag, or the build itself, moves on to the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from canserve.checks.architecture import route
from canserve.checks.case import Case
from canserve.checks.gates import look
from canserve.checks.reader import Reader
from canserve.checks.several_engines import given, left
from canserve.subjects.build import Demand, Plain, QuantMethod, Taker
from canserve.subjects.model import Quantization
from canserve.verdict import No, Unknown, Verdict, Yes


@dataclass(frozen=True, slots=True)
class Candidate:
    """One engine that serves the architecture, and whether it takes the weights."""

    backend: str
    taker: Taker | None
    unmet: tuple[str, ...] = ()

    @property
    def takes(self) -> bool:
        """Whether it takes them."""
        return self.taker is not None and not self.unmet

    def refusal(self, method: str) -> str:
        """Why it does not."""
        if self.taker is None:
            return f"{self.backend} does not take {method}"
        return f"{self.backend} takes {method} only with {' and '.join(self.unmet)}"


def through(reader: Reader, case: Case, method: QuantMethod, quantization: Quantization) -> Verdict | None:
    """How the engine that serves the model takes its weights; None: there is only one engine to ask."""
    candidates, asked = _candidates(reader, case, method, quantization)
    if not candidates:
        return None
    reader.cite((look(case, str(method.at), _described(method)),))
    return _choose(method.name, candidates, asked)


def taker_of(
    reader: Reader, case: Case, method: QuantMethod, quantization: Quantization | None
) -> str | None:
    """The engine of the build that takes the weights; None: none does, or there is only one to ask."""
    if quantization is None:
        return None
    candidates, _ = _candidates(reader, case, method, quantization)
    return next((one.backend for one in candidates if one.takes), None)


def _candidates(
    reader: Reader, case: Case, method: QuantMethod, quantization: Quantization
) -> tuple[list[Candidate], bool]:
    """The engines that may take the weights, and whether the user asked for them by a flag."""
    way, _ = route(reader, case)
    if not method.takers or way is None or way.way not in ("native", "converted"):
        return [], False
    row = reader.read(case.build.registry)[way.served_by]
    found = [_candidate(backend, method, quantization.raw) for backend in left(reader, case, row)]
    asked = [one for one in found if one.taker is not None and given(case, one.taker.flag)]
    return asked or found, bool(asked)


def _choose(method: str, candidates: Sequence[Candidate], asked_for: bool) -> Verdict:
    chosen = next((one for one in candidates if one.takes), None)
    refusals = "; ".join(one.refusal(method) for one in candidates if not one.takes)
    if chosen is None or chosen.taker is None:
        return No(refusals, "use a checkpoint quantized another way, or another engine")
    taker = chosen.taker
    if taker.guards:
        return Unknown(
            f"{chosen.backend} takes {method} where {' and '.join(taker.guards)}, which is decided at run time",
            "start it once",
        )
    because = f"the build lists {method}, which its {chosen.backend} engine takes"
    if chosen is candidates[0] or asked_for or not taker.flag:
        return Yes(because)
    return Yes(f"{because}; {refusals}", (taker.flag,))


def _candidate(backend: str, method: QuantMethod, config: Mapping[str, Any]) -> Candidate:
    taker = next((one for one in method.takers if one.backend == backend), None)
    unmet = () if taker is None else tuple(_unmet(taker.demands, config))
    return Candidate(backend, taker, unmet)


def _unmet(demands: Sequence[Demand], config: Mapping[str, Any]) -> Iterator[str]:
    for demand in demands:
        value = _plain(config.get(demand.key))
        value = demand.default if value in (None, 0) and not isinstance(value, bool) else value
        if value not in demand.allowed:
            allowed = " or ".join(map(_shown, demand.allowed))
            yield f"{demand.key} {allowed} (the checkpoint has {_shown(value)})"


def _plain(value: object) -> Plain | object:
    match value:
        case list() if all(isinstance(item, int) for item in value):
            return tuple(value)
        case str():
            return value.lower()
        case _:
            return value


def _shown(value: object) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case tuple():
            return "x".join(map(str, value))
        case _:
            return str(value)[:40]


def _described(method: QuantMethod) -> str:
    return f"{method.name}: {' and '.join(taker.backend for taker in method.takers)}"
