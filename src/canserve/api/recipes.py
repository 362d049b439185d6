"""Recipes as questions: files in, what they say about model, build, flags and layout out."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from canserve.api import Options, SpecError, open_build, read_wish, with_routes
from canserve.api.planning import Asked
from canserve.api.recipe_files import Reach, whole
from canserve.api.wished import UpWishes, completed
from canserve.checks.wish import is_flag
from canserve.facts import Missing
from canserve.layout import Fixed
from canserve.plan.export import carrying
from canserve.plan.export.exported import Exported
from canserve.plan.wishes import Wishes, read_option
from canserve.probes.toml_file import file_bytes
from canserve.recipes.arity import Arity
from canserve.recipes.reading import Beside, read_recipe
from canserve.recipes.trouble import RecipeError
from canserve.rules.recipes import config_flags, has_pairs, place_flags, short
from canserve.subjects.build import Want
from canserve.subjects.recipe import HIDDEN, Recipe, Said

STDIN = "-"
MAX_BYTES = 1 << 20
HUB = "docker.io"
_HOST = re.compile(r"[^/]*[.:][^/]*|localhost")
_PROGRAM = re.compile(r"(/[^\s$%{}]+)/bin/[^/\s]+")
_SYSTEM = frozenset({"/usr", "/usr/local"})
"""Folders of programs that are no environment of their own."""
_FILES = (".env",)


@dataclass(frozen=True, slots=True)
class Given:
    """What a recipe was read from, kept to read it again when more is known."""

    texts: Mapping[str, str]
    """By file, the recipe's own first."""
    part: str | None = None
    root: str | None = None


@dataclass(frozen=True, slots=True)
class Loaded:
    """A recipe, and the plan that it carries where it is an export that nobody edited since."""

    recipe: Recipe
    exported: Exported | None = None
    given: Given | None = None


def load(files: Sequence[str], part: str | None = None, root: str | None = None) -> Loaded:
    """The recipe in a file, ``-`` for standard input.

    Further files are those that it refers to, and ``.env`` files that set variables for it. What else it refers to is
    read in its own folder tree, or below ``root``. Raises SpecError, with the line where there is one.
    """
    texts = {name: _text(name) for name in files}
    main = next((name for name in files if not name.lower().endswith(_FILES)), files[0])
    return _loaded(Given({main: texts.pop(main), **texts}, part, root))


def _loaded(given: Given, arity: Arity | None = None) -> Loaded:
    (main, text), *rest = given.texts.items()
    others = dict(rest)
    sets = [name for name in others if name.lower().endswith(_FILES)]
    root = None if given.root is None else Path(given.root)
    reach = Reach(None if main == STDIN else Path(main).parent, root, others)
    variables: dict[str, str] = {}
    for name in sets:
        variables |= _variables(others[name])
    recipe = whole(lambda known: _read(text, main, Beside(variables, known, arity), given.part), reach)
    if strange := [name for name in others if name not in sets and name not in reach.used]:
        raise SpecError(
            f"{main} and {strange[0]} are two recipes",
            "one recipe, files that it refers to, and .env files that set its variables",
        )
    carried = carrying.read(text)
    if carried is not None and carried.form is None:
        edited = "it carries a plan, and was edited since: its own words are read"
        recipe = replace(recipe, notes=(*recipe.notes, edited))
    for one in (_read(others[name], name, Beside(), None) for name in sets):
        recipe = replace(
            recipe,
            machines=recipe.machines or one.machines,
            environment={**one.environment, **recipe.environment},
            keys=(*recipe.keys, *(replace(key, path=f"{one.name}: {key.path}") for key in one.keys)),
        )
    kept = carried is not None and carried.form is not None
    return Loaded(recipe, carried.exported if carried is not None and kept else None, given)


def with_table(it: Loaded, builds: Sequence[str], options: Options) -> Loaded:
    """The same, where its model stands behind flags: the first build's own table says which words are theirs."""
    recipe = it.recipe
    if recipe.after_flags is None or it.given is None or not builds:
        return it
    build = open_build(builds[0], Want(flags=True), with_routes(options, ()), options.arch).build
    if isinstance(build, Missing) or isinstance(build.flags, Missing):
        return it
    return _loaded(it.given, Arity.in_build(build.flags.value, recipe.engine or ""))


def _variables(text: str) -> Mapping[str, str]:
    from canserve.recipes.draft import Draft
    from canserve.recipes.forms.variables_file import read

    draft = Draft(STDIN)
    read(text, draft)
    return draft.scope.variables


def _read(text: str, name: str, beside: Beside, part: str | None) -> Recipe:
    try:
        return read_recipe(text, name, beside, part)
    except RecipeError as error:
        raise SpecError(f"{name}: {error}", "canserve check --help names what recipes can be") from error


def _text(name: str) -> str:
    data = sys.stdin.buffer.read(MAX_BYTES + 1) if name == STDIN else file_bytes(Path(name), SpecError)
    if len(data) > MAX_BYTES:
        raise SpecError(f"{name}: larger than {MAX_BYTES} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SpecError(f"{name}: not UTF-8") from error


class OpenModelError(SpecError):
    """The recipe leaves open which model it serves: that is no fault of it."""


def model_of(recipe: Recipe, named: str | None) -> str:
    """The model that is asked about: the one that is named, else the recipe's. Raises SpecError."""
    if named is not None:
        return named
    model = recipe.model
    if model is None:
        why = "no model is named in it"
        if (word := recipe.after_flags) is not None:
            why = (
                f"line {word.line}: {word.value[:80]!r} is the model, or belongs to the flag before it: how many values "
                "that takes is not known"
            )
        raise OpenModelError(f"{recipe.name}: {why}", "name it: canserve check MODEL --recipe FILE")
    faults = [(one.what, one.line, one.why, SpecError) for one in recipe.refused]
    faults += [(one.what, one.line, one.why, OpenModelError) for one in recipe.open]
    for what, line, why, kind in faults:
        if what in model.value:
            raise kind(
                f"{recipe.name}, line {line}: the model is {model.value[:80]}: {why}",
                "name it: canserve check MODEL --recipe FILE",
            )
    return _outside(recipe, model.value)


def _outside(recipe: Recipe, model: str) -> str:
    """A path of a container as it is outside, where a folder that the recipe shares holds it."""
    for mount in recipe.mounts:
        target = mount.target.rstrip("/")
        if (
            target
            and (model == target or model.startswith(f"{target}/"))
            and mount.source[:1] in ("/", ".", "~")
        ):
            source = Path(mount.source).expanduser()
            beside = Path() if recipe.name == STDIN else Path(recipe.name).parent
            return str(beside / source) + model[len(target) :]
    return str(Path(model).expanduser()) if model.startswith("~/") else model


def builds_of(it: Loaded, named: Sequence[str], on: Sequence[str] = ()) -> tuple[str, ...]:
    """The builds that are asked about: those that are named, else the recipe's image or release; else none."""
    if named:
        return tuple(named)
    if it.exported is not None:
        return (it.exported.build,)
    recipe, image = it.recipe, it.recipe.image
    if image is not None and not any(one.what in image.value for one in recipe.open):
        return (_image(image, recipe.held, on),)
    if recipe.requirement is not None:
        return (recipe.requirement.value,)
    folder = _folder(recipe)
    machine = _machine(on)
    return () if folder is None else (f"{machine}:{folder}" if machine else folder,)


def _folder(recipe: Recipe) -> str | None:
    """The environment whose program is started by its path; None: it is not told."""
    server = next((each for each in recipe.commands if each.engine == recipe.engine), None)
    found = _PROGRAM.fullmatch(server.argv[0].value) if server is not None and server.argv else None
    return found[1] if found and found[1] not in _SYSTEM else None


def _machine(on: Sequence[str]) -> str | None:
    """The first machine that can be looked at by its name."""
    named = (
        each
        for each in on
        if not each.startswith("profile:") and not each.endswith(".toml") and each != "local"
    )
    return next(named, None)


def _image(image: Said, held: bool, on: Sequence[str]) -> str:
    """As builds are named: in a registry, or where it is built and runs."""
    name = image.value.removeprefix("docker://")
    first, slash, _ = name.partition("/")
    if held or not slash:
        machine = _machine(on)
        return f"docker-daemon:{name}" + (f"@{machine}" if machine else "")
    return f"docker://{name}" if _HOST.fullmatch(first) else f"docker://{HUB}/{name}"


def machines_of(it: Loaded, named: Sequence[str]) -> tuple[str, ...]:
    """Machines that are named, else the recipe's own."""
    if named:
        return tuple(named)
    if it.exported is not None:
        return tuple(site.name for site in it.exported.sites)
    return tuple(dict.fromkeys(said.value for said in it.recipe.machines))


def options_with(options: Options, recipe: Recipe) -> Options:
    """The same question with the recipe's flags; those of the user come later, and so count."""
    return replace(options, flags=(*_settled(recipe), *options.flags), recipe=recipe)


def _settled(recipe: Recipe) -> tuple[str, ...]:
    """The flags whose values are known; of the others ``recipe-resolved`` tells, and of stray words nothing can be told."""
    left = tuple(one.what for one in recipe.open if one.decides)
    groups: list[list[str]] = []
    for word in recipe.flags:
        if is_flag(word):
            groups.append([word])
        elif groups:
            groups[-1].append(word)
    known = (group for group in groups if not any(what in word for what in left for word in group))
    return tuple(word for group in known for word in group)


def overruled(it: Loaded, model: str | None, builds: Sequence[str]) -> Loaded:
    """The recipe without what it leaves open where the user names that: the model, or builds."""
    recipe = it.recipe
    named = {where for where, said in (("the model", model), ("the image", builds)) if said}
    left = tuple(replace(one, decides=one.decides and one.where not in named) for one in recipe.open)
    told = recipe.model.value if recipe.model is not None and model is not None else None
    refused = tuple(one for one in recipe.refused if one.what != told)
    return replace(it, recipe=replace(recipe, open=left, refused=refused))


def asked_with(asked: Asked, options: Options, it: Loaded) -> tuple[Asked, Options]:
    """What plans are asked for, with what the recipe says of it. Raises SpecError."""
    on = machines_of(it, asked.on)
    wishes, left = wishes_with(asked.wishes, it)
    recipe = it.recipe
    if left:
        recipe = replace(recipe, notes=(*recipe.notes, f"a plan writes for itself: {', '.join(left)}"))
    asked = replace(asked, on=on, builds=builds_of(it, asked.builds, on), wishes=wishes)
    return asked, replace(options, recipe=recipe)


def up_with(
    what: str | None, wishes: UpWishes, options: Options, it: Loaded
) -> tuple[str, UpWishes, Options]:
    """What ``up`` starts, with what the recipe says of it: an export as it is, else what is planned of its words.

    Values of secrets are not kept: their variables are expected of the logins there. Raises SpecError.
    """
    recipe = it.recipe
    if it.exported is not None and recipe.name != STDIN and what is None:
        return recipe.name, completed(recipe.name, wishes), options
    model = model_of(recipe, what)
    asked, options = asked_with(wishes.asked or Asked(()), options, it)
    said = {name: each.value for name, each in recipe.environment.items()}
    left = {one.where for one in recipe.open}
    plain = tuple(f"{n}={v}" for n, v in said.items() if v != HIDDEN and n not in left)
    hidden = tuple(name for name, value in said.items() if value == HIDDEN)
    mounts = tuple(
        f"{each.source}:{each.target}:{'ro' if each.readonly else 'rw'}"
        for each in recipe.mounts
        if each.source.startswith("/") and each.target.startswith("/")
    )
    return (
        model,
        replace(
            wishes,
            on=wishes.on or asked.on,
            asked=asked,
            mounts=wishes.mounts or mounts,
            environment=(*plain, *wishes.environment),
            secrets=tuple(dict.fromkeys((*hidden, *wishes.secrets))),
        ),
        options,
    )


def wishes_with(wishes: Wishes, it: Loaded) -> tuple[Wishes, tuple[str, ...]]:
    """Wishes with the recipe's degrees and engine options, and what was left out. The user's own count more.

    Raises SpecError for a degree that is none.
    """
    if it.exported is not None:
        return _exactly(wishes, it.exported), ()
    recipe = it.recipe
    from canserve.checks.asked_degrees import EVERY, degrees, named
    from canserve.checks.wish import normalized

    wish = read_wish(_settled(recipe))
    options: dict[str, object] = {}
    left: list[str] = []
    for flag, value in wish.flags.items():
        name = normalized(flag)
        long = short(recipe.engine or "").get(flag) or (name[2:] if name.startswith("--") else None)
        if name in EVERY and degrees(wish) is not None:
            continue
        if name in place_flags() or name in config_flags() or value == HIDDEN or long is None:
            left.append(name)
        elif value is None and long.startswith("no-") and has_pairs(recipe.engine or ""):
            options[long[3:].replace("-", "_")] = False
        else:
            options[long.replace("-", "_")] = True if value is None else read_option(f"x={value}")[1]
    fixed = wishes.fixed
    asked = degrees(wish)
    if asked is not None and not any((fixed.tp, fixed.pp, fixed.dp, fixed.ep)):
        spread = named(wish).spread
        fixed = Fixed(asked.tp, asked.pp, asked.dp, None if spread else asked.ep)
        wishes = replace(wishes, fixed=fixed, alone=True, spread=wishes.spread or spread)
    return replace(wishes, options={**options, **wishes.options}), tuple(left)


def _exactly(wishes: Wishes, exported: Exported) -> Wishes:
    """The plan that was exported, unless something else is asked for."""
    fixed, told = wishes.fixed, exported.placement.parallel
    if not any((fixed.tp, fixed.pp, fixed.dp, fixed.ep)):
        wishes = replace(wishes, fixed=Fixed(told.tp, told.pp, told.dp, told.ep), alone=True)
    return replace(wishes, options={**exported.options, **wishes.options})
