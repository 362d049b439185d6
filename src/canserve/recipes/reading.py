"""A text in, a recipe out: which form it has, and its reader. Nothing is executed, opened or fetched."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from canserve.facts import Fact
from canserve.recipes.arity import Arity
from canserve.recipes.around import Around
from canserve.recipes.commands import script
from canserve.recipes.draft import Draft, finished
from canserve.recipes.forms import (
    compose,
    dockerfile,
    kubernetes,
    model_pages,
    options_file,
    ray_serve,
    sparkrun,
    stack_values,
    tasks,
    units,
    variables_file,
)
from canserve.recipes.further import Files
from canserve.recipes.servers import suspicious
from canserve.recipes.trouble import MAX_CHARACTERS, RecipeError, UnknownFormError
from canserve.recipes.yaml_tree import Mapping as Keys
from canserve.recipes.yaml_tree import documents
from canserve.subjects.recipe import Recipe

COMMANDS = "command line"
_YAML_NAMES = (".yaml", ".yml", ".json")
_PAGES = (".md", ".markdown")
_FENCE = re.compile(r"\s{0,12}(```+|~~~+)\s*([\w+-]*)")
_SHELLS = frozenset({"", "bash", "sh", "shell", "console", "text", "zsh"})
_UNIT_NAMES = (".service", ".container")
_KEY = re.compile(r"""(?:["']?[A-Za-z_][\w .-]{0,60}["']?\s*:(?:\s|$)|---|\{)""")
_TEMPLATE = re.compile(r"^\s*\{\{-?\s|:\s*\{\{-?\s*[.$a-z]", re.MULTILINE)
_COMMENT = re.compile(r"(?:^|\s)#(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Beside:
    """What is known beside a recipe's text."""

    variables: Mapping[str, str] = field(default_factory=dict)
    """What files of variables set that the user named."""
    files: Mapping[str, Fact[str | None]] = field(default_factory=dict)
    """Further files that it refers to, by their path from its folder on. ``Recipe.files`` says which are asked for."""
    arity: Arity | None = None
    """How many values the build's own flags take; None: what the rules know."""


def read_recipe(text: str, name: str = "-", beside: Beside | None = None, part: str | None = None) -> Recipe:
    """The recipe in a text. ``name``: of its file, which may tell the form.

    ``part``: of several servers or variants the one that is meant. Raises RecipeError where nothing can be read.
    """
    beside = beside or Beside()
    if len(text) > MAX_CHARACTERS:
        raise RecipeError(f"longer than {MAX_CHARACTERS} characters")
    if "\0" in text or "\1" in text:
        raise RecipeError("not a text: it holds zeros")
    text = text.removeprefix("\ufeff")
    draft = Draft(name, lines=tuple(text.splitlines()), files=Files(beside.files), arity=beside.arity)
    draft.scope.variables.update(beside.variables)
    _read(text, name, part, draft)
    recipe = finished(draft, part)
    if part is not None and not any(part in (each.name, str(each.line)) for each in recipe.commands):
        _refuse_part(recipe, part)
    return _checked(recipe, draft)


def _read(text: str, name: str, part: str | None, draft: Draft) -> None:
    lower = name.lower()
    if lower.endswith(_PAGES):
        text = _commands_of(text)
    if lower.endswith(_UNIT_NAMES) or units.is_unit(text):
        units.read(text, draft)
    elif dockerfile.is_dockerfile(text):
        dockerfile.read(text, draft)
    elif lower.endswith(_YAML_NAMES) or _KEY.match(_first_line(text)):
        _document(text, part, draft)
    elif lower.endswith(".env") or variables_file.is_variables(text):
        variables_file.read(text, draft)
    else:
        draft.form, draft.spoken = COMMANDS, True
        _comments(text, draft)
        script(text, 1, Around(), draft)


def _document(text: str, part: str | None, draft: Draft) -> None:
    """YAML, or JSON."""
    try:
        trees = tuple(tree for tree in documents(text) if isinstance(tree, Keys))
    except RecipeError as error:
        if _TEMPLATE.search(text):
            why = "a template, and no document yet: render it first (helm template)"
            raise RecipeError(why, error.line) from error
        raise
    if not trees:
        raise RecipeError("a document without keys")
    tree = trees[0]
    _comments(text, draft)
    if any(map(kubernetes.is_manifest, trees)):
        kubernetes.read(trees, draft)
        return
    if len(trees) > 1:
        draft.note("only the first document is read")
    if compose.is_compose(tree):
        compose.read(tree, draft)
    elif ray_serve.is_applications(tree):
        ray_serve.read_file(tree, draft)
    elif stack_values.is_values(tree):
        stack_values.read(tree, draft)
    elif tasks.form_of(tree) is not None:
        tasks.read(tree, draft)
    elif model_pages.is_model_page(tree):
        model_pages.read(tree, draft, part)
    elif sparkrun.is_sparkrun(tree):
        sparkrun.read(tree, draft)
    elif options_file.is_options(tree):
        options_file.read(tree, draft)
    else:
        names = ", ".join(key.text[:40] for key, _ in tree.entries[:6])
        raise UnknownFormError(f"no form of recipe that is known; its keys: {names or 'none'}")


def _comments(text: str, draft: Draft) -> None:
    """Comments may state a release."""
    for found in _COMMENT.finditer(text):
        draft.says(found[1], 1 + text.count("\n", 0, found.start(1)))


def _commands_of(text: str) -> str:
    """A page without anything but its blocks of commands, each line where it was."""
    kept: list[str] = []
    fence, commands = "", False
    for line in text.splitlines():
        found = _FENCE.match(line)
        if found is not None and (not fence or found[1].startswith(fence)):
            fence, commands = ("", False) if fence else (found[1], found[2].lower() in _SHELLS)
            kept.append("")
        else:
            kept.append(line if fence and commands else "")
    return "\n".join(kept)


def _first_line(text: str) -> str:
    lines = (line for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("#", "%")))
    return next(lines, "")


def _refuse_part(recipe: Recipe, part: str) -> None:
    servers = [each.name or str(each.line) for each in recipe.commands if each.engine is not None]
    raise RecipeError(f"it has no server {part!r:.60}; there are: {', '.join(servers) or 'none'}")


def _checked(recipe: Recipe, draft: Draft) -> Recipe:
    """With what a shell would execute in the model's name refused."""
    from dataclasses import replace

    model = recipe.model
    if model is None or any(one.what in model.value for one in recipe.open):
        return recipe
    sign = suspicious(model.value)
    if sign is None:
        return recipe
    draft.refuse(
        model.value, model.line, f"the model's name holds {sign!r}, which a shell would execute or expand"
    )
    return replace(recipe, refused=tuple(draft.scope.refused))
