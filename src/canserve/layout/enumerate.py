"""Enumeration by degrees: legal ones are placed when they are asked for, forbidden ones are named with the rule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from canserve.facts import Known
from canserve.layout import replicas
from canserve.layout.judged import MOST, ROOM, Judged
from canserve.layout.place import Room, spans
from canserve.layout.question import Question
from canserve.layout.ruling import Constraint, Ruling
from canserve.layout.stages import share_out, stage_layers
from canserve.layout.width import moe
from canserve.subjects.parallel import Illegal, Parallel, Placement
from canserve.verdict import No, Unknown, Verdict


@dataclass(frozen=True, slots=True)
class Layout:
    """A legal layout: its best placement, and what could not be decided about it."""

    placement: Placement
    """``layers`` is empty where the model's layers could not be read."""
    spans: bool
    """Whether a tensor parallel group lies on more than one machine."""
    doubts: tuple[tuple[str, Unknown], ...]
    """(constraint, what is not known); empty: it is certain to be legal."""


@dataclass(frozen=True)
class Layouts:
    """The answer to a question. Nothing is placed before it is asked for."""

    judged: Judged
    illegal: tuple[Illegal, ...]

    @property
    def legal(self) -> Iterator[Layout]:
        """Every legal layout with its best placement, by tp, pp, dp, ep."""
        for parallel in self.degrees():
            found = self.at(parallel)
            if isinstance(found, Layout):
                yield found

    def degrees(self) -> Iterator[Parallel]:
        """The degrees of every legal layout for which the machines have room; cheap, nothing is placed."""
        for tp, pp, dp, ep in _candidates(self.judged):
            parallel = Parallel(tp, pp, dp, ep)
            if self.judged.legal(parallel) and isinstance(self.judged.room(parallel), Room):
                yield parallel

    def at(self, parallel: Parallel) -> Layout | tuple[Illegal, ...]:
        """The best placement of these degrees, or every rule that forbids them."""
        judged = self.judged
        wrong = tuple(_illegal(judged, parallel, *pair) for pair in judged.forbidden(parallel))
        room = judged.room(parallel)
        if isinstance(room, Ruling):
            wrong += (_no_room(judged, parallel, room),)
        if wrong or isinstance(room, Ruling):
            return wrong
        layers = stage_layers(judged.question, parallel.pp)
        ranks = room.ranks(parallel)
        placement = Placement(
            parallel, ranks, layers.value if isinstance(layers, Known) else _guess(judged, parallel)
        )
        doubts = (*judged.doubts(parallel), *replicas.straddling(judged.question, placement))
        return Layout(placement, spans(ranks, parallel), doubts)


def layouts(question: Question) -> Layouts:
    """All layouts of a question: the legal ones lazily, and why other degrees are forbidden."""
    judged = Judged(question)
    return Layouts(judged, tuple(_forbidden(judged)))


def _candidates(judged: Judged) -> Iterator[tuple[int, int, int, int]]:
    """Degrees that are worth judging: those whose parts are legal each by itself."""
    question, gpus = judged.question, judged.question.gpus
    fixed = question.fixed
    for tp in _range(fixed.tp, gpus):
        if not _tp_legal(judged, tp):
            continue
        for pp in _range(fixed.pp, gpus // tp):
            if not judged.legal(Parallel(1, pp)) and not _blames_tp(judged, pp):
                break
            for dp in _range(fixed.dp, gpus // (tp * pp)):
                for ep in _expert_degrees(question, tp, dp):
                    yield tp, pp, dp, ep


def _range(fixed: int | None, most: int) -> range:
    if fixed is None:
        return range(1, most + 1)
    return range(fixed, fixed + 1) if fixed <= most else range(0)


def _tp_legal(judged: Judged, tp: int) -> bool:
    """Whether some spread of experts makes this tensor parallel size legal."""
    eps = {1, *_expert_degrees(judged.question, tp, 1)}
    return any(judged.legal(Parallel(tp, 1, 1, ep)) for ep in eps)


def _blames_tp(judged: Judged, pp: int) -> bool:
    """Whether what forbids these stages has nothing to do with their number."""
    return all("pp" not in constraint.axes for constraint, _ in judged.forbidden(Parallel(1, pp)))


def _expert_degrees(question: Question, tp: int, dp: int) -> tuple[int, ...]:
    """Over how many ranks experts may be spread; whether the engine has it is judged later."""
    fixed = question.fixed.ep
    world = tp * dp
    if fixed is not None:
        return (fixed,)
    if not moe(question) or world == 1:
        return (1,)
    rule = question.rule("experts")
    divisors = (
        isinstance(rule, Known) and rule.value is not None and rule.value.values["spread"] == "divisors"
    )
    if divisors and dp == 1:
        return tuple(each for each in range(1, min(tp, MOST) + 1) if tp % each == 0)
    return (1, world)


def _forbidden(judged: Judged) -> Iterator[Illegal]:
    fixed = judged.question.fixed
    if fixed.tp is not None and None not in (fixed.pp, fixed.dp):
        yield from _exactly(judged)
        return
    yield from _forbidden_tp(judged)
    yield from _forbidden_pp(judged)
    if fixed.dp != 1:
        dp = fixed.dp or 2
        yield from _first(judged, Parallel(1, 1, dp), larger=fixed.dp is None, axis="dp")
    yield from _forbidden_together(judged)


def _forbidden_together(judged: Judged) -> Iterator[Illegal]:
    """What forbids the degrees that were fixed, beside tensor parallel alone: too few experts, or no room."""
    fixed = judged.question.fixed
    if fixed.ep is not None and fixed.ep > 1:
        ranks = Parallel(fixed.tp or fixed.ep, 1, fixed.dp or 1, fixed.ep)
        yield from _first(judged, ranks, larger=False, axis="ep")
    together = Parallel(fixed.tp or 1, fixed.pp or 1, fixed.dp or 1)
    room = judged.room(together)
    if together.ranks > together.tp and isinstance(room, Ruling):
        yield _no_room(judged, together, room)


def _exactly(judged: Judged) -> Iterator[Illegal]:
    """Every rule that forbids the very degrees that were asked for."""
    fixed = judged.question.fixed
    tp, pp, dp = fixed.tp or 1, fixed.pp or 1, fixed.dp or 1
    for ep in _expert_degrees(judged.question, tp, dp):
        found = Layouts(judged, ()).at(Parallel(tp, pp, dp, ep))
        if isinstance(found, tuple):
            yield from found


def _forbidden_tp(judged: Judged) -> Iterator[Illegal]:
    question = judged.question
    wanted = question.fixed.tp
    top = _largest(judged)
    sizes = range(2, min(question.gpus, top) + 1) if wanted is None else range(wanted, wanted + 1)
    for tp in sizes:
        for ep in dict.fromkeys((1, *_expert_degrees(question, tp, 1))):
            parallel = Parallel(tp, 1, 1, ep)
            wrong = next(judged.forbidden(parallel), None)
            if wrong is not None:
                yield _illegal(judged, parallel, *wrong)
                if ep == 1 and not _tp_legal(judged, tp):
                    break
        if wanted is not None and tp > question.gpus:
            room = judged.room(Parallel(tp))
            if isinstance(room, Ruling):
                yield _no_room(judged, Parallel(tp), room)
    if wanted is None and question.gpus > top:
        yield from _first(judged, Parallel(top + 1), larger=True, axis="tp")


def _largest(judged: Judged) -> int:
    """The largest tensor parallel size that the heads could allow."""
    shape = judged.question.shape
    heads = shape.value.heads if isinstance(shape, Known) else ()
    return min(heads, default=128)


def _forbidden_pp(judged: Judged) -> Iterator[Illegal]:
    fixed, gpus = judged.question.fixed.pp, judged.question.gpus
    if fixed is not None:
        yield from _first(judged, Parallel(1, fixed), larger=False, axis="pp")
        return
    for pp in range(2, gpus + 1):
        wrong = tuple(_first(judged, Parallel(1, pp), larger=True, axis="pp"))
        if wrong:
            yield from wrong
            return


def _first(judged: Judged, parallel: Parallel, larger: bool, axis: str) -> Iterator[Illegal]:
    """The first rule on this axis that these degrees break."""
    for constraint, ruling in judged.forbidden(parallel):
        if axis in constraint.axes:
            yield _illegal(judged, parallel, constraint, ruling, larger)
            return


def _illegal(
    judged: Judged, parallel: Parallel, constraint: Constraint, ruling: Ruling, larger: bool = False
) -> Illegal:
    if "tp" in constraint.axes and constraint.tensor and parallel.tp > 1:
        ruling = judged.healed(parallel, ruling)
    because, heals = _words(ruling.verdict)
    return Illegal(parallel, constraint.name, because, heals, larger)


def _no_room(judged: Judged, parallel: Parallel, ruling: Ruling) -> Illegal:
    return Illegal(parallel, ROOM, *_words(judged.healed(parallel, ruling).verdict))


def _words(verdict: Verdict) -> tuple[str, str]:
    match verdict:
        case No(because, fix):
            return because, fix
        case Unknown(because, ask):
            return because, ask
        case _:
            raise AssertionError("a rule that forbids nothing was listed as forbidding")


def _guess(judged: Judged, parallel: Parallel) -> tuple[int, ...]:
    """Where no rule says how layers are shared out: as evenly as possible."""
    shape = judged.question.shape
    return share_out(len(shape.value.layers), parallel.pp, "middle") if isinstance(shape, Known) else ()
