"""answer-correct, batch-agrees, no-repetition, language-kept: what it says."""

from __future__ import annotations

from collections.abc import Sequence

from canserve.checks.reader import NotApplicable, Reader
from canserve.checks.served.check import LOG, ServedCheck, answers_in, partly_lost, spoken, unanswered
from canserve.checks.served.dummy import suspected_dummy
from canserve.checks.served.texts import cut, endless, loop, right, speaks, spoken_part, strangers
from canserve.checks.served.words import say, short
from canserve.facts import Known
from canserve.rules.questions import named, questions
from canserve.subjects.served import Answer, Asked, Served
from canserve.verdict import No, Unknown, Verdict, Yes

_GOOD, _BAD = 0.7, 0.3
"""Shares of right answers: models of a few billion parameters reach the first, broken ones stay below the second.

A very small model stays below it too, but knows most of the core questions."""
_FEW = 3
_FEW_LANGUAGES = "a small model may know few languages; ask it by hand"
_REFERENCE = "ask the same of the model elsewhere, or of another quantization, and compare"


def correct(reader: Reader, served: Served) -> Verdict:
    """The verdict of ``answer-correct``."""
    asked = reader.read(served.known)
    if _disagree(served):  # then those asked alone tell of the model, and the others of the batch
        asked = reader.read(served.alone)
    answers = [each for each in asked if isinstance(each.reply, Answer) and not cut(each.reply)]
    if len(answers) < _FEW:
        return Unknown(f"only {len(answers)} of {len(asked)} questions were answered to the end", LOG)
    good = [each for each in answers if _right(each)]
    said = f"{len(good)} of {len(answers)} known answers are right"
    wrong = next((each for each in answers if not _right(each)), None)
    example = f"; {named(wrong.name).ask!r} got {say(wrong.reply)}" if wrong else ""
    if len(good) >= _GOOD * len(answers):
        return Yes(said)
    if suspected_dummy(served):
        reader.cite(served.chances.evidence)
        why = f"{said}, and every token is about as likely as any other: dummy weights, or weights that were not loaded"
        return Unknown(why, "say --expect dummy where that is meant")
    core = [_right(each) for each in answers if named(each.name).core]
    if len(good) <= _BAD * len(answers) and sum(core) * 2 <= len(core):
        return No(f"{said}{example}", f"look at weights, quantization and chat template; {_REFERENCE}")
    return Unknown(f"{said}{example}; a very small model may know no more", _REFERENCE)


def _right(asked: Asked) -> bool:
    return isinstance(asked.reply, Answer) and right(named(asked.name), asked.reply)


def _disagree(served: Served) -> list[str]:
    """Questions that were answered rightly alone, and not in a batch."""
    if not isinstance(served.alone, Known) or not isinstance(served.known, Known):
        return []
    batch = {each.name: each for each in served.known.value}
    return [
        each.name
        for each in served.alone.value
        if _right(each) and not _right(batch[each.name]) and not _cut(batch[each.name])
    ]


def _cut(asked: Asked) -> bool:
    return isinstance(asked.reply, Answer) and cut(asked.reply)


def batch(reader: Reader, served: Served) -> Verdict:
    """The verdict of ``batch-agrees``."""
    asked, alone = reader.read(served.known), reader.read(served.alone)
    lost = [each for each in asked if not isinstance(each.reply, Answer)]
    fix = "try it with fewer sequences at once, or without the features that batches bring (graphs, prefix cache)"
    if lost and partly_lost(served) is not None:
        return unanswered(served, lost[0].reply)
    if lost:
        return No(
            f"{len(lost)} of {len(asked)} questions asked at once got no answer: {say(lost[0].reply)}", fix
        )
    differ = _disagree(served)
    if not differ:
        good = sum(map(_right, alone))
        if not good:
            return Unknown(
                "none of the questions asked alone was answered rightly, so that nothing can be compared",
                _REFERENCE,
            )
        return Yes(f"what was right alone is right among {len(asked)} at once ({good} questions)")
    replies = {each.name: each.reply for each in asked}
    why = f"{', '.join(differ)}: right alone, not among {len(asked)} at once: {say(replies[differ[0]])}"
    if len(differ) > 1 or _swapped(differ, asked):
        return No(why, fix)
    return Unknown(why, "ask again: rounding in a batch may turn one answer of a small model")


def _swapped(names: Sequence[str], asked: Sequence[Asked]) -> bool:
    """Whether such an answer is the right one to another of the questions."""
    replies = {each.name: each.reply for each in asked}
    return any(
        isinstance(reply := replies[name], Answer) and right(named(other.name), reply)
        for name in names
        for other in asked
        if other.name != name
    )


def repetition(reader: Reader, served: Served) -> Verdict:
    """The verdict of ``no-repetition``."""
    reader.read(served.essays)
    texts = list(spoken(served))
    found = [(name, why, look) for name, answer, look in texts if (why := _repeats(name, answer)) is not None]
    if not found:
        return Yes(f"none of {len(texts)} answers repeats itself")
    sure = [one for one in found if _easy(one[0])]
    name, why, look = (sure or found)[0]
    reader.cite(look)
    said = f"{len(found)} of {len(texts)} answers repeat themselves: {name} {why}"
    if sure:
        return No(
            said, "look for overflow or a wrong kernel: another dtype, attention backend or quantization"
        )
    return Unknown(said, "a small model may, in a language it hardly knows; ask it by hand")


def _repeats(name: str, answer: Answer) -> str | None:
    """What an answer repeats; None: nothing. Greedy, small models loop by themselves."""
    if (mark := endless(answer.said)) is not None:
        return f"is {mark!r} over and over: {short(answer.said)}"
    sampled = any(question.name == name for question in questions("essay"))
    passage = loop(answer.said) if sampled else None
    return None if passage is None else short(passage, 60)


def _easy(name: str) -> bool:
    """Whether any model writes that without trouble."""
    easy = {question.name for question in (*questions("fact"), *questions("essay")) if question.core}
    return name in easy or name not in {
        question.name for question in (*questions("fact"), *questions("essay"))
    }


def language(reader: Reader, served: Served) -> Verdict:
    """The verdict of ``language-kept``."""
    reader.read(served.essays)
    drifted = [
        (name, stranger, answer, look)
        for name, answer, look in answers_in(served.essays, served.known)
        if (stranger := strangers(spoken_part(answer), named(name).script)) is not None
    ]
    if drifted:
        name, (share, script), answer, look = min(drifted, key=lambda one: not _easy(one[0]))
        reader.cite(look)
        why = f"{share:.0%} of the letters of the answer to {name} are {script}: {short(spoken_part(answer))}"
        if _easy(name):
            return No(why, "look for a wrong tokenizer, damaged weights or a quantization that is too coarse")
        return Unknown(why, _FEW_LANGUAGES)
    written = [(name, spoken_part(answer)) for name, answer, _ in answers_in(served.essays)]
    essays = [(name, text) for name, text in written if text.strip() and not endless(text) and not loop(text)]
    if not essays:
        raise NotApplicable(
            "no text was written that could be judged: see no-repetition and reasoning-closed"
        )
    other = [(name, text) for name, text in essays if not speaks(text, named(name))]
    if not other:
        return Yes(f"{len(essays)} texts are in the language of their question")
    name, text = other[0]
    why = (
        f"{len(other)} of {len(essays)} texts are not in the language of their question: {name} {short(text)}"
    )
    return Unknown(why, _FEW_LANGUAGES)


CORRECT = ServedCheck("answer-correct", "Questions with known answers are answered rightly.", correct, True)
BATCH = ServedCheck(
    "batch-agrees", "What is answered rightly alone is answered rightly among many at once.", batch, True
)
REPETITION = ServedCheck(
    "no-repetition", "No answer repeats a character or a passage over and over.", repetition, True
)
LANGUAGE = ServedCheck("language-kept", "Answers are in the language of their question.", language, True)
