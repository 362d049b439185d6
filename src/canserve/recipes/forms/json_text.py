"""A tree as the JSON that a flag takes."""

from __future__ import annotations

import json
import re

from canserve.recipes.yaml_tree import Items, Mapping, Node, Scalar

_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,15})(\.[0-9]{1,15})?([eE][+-]?[0-9]{1,3})?")


def json_text(node: Node) -> str:
    """``{a: 1, b: [true, x]}`` -> ``{"a": 1, "b": [true, "x"]}``."""
    return json.dumps(_value(node))


def _value(node: Node) -> object:
    match node:
        case Items(nodes=nodes):
            return [_value(each) for each in nodes]
        case Mapping(entries=entries):
            return {key.text: _value(each) for key, each in entries}
        case Scalar() if node.style is None:
            return _plain(node)
        case _:
            return node.text


def _plain(node: Scalar) -> object:
    if node.null:
        return None
    if node.truth is not None:
        return node.truth
    return json.loads(node.text) if _NUMBER.fullmatch(node.text) else node.text
