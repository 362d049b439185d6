"""A recipe in the making: what was found so far, and which keys of the input were understood."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from canserve.recipes.arity import Arity
from canserve.recipes.further import Files
from canserve.recipes.stated import stated_in
from canserve.recipes.variables import NOTHING, Scope
from canserve.recipes.yaml_tree import Node, Path, leaves, shown
from canserve.rules.recipes import is_secret, place_flags, runs, secret_flags, secret_words
from canserve.subjects.recipe import HIDDEN, Command, Key, Open, Recipe, Refused, Role, Said, Shared, Stated

MAX_FOLDED = 100
"""Lines of a folded text in which a flag is looked for."""
_LAST = re.compile(r"[.\s]")
MAX_SHOWN = 200
"""Characters of a key's value that are kept."""


@dataclass(slots=True)
class Draft:
    """Everything that a form's reader puts together."""

    name: str
    form: str = ""
    scope: Scope = field(default_factory=lambda: Scope(runtime=runs()))
    engine: str | None = None
    model: Said | None = None
    revision: Said | None = None
    image: Said | None = None
    held: bool = False
    requirement: Said | None = None
    machines: tuple[Said, ...] = ()
    nodes: Said | None = None
    environment: dict[str, Said] = field(default_factory=dict)
    mounts: list[Shared] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    stated: list[Stated] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)
    lines: tuple[str, ...] = ()
    """Of the input."""
    spoken: bool = False
    """Whether the input is a shell text: its words are the keys then, else those of the document."""
    files: Files = field(default_factory=Files)
    arity: Arity | None = None
    """Of the build's flags; None: the rules' knowledge of them."""
    after_flags: Said | None = None

    def located(self, words: Sequence[Said]) -> tuple[Said, ...]:
        """Words of a text whose lines were folded: each flag where it is found from the first line on."""
        found: list[Said] = []
        at = words[0].line if words else 0
        for word in words:
            if word.value.startswith("-") and len(word.value) > 1:
                near = range(at, min(at + MAX_FOLDED, len(self.lines)) + 1)
                at = next((number for number in near if word.value in self.lines[number - 1]), at)
            found.append(replace(word, line=at))
        return tuple(found)

    def word(self, path: str, value: str, line: int, role: Role) -> None:
        """Keep one word of a shell text."""
        if self.spoken:
            self.key(path, value, line, role)

    def key(self, path: str, value: str, line: int, role: Role) -> None:
        """Keep one key of the input."""
        secret = value and is_secret(_LAST.split(path)[-1])
        self.keys.append(
            Key(path, HIDDEN if secret else veiled(value[: 4 * MAX_SHOWN])[:MAX_SHOWN], line, role)
        )

    def variable(self, name: str, value: str, line: int) -> Said:
        """A variable of an environment; a secret's value is not kept."""
        return Said(HIDDEN if value and is_secret(name) else value, line)

    def leave(self, what: str, line: int, why: str) -> None:
        """Something is left open."""
        self.scope.leave(what, line, why)

    def refuse(self, what: str, line: int, why: str) -> None:
        """Something is not read."""
        one = Refused(what[:MAX_SHOWN], line, why)
        if one not in self.scope.refused:
            self.scope.refused.append(one)

    def note(self, text: str) -> None:
        """Something that the user should know."""
        if text not in self.scope.notes:
            self.scope.notes.append(text)

    def says(self, text: str, line: int, lined: bool = False) -> None:
        """A text for people, which may state a release."""
        self.stated += stated_in(text, line, lined)


class Account:
    """The values of a document, each marked as used or aside; the rest is unknown."""

    def __init__(self, tree: Node) -> None:
        self._leaves = tuple(leaves(tree))
        self._roles: dict[Path, Role] = {}

    def use(self, *path: str | int) -> None:
        """Everything below a path decides something."""
        self._roles[path] = "used"

    def aside(self, *path: str | int) -> None:
        """Everything below a path is understood and decides nothing."""
        self._roles[path] = "aside"

    def settle(self, draft: Draft, prefix: str = "") -> None:
        """Put every value among the draft's keys; the nearest mark counts."""
        for path, text, line in self._leaves:
            role: Role = "unknown"
            for length in range(len(path), -1, -1):
                if (found := self._roles.get(path[:length])) is not None:
                    role = found
                    break
            draft.key(prefix + shown(path), text, line, role)


def finished(draft: Draft, part: str | None) -> Recipe:
    """The recipe: of several servers the first, or the one named ``part``."""
    chosen = _chosen(draft, part)
    command = chosen or Command("", (), 1)
    model = command.model or draft.model
    if draft.model is not None and model is not None and model.value.startswith("/"):
        model = (
            draft.model
        )  # where it lies in the container is of no concern: the recipe says which one it is
    environment = {**draft.environment, **command.environment}
    others = any(each.engine is not None and each.image is not None for each in draft.commands)
    recipe = Recipe(
        name=draft.name,
        form=draft.form,
        engine=command.engine or draft.engine,
        model=model,
        revision=draft.revision,
        image=command.image or (None if others else draft.image),
        held=draft.held,
        requirement=draft.requirement,
        args=command.args,
        environment=environment,
        mounts=command.mounts or tuple(draft.mounts),
        machines=draft.machines,
        nodes=draft.nodes,
        stated=_each_once(draft.stated),
        commands=tuple(draft.commands),
        keys=tuple(draft.keys),
        refused=tuple(draft.scope.refused),
        notes=tuple(draft.scope.notes),
        files=tuple(draft.files.asked),
        after_flags=draft.after_flags,
    )
    return replace(recipe, open=tuple(_placed(_perhaps(one, recipe), recipe) for one in draft.scope.open))


def _perhaps(one: Open, recipe: Recipe) -> Open:
    """A variable that nothing sets may be set by a file of variables that was not read."""
    sets = [each for each in recipe.files if not each.decides and each.unread is not None]
    if one.why != NOTHING or not sets:
        return one
    names = ", ".join(f"{each.path} (line {each.line})" for each in sets)
    return replace(one, why=f"{NOTHING}, unless {names} does, which was not read")


def _each_once(stated: Iterable[Stated]) -> tuple[Stated, ...]:
    """Two looks at one line may find the same."""
    return tuple({(one.about, one.releases, one.line): one for one in stated}.values())


def _chosen(draft: Draft, part: str | None) -> Command | None:
    servers = [command for command in draft.commands if command.engine is not None]
    if part is not None:
        return next((command for command in servers if part in (command.name, str(command.line))), None)
    if len({(each.model and each.model.value, each.engine) for each in servers}) > 1:
        others = ", ".join(dict.fromkeys(each.name or f"line {each.line}" for each in servers[1:]))
        draft.note(f"it starts several servers: the first is judged; others by --part: {others}")
    return next(iter(servers), None)


def _placed(one: Open, recipe: Recipe) -> Open:
    """Where it is read, and whether that decides what is served."""
    if recipe.model is not None and one.what in recipe.model.value:
        return replace(one, where="the model", decides=True)
    if recipe.image is not None and one.what in recipe.image.value:
        return replace(one, where="the image", decides=True)
    flag, values = "", 0
    for word in recipe.args:
        values += 1
        if word.value.startswith("-"):
            flag, values = word.value.partition("=")[0], int("=" in word.value)
        if one.what in word.value:
            if values > 1 and one.what == word.value:
                flag = ""  # words of its own, behind the flag's value: any flags may be among them
            return replace(one, where=flag or "the command", decides=flag not in place_flags())
    name = next((name for name, said in recipe.environment.items() if one.what in said.value), "")
    return replace(one, where=name)


def veiled(text: str) -> str:
    """A text without the values of variables and flags that are secrets."""
    return _patterns().sub(lambda found: f"{found[1]}{HIDDEN}", text)


@cache
def _patterns() -> re.Pattern[str]:
    words = "|".join(map(re.escape, secret_words()))
    flags = "|".join(map(re.escape, secret_flags()))
    return re.compile(
        rf"((?:\b(?:[A-Za-z0-9]+_)*(?:{words})(?:_[A-Za-z0-9]+)*=|(?<!\S)(?:{flags})[= ])[\"']?)[^\s\"'$]+",
        re.IGNORECASE,
    )


def hidden(args: Iterable[Said]) -> tuple[Said, ...]:
    """Words with secrets left out."""
    flags, kept, after = secret_flags(), [], False
    for word in args:
        name, equals, _ = word.value.partition("=")
        if after and not word.value.startswith("-"):
            kept.append(Said(HIDDEN, word.line))
        elif name in flags and equals:
            kept.append(Said(f"{name}={HIDDEN}", word.line))
        else:
            kept.append(word)
        after = name in flags and not equals
    return tuple(kept)
