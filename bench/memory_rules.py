"""Look the memory rules' forms up in every release: is `since` the first one that has them?

    python bench/memory_rules.py ENGINE FOLDER

FOLDER holds the engine's wheels (or archives of their sources), one a release, named `VERSION.zip` or as pip names
wheels. Prints every row whose form is found in an earlier release, or is not found in the release it names.
"""

from __future__ import annotations

import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from packaging.version import InvalidVersion, Version

from canserve.rules.memory import Rule, every

FOLDERS = {"sglang": "sglang/srt", "llama.cpp": "vendor/llama.cpp"}
"""Where an engine's files lie in its archives, if not under its own name."""


def releases(folder: Path) -> Iterator[tuple[Version, Path]]:
    """Every archive whose name tells a version, oldest first."""
    found = []
    for path in folder.iterdir():
        name = path.stem.split("-")[1] if path.stem.count("-") >= 2 else path.stem
        if path.suffix in {".zip", ".whl"}:
            try:
                found.append((Version(name), path))
            except InvalidVersion:
                continue
    yield from sorted(found)


def matches(archive: zipfile.ZipFile, names: frozenset[str], package: str, rule: Rule) -> bool:
    """Whether one of the rule's files holds its form."""
    for file in rule.files:
        name = f"{package}/{file}"
        if name in names and re.search(rule.form, archive.read(name).decode("utf-8", "replace")):
            return True
    return False


def main(engine: str, folder: Path) -> int:
    """Print what does not hold; 1 when something does not."""
    package = FOLDERS.get(engine, engine)
    first: dict[tuple[str, str], Version] = {}
    looked = []
    for version, path in releases(folder):
        looked.append(version)
        with zipfile.ZipFile(path) as archive:
            names = frozenset(archive.namelist())
            for fact, rows in every(engine).items():
                for rule in rows:
                    if (
                        rule.form
                        and (fact, rule.since) not in first
                        and matches(archive, names, package, rule)
                    ):
                        first[fact, rule.since] = version
    wrong = 0
    for fact, rows in every(engine).items():
        for rule in rows:
            found = first.get((fact, rule.since))
            if rule.form and rule is not rows[0] and found != Version(rule.since):
                wrong += 1
                print(f"{fact} {rule.since}: first found in {found}")
    rows_looked = sum(len(rows) for rows in every(engine).values())
    print(f"{engine}: {len(looked)} releases, {rows_looked} rows, {wrong} that do not hold")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
