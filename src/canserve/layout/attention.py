"""Constraints on attention and state: heads have to come out whole on every rank."""

from __future__ import annotations

from canserve.facts import Missing
from canserve.layout.question import Question
from canserve.layout.ruling import Constraint, Ruling, missing, uneven, yes
from canserve.memory.layers.kinds import Recurrence, Recurrent
from canserve.subjects.parallel import Parallel

TP = frozenset({"tp"})


def _heads(question: Question, parallel: Parallel) -> Ruling | None:
    shape = question.shape
    if isinstance(shape, Missing):
        return missing(shape)
    if not shape.value.heads:
        return None
    tp = parallel.tp
    for heads in sorted(shape.value.heads):
        if heads % tp:
            because = f"{heads} attention heads do not divide by tensor parallel {tp}"
            return uneven(question, "heads", because, shape)
    words = _words(shape.value.heads, "attention heads")
    return yes(f"{words} divide by tensor parallel {tp}", shape)


def _kv_heads(question: Question, parallel: Parallel) -> Ruling | None:
    shape = question.shape
    if isinstance(shape, Missing):
        return missing(shape)
    if not shape.value.kv_heads:
        return None
    tp = parallel.tp
    for heads in sorted(shape.value.kv_heads):
        if heads % tp and tp % heads:
            because = f"{heads} KV heads neither divide by tensor parallel {tp} nor can be repeated evenly on its ranks"
            return uneven(question, "heads", because, shape)
    copies = max(tp // heads for heads in shape.value.kv_heads)
    words = _words(shape.value.kv_heads, "KV heads")
    how = f"lie {copies} times" if copies > 1 else "divide"
    return yes(f"{words} {how} on {tp} tensor parallel ranks", shape)


def _state_heads(question: Question, parallel: Parallel) -> Ruling | None:
    shape = question.shape
    if isinstance(shape, Missing):
        return None  # ``heads-divide`` already says so
    if not shape.value.recurrent:
        return None
    tp = parallel.tp
    for each in sorted(shape.value.recurrent, key=lambda one: one.heads):
        if each.heads % tp:
            because = f"{each.heads} {_named(each)} do not divide by tensor parallel {tp}"
            return uneven(question, "heads", because, shape)
        if not _groups_fit(each, tp):
            what = "groups" if each.kind is Recurrence.MAMBA2 else "key heads"
            because = f"{each.key_heads} {what} of {each.kind} do not divide by tensor parallel {tp}"
            return uneven(question, "heads", because, shape)
    return yes(f"the heads of its recurrent layers divide by tensor parallel {tp}", shape)


def _groups_fit(each: Recurrent, tp: int) -> bool:
    if each.kind is Recurrence.MAMBA2:  # one group is copied to every rank; several are never
        return each.key_heads == 1 or each.key_heads % tp == 0
    return each.kind in {Recurrence.MAMBA1, Recurrence.SHORT_CONV} or each.key_heads % tp == 0


def _named(each: Recurrent) -> str:
    one_channel = each.kind in {Recurrence.MAMBA1, Recurrence.SHORT_CONV}
    return f"{'channels' if one_channel else 'heads'} of {each.kind}"


def _words(counts: frozenset[int], what: str) -> str:
    return f"{' and '.join(str(count) for count in sorted(counts))} {what}"


HEADS = Constraint(
    "heads-divide", "Every tensor parallel rank gets equally many whole attention heads.", _heads, TP
)
KV_HEADS = Constraint(
    "kv-heads-divide-or-replicate",
    "Key and value heads divide by the tensor parallel size, or can be repeated evenly on its ranks.",
    _kv_heads,
    TP,
)
STATE_HEADS = Constraint(
    "state-heads-divide",
    "Every tensor parallel rank gets whole heads and groups of recurrent layers (Mamba, linear attention).",
    _state_heads,
    TP,
)
