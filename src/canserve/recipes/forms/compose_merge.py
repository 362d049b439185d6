"""Two services of compose files as one: what the second says is added to the first, or takes its place.

Source: the compose specification, "Merge and override" and "extends".
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping as Variables
from dataclasses import replace

from canserve.recipes.further import joined
from canserve.recipes.yaml_tree import Items, Mapping, Node, Scalar

_INSTEAD = frozenset({"command", "entrypoint", "test", "extends"})
"""A later list takes the place of the one before."""
_KEYED = frozenset({"environment", "labels", "annotations", "args", "extra_hosts", "sysctls"})
_TARGETED = frozenset({"volumes", "devices", "configs", "secrets"})
_PATHS = (".", "~")


def merged(base: Mapping, over: Mapping) -> Mapping:
    """Both, the second counting more."""
    entries = {key.text: (key, node) for key, node in base.entries if key.text != "extends"}
    for key, node in over.entries:
        before = entries.get(key.text)
        entries[key.text] = (key, node if before is None else _together(key.text, before[1], node))
    return Mapping(tuple(entries.values()), over.line)


def _together(name: str, base: Node, over: Node) -> Node:
    if name in _INSTEAD:
        return over
    if name in _KEYED:
        return keyed(base, over)
    if name == "env_file":
        return Items((*listed(base), *listed(over)), over.line)
    match base, over:
        case Items(), Items() if name in _TARGETED:
            return _by_target(base, over)
        case Items(), Items():
            return Items((*base.nodes, *over.nodes), over.line)
        case Mapping(), Mapping():
            return merged(base, over)
        case _:
            return over


def listed(node: Node) -> tuple[Node, ...]:
    """One or several as several."""
    return node.nodes if isinstance(node, Items) else (node,)


def keyed(*nodes: Node) -> Mapping:
    """``[A=1, B]`` and ``{A: 1, B: }`` as the latter, a later key instead of an earlier one."""
    found: dict[str, tuple[Scalar, Node]] = {}
    for node in nodes:
        match node:
            case Mapping(entries=entries):
                found |= {key.text: (key, each) for key, each in entries}
            case Items(nodes=several):
                for each in several:
                    if isinstance(each, Scalar):
                        name, equals, value = each.text.partition("=")
                        inner = replace(each, text=value, style='"' if equals else None)
                        found[name] = (replace(each, text=name, style=None), inner)
            case _:
                pass
    return Mapping(tuple(found.values()), nodes[-1].line)


def _by_target(base: Items, over: Items) -> Items:
    found: dict[str, Node] = {}
    for each in (*base.nodes, *over.nodes):
        found[_target(each)] = each
    return Items(tuple(found.values()), over.line)


def _target(node: Node) -> str:
    match node:
        case Scalar(text=text):
            parts = text.split(":")
            return parts[1] if len(parts) > 1 else text
        case Mapping():
            target = node.get("target", "source")
            return target.text if isinstance(target, Scalar) else str(id(node))
        case _:
            return str(id(node))


def rebased(service: Mapping, folder: str) -> Mapping:
    """A service of a file in another folder, with its paths as they are from the recipe's folder on."""
    if not folder:
        return service
    changed: Variables[str, Callable[[Node], Node]] = {
        "env_file": lambda node: _env_files(node, folder),
        "volumes": lambda node: _volumes(node, folder),
    }
    return Mapping(
        tuple(
            (key, changed[key.text](node) if key.text in changed else node) for key, node in service.entries
        ),
        service.line,
    )


def _env_files(node: Node, folder: str) -> Node:
    nodes: list[Node] = []
    for each in listed(node):
        if isinstance(each, Scalar):
            nodes.append(replace(each, text=joined(folder, each.text)))
        elif isinstance(each, Mapping):
            nodes.append(_with_path(each, "path", folder))
    return Items(tuple(nodes), node.line)


def _volumes(node: Node, folder: str) -> Node:
    nodes: list[Node] = []
    for each in listed(node):
        if isinstance(each, Scalar) and each.text.startswith(_PATHS[0]):
            source, colon, rest = each.text.partition(":")
            nodes.append(replace(each, text=f"./{joined(folder, source)}{colon}{rest}"))
        elif isinstance(each, Mapping):
            nodes.append(_with_path(each, "source", folder))
        else:
            nodes.append(each)
    return Items(tuple(nodes), node.line)


def _with_path(node: Mapping, name: str, folder: str) -> Mapping:
    """With the path under a key joined; of a volume's source that is the name of one, it stays."""
    entries: list[tuple[Scalar, Node]] = []
    for key, each in node.entries:
        path = isinstance(each, Scalar) and key.text == name and (name == "path" or each.text.startswith("."))
        if path and isinstance(each, Scalar):
            prefix = "" if name == "path" else "./"
            entries.append((key, replace(each, text=f"{prefix}{joined(folder, each.text)}")))
        else:
            entries.append((key, each))
    return Mapping(tuple(entries), node.line)
