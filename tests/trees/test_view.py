"""The view of an engine reader: parts of trees under the paths they are imported by, holes included."""

from __future__ import annotations

from pathlib import Path

import pytest

from canserve.facts import Cause, Known, Missing
from canserve.trees.fanout import fanout
from canserve.trees.folder import FolderTree
from canserve.trees.view import Part, joined, sources_of


@pytest.fixture
def tree(tmp_path: Path) -> FolderTree:
    for path, text in {
        "opt/eng/eng/__init__.py": "", "opt/eng/eng/a.py": "a = 1\n", "opt/eng/setup.py": "x",
        "lib/eng-1.0.dist-info/METADATA": "Name: eng\n", "lib/other/x.py": "x",
    }.items():  # fmt: skip
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "opt" / "eng" / "eng" / "models").symlink_to("/elsewhere/models")
    return FolderTree(tmp_path, "tree")


def test_a_prefix_is_taken_off(tree: FolderTree) -> None:
    sources = sources_of(tree, "eng", "opt/eng")
    assert sources.under("") == ["eng/__init__.py", "eng/a.py", "setup.py"]
    assert isinstance(found := sources.text("eng/a.py"), Known)
    assert found.value == "a = 1\n"
    assert isinstance(sources.gap("eng/models/x.py"), Missing)
    assert sources.gap("eng/other.py") is None


def test_names_are_changed_and_left_out(tree: FolderTree) -> None:
    sources = sources_of(tree, "eng", "opt/eng", lambda path: None if path == "setup.py" else f"x/{path}")
    assert sources.under("") == ["x/eng/__init__.py", "x/eng/a.py"]
    assert isinstance(sources.gap("x/eng/models/y.py"), Missing)


def test_parts_are_joined_and_the_first_wins(tree: FolderTree, tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    (tmp_path / "second" / "a.py").write_text("other\n")
    other = FolderTree(tmp_path / "second", "second")
    parts = [
        Part(tree, "opt/eng/eng", "eng"),
        Part(other, "", "eng"),
        Part(tree, "lib/eng-1.0.dist-info", "eng-1.0.dist-info"),
        Part(tree, "opt/eng/setup.py", "setup.py", single=True),
    ]
    sources = joined("eng", parts)
    assert sources.under("", "") == ["eng-1.0.dist-info/METADATA", "eng/__init__.py", "eng/a.py", "setup.py"]
    got = sources.raw("eng/a.py")
    assert isinstance(got, Known)
    assert got.value == b"a = 1\n"


def test_a_hole_around_a_part_covers_all_of_it(tree: FolderTree) -> None:
    sources = joined("eng", [Part(tree, "opt/eng/eng/models", "eng/models")])
    missing = sources.gap("eng/models/registry.py")
    assert isinstance(missing, Missing)
    assert missing.cause is Cause.UNREACHED


def test_fanout_keeps_the_order_and_raises_the_first() -> None:
    assert fanout(lambda x: x * 2, range(50)) == [x * 2 for x in range(50)]
    assert fanout(lambda x: x, []) == []

    def fails(number: int) -> int:
        if number in {3, 7}:
            raise ValueError(number)
        return number

    with pytest.raises(ValueError, match="3"):
        fanout(fails, range(10))
