"""ConfigMaps and Secrets that stand beside a pod in the same manifest: variables, and files that it mounts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from canserve.recipes.yaml_tree import Items, Mapping, Node, Scalar
from canserve.subjects.recipe import HIDDEN, Said


@dataclass(slots=True)
class ConfigMaps:
    """By name, the texts of each by key."""

    maps: dict[str, dict[str, Said]] = field(default_factory=dict)
    secrets: dict[str, dict[str, Said]] = field(default_factory=dict)

    def variable(self, source: Node | None) -> Said | None:
        """What ``valueFrom`` gives; None: it is known only where the pod runs."""
        if not isinstance(source, Mapping):
            return None
        for name, known in (("configMapKeyRef", self.maps), ("secretKeyRef", self.secrets)):
            found = source.get(name)
            key = text_of(found, "key")
            if key is not None:
                return known.get(text_of(found, "name") or "", {}).get(key)
        return None

    def variables(self, node: Node | None) -> tuple[dict[str, Said], list[Said]]:
        """What ``envFrom`` gives, and the names of what is not in the manifest."""
        found: dict[str, Said] = {}
        missing: list[Said] = []
        for each in node.nodes if isinstance(node, Items) else ():
            for name, known in (("configMapRef", self.maps), ("secretRef", self.secrets)):
                named = text_of(each.get(name), "name") if isinstance(each, Mapping) else None
                if named is not None and named in known:
                    prefix = text_of(each, "prefix") or ""
                    found |= {
                        f"{prefix}{key}": Said(said.value, each.line) for key, said in known[named].items()
                    }
                elif named is not None:
                    missing.append(Said(named, each.line))
        return found, missing

    def files(self, volume: Node | None) -> dict[str, str]:
        """Texts by name that a volume holds."""
        map_ = volume.get("configMap") if isinstance(volume, Mapping) else None
        known = self.maps.get(text_of(map_, "name") or "", {})
        items = map_.get("items") if isinstance(map_, Mapping) else None
        if not isinstance(items, Items):
            return {key: said.value for key, said in known.items()}
        pairs = ((text_of(each, "key"), text_of(each, "path")) for each in items.nodes)
        return {path: known[key].value for key, path in pairs if path is not None and key in known}


def text_of(node: Node | None, name: str) -> str | None:
    """The text under a key; None: there is none."""
    found = node.get(name) if isinstance(node, Mapping) else None
    return found.text if isinstance(found, Scalar) else None


def gathered(trees: Iterable[Mapping]) -> ConfigMaps:
    """All of a file's documents; what secrets hold is not kept."""
    found = ConfigMaps()
    for tree in trees:
        name = text_of(tree.get("metadata"), "name") or ""
        if text_of(tree, "kind") == "ConfigMap":
            found.maps[name] = _data(tree.get("data"), hidden=False)
        elif text_of(tree, "kind") == "Secret":
            both = _data(tree.get("data"), hidden=True) | _data(tree.get("stringData"), hidden=True)
            found.secrets[name] = both
    return found


def _data(node: Node | None, hidden: bool) -> dict[str, Said]:
    entries = node.entries if isinstance(node, Mapping) else ()
    return {
        key.text: Said(HIDDEN if hidden else each.text, key.line)
        for key, each in entries
        if isinstance(each, Scalar)
    }
