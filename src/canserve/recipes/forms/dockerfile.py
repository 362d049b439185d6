"""Dockerfiles: what the image of their last stage starts, and on which image it is built."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from canserve.recipes.around import CONTAINER, Around
from canserve.recipes.commands import started
from canserve.recipes.draft import Draft
from canserve.recipes.installing import install
from canserve.recipes.shell import split
from canserve.recipes.trouble import RecipeError
from canserve.recipes.variables import expanded
from canserve.recipes.yaml_tree import Items, Scalar, documents
from canserve.subjects.recipe import HIDDEN, Said

FORM = "Dockerfile"
_FIRST = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*[ \t]*(?:ARG[ \t][^\n]*\n[\s]*)*FROM[ \t]+\S+", re.IGNORECASE)
_PAIR = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_FROM = re.compile(r"(?:--platform=\S+\s+)?(\S+)(?:\s+AS\s+(\S+))?", re.IGNORECASE)
_ASIDE = frozenset({"LABEL", "EXPOSE", "WORKDIR", "USER", "VOLUME", "COPY", "ADD", "HEALTHCHECK", "STOPSIGNAL", "SHELL",
                    "MAINTAINER", "ONBUILD"})  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Instruction:
    name: str
    value: str
    line: int


def is_dockerfile(text: str) -> bool:
    """Whether a text has this form."""
    return _FIRST.match(text) is not None


def read(text: str, draft: Draft) -> None:
    """Fill the draft: of several stages the last one counts, on top of those that it is built on."""
    draft.form = FORM
    stages: dict[str, str] = {}
    base: Said | None = None
    entry: tuple[Said, ...] | None = None
    args: tuple[Said, ...] = ()
    for one in _instructions(text):
        known = one.name in _ASIDE
        draft.key(
            one.name, one.value, one.line, "aside" if known else "used" if one.name in _USED else "unknown"
        )
        match one.name:
            case "FROM" if found := _FROM.match(expanded(one.value, one.line, draft.scope)):
                image = stages.get(found[1].lower(), found[1])
                if found[2]:
                    stages[found[2].lower()] = image
                if image == found[1]:
                    entry, args = None, ()
                base = Said(image, one.line)
            case "ENTRYPOINT":
                entry, args = _words(one, draft), ()
            case "CMD":
                args = _words(one, draft)
            case "ENV" | "ARG":
                _variables(one, draft)
            case "RUN":
                for word in split(one.value, one.line, draft.scope):
                    install(word, draft)
            case _:
                pass
    if base is None:
        return
    draft.image = base
    draft.note(
        f"line {base.line}: it is built on {base.value[:80]}, which is judged: what is added may change that"
    )
    started(entry, args, Around("", draft.environment, base, elsewhere=CONTAINER), draft)


_USED = frozenset({"FROM", "ENTRYPOINT", "CMD", "ENV", "ARG", "RUN"})


def _words(one: _Instruction, draft: Draft) -> tuple[Said, ...]:
    """A list in brackets as it is; else words of a shell."""
    if one.value.startswith("["):
        try:
            found = documents(one.value)
        except RecipeError:
            found = ()
        if found and isinstance(found[0], Items):
            words = tuple(Said(each.text, one.line) for each in found[0].nodes if isinstance(each, Scalar))
            return draft.located(words)
    return (Said("/bin/sh", one.line), Said("-c", one.line), Said(one.value, one.line))


def _variables(one: _Instruction, draft: Draft) -> None:
    for word in split(one.value, one.line, draft.scope):
        if found := _PAIR.fullmatch(word.value):
            value = expanded(found[2], one.line, draft.scope)
            said = draft.variable(found[1], value, one.line)
            if said.value != HIDDEN:
                draft.scope.variables[found[1]] = value
            if one.name == "ENV":
                draft.environment[found[1]] = said


def _instructions(text: str) -> Iterator[_Instruction]:
    lines = text.replace("\r\n", "\n").split("\n")
    number = 0
    while number < len(lines):
        start = 1
        parts: list[str] = []
        while number < len(lines):
            line = lines[number].strip()
            number += 1
            if line.startswith("#") or (not line and parts):
                continue
            start = start if parts else number
            parts.append(line.removesuffix("\\").rstrip())
            if not line.endswith("\\"):
                break
        name, _, value = " ".join(parts).strip().partition(" ")
        if name:
            yield _Instruction(name.upper(), value.strip(), start)
