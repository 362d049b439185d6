"""What a recipe installs: the engine's own release, or another package on top of it."""

from __future__ import annotations

from canserve.recipes.draft import Draft
from canserve.recipes.stated import required
from canserve.subjects.recipe import Said


def install(word: Said, draft: Draft) -> None:
    """A requirement that is installed: the engine's release, or what is stated of another package."""
    pinned, stated = required(word.value, word.line)
    if pinned is not None and serving_name(pinned):
        draft.requirement = Said(pinned, word.line)  # which build it is, not what one has to be
    else:
        draft.stated += stated


def serving_name(requirement: str) -> bool:
    """Whether it names an engine that is served from its release."""
    return requirement.partition("==")[0] not in ("transformers", "torch")
