"""A file of a server's options, one a key, as ``--config FILE`` takes it."""

from __future__ import annotations

import re

from canserve.recipes.draft import Account, Draft
from canserve.recipes.forms.json_text import json_text
from canserve.recipes.yaml_tree import Items, Mapping, Scalar
from canserve.subjects.recipe import Command, Said

FORM = "file of options"
_OPTION = re.compile(r"[a-z][a-z0-9]*([-_.][a-z0-9]+)*")
_MODEL = ("model", "model-path", "model_path", "model_tag")


def is_options(tree: Mapping) -> bool:
    """Whether a document can be one: every key the name of an option, at least one with a dash or a model."""
    names = [key.text for key, _ in tree.entries]
    return (
        bool(names)
        and all(map(_OPTION.fullmatch, names))
        and any("-" in n or "_" in n or n in _MODEL for n in names)
    )


def read(tree: Mapping, draft: Draft) -> None:
    """Fill the draft."""
    draft.form = FORM
    account = Account(tree)
    args: list[Said] = []
    model = None
    for key, node in tree.entries:
        account.use(key.text)
        flag = f"--{key.text.replace('_', '-')}"
        match node:
            case Scalar() if key.text in _MODEL:
                model = Said(node.text, node.line)
            case Scalar() if node.style is None and node.truth is not None:
                args += [Said(flag, key.line)] if node.truth else []
            case Scalar() if node.null:
                pass
            case Scalar():
                args += [Said(flag, key.line), Said(node.text, key.line)]
            case Items() | Mapping():
                args += [Said(flag, key.line), Said(json_text(node), key.line)]
    draft.commands.append(Command("", (), tree.line, engine="", model=model, args=tuple(args)))
    account.settle(draft)
