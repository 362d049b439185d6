"""``recipes``: every recipe of a repository, each judged as ``check --recipe`` judges one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from canserve.api import Options, Report, SpecError, check
from canserve.api.recipes import OpenModelError, builds_of, load, model_of, options_with, with_table
from canserve.recipes.trouble import RecipeError, UnknownFormError
from canserve.verdict import No, Unknown, Verdict, Word, word

ENDINGS = frozenset({".yaml", ".yml", ".sh", ".env", ".container", ".service", ".bash"})
"""Of files in a folder that may be recipes."""
MOST_FILES = 2000
"""That are looked at in one folder."""
_ORDER: tuple[Word, ...] = ("no", "unknown", "yes")


@dataclass(frozen=True, slots=True)
class RecipeReport:
    """One file. Exactly one of ``report``, ``problem`` and ``passed_over`` says something."""

    file: str
    report: Report | None = None
    problem: str = ""
    """Why it cannot be read, or nothing can be asked of it."""
    left_open: bool = False
    """Whether it only does not say what would have to be asked."""
    hint: str = ""
    line: int = 1
    passed_over: str = ""
    """Why it is no recipe."""

    @property
    def word(self) -> Word | None:
        """None: it is no recipe."""
        if self.report is not None:
            return word(self.report.verdict)
        return word(self.trouble) if self.problem else None

    @property
    def trouble(self) -> Verdict:
        """The problem as a verdict."""
        return Unknown(self.problem, self.hint) if self.left_open else No(self.problem, self.hint)


def check_recipes(
    paths: Sequence[str], on: str | None = None, options: Options | None = None
) -> tuple[RecipeReport, ...]:
    """Every recipe among files and below folders. Raises SpecError for a path that is not there."""
    options = options or Options()
    return tuple(_checked(file, root, on, options) for file, root in _files(paths))


def worst_of(reports: Sequence[RecipeReport]) -> Word:
    """A yes where there is no recipe at all: nothing is wrong with what is not there."""
    words = [found for report in reports if (found := report.word) is not None]
    return min(words, key=_ORDER.index, default="yes")


def _checked(file: str, root: str | None, on: str | None, options: Options) -> RecipeReport:
    if options.progress is not None:
        options.progress(f"checking {file}")
    try:
        loaded = load((file,), root=root)
    except SpecError as error:
        match error.__cause__:
            case UnknownFormError():
                return RecipeReport(file, passed_over="no form of recipe that is known")
            case RecipeError() as cause:
                return RecipeReport(file, problem=str(error), hint=error.hint, line=cause.line or 1)
            case _:
                return RecipeReport(file, problem=str(error), hint=error.hint)
    if loaded.recipe.engine is None and loaded.recipe.model is None:
        return RecipeReport(file, passed_over=f"{loaded.recipe.form}: it starts no engine that is known")
    try:
        builds = builds_of(loaded, (), (on,) if on else ())
        loaded = with_table(loaded, builds, options)
        model = model_of(loaded.recipe, None)
        asked = options_with(replace(options, recent={}), loaded.recipe)
        return RecipeReport(file, report=check(model, builds, on=on, options=asked))
    except OpenModelError as error:
        line = loaded.recipe.model.line if loaded.recipe.model is not None else 1
        return RecipeReport(file, problem=str(error), hint=error.hint, line=line, left_open=True)
    except SpecError as error:
        return RecipeReport(file, problem=str(error), hint=error.hint)


def _files(paths: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Each with the folder that was named, below which files that it refers to are read."""
    for path in dict.fromkeys(paths):
        if not Path(path).exists():
            raise SpecError(f"{path}: no such file or folder")
        if Path(path).is_dir():
            yield from ((file, path) for file in _below(path))
        else:
            yield path, None


def _below(folder: str) -> Iterator[str]:
    """Files of a folder that may be recipes, by name; what is hidden and what is a link stays out."""
    count = 0
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(where, name)
            fits = path.suffix.lower() in ENDINGS and not name.startswith(".")
            if not fits or path.is_symlink() or not path.is_file():
                continue
            count += 1
            if count > MOST_FILES:
                raise SpecError(f"{folder}: more than {MOST_FILES} files", "name the folder of the recipes")
            yield str(path)
