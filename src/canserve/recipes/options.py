"""Options of a server as keys of a document: of a file of their own, or of one that ``--config`` names.

Sources: vllm utils/argparse_utils.py (load_config_file), sglang srt/utils/server_args_config_parser.py: the words of the
file stand in front of those of the command line, whose own values count more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from canserve.recipes.draft import Draft
from canserve.recipes.forms.json_text import json_text
from canserve.recipes.further import Files
from canserve.recipes.trouble import RecipeError
from canserve.recipes.yaml_tree import Items, Mapping, Node, Scalar, documents, leaves, moved, shown
from canserve.subjects.recipe import Further, Said

MODEL = ("model", "model-path", "model_path", "model_tag")


@dataclass(frozen=True, slots=True)
class Given:
    """What a document of options gives to a server."""

    model: Said | None = None
    args: tuple[Said, ...] = ()


def options_of(tree: Mapping, draft: Draft) -> Given:
    """The document's keys as words."""
    model = None
    args: list[Said] = []
    for key, node in tree.entries:
        if isinstance(node, Scalar) and key.text in MODEL:
            model = _said(node)
        elif isinstance(node, Scalar) and node.style is None and node.truth is False:
            draft.note(f"line {key.line}: {key.text[:60]}: {node.text} is taken for the flag not being given")
        else:
            args += _words(f"--{key.text.replace('_', '-')}", key, node)
    return Given(model, tuple(args))


def _words(flag: str, key: Scalar, node: Node) -> list[Said]:
    """A list is several words; a mapping is JSON."""
    first = replace(_said(key), value=flag)
    match node:
        case Scalar() if node.null:
            return []
        case Scalar() if node.style is None and node.truth is True:
            return [first]
        case Scalar():
            return [first, replace(first, value=node.text)]
        case Items(nodes=nodes):
            texts = [each.text if isinstance(each, Scalar) else json_text(each) for each in nodes]
            return [first, *(replace(first, value=text) for text in texts)] if texts else []
        case Mapping():
            return [first, replace(first, value=json_text(node))]


def _said(node: Scalar) -> Said:
    return Said(node.text, node.line, node.at)


def config_of(text: str, wanted: Further, draft: Draft, inline: bool) -> Given:
    """What a file that ``--config`` names gives; nothing where it cannot be understood, which the file's state says.

    ``inline``: its text stands in the recipe, whose keys hold it.
    """
    tree = further_tree(text, wanted, draft.files)
    if tree is None:
        if inline and text.strip():
            draft.refuse(wanted.path, wanted.line, "its text is no document with keys")
        return Given()
    for path, value, line in () if inline else leaves(tree):
        draft.key(f"{wanted.path}: {shown(path)}", value, line, "used")
    there = moved(tree, wanted.line, wanted.path)
    assert isinstance(there, Mapping)
    return options_of(there, draft)


def further_tree(text: str, wanted: Further, files: Files) -> Mapping | None:
    """The first document of a further file; None: it has none, which the file's state says."""
    try:
        tree = next((each for each in documents(text) if isinstance(each, Mapping)), None)
    except RecipeError as error:
        files.unreadable(wanted.path, str(error))
        return None
    if tree is None and text.strip():
        files.unreadable(wanted.path, "a document without keys")
    return tree
