"""``source FILE``, ``. FILE``: variables that a further file of a shell sets for the rest of the text."""

from __future__ import annotations

from itertools import pairwise

from canserve.recipes.draft import Draft
from canserve.recipes.further import HERE, Place, wanted
from canserve.recipes.shell import CHANGES, Simple, simple_commands
from canserve.recipes.trouble import MAX_NESTED
from canserve.subjects.recipe import Said

SOURCES = frozenset({"source", "."})
_TESTS = frozenset({"test", "[", "[["})
_PRESENT = frozenset({"-f", "-e", "-r", "-s"})
_ENVIRONMENTS = ("/bin/activate", "/etc/profile", "/.bashrc", "/conda.sh")
"""Files of the machine that choose programs and name no model."""


def tested(simple: Simple) -> frozenset[str]:
    """Files of which a command asks whether they are there."""
    words = [word.value for word in simple.words]
    if not words or words[0] not in _TESTS:
        return frozenset()
    return frozenset(name for sign, name in pairwise(words) if sign in _PRESENT)


def sourced(
    simple: Simple, tests: frozenset[str], draft: Draft, place: Place = HERE, depth: int = 0
) -> dict[str, Said]:
    """What a further file sets and exports; its other variables are the scope's from here on.

    ``tests``: files that were asked for just before: what depends on one of them being there is certain.
    """
    name, line = simple.words[1].value, simple.words[0].line
    draft.word(simple.words[0].value, name, line, "used")
    if name.endswith(_ENVIRONMENTS):
        return {}
    file = wanted(name, line, simple.words[0].value, required=name not in tests)
    text = draft.files.text(file, place)
    if text is None or depth > MAX_NESTED:
        return {}
    before = dict(draft.scope.variables)
    exported = _read(text, Simple(simple.words[1:2], {}, line), draft, place, depth)
    changed = [name for name, value in draft.scope.variables.items() if before.get(name) != value]
    if not simple.certain and name not in tests:
        for each in changed:
            draft.scope.variables.pop(each, None)
            draft.scope.doubtful.add(each)
        return {}
    return exported


def _read(text: str, named: Simple, draft: Draft, place: Place, depth: int) -> dict[str, Said]:
    """Everything of it stands on the line that names it."""
    path, line = named.words[0].value, named.line
    exported: dict[str, Said] = {}
    for each in simple_commands(text, line, draft.scope, lined=False):
        if each.words and each.words[0].value in SOURCES and len(each.words) > 1:
            exported |= sourced(each, frozenset(), draft, place, depth + 1)
            continue
        for name, said in each.assigned.items() if not each.words else ():
            value = draft.variable(name, said.value, line).value
            exported[name] = Said(value, line, path)
            draft.key(f"{path}: {name}", value, line, "used")
        if each.words and each.words[0].value not in CHANGES:
            draft.key(f"{path}: {each.words[0].value}", "", line, "unknown")
    return exported
