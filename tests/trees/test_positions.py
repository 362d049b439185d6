"""Large files by position: where they lie, or unpacked from archives and layers first."""

from __future__ import annotations

import random
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from archives import zip_tree, zipped
from canserve.facts import Cause, Missing
from canserve.trees.archive.remote import Place
from canserve.trees.cache import Cache
from canserve.trees.folder import FolderTree
from canserve.trees.image.early import Sought
from canserve.trees.image.opening import open_image
from canserve.trees.names import unreadable
from canserve.trees.positions import Positions, visit
from canserve.trees.tree import Tree, TreeError
from canserve.trees.web.client import Web
from made_images import Layout, hard, layer, link

SOUGHT = Sought(frozenset({"eng"}))

LARGE = random.Random(7).randbytes(5 << 20)  # more than one step, and not to be packed
FILES = {"lib/large.so": LARGE, "lib/small.so": b"small"}


def seen(
    tree: Tree, paths: Mapping[str, int] | None = None
) -> tuple[dict[str, bytes], Mapping[str, Missing]]:
    got: dict[str, bytes] = {}

    def use(path: str, file: Positions) -> None:
        assert file.read(3, 3) == b""
        got[path] = file.read(0, 2) + file.read(file.size - 3, file.size + 9)

    sizes = paths or {path: entry.size for path, entry in tree.listing("lib").entries.items()}
    return got, visit(tree, sizes, use)


EXPECTED = {path: data[:2] + data[-3:] for path, data in FILES.items()}


def test_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    for path, data in FILES.items():
        (tmp_path / path).write_bytes(data)
    assert seen(FolderTree(tmp_path)) == (EXPECTED, {})
    got, failed = seen(FolderTree(tmp_path), {"lib/none.so": 1})
    assert not got and failed["lib/none.so"].cause is Cause.UNAVAILABLE


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
def test_in_a_zip_archive(tmp_path: Path, method: int) -> None:
    tree = zip_tree(tmp_path, zipped(FILES, method))
    assert seen(tree) == (EXPECTED, {})
    assert seen(tree, {"lib/none.so": 1})[1]["lib/none.so"].cause is Cause.UNAVAILABLE


def test_a_member_whose_content_was_changed(tmp_path: Path) -> None:
    data = bytearray(zipped({"lib/a.so": LARGE}, zipfile.ZIP_STORED))
    data[1000] ^= 1
    got, failed = seen(zip_tree(tmp_path, bytes(data)))
    assert not got and "checksum" in failed["lib/a.so"].why


@pytest.mark.parametrize("how", ["gzip", "zstd", "plain"])
def test_in_an_image(tmp_path: Path, how: str) -> None:
    layout = Layout(tmp_path / "image")
    base = layer({"lib/large.so": b"old", "lib/small.so": b"small"})
    top = layer(
        {"lib/large.so": LARGE, "lib/again.so": hard("lib/large.so"), "lib/link.so": link("small.so")}
    )
    layout.add(layout.image([base, top], how=how))
    place = Place(Web(offline=True), Cache(tmp_path / "cache"))
    tree = open_image(f"oci:{layout.root}", place, SOUGHT, None).tree
    got, failed = seen(tree)
    assert failed == {}
    assert got == EXPECTED | {
        "lib/again.so": EXPECTED["lib/large.so"],
        "lib/link.so": EXPECTED["lib/small.so"],
    }
    assert "lib/none.so" in seen(tree, {"lib/none.so": 1})[1]


def test_trouble_with_one_file_leaves_the_others(tmp_path: Path) -> None:
    tree = zip_tree(tmp_path, zipped(FILES))
    used: list[str] = []

    def use(path: str, file: Positions) -> None:
        used.append(path)
        if "large" in path:
            raise TreeError(unreadable("", path, "trouble"))

    failed = visit(tree, dict.fromkeys(FILES, 1), use)
    assert used == list(FILES) and list(failed) == ["lib/large.so"]
