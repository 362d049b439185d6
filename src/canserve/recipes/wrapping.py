"""Programs that only run another one, peeled off: ``sudo``, ``numactl``, ``srun``, ``apptainer exec`` ..."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from posixpath import basename

from canserve.recipes.around import CONTAINER, Around
from canserve.recipes.containers import mounted
from canserve.recipes.draft import Draft
from canserve.recipes.installing import install
from canserve.recipes.shell import ASSIGNMENT
from canserve.rules.recipes import Wrapper, wrappers
from canserve.subjects.recipe import Said

REMOTE = "ssh"
_REQUIRES = ("--from", "--with")
"""Options that install what follows them."""


def unwrapped(words: Sequence[Said], around: Around, draft: Draft) -> tuple[Sequence[Said], Around]:
    """Without assignments in front and programs that only run another one."""
    while words:
        if found := ASSIGNMENT.match(words[0].value):
            name, value = found[1], words[0].value[found.end() :]
            said = draft.variable(name, value, words[0].line)
            draft.word(name, said.value, said.line, "used")
            around, words = around.inside({name: said}), words[1:]
            continue
        several = wrappers().get(basename(words[0].value), ())
        wrapper = next((one for one in several if _fits(one, words)), None)
        if wrapper is None:
            return words, around
        if basename(words[0].value) == REMOTE:
            around = replace(around, elsewhere="another machine", mounts=())
        words, around = _behind(words, wrapper, around, draft)
        if wrapper.text and len(words) == 1 and " " in words[0].value:
            words = (Said("sh", words[0].line), Said("-c", words[0].line), words[0])
    return words, around


def _fits(wrapper: Wrapper, words: Sequence[Said]) -> bool:
    following = [word.value for word in words[1:]]
    return (not wrapper.after or following[:1] == [wrapper.after]) and (
        not wrapper.until or wrapper.until in following
    )


def _behind(
    words: Sequence[Said], wrapper: Wrapper, around: Around, draft: Draft
) -> tuple[Sequence[Said], Around]:
    """What a wrapper runs, behind its own options; some of these say in which container."""
    if wrapper.until:
        at = [word.value for word in words].index(wrapper.until)
        return words[at + 1 :], around
    rest = words[2 if wrapper.after else 1 :]
    image: Said | None = None
    while rest and rest[0].value.startswith("-"):
        name, equals, glued = rest[0].value.partition("=")
        valued = name in wrapper.values and not equals
        value = replace(rest[0], value=glued) if equals else rest[1] if valued and len(rest) > 1 else None
        draft.word(name, rest[0].value, rest[0].line, "used" if value and name == wrapper.image else "aside")
        if value is not None and name == wrapper.image:
            image = value
        elif value is not None and name == wrapper.mounts:
            found = (mounted(each, value.line) for each in value.value.split(","))
            around = replace(around, mounts=(*around.mounts, *(each for each in found if each)))
        elif value is not None and name in _REQUIRES:
            install(value, draft)
        stop = rest[0].value == "--"
        rest = rest[2 if valued else 1 :]
        if stop:
            break
    if wrapper.image == "1" and rest:
        image, rest = rest[0], rest[1:]
    if image is not None:
        image = replace(image, value=image.value.removeprefix("docker://").replace("#", "/"))
        draft.image = draft.image or image
        around = replace(around, image=image, elsewhere=CONTAINER)
    return rest[wrapper.words :], around
