"""A file of a server's options, one a key, as ``--config FILE`` takes it."""

from __future__ import annotations

import re

from canserve.recipes.draft import Account, Draft
from canserve.recipes.options import MODEL, options_of
from canserve.recipes.yaml_tree import Mapping
from canserve.subjects.recipe import Command

FORM = "file of options"
_OPTION = re.compile(r"[a-z][a-z0-9]*([-_.][a-z0-9]+)*")


def is_options(tree: Mapping) -> bool:
    """Whether a document can be one: every key the name of an option, at least one with a dash or a model."""
    names = [key.text for key, _ in tree.entries]
    return (
        bool(names)
        and all(map(_OPTION.fullmatch, names))
        and any("-" in n or "_" in n or n in MODEL for n in names)
    )


def read(tree: Mapping, draft: Draft) -> None:
    """Fill the draft."""
    draft.form = FORM
    account = Account(tree)
    for key, _ in tree.entries:
        account.use(key.text)
    given = options_of(tree, draft)
    draft.commands.append(Command("", (), tree.line, engine="", model=given.model, args=given.args))
    account.settle(draft)
