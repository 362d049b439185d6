"""A build made from its row of the index alone: offline, in a moment, for the same checks as any other build."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from packaging.version import InvalidVersion, Version

from canserve.facts import Cause, Evidence, Fact, Known, Missing
from canserve.index.at import At
from canserve.index.places import loaded
from canserve.index.rows import ALARM, MAIN
from canserve.index.shelf import Shelf, ShelfError
from canserve.index.tables import KEPT, REQUIRES, Kept
from canserve.subjects.build import NOT_ASKED, Build, Identity, Site, Stack, Transformers

NOT_HELD = "the release index holds no "
"""How the reason begins where a fact was never kept, though the release itself would tell it."""
NOT_BESIDE = Missing(
    Cause.UNREACHED,
    "a release is not an environment, so nothing is beside it",
    (),
    "name an environment that has it",
)


def indexed_build(engine: str, version: str) -> Fact[Build]:
    """A release as the index has it. Missing: it is not there, or there is no index of the engine.

    Mappings in it are put together as they are asked for. What the index does not hold is Missing, and
    its ``ask`` names the build to read instead.
    """
    try:
        shelf = loaded(engine)
    except ShelfError as error:
        why = Evidence(engine, "release index", str(error), whole=False)
        return Missing(Cause.UNREACHED, str(error), (why,), f"judge it with --build {engine}==VERSION")
    position = _position(shelf, version)
    if position is None:
        newest = shelf.version(-1) if shelf.releases else "none"
        saw = f"no release {version}; {len(shelf.releases)} others, to {newest}"
        why = Evidence(f"{engine} releases", "release index", saw, when=shelf.built)
        return Missing(
            Cause.UNREACHED,
            f"the release index of {shelf.built} has no {engine} {version}",
            (why,),
            f"judge it with --build {engine}=={version}, or run `canserve index update`",
        )
    return build_at(shelf, position)


def _position(shelf: Shelf, version: str) -> int | None:
    if (exact := shelf.position(version)) is not None:
        return exact
    try:
        wanted = str(Version(version))
    except InvalidVersion:
        return None
    return shelf.position(wanted)


def build_at(shelf: Shelf, position: int, without: frozenset[str] = frozenset()) -> Fact[Build]:
    """The build of a row; its evidence names the file that was read for it.

    ``without``: fields of ``Build`` that stay NOT_ASKED; many releases are judged faster without them.
    """
    row = shelf.releases[position]
    target = f"{shelf.project}=={row['version']}"
    how = f"release index of {shelf.built}: {row['file']}"
    look = (Evidence(target, how, f"sha256:{row['sha256']}...", when=shelf.built),)
    if why := row.get("unreadable"):
        return Missing(Cause.UNREADABLE, f"{target}: {why}", look, f"judge it with --build {target}")
    at = At(shelf, position, Site(how, 0))
    facts = {kept.field: _fact(kept, at, look) for kept in KEPT if kept.field not in without}
    classes, registry = facts.pop("classes", NOT_ASKED), facts.pop("registry", NOT_ASKED)
    requires = _requires(shelf, position, look) if REQUIRES not in without else NOT_ASKED
    return Known(
        Build(
            identity=_identity(shelf.project, row, requires, look),
            registry=registry,
            transformers=_transformers(shelf, position, look),
            classes=classes.value if isinstance(classes, Known) else {},
            torch=NOT_BESIDE,
            stack=Stack(),
            **facts,
        ),
        look,
    )


def _fact(kept: Kept, at: At, look: tuple[Evidence, ...]) -> Fact[Any]:
    if kept.table in at.shelf.tables and not at.shelf.is_unread(kept.table, at.position):
        return Known(kept.read(at), look)
    return _missing(kept.table, at.shelf, at.position, look)


def _missing(table: str, shelf: Shelf, position: int, look: tuple[Evidence, ...]) -> Missing:
    row = shelf.releases[position]
    target = f"{shelf.project}=={row['version']}"
    said = row.get("unread", {}).get(table) or (row.get(ALARM) if table == MAIN else None)
    why = f"{target}: {said}" if said else f"{NOT_HELD}{table.replace('_', ' ')} of {target}"
    return Missing(
        Cause.UNREADABLE if said else Cause.UNREACHED, why, look, f"judge it with --build {target}"
    )


def _identity(
    engine: str, row: Mapping[str, Any], requires: Fact[tuple[str, ...]], look: tuple[Evidence, ...]
) -> Identity:
    python = row.get("requires_python")
    return Identity(
        subject=f"{engine}=={row['version']}",
        engine=engine,
        version=Known(str(row["version"]), look),
        origin=f"{_kind(str(row['file']))} on the package index, as the release index has it",
        content=Known(f"sha256:{row['sha256']}...", look),
        platforms=Known(tuple(row.get("platforms", ())) or ("any",), look),
        requires_python=Known(python, look),
        requires=requires,
    )


def _kind(file: str) -> str:
    return "wheel" if file.endswith(".whl") else "source distribution"


def _requires(shelf: Shelf, position: int, look: tuple[Evidence, ...]) -> Fact[tuple[str, ...]]:
    """All lines but those of extras that no check asks for."""
    if REQUIRES not in shelf.tables or shelf.is_unread(REQUIRES, position):
        return _missing(REQUIRES, shelf, position, look)
    return Known(tuple(shelf.names(REQUIRES, position)), look)


def _transformers(shelf: Shelf, position: int, look: tuple[Evidence, ...]) -> Transformers:
    from canserve.index.transformers_releases import shipped_table

    stated: Fact[str | None] = Missing(Cause.UNREACHED, "the index does not hold what it requires", look)
    if "transformers" in (row := shelf.releases[position]):
        stated = Known(row["transformers"], look)
    return Transformers(NOT_BESIDE, stated, shipped_table())
