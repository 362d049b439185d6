"""Texts, judged without knowing the model: right answers, loops, letters that do not belong, JSON."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from canserve.rules.questions import Question
from canserve.rules.served import marks_in
from canserve.subjects.served import Answer

_THOUSANDS = re.compile(r"(?<=\d)[,.'\u00a0\u202f ](?=\d{3}\b)")
_MARKUP = re.compile(r"[*_`]+")
_SPACE = re.compile(r"\s+")
_WORD = re.compile(r"[^\W\d_]+")
_RUN = re.compile(r"([^\s\-=*#_.~|])\1{23,}")
"""One character that goes on and on; those of which lines are drawn are no fault."""
_LINES = frozenset({"Pd", "Pc"})
"""Categories of dashes and connectors: lines are drawn of those as well."""
_CLOSING = ("/", "END", "final")
"""What the marks that end reasoning hold."""
_LONGEST = 20_000
"""Letters of a text that are looked at."""
_LOOPED = 6
"""Times a passage stands at the end, one after the other, before that is a loop."""
_PERIOD = 240
"""Longest passage that is looked for."""
_ALIEN = 0.15
"""Share of letters from elsewhere that is no slip."""

SCRIPTS: Mapping[str, frozenset[str]] = {
    "Latin": frozenset({"LATIN"}),
    "Cyrillic": frozenset({"CYRILLIC"}),
    "Han": frozenset({"CJK"}),
    "Japanese": frozenset({"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"}),
}
"""First words of the Unicode names of letters, by script."""


def plainly(text: str) -> str:
    """Text in the form in which answers are compared."""
    flat = unicodedata.normalize("NFKC", text[:_LONGEST]).casefold()
    return _SPACE.sub(" ", _THOUSANDS.sub("", _MARKUP.sub("", flat))).strip()


def spoken_part(answer: Answer) -> str:
    """Its text without reasoning in it and without marks of turns: those are other checks' matter."""
    text = answer.text
    marks = marks_in("reasoning", text)
    if marks:
        last = max(marks, key=lambda mark: text.rindex(mark) + len(mark))
        closes = any(word in last for word in _CLOSING)
        text = text[text.rindex(last) + len(last) :] if closes else ""
    for mark in marks_in("turn", text):
        text = text.replace(mark, " ")
    return text


def cut(answer: Answer) -> bool:
    """Whether it was cut by its length before it said anything: its reasoning took all the room."""
    return answer.finish == "length" and not spoken_part(answer).strip()


def after_reasoning(answer: Answer) -> str:
    """What the answer says: that part of its text; the reasoning where it says nothing else."""
    text = spoken_part(answer)
    return text if text.strip() else answer.reasoning


def right(question: Question, answer: Answer) -> bool:
    """Whether it holds what a right answer holds."""
    said = plainly(after_reasoning(answer))
    return any(pattern.search(said) for pattern in question.accept)


def endless(text: str) -> str | None:
    """One character that goes on and on; None: there is none."""
    runs = (found[1] for found in _RUN.finditer(text[:_LONGEST]))
    return next((mark for mark in runs if unicodedata.category(mark) not in _LINES), None)


def loop(text: str) -> str | None:
    """The passage that a text repeats at its end, over and over; None: it does not."""
    text = _SPACE.sub(" ", text[-_LONGEST:]).strip()
    for period in range(1, min(_PERIOD, len(text) // _LOOPED) + 1):
        passage = text[-period:]
        if period * _LOOPED >= 40 and text.endswith(passage * _LOOPED) and _WORD.search(passage):
            return passage
    return None


@cache
def _script(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]


def letters(text: str) -> Counter[str]:
    """How many letters of each script a text holds."""
    return Counter(_script(letter) for letter in text[:_LONGEST] if letter.isalpha())


def strangers(text: str, script: str) -> tuple[float, str] | None:
    """Share and script of letters that neither the question nor any program text would bring; None: too few."""
    found = letters(text)
    total = sum(found.values())
    home = SCRIPTS[script] | {"LATIN", "MODIFIER", "FULLWIDTH", "FEMININE", "MASCULINE", "MICRO", "GREEK"}
    alien = Counter({name: count for name, count in found.items() if name not in home})
    if not alien or total < 20 or sum(alien.values()) < _ALIEN * total:
        return None
    return sum(alien.values()) / total, alien.most_common(1)[0][0].title()


def speaks(text: str, question: Question) -> bool:
    """Whether a text is in the language of its question, as far as its letters and commonest words tell."""
    found = letters(text)
    total = sum(found.values())
    own = sum(found[name] for name in SCRIPTS[question.script])
    if not total or own < 0.5 * total:
        return False
    words = {word.casefold() for word in _WORD.findall(text[:_LONGEST])}
    return not question.words or len(words & set(question.words)) >= 2


def garbled(text: str, script: str) -> str | None:
    """Why a text is no answer of any model, right or wrong; None: it may be one."""
    if not text.strip():
        return "it is empty"
    if (mark := endless(text)) is not None:
        return f"it is one character over and over ({mark!r})"
    if (passage := loop(text)) is not None:
        return f"it repeats {passage[:40]!r} over and over"
    if "\ufffd" in text and text.count("\ufffd") > len(text) / 20:
        return "it holds bytes that are no letters"
    if (found := strangers(text, script)) is not None:
        return f"{found[0]:.0%} of its letters are {found[1]}"
    return None


def same_words(texts: Sequence[str]) -> int:
    """How many words these texts begin with in common."""
    split = [text.split() for text in texts]
    count = 0
    for row in zip(*split, strict=False):
        if len(set(row)) > 1:
            break
        count += 1
    return count


def fits(value: Any, schema: Mapping[str, Any]) -> str | None:
    """Where a value breaks the few rules that our own schema uses; None: it keeps them."""
    if not isinstance(value, dict):
        return "it is no object"
    properties: Mapping[str, Any] = schema["properties"]
    if lacking := [name for name in schema["required"] if name not in value]:
        return f"{', '.join(lacking)} is missing"
    if extra := [name for name in value if name not in properties]:
        return f"{str(extra[0])[:40]!r} is not in the schema"
    for name, rule in properties.items():
        if rule["type"] == "boolean" and not isinstance(value[name], bool):
            return f"{name} is no boolean"
        if "enum" in rule and value[name] not in rule["enum"]:
            return f"{name} is {str(value[name])[:40]!r}, none of {', '.join(rule['enum'])}"
    return None
