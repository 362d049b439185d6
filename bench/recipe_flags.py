"""Writes ``rules/recipe_flags.toml`` anew: how many words each flag takes, where the indexed releases agree.

python bench/recipe_flags.py > src/canserve/rules/recipe_flags.toml
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from canserve.facts import Known
from canserve.index import indexed_build, projects, release_history
from canserve.recipes.arity import Arity
from canserve.rules.recipes import servers

RELEASES = 40
"""The newest of each engine that are asked."""
WIDTH = 110


def main() -> None:
    """Print the table."""
    history = release_history()
    engines = [each for each in projects() if any(s.engine == each and s.positional for s in servers())]
    shelves = {engine: shelf for engine in engines if (shelf := history.shelf(engine)) is not None}
    days = max(str(shelf.built) for shelf in shelves.values())
    print(
        "# How many words belong to a flag, for engines whose model may stand behind flags: `none`, `one`, `several`."
    )
    print(
        f"# Written by bench/recipe_flags.py; what releases disagree on is left out.\n\nupdated = {days[:10]}\n"
    )
    print("[sources]")
    found = {engine: list(_releases(engine)) for engine in shelves}
    for engine, releases in found.items():
        if releases:
            newest, oldest = releases[-1][0], releases[0][0]
            print(
                f'{engine} = "the argument parsers of {engine} {oldest} to {newest}, as the release index has them"'
            )
    for engine, releases in found.items():
        if releases:
            print(f'\n[[takes]]\nengine = "{engine}"')
            _row(releases)
            print(f'source = "{engine}"')


def _releases(engine: str) -> Iterator[tuple[str, Arity]]:
    shelf = release_history().shelf(engine)
    for release in list(shelf.releases)[-RELEASES:] if shelf else ():
        build = indexed_build(engine, release["version"])
        if isinstance(build, Known) and isinstance(build.value.flags, Known) and build.value.flags.value:
            yield release["version"], Arity.in_build(build.value.flags.value)


def _row(releases: list[tuple[str, Arity]]) -> None:
    counts: dict[str, set[str]] = {}
    for _, arity in releases:
        for flag, count in arity.counts.items():
            counts.setdefault(flag, set()).add(count)
    for count in ("none", "one", "several"):
        flags = sorted(flag for flag, said in counts.items() if said == {count})
        print(f"{count} = [")
        line = "   "
        for flag in flags:
            word = f" {json.dumps(flag)},"
            if len(line) + len(word) > WIDTH:
                print(line)
                line = "   "
            line += word
        print(f"{line}\n]" if line.strip() else "]")


if __name__ == "__main__":
    main()
