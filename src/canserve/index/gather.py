"""Building an engine's index: every release read through the same trees and reader as ``check``.

Incremental: a release whose file (by sha256) was read by this reader version is not read again. Resumable:
what was read is kept after every release, so an interruption loses one release at most.
"""

from __future__ import annotations

import datetime
import gc
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.version import Version

from canserve.engines.transformers.outline import Outline
from canserve.facts import Fact, Known, Missing
from canserve.index.places import shipped
from canserve.index.shelf import Shelf, ShelfError, expand, pack, tabulate
from canserve.index.transformers_gather import OLDEST, needed_imports, read_release
from canserve.index.transformers_releases import PROJECT
from canserve.probes.build import BuildOptions, read_build
from canserve.subjects.build import Build, Want
from canserve.trees.archive.remote import Place
from canserve.trees.index.choose import Choice, choose
from canserve.trees.index.client import Index
from canserve.trees.index.pages import File
from canserve.trees.index.pip_config import pip_config
from canserve.trees.web.client import Web
from canserve.trees.web.settings import Settings

READER = "2"
"""Changes whenever a reader may read a release differently than before: all rows are read anew then."""
WANT = Want(flags=True)
TABLES: Mapping[str, Callable[[Build], Fact[Any]]] = {
    "architectures": lambda build: build.registry,
    "config_types": lambda build: build.config_shims,
    "flags": lambda build: build.flags,
    "kv_cache_dtypes": lambda build: build.kv_cache_dtypes,
    "launchers": lambda build: build.launchers,
    "quantization": lambda build: build.quantization,
    "reasoning_parsers": lambda build: build.reasoning_parsers,
    "tool_parsers": lambda build: build.tool_parsers,
}
"""What is kept of each release: the names of these facts."""


@dataclass(frozen=True, slots=True)
class Row:
    """One release as it is kept: where it comes from, and names by table."""

    release: Mapping[str, Any]
    tables: Mapping[str, tuple[str, ...]]
    unread: tuple[str, ...]


def latest_files(files: Iterable[File]) -> dict[Version, File]:
    """The file of each release that ``check`` would read."""
    from packaging.requirements import Requirement

    by_version: dict[Version, list[File]] = {}
    for file in files:
        by_version.setdefault(file.version, []).append(file)
    out = {}
    for version, group in sorted(by_version.items()):
        choice = choose(group, Requirement(f"x=={version}"))
        if isinstance(choice, Choice):
            out[version] = choice.file
    return out


def read_row(engine: str, version: Version, file: File, options: BuildOptions) -> Row | Missing:
    """One release, read now."""
    build = read_build(f"{engine}=={version}", WANT, options).build
    if isinstance(build, Missing):
        return build
    if isinstance(build.registry, Missing):
        return build.registry
    names, unread = {}, []
    for table, fact_of in TABLES.items():
        fact = fact_of(build)
        if isinstance(fact, Known):
            names[table] = tuple(sorted(fact.value))
        else:
            unread.append(table)
    requirement = build.transformers.requirement
    stated = requirement.value if isinstance(requirement, Known) else None
    return Row(release_row(version, file, stated), names, tuple(unread))


def kept_rows(engine: str, partial: Path) -> dict[str, Row]:
    """Rows that need no reading, by sha256: of the shipped index, and of an interrupted run."""
    rows: dict[str, Row] = {}
    try:
        shelf = shipped(engine)
        if shelf.reader == READER:
            rows.update({str(row.release["sha256"]): row for row in rows_of(shelf)})
    except ShelfError:
        pass
    if partial.exists():
        for line in partial.read_text().splitlines():
            try:
                reader, release, tables, unread = json.loads(line)
            except ValueError:
                continue  # the line during which the run was interrupted
            if reader == READER:
                row = Row(release, {k: tuple(v) for k, v in tables.items()}, tuple(unread))
                rows[release["sha256"]] = row
    return rows


def rows_of(shelf: Shelf) -> list[Row]:
    """A shelf's rows again, one a release."""
    names: list[dict[str, list[str]]] = [{table: [] for table in shelf.tables} for _ in shelf.releases]
    for table, by_name in shelf.tables.items():
        for name, text in by_name.items():
            for position in expand(text):
                names[position][table].append(name)
    unread: list[list[str]] = [[] for _ in shelf.releases]
    for table, text in shelf.unread.items():
        for position in expand(text):
            unread[position].append(table)
            names[position].pop(table, None)
    return [
        Row(release, {k: tuple(v) for k, v in tables.items()}, tuple(without))
        for release, tables, without in zip(shelf.releases, names, unread, strict=True)
    ]


def shelve(engine: str, rows: Iterable[Row], built: str) -> Shelf:
    """Rows as a shelf, oldest release first."""
    ordered = sorted(rows, key=lambda row: Version(row.release["version"]))
    tables = tabulate([row.tables for row in ordered])
    if engine == PROJECT:  # a pair that no release has is an answer too
        for module, name in needed_imports():
            tables["imports"].setdefault(f"{module}:{name}", "")
    unread = tabulate([{"unread": row.unread} for row in ordered]).get("unread", {})
    return Shelf(engine, built, READER, tuple(row.release for row in ordered), tables, unread)


def release_row(version: Version, file: File, requirement: str | None) -> dict[str, Any]:
    """Which file a row was read from."""
    return {
        "version": str(version),
        "date": (file.uploaded or "")[:10],
        "file": file.name,
        "sha256": file.sha256,
        "transformers": requirement,
        "yanked": file.yanked is not None,
    }


def reader_of(project: str, options: BuildOptions, place: Place) -> Callable[[Version, File], Row | Missing]:
    """How one release of a project is read."""
    if project != PROJECT:
        return lambda version, file: read_row(project, version, file, options)
    memory: dict[bytes, Outline] = {}

    def read(version: Version, file: File) -> Row | Missing:
        found = read_release(version, file, place, memory)
        if isinstance(found, Missing):
            return found
        return Row(release_row(version, file, None), *found)

    return read


def gather(engine: str, partial: Path, tell: Callable[[str], None]) -> Shelf | Missing:
    """The engine's index of every release that is served. Missing: the package index could not be asked."""
    config = pip_config()
    options = BuildOptions(config=config)
    web = Web(Settings() if isinstance(config, Missing) else config.settings, offline=False)
    place = Place(web, options.cache, tell)
    offered = Index(config, place).offered(engine, engine)
    if isinstance(offered, Missing):
        return offered
    kept = kept_rows(engine, partial)
    read_one = reader_of(engine, options, place)
    rows: list[Row] = []
    oldest = OLDEST if engine == PROJECT else Version("0")
    for version, file in reversed(latest_files(offered.value).items()):  # the newest matter most
        if version < oldest:
            continue
        if (row := kept.get(file.sha256 or "")) is not None:
            rows.append(row)
            continue
        tell(f"{engine} {version}")
        read = read_one(version, file)
        if isinstance(read, Missing):
            tell(f"{engine} {version}: {read.why}")
            continue
        with partial.open("a") as out:
            out.write(json.dumps([READER, read.release, read.tables, read.unread]) + "\n")
        rows.append(read)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return shelve(engine, rows, today)


def main(arguments: list[str]) -> int:
    """``python -m canserve.index.gather ENGINE... FOLDER``: write each engine's data file into the folder."""
    *engines, folder = arguments
    gc.disable()  # syntax trees hold no cycles, and looking for some doubles the time they take
    failed = 0
    for engine in engines:
        partial = Path(folder) / f"{engine}.partial.jsonl"
        shelf = gather(engine, partial, lambda text: print(text, file=sys.stderr))
        if isinstance(shelf, Missing):
            print(f"{engine}: {shelf.why}", file=sys.stderr)
            failed += 1
            continue
        data = pack(shelf)
        whole = Path(folder) / f"{engine}.json.xz"
        whole.with_suffix(".new").write_bytes(data)
        whole.with_suffix(".new").replace(whole)  # an interruption leaves the old data usable
        partial.unlink(missing_ok=True)
        print(f"{engine}: {len(shelf.releases)} releases, {len(data)} bytes")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
