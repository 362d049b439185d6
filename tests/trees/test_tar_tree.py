"""Source distributions: read once from end to end, within bounds, links and devices never followed."""

from __future__ import annotations

import gzip
import io
import resource
import struct
import tarfile
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archives import tarred
from canserve.facts import Cause, Missing
from canserve.trees.archive.blob import FileBlob
from canserve.trees.archive.sdist import MAX_KEPT, TarTree
from canserve.trees.index.opening import is_tar
from canserve.trees.tree import TreeError

FILES = {
    "pkg-1.0/PKG-INFO": "Name: pkg\n",
    "pkg-1.0/pkg/__init__.py": "",
    "pkg-1.0/pkg/a.py": "a = 1\n",
    "pkg-1.0/csrc/k.cu": "__global__ void k() {}\n",
}


def tree_of(folder: Path, data: bytes) -> TarTree:
    path = folder / "pkg-1.0.tar.gz"
    path.write_bytes(data)
    return TarTree(FileBlob(path, "sdist"), "sdist", "source distribution")


@pytest.mark.parametrize("mode", ["w:gz", "w:bz2", "w:xz", "w"])
def test_reads_an_honest_archive(tmp_path: Path, mode: str) -> None:
    tree = tree_of(tmp_path, tarred(FILES, mode))
    assert {path: entry.size for path, entry in tree.listing().entries.items()} == {
        path: len(text) for path, text in FILES.items()
    }
    assert tree.read("pkg-1.0/pkg/a.py") == b"a = 1\n"
    assert tree.read("pkg-1.0/pkg/a.py", 2, 3) == b"="
    assert tree.read("pkg-1.0/csrc/k.cu").startswith(b"__global__")
    top = tree.children()
    assert top is not None
    assert top.folders == ("pkg-1.0",)
    with pytest.raises(TreeError, match="no such file"):
        tree.read("pkg-1.0/none.py")


def test_which_files_are_tar_archives_is_told_by_their_bytes(tmp_path: Path) -> None:
    for number, mode in enumerate(["w:gz", "w:bz2", "w:xz", "w"]):
        (tmp_path / f"{number}").write_bytes(tarred(FILES, mode))
        assert is_tar(FileBlob(tmp_path / f"{number}", "x"))
    (tmp_path / "zip").write_bytes(b"PK\3\4" + bytes(400))
    assert not is_tar(FileBlob(tmp_path / "zip", "x"))


def test_links_devices_and_names_that_lead_away(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, kind, target in (
            ("pkg/link.py", tarfile.SYMTYPE, "/etc/passwd"),
            ("pkg/hard.py", tarfile.LNKTYPE, "pkg/a.py"),
            ("pkg/dev", tarfile.CHRTYPE, ""),
            ("pkg/fifo", tarfile.FIFOTYPE, ""),
            ("../evil.py", tarfile.REGTYPE, ""),
            ("/abs.py", tarfile.REGTYPE, ""),
            ("pkg/\x1b[2J.py", tarfile.REGTYPE, ""),
            ("./pkg/good.py", tarfile.REGTYPE, ""),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            archive.addfile(info, io.BytesIO())
    tree = tree_of(tmp_path, buffer.getvalue())
    assert set(tree.listing().entries) == {"pkg/good.py"}
    assert len(tree.listing().holes) == 3
    assert all(hole.prefix.isprintable() for hole in tree.listing().holes)


def test_the_later_of_two_files_of_one_name_counts(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for text in (b"first", b"second"):
            info = tarfile.TarInfo("a.py")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text))
    assert tree_of(tmp_path, buffer.getvalue()).read("a.py") == b"second"


def test_a_bomb_is_stopped(tmp_path: Path) -> None:
    """Four gigabytes of zeros in one member, packed to a thousandth."""
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=1) as packed:
        info = tarfile.TarInfo("a.py")
        info.size = 4 << 30
        packed.write(info.tobuf())
        for _ in range(1500):
            packed.write(bytes(1 << 20))
    start, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(TreeError, match="unpacks to more than") as error:
        tree_of(tmp_path, buffer.getvalue())
    assert error.value.missing.cause is Cause.UNREADABLE
    assert time.process_time() - start < 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40 << 10


@pytest.mark.parametrize("kind", [b"x", b"g", b"L", b"K"])
def test_a_header_of_a_gigabyte_is_not_read_into_memory(tmp_path: Path, kind: bytes) -> None:
    header = bytearray(tarfile.TarInfo("h").tobuf())
    header[156:157] = kind
    header[124:136] = b"%011o\0" % (1 << 30)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header[:512])
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=1) as packed:
        packed.write(header[:512])
        for _ in range(1024):
            packed.write(bytes(1 << 20))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(TreeError, match="header"):
        tree_of(tmp_path, buffer.getvalue())
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30 << 10


def test_only_a_bounded_amount_is_kept_and_the_rest_is_read_again(tmp_path: Path) -> None:
    count = (MAX_KEPT >> 20) // 7 + 3
    data = b"#" * (7 << 20)
    tree = tree_of(tmp_path, tarred({f"m{number}.py": data for number in range(count)}, "w"))
    assert len(tree.listing().entries) == count
    assert tree.read(f"m{count - 1}.py") == data


def test_cut_short_and_not_an_archive(tmp_path: Path) -> None:
    whole = tarred(FILES)
    for data in (
        whole[: len(whole) // 2],
        whole[:-9],
        b"",
        b"\x1f\x8b",
        b"\x1f\x8b" + bytes(40),
        b"BZh9",
        b"text",
    ):
        with pytest.raises(TreeError) as error:
            tree_of(tmp_path, data)
        assert error.value.missing.cause is Cause.UNREADABLE


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 255)), max_size=6), st.integers(0, 4096))
def test_any_bytes_end_in_a_tree_or_an_error(changes: list[tuple[int, int]], cut: int) -> None:
    plain = bytearray(tarred(FILES, "w")[:6000])
    for position, value in changes:
        plain[position] = value
    with tempfile.TemporaryDirectory() as folder:
        try:
            tree = tree_of(Path(folder), bytes(plain[: len(plain) - cut]))
        except TreeError as error:
            assert error.missing.why.isprintable()
            return
        for path, got in tree.read_many(list(tree.listing().entries)).items():
            assert isinstance(got, Missing) or len(got) == tree.listing().entries[path].size


def test_a_negative_size_does_not_read_backwards_for_ever(tmp_path: Path) -> None:
    info = bytearray(tarfile.TarInfo("a.py").tobuf())
    info[124:136] = b"\xff" * 4 + struct.pack(">q", -1024)
    info[148:156] = b" " * 8
    info[148:156] = b"%06o\0 " % sum(info[:512])
    with pytest.raises(TreeError):
        tree_of(tmp_path, bytes(info) * 3 + bytes(1024))
