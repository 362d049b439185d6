"""All services of a compose project: those of the file, of what it includes and what lies over it, with what they extend."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from posixpath import basename

from canserve.recipes.draft import Account, Draft
from canserve.recipes.forms.compose_merge import listed, merged, rebased
from canserve.recipes.further import Place, folder_of, joined, wanted
from canserve.recipes.options import further_tree
from canserve.recipes.trouble import MAX_NESTED
from canserve.recipes.variable_texts import compose_variables
from canserve.recipes.variables import expanded
from canserve.recipes.yaml_tree import Items, Mapping, Node, Scalar, leaves, moved
from canserve.rules.recipes import is_secret
from canserve.subjects.recipe import Further

ENV = ".env"
INCLUDE = "include"
_NAMES = ("compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml")
"""Names under which compose finds a file without being told, and with it the one that lies over it."""
_COST = 20
"""Characters that a value counts for which another service or file gives to a service."""


@dataclass(frozen=True, slots=True)
class Service:
    """One service, whole."""

    name: str
    node: Mapping
    variables: dict[str, str] = field(default_factory=dict)
    """What the ``.env`` of an included file sets."""


class Project:
    """The files of a project, each with the account of its keys."""

    def __init__(self, tree: Mapping, draft: Draft) -> None:
        self._draft = draft
        self.files: dict[str, tuple[Mapping, Account]] = {"": (tree, Account(tree))}

    def services(self) -> Iterator[Service]:
        """Every service, with what it extends and what lies over it."""
        tree, account = self.files[""]
        over = self._override()
        services, above = _services(tree), _services(over)
        for key, node in services.entries:
            whole = self._whole("", key.text, node, frozenset())
            upper = above.get(key.text)
            yield Service(key.text, merged(whole, upper) if isinstance(upper, Mapping) else whole)
        yield from (
            Service(key.text, node)
            for key, node in above.entries
            if isinstance(node, Mapping) and services.get(key.text) is None
        )
        included = tree.get("include")
        if included is not None:
            account.use("include")
            for each in listed(included):
                yield from self._included(each)

    def variables(self, name: str, line: int, folder: str = "", required: bool = False) -> dict[str, str]:
        """What ``.env`` sets for the text of the files; secrets are known to be set, and not kept."""
        draft = self._draft
        path = joined(folder, name)
        text = draft.files.text(wanted(name, line, "variables of compose", required), Place(folder))
        found: dict[str, str] = {}
        for one in compose_variables(text or "", draft.scope, line):
            secret = is_secret(one.name)
            draft.key(
                f"{path}: {one.name}", draft.variable(one.name, one.value, one.line).value, one.line, "used"
            )
            if secret:
                draft.scope.secret.add(one.name)
            else:
                found[one.name] = one.value
        return found

    def settle(self, used: tuple[str, ...]) -> None:
        """All keys of all files. ``used``: those of a service that decide something."""
        for path, (tree, account) in self.files.items():
            if path:
                for service, node in _services(tree).entries:
                    for key, _ in node.entries if isinstance(node, Mapping) else ():
                        (account.use if key.text in used else account.aside)(
                            "services", service.text, key.text
                        )
                for key, _ in tree.entries:
                    if key.text not in ("services", "include"):
                        account.aside(key.text)
            account.settle(self._draft, f"{path}: " if path else "")

    def _override(self) -> Mapping | None:
        """The file that compose lays over one that it finds by its usual name."""
        name = basename(self._draft.name)
        if name not in _NAMES:
            return None
        stem, _, ending = name.rpartition(".")
        for each in (f"{stem}.override.{ending}", f"{stem}.override.{'yml' if ending == 'yaml' else 'yaml'}"):
            path = self._opened(wanted(each, 1, "laid over this file", required=False, decides=True))
            if path is not None:
                there = moved(self.files[path][0], 1, path)
                return there if isinstance(there, Mapping) else None
        return None

    def _opened(self, file: Further, folder: str = "") -> str | None:
        """A further file by its path; None: it is not known."""
        draft, path = self._draft, joined(folder, file.path)
        text = draft.files.text(file, Place(folder))
        if text is None:
            return None
        if path not in self.files:
            tree = further_tree(text, replace(file, path=path), draft.files)
            if tree is None:
                return None
            self.files[path] = tree, Account(tree)
        return path

    def _whole(self, path: str, name: str, node: Node, seen: frozenset[tuple[str, str]]) -> Mapping:
        """A service with what it extends, its lines those of its own file."""
        if not isinstance(node, Mapping):
            return Mapping((), node.line)
        extends = node.get("extends")
        node = rebased(node, folder_of(path))
        service = extends.get("service") if isinstance(extends, Mapping) else extends
        if not isinstance(service, Scalar) or extends is None:
            return node
        self.files[path][1].use("services", name, "extends")
        named = extends.get("file") if isinstance(extends, Mapping) else None
        other = path
        if isinstance(named, Scalar):
            file = wanted(self._text(named), extends.line, f"extends of {name}", decides=_matters(node))
            opened = self._opened(file, folder_of(path))
            if opened is None:
                return node
            other = opened
        base = self._base(other, service, seen)
        if base is None:
            return node
        self._draft.scope.grow(_COST * sum(1 for _ in leaves(base)), extends.line)
        if other != path:
            base = self._moved(base, extends.line, other)
        return merged(base, node)

    def _base(self, path: str, service: Scalar, seen: frozenset[tuple[str, str]]) -> Mapping | None:
        found = _services(self.files[path][0]).get(service.text)
        if (path, service.text) in seen or len(seen) > 4 * MAX_NESTED:
            self._draft.refuse(
                service.text, self._line(service, path), "it extends itself, or too many others"
            )
            return None
        if found is None:
            self._draft.refuse(
                service.text, self._line(service, path), "it extends a service that is not there"
            )
            return None
        return self._whole(path, service.text, found, seen | {(path, service.text)})

    def _line(self, node: Scalar, path: str) -> int:
        """The line in the recipe: of what stands in another file, the first that names it."""
        at = next((file.line for file in self._draft.files.asked if file.path == path), node.line)
        return at if path else node.line

    def _moved(self, node: Mapping, line: int, path: str) -> Mapping:
        there = moved(node, line, path)
        assert isinstance(there, Mapping)
        return there

    def _included(self, entry: Node) -> Iterator[Service]:
        paths = entry.get("path") if isinstance(entry, Mapping) else entry
        sets = entry.get("env_file") if isinstance(entry, Mapping) else None
        for each in listed(paths) if paths is not None else ():
            if not isinstance(each, Scalar):
                continue
            path = self._opened(wanted(self._text(each), each.line, INCLUDE, decides=True))
            if path is None:
                continue
            tree, folder = self.files[path][0], folder_of(path)
            if isinstance(tree.get("include"), Scalar | Items):
                self._draft.note(f"line {each.line}: what {path} includes in turn is not read")
            variables: dict[str, str] = {}
            for one in listed(sets) if sets is not None else ():
                if isinstance(one, Scalar):
                    variables |= self.variables(self._text(one), one.line, required=True)
            if sets is None and folder:
                variables = self.variables(ENV, each.line, folder)
            self._draft.scope.grow(_COST * sum(1 for _ in leaves(tree)), each.line)
            for key, node in _services(tree).entries:
                whole = self._moved(self._whole(path, key.text, node, frozenset()), each.line, path)
                yield Service(key.text, whole, variables)

    def _text(self, node: Scalar) -> str:
        return expanded(node.text, node.line, self._draft.scope)


def _services(tree: Mapping | None) -> Mapping:
    found = tree.get("services") if tree is not None else None
    return found if isinstance(found, Mapping) else Mapping((), 1)


def _matters(node: Mapping) -> bool:
    """Whether what a service extends decides what it serves: it does not say all of it itself."""
    return node.get("image") is None or node.get("command", "entrypoint") is None
