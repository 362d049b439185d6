"""Layers over one another: what a container would see, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from canserve.facts import Missing
from canserve.trees.image.layer import Layer, load, read_files, read_layer
from canserve.trees.image.overlay import MAX_NESTED_LINKS, ImageTree
from canserve.trees.tree import TreeError
from made_images import Member, hard, layer, link


class Bytes:
    """A blob in memory."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)
        self.cost = None

    def held(self, span: tuple[int, int]) -> bool:
        return True

    def tail(self, count: int) -> bytes:
        return self._data[-count:]

    def spans(self, wanted: Sequence[tuple[int, int]]) -> list[bytes]:
        return [self._data[start:end] for start, end in wanted]

    def forget(self, span: tuple[int, int]) -> None:
        pass


def read(data: bytes, packages: Sequence[str] = ("vllm",)) -> Layer:
    found = read_layer(Bytes(data), "image", packages, None)  # type: ignore[arg-type]
    assert isinstance(found, Layer), found
    return found


def image(*layers: Mapping[str, Member]) -> ImageTree:
    blobs = [layer(each) for each in layers]

    def fetch(number: int, paths: Sequence[str]) -> Mapping[str, bytes | Missing]:
        return read_files(Bytes(blobs[number]), "image", paths)  # type: ignore[arg-type]

    return ImageTree("image", "test", [read(each) for each in blobs], fetch)


def paths(tree: ImageTree, prefix: str = "") -> list[str]:
    return sorted(tree.listing(prefix).entries)


def test_later_layers_win() -> None:
    tree = image({"a/x": b"old", "a/y": b"y"}, {"a/x": b"new"})
    assert paths(tree) == ["a/x", "a/y"]
    assert tree.read("a/x") == b"new"
    assert tree.read("a/x", 1, 2) == b"e"


def test_whiteouts_take_files_and_folders_away() -> None:
    tree = image({"a/x": b"1", "a/b/y": b"2", "c": b"3"}, {"a/.wh.x": b"", "a/.wh.b": b"", ".wh.c": b""})
    assert paths(tree) == []
    tree = image({"a/x": b"1"}, {"a/.wh.x": b""}, {"a/x": b"again"})
    assert tree.read("a/x") == b"again"


def test_a_whiteout_does_not_touch_its_own_layer() -> None:
    assert image({"a/x": b"1"}, {"a/x": b"2", "a/.wh.x": b""}).read("a/x") == b"2"


def test_an_opaque_folder_hides_what_was_below() -> None:
    tree = image({"a/x": b"1", "a/b/y": b"2"}, {"a/z": b"3", "a/.wh..wh..opq": b""})
    assert paths(tree) == ["a/z"]


def test_a_file_replaces_a_folder_and_a_folder_a_file() -> None:
    assert paths(image({"a/x": b"1"}, {"a": b"file"})) == ["a"]
    assert paths(image({"a": b"file"}, {"a/x": b"1"})) == ["a/x"]
    assert paths(image({"a/x": b"1"}, {"a": None})) == ["a/x"]


def test_links_are_followed_inside_the_image() -> None:
    tree = image({
        "usr/lib/f": b"1", "lib": link("usr/lib"), "abs": link("/usr/lib"), "up/l": link("../../../lib/f"),
        "dangling": link("nowhere"), "usr/lib/self": link("self"),
    })  # fmt: skip
    assert tree.read("lib/f") == tree.read("abs/f") == tree.read("up/l") == b"1"
    found = tree.children("")
    assert found is not None
    assert found.linked == {"lib", "abs"}
    assert "dangling" not in found.files
    assert [hole.prefix for hole in tree.listing().holes if "self" in hole.prefix]
    with pytest.raises(TreeError, match="too many links"):
        tree.read("usr/lib/self")


def test_a_link_of_a_lower_layer_leads_to_what_is_there_now() -> None:
    tree = image({"python3": link("python3.11"), "python3.11": b"old"}, {"python3.11": b"new"})
    assert tree.read("python3") == b"new"


def test_hard_links_are_files() -> None:
    tree = image({"a": b"1", "b": hard("a")}, {"c": hard("a"), "a": b"2"}, {"d": hard("gone")})
    assert tree.read("b") == b"1"
    assert tree.read("c") == b"1"
    assert [hole.prefix for hole in tree.listing().holes] == ["d"]


def test_linked_folders_that_lead_back_end() -> None:
    members: dict[str, Member] = {"a/f": b"1", "a/back": link(".."), "a/x/y": link("/a")}
    listing = image(members).listing()
    assert "a/f" in listing.entries
    assert listing.holes
    assert max(path.count("back") for path in listing.entries) <= MAX_NESTED_LINKS


@pytest.mark.parametrize("name", ["../out", "a/../../out", "a\x1b[2J", "a//b", "/../etc/passwd"])
def test_names_that_lead_out_are_holes(name: str) -> None:
    listing = image({name: b"1", "good": b"2"}).listing()
    assert list(listing.entries) == ["good"]
    assert not listing.holes or all(hole.prefix.isprintable() for hole in listing.holes)
    assert image({name: b"1"})._holes


def test_a_path_from_outside_stays_inside() -> None:
    tree = image({"etc/passwd": b"image"})
    for path in ("../etc/passwd", "/etc/passwd", "a/../../etc/passwd"):
        with pytest.raises(TreeError):
            tree.read(path)


def test_sources_are_kept_and_others_read_again() -> None:
    found = read(
        layer({"opt/vllm/vllm/a.py": b"kept", "opt/other/b.py": b"not", "x.dist-info/METADATA": b"m"})
    )
    assert found.content("opt/vllm/vllm/a.py") == b"kept"
    assert found.content("x.dist-info/METADATA") == b"m"
    assert found.content("opt/other/b.py") is None
    assert image({"opt/other/b.py": b"not"}).read("opt/other/b.py") == b"not"


def test_what_the_cache_holds_answers_like_the_layer() -> None:
    found = read(
        layer({"vllm/a.py": b"1", "l": link("vllm"), ".wh.x": b"", "b/.wh..wh..opq": b"", "../o": b""})
    )
    again = load(found.dump())
    assert again == Layer(found.nodes, found.removed, found.opaque, found.holes, found.packed)
    assert load(b"") is None
    assert load(b"x" * 40) is None
    assert load(found.dump()[:-1] if not found.packed else b"\0" * 8 + found.dump()[8:]) is None


def test_folders_are_listed_one_level_at_a_time() -> None:
    tree = image({"a/b/c": b"1", "a/d": b"2"})
    found = tree.children("a")
    assert found is not None
    assert (list(found.files), found.folders) == (["d"], ("b",))
    assert tree.children("a/d") is None
    assert tree.children("nothing") is None
    assert isinstance(tree.read_many(["a/d", "a/x"])["a/x"], Missing)
