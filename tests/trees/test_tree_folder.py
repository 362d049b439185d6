"""Folders: links, pipes, names and sizes that no honest folder has; nothing leaves the tree or hangs."""

from __future__ import annotations

import os
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from canserve.facts import Cause, Missing
from canserve.trees.folder import MAX_NAMES, FolderTree
from canserve.trees.tree import Hole, Tree, TreeError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    (folder / "pkg" / "sub").mkdir(parents=True)
    (folder / "pkg" / "a.py").write_text("a = 1\n")
    (folder / "pkg" / "sub" / "b.py").write_text("b = 2\n")
    (tmp_path / "secret.txt").write_text("outside")
    return folder


def holes(tree: Tree, prefix: str = "") -> dict[str, Missing]:
    return {hole.prefix: hole.missing for hole in tree.listing(prefix).holes}


def test_lists_and_reads(root: Path) -> None:
    tree = FolderTree(root)
    assert set(tree.listing().entries) == {"pkg/a.py", "pkg/sub/b.py"}
    assert tree.listing("pkg/sub").entries["pkg/sub/b.py"].size == 6
    assert tree.listing("nowhere").entries == {}
    found = tree.children("pkg")
    assert found is not None
    assert (list(found.files), found.folders, found.holes) == (["a.py"], ("sub",), ())
    assert tree.children("pkg/a.py") is None
    assert tree.children("nowhere") is None
    assert tree.read("pkg/a.py") == b"a = 1\n"
    assert tree.read("pkg/a.py", 2, 5) == b"= 1"
    assert tree.read("pkg/a.py", 4) == b"1\n"


def test_absent_is_unavailable_and_the_others_are_still_read(root: Path) -> None:
    got = FolderTree(root).read_many(["pkg/a.py", "pkg/none.py"])
    assert got["pkg/a.py"] == b"a = 1\n"
    assert isinstance(got["pkg/none.py"], Missing)
    assert got["pkg/none.py"].cause is Cause.UNAVAILABLE


@pytest.mark.parametrize(
    "path", ["../secret.txt", "/etc/passwd", "pkg/../../secret.txt", "a\0b", "pkg/a.py/x"]
)
def test_paths_do_not_leave_the_tree(root: Path, path: str) -> None:
    with pytest.raises(TreeError):
        FolderTree(root).read(path)


def test_links_inside_are_followed_and_links_outside_are_holes(root: Path) -> None:
    (root / "inner").symlink_to("pkg/sub")
    (root / "inner.py").symlink_to("pkg/a.py")
    (root / "out.txt").symlink_to("../secret.txt")
    (root / "out").symlink_to(root.parent)
    (root / "nothing").symlink_to("pkg/none")
    tree = FolderTree(root)
    listed = tree.listing()
    assert {"inner/b.py", "inner.py", "pkg/a.py", "pkg/sub/b.py"} == set(listed.entries)
    assert {path: missing.cause for path, missing in holes(tree).items()} == {
        "out.txt": Cause.UNREACHED,
        "out": Cause.UNREACHED,
        "nothing": Cause.UNAVAILABLE,
    }
    top = tree.children()
    assert top is not None
    assert top.linked == {"inner"}
    for path in ("out.txt", "out/secret.txt"):
        with pytest.raises(TreeError) as error:
            tree.read(path)
        assert error.value.missing.cause is Cause.UNREACHED


def test_absolute_links_mean_the_root_of_the_tree(root: Path) -> None:
    """As in a copy of an image's files; and the folder's own absolute path means itself."""
    (root / "pkg" / "image_link.py").symlink_to("/pkg/a.py")
    (root / "pkg" / "own_link.py").symlink_to(root / "pkg" / "a.py")
    (root / "pkg" / "python").symlink_to("/usr/bin/python3")
    tree = FolderTree(root)
    assert tree.read("pkg/image_link.py") == b"a = 1\n"
    assert tree.read("pkg/own_link.py") == b"a = 1\n"
    assert not (root / "usr").exists()
    assert holes(tree)["pkg/python"].cause is Cause.UNREACHED


def test_link_loops_end(root: Path) -> None:
    (root / "pkg" / "up").symlink_to("..")
    (root / "pkg" / "self").symlink_to("self")
    (root / "x").symlink_to("y")
    (root / "y").symlink_to("x")
    tree = FolderTree(root)
    assert "pkg/a.py" in tree.listing().entries
    found = holes(tree)
    assert {"pkg/up", "pkg/self", "x", "y"} <= set(found)
    assert "leads back" in found["pkg/up"].why


def test_links_between_siblings_do_not_multiply_for_ever(root: Path) -> None:
    for one in range(8):
        (root / f"d{one}").mkdir()
        for other in range(8):
            (root / f"d{one}" / f"to{other}").symlink_to(f"../d{other}")
    start = time.process_time()
    listed = FolderTree(root).listing()
    assert time.process_time() - start < 10
    assert listed.holes


def test_pipes_sockets_and_devices_are_never_opened(root: Path) -> None:
    os.mkfifo(root / "pkg" / "pipe.py")
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(root / "pkg" / "s"))
        tree = FolderTree(root)
        found = holes(tree)
        assert "a pipe" in found["pkg/pipe.py"].why
        assert "a socket" in found["pkg/s"].why
        start = time.monotonic()
        with pytest.raises(TreeError, match="a pipe"):
            tree.read("pkg/pipe.py")
        assert time.monotonic() - start < 30


@pytest.mark.parametrize("name", [b"caf\xe9.py", b"a\x1b[31mb.py", b"a\nb.py", "a\u202eb.py".encode()])
def test_names_that_could_act_on_a_terminal_are_holes_with_printable_names(root: Path, name: bytes) -> None:
    Path(os.fsdecode(os.fsencode(root) + b"/pkg/" + name)).write_text("x = 1\n")
    tree = FolderTree(root)
    listed = tree.listing()
    assert set(listed.entries) == {"pkg/a.py", "pkg/sub/b.py"}
    (hole,) = listed.holes
    assert hole.prefix.isprintable()
    assert hole.missing.why.isprintable()
    assert hole.missing.cause is Cause.UNREADABLE
    hole.missing.why.encode("utf-8")


@pytest.fixture
def quick_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: a hundred thousand files are made in a second there."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


def test_a_folder_with_too_many_names_is_cut_and_says_so(quick_folder: Path) -> None:
    folder = quick_folder
    handle = os.open(folder, os.O_RDONLY)
    for number in range(MAX_NAMES + 10):
        os.close(os.open(f"{number}", os.O_CREAT | os.O_WRONLY, dir_fd=handle))
    os.close(handle)
    start = time.process_time()
    listed = FolderTree(folder).listing()
    assert time.process_time() - start < 10
    assert len(listed.entries) == MAX_NAMES
    assert [hole.prefix for hole in listed.holes] == [""]
    assert listed.holes[0].covers("anything.py")


def test_a_file_that_is_too_large_is_not_read(root: Path) -> None:
    with (root / "pkg" / "big.py").open("wb") as handle:
        handle.truncate(1 << 40)
    tree = FolderTree(root)
    with pytest.raises(TreeError, match="more than"):
        tree.read("pkg/big.py")
    assert tree.read("pkg/big.py", 0, 4) == bytes(4)


def test_a_deep_folder_is_cut(tmp_path: Path) -> None:
    folder = tmp_path / "deep"
    folder.mkdir()
    here = os.open(folder, os.O_RDONLY)
    for _ in range(200):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    listed = FolderTree(folder).listing()
    assert any("too deeply" in hole.missing.why for hole in listed.holes)


def test_hole_of_a_listing_covers_only_what_it_should(root: Path) -> None:
    hole = Hole("pkg/sub", Missing(Cause.UNAVAILABLE, "no"))
    assert hole.covers("pkg/sub/b.py")
    assert not hole.covers("pkg/subway.py")
