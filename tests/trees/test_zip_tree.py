"""Zip archives: honest ones are read exactly, lying ones end in a reason, within bounds."""

from __future__ import annotations

import io
import resource
import struct
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from archives import Ending, Lie, lying_zip, zeros, zip_tree, zipped
from canserve.facts import Cause, Missing
from canserve.trees.archive.blob import FileBlob, Span
from canserve.trees.archive.directory import MAX_MEMBERS
from canserve.trees.archive.zip import MAX_MEMBER, ZipTree
from canserve.trees.tree import Cost, TreeError

FILES = {
    "pkg/__init__.py": "",
    "pkg/a.py": "a = 1\n" * 1000,
    "pkg/sub/b.py": "b = 2\n",
    "pkg-1.0.dist-info/METADATA": "Name: pkg\n",
}


def missing_of(tree: ZipTree, path: str) -> Missing:
    got = tree.read_many([path])[path]
    assert isinstance(got, Missing)
    assert got.cause is Cause.UNREADABLE
    with pytest.raises(TreeError):
        tree.read(path)
    return got


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
def test_reads_an_honest_archive(tmp_path: Path, method: int) -> None:
    tree = zip_tree(tmp_path, zipped({**FILES, "pkg/empty/": ""}, method))
    assert set(tree.listing().entries) == set(FILES)
    assert set(tree.listing("pkg/sub").entries) == {"pkg/sub/b.py"}
    assert tree.listing("pk").entries == {}
    top = tree.children()
    assert top is not None
    assert top.folders == ("pkg", "pkg-1.0.dist-info")
    inner = tree.children("pkg")
    assert inner is not None
    assert (sorted(inner.files), inner.folders) == (["__init__.py", "a.py"], ("sub",))
    assert tree.children("nowhere") is None
    got = tree.read_many(list(FILES))
    assert {path: bytes(data) for path, data in got.items() if isinstance(data, bytes)} == {
        path: text.encode() for path, text in FILES.items()
    }
    assert tree.read("pkg/a.py", 6, 12) == b"a = 1\n"
    assert tree.read("pkg/a.py", 5990) == (FILES["pkg/a.py"].encode())[5990:]
    assert tree.listing().entries["pkg/sub/b.py"].digest == "crc32:" + f"{zlib_crc('b = 2' + chr(10)):08x}"


def zlib_crc(text: str) -> int:
    import zlib

    return zlib.crc32(text.encode())


def test_reads_zip64_and_comments_that_look_like_an_end(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        with archive.open("pkg/a.py", "w", force_zip64=True) as handle:
            handle.write(b"a = 1\n")
        archive.comment = b"PK\5\6" + bytes(18) + b"PK\5\6 not an end"
    assert zip_tree(tmp_path, buffer.getvalue()).read("pkg/a.py") == b"a = 1\n"


def test_reads_an_archive_with_a_zip64_end_record(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for number in range(66_000):
            archive.writestr(f"pkg/m{number}.py", "")
        archive.writestr("pkg/last.py", "x = 1")
    tree = zip_tree(tmp_path, buffer.getvalue())
    assert len(tree.listing().entries) == 66_001
    assert tree.read("pkg/last.py") == b"x = 1"


def test_only_the_wanted_bytes_are_asked_for_and_neighbours_travel_together() -> None:
    """The rule of ranges: 64 KiB between wanted members, or a two-hundredth of a small archive."""
    files = {f"pkg/m{number:03}.py": f"x = {number}\n" * 50 for number in range(40)}
    files["pkg/big.bin"] = "".join(chr(33 + (i * 7919) % 90) for i in range(600_000))
    files.update({f"zzz/n{number:03}.py": f"y = {number}\n" * 50 for number in range(40)})
    blob = CountingBlob(zipped(files, zipfile.ZIP_STORED))
    tree = ZipTree(blob, "counted", "wheel")
    assert len(blob.asked) == 1
    blob.asked.clear()
    got = tree.read_many([path for path in files if path.endswith(".py")])
    assert all(isinstance(data, bytes) for data in got.values())
    assert len(blob.asked) == 2
    assert sum(end - start for start, end in blob.asked) < 120_000


class CountingBlob:
    """Bytes that are not here, and what is asked of them."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)
        self.cost = Cost()
        self.asked: list[Span] = []
        self.forgotten: list[Span] = []

    def held(self, span: Span) -> bool:
        return False

    def tail(self, count: int) -> bytes:
        return self.spans([(max(0, self.size - count), self.size)])[0]

    def spans(self, wanted: Sequence[Span]) -> list[bytes]:
        self.asked.extend(wanted)
        return [self._data[start:end] for start, end in wanted]

    def forget(self, span: Span) -> None:
        self.forgotten.append(span)


@pytest.mark.parametrize(
    ("members", "ending", "why"),
    [
        ([Lie(b"a.py", b"x")], Ending(cut=1), "no end record"),
        ([Lie(b"a.py", b"x")], Ending(cut=30), "no end record"),
        ([Lie(b"a.py", b"x")], Ending(count=2), "corrupt"),
        ([Lie(b"a.py", b"x"), Lie(b"b.py", b"y")], Ending(count=1), "more than it says"),
        ([Lie(b"a.py", b"x")], Ending(length=7), "not where"),
        ([Lie(b"a.py", b"x")], Ending(start=0), "not where"),
        ([Lie(b"a.py", b"x")], Ending(start=0xFFFFFF), "not where"),
        ([Lie(b"a.py", b"x", offset=10_000)], None, "behind the directory"),
        ([Lie(b"a.py", b"x" * 99), Lie(b"b.py", b"y", offset=3)], None, "overlaps"),
        ([Lie(b"a.py", b"x"), Lie(b"b.py", b"y", offset=0)], None, "overlaps"),
        ([Lie(b"a.py", b"x", packed=1 << 30)], None, "overlaps"),
    ],
)
def test_a_directory_that_lies_is_refused(
    tmp_path: Path, members: list[Lie], ending: Ending | None, why: str
) -> None:
    with pytest.raises(TreeError, match=why) as error:
        zip_tree(tmp_path, lying_zip(members, ending))
    assert error.value.missing.cause is Cause.UNREADABLE


def test_too_many_members_are_refused_before_they_are_read(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.py", "")
    data = bytearray(buffer.getvalue())
    record = struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, *[MAX_MEMBERS + 1] * 2, 1 << 40, 0)
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, len(data) - 22, 1)
    data[-22:-22] = record + locator
    with pytest.raises(TreeError, match="more than is read"):
        zip_tree(tmp_path, bytes(data))


@pytest.mark.parametrize(
    ("member", "why"),
    [
        (Lie(b"a.py", b"x = 1\n" * 99, crc=1), "checksum"),
        (Lie(b"a.py", b"x = 1\n" * 99, size=9), "more than the 9 bytes"),
        (Lie(b"a.py", b"x = 1\n" * 99, size=9_999), "declares 9999"),
        (Lie(b"a.py", b"x", method=0, size=2), "two different sizes"),
        (Lie(b"a.py", b"x", flags=1), "encrypted"),
        (Lie(b"a.py", b"x", method=14), "method 14"),
        (Lie(b"a.py", b"x = 1\n" * 99, local_name=b"b.py"), "does not agree"),
        (Lie(b"a.py", b"x", size=MAX_MEMBER + 1), "more than"),
    ],
)
def test_a_member_that_lies_is_missing_and_the_others_are_read(tmp_path: Path, member: Lie, why: str) -> None:
    tree = zip_tree(tmp_path, lying_zip([member, Lie(b"good.py", b"y = 2")]))
    assert why in missing_of(tree, "a.py").why
    assert tree.read("good.py") == b"y = 2"


def test_corrupt_data_is_missing(tmp_path: Path) -> None:
    data = bytearray(lying_zip([Lie(b"a.py", b"x = 1\n" * 99), Lie(b"good.py", b"y = 2")]))
    data[36] ^= 0xFF
    tree = zip_tree(tmp_path, bytes(data))
    missing_of(tree, "a.py")
    assert tree.read("good.py") == b"y = 2"


@pytest.mark.parametrize(
    "name",
    [
        b"../evil.py",
        b"/abs.py",
        b"pkg/../../evil.py",
        b"pkg//a.py",
        b"./a.py",
        b"pkg/\x1b[2Ja.py",
        b"a\0b.py",
        b"",
    ],
)
def test_names_that_lead_away_are_holes(tmp_path: Path, name: bytes) -> None:
    tree = zip_tree(tmp_path, lying_zip([Lie(name, b"x"), Lie(b"good.py", b"y")]))
    listed = tree.listing()
    assert set(listed.entries) == {"good.py"}
    (hole,) = listed.holes
    assert hole.missing.cause is Cause.UNREADABLE
    assert hole.prefix.isprintable()
    assert hole.missing.why.isprintable()


def test_names_that_are_not_utf8_though_they_say_so_are_holes(tmp_path: Path) -> None:
    tree = zip_tree(tmp_path, lying_zip([Lie(b"caf\xe9.py", b"x", flags=0x800), Lie(b"b.py", b"y")]))
    assert set(tree.listing().entries) == {"b.py"}
    assert [hole.prefix for hole in tree.listing().holes] == ["caf\\xe9.py"]


def test_a_name_that_stands_twice_is_neither_of_both(tmp_path: Path) -> None:
    """Readers disagree on which one counts, so an attacker could show one and install the other."""
    tree = zip_tree(tmp_path, lying_zip([Lie(b"a.py", b"1"), Lie(b"a.py", b"2"), Lie(b"b.py", b"3")]))
    assert set(tree.listing().entries) == {"b.py"}
    assert "more than once" in tree.listing().holes[0].missing.why


def test_a_bomb_is_stopped_by_its_own_declaration(tmp_path: Path) -> None:
    """A gigabyte that says it is small, and one that says what it is."""
    bomb = zeros(1 << 30)
    start, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for declared in (10, 4 << 20, (1 << 30), 0xFFFFFFF0):
        lie = Lie(b"a.py", bomb, method=8, size=declared, crc=0)
        packed = bytearray(lying_zip([Lie(b"a.py", bomb, method=0)]))
        # The member's data is the deflate stream itself; only what the records say of it is changed.
        local, central = packed.find(b"PK\3\4"), packed.find(b"PK\1\2")
        struct.pack_into("<H", packed, local + 8, 8)
        struct.pack_into("<H", packed, central + 10, 8)
        struct.pack_into("<I", packed, central + 24, lie.size or 0)
        missing_of(zip_tree(tmp_path, bytes(packed)), "a.py")
    assert time.process_time() - start < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60 << 10


def test_too_much_at_once_is_missing_not_fatal(tmp_path: Path) -> None:
    data = bytes(15 << 20)
    tree = zip_tree(tmp_path, zipped({f"m{number}.py": data for number in range(12)}))
    got = tree.read_many([f"m{number}.py" for number in range(12)])
    assert 5 < sum(isinstance(one, bytes) for one in got.values()) < 10
    assert {one.cause for one in got.values() if isinstance(one, Missing)} == {Cause.UNREADABLE}


def test_a_large_member_is_read_in_parts(tmp_path: Path) -> None:
    data = bytes(range(256)) * (100 << 10)
    tree = zip_tree(tmp_path, zipped({"lib.so": data, "a.py": "x"}))
    assert tree.read("lib.so", 1 << 20, (1 << 20) + 300) == data[1 << 20 : (1 << 20) + 300]
    assert tree.read("lib.so") == data
    with pytest.raises(TreeError, match="more than"):
        zip_tree(tmp_path, zipped({"lib.so": bytes(70 << 20)})).read("lib.so")


@pytest.mark.parametrize("data", [b"", b"PK", b"not a zip archive at all" * 9, b"PK\5\6" + bytes(17)])
def test_what_is_no_archive_says_so(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(TreeError):
        zip_tree(tmp_path, data)


def test_a_folder_is_no_archive(tmp_path: Path) -> None:
    with pytest.raises(TreeError):
        FileBlob(tmp_path, "folder")
    with pytest.raises(TreeError, match="No such file"):
        FileBlob(tmp_path / "none.whl", "none")
