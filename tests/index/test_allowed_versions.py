"""The transformers releases that a requirement allows are those that its specifier contains."""

from __future__ import annotations

import pytest
from packaging.specifiers import SpecifierSet

from canserve.facts import Known, Missing
from canserve.index import projects, release_history, transformers_table
from canserve.subjects.transformers import Transformers

VERSIONS = ("4.51.0", "4.51.0+local", "4.51.0.post1", "4.51", "5.0.0rc1", "5.0.0", "5.1.0", "not-a-version")


class Table:
    """Only what `candidates` asks."""

    versions = VERSIONS

    def yanked(self, version: str) -> bool:
        return False


@pytest.mark.parametrize(
    "requirement",
    [
        "==4.51.0",
        "==4.51",
        "== 4.51.0 ",
        "==4.51.*",
        "==5.0.0rc1",
        "==4.51.0.post1",
        "==4.51.0+local",
        ">=5",
        "",
        "<1",
    ],
)
def test_pins_and_ranges(requirement: str) -> None:
    its = Transformers(Missing(None, ""), Known(requirement), Known(Table()))  # type: ignore[arg-type]
    allowed = SpecifierSet(requirement)
    expected = [v for v in VERSIONS[:-1] if allowed.contains(v, prereleases=True)]
    final = [v for v in expected if "rc" not in v] or expected
    found = its.candidates()
    assert (list(found.value) if isinstance(found, Known) else []) == final


def test_every_requirement_of_every_indexed_release() -> None:
    table = transformers_table()
    assert isinstance(table, Known)
    shelves = [release_history().shelf(engine) for engine in projects()]
    said = {
        str(row["transformers"])
        for shelf in shelves
        if shelf
        for row in shelf.releases
        if row.get("transformers")
    }
    assert len(said) > 100
    for requirement in said:
        found = Transformers(Missing(None, ""), Known(requirement), table).candidates()  # type: ignore[arg-type]
        allowed = SpecifierSet(requirement)
        for version in found.value if isinstance(found, Known) else ():
            assert allowed.contains(version, prereleases=True)
        expected = [v for v in table.value.versions if allowed.contains(v)]
        assert isinstance(found, Known) or not expected
