"""Whatever bytes an archive has, it ends in a tree or a TreeError; what is read is as its records say."""

from __future__ import annotations

import tempfile
import zlib
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from archives import Ending, Lie, lying_zip, zip_tree, zipped
from canserve.facts import Missing
from canserve.trees.tree import TreeError

HONEST = zipped(
    {"pkg/__init__.py": "", "pkg/a.py": "a = 1\n" * 200, "pkg/b.py": "b = 2\n" * 300, "c/d/e.txt": "e"}
)

members = st.builds(
    Lie,
    name=st.one_of(st.binary(max_size=20), st.sampled_from([b"a.py", b"pkg/a.py", b"../a", b"pkg/"])),
    data=st.binary(max_size=200),
    method=st.sampled_from([0, 8, 8, 8, 9, 99]),
    flags=st.sampled_from([0, 0, 1, 8, 0x800, 0xFFFF]),
    size=st.none() | st.integers(0, 2**32 - 1),
    packed=st.none() | st.integers(0, 2**32 - 1),
    crc=st.none() | st.integers(0, 2**32 - 1),
    offset=st.none() | st.integers(0, 2**32 - 1),
    local_name=st.none() | st.binary(max_size=10),
    extra=st.binary(max_size=40),
)
endings = st.builds(
    Ending,
    count=st.none() | st.integers(0, 2**16 - 1),
    length=st.none() | st.integers(0, 2**32 - 1),
    start=st.none() | st.integers(0, 2**32 - 1),
    comment=st.binary(max_size=40),
    cut=st.integers(0, 30),
)


def walk(data: bytes) -> None:
    """Read everything; each member that is given out has the size and checksum of its entry."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            tree = zip_tree(Path(folder), data)
        except TreeError as error:
            assert error.missing.why.isprintable()
            return
        listed = tree.listing()
        for path, got in tree.read_many(list(listed.entries)).items():
            entry = listed.entries[path]
            if isinstance(got, Missing):
                assert got.why.isprintable()
            else:
                assert (len(got), f"crc32:{zlib.crc32(got):08x}") == (entry.size, entry.digest)
            assert path.isprintable()
            assert ".." not in path.split("/")


@settings(max_examples=300, deadline=None)
@given(st.lists(members, max_size=4), endings)
def test_records_that_lie(archive: list[Lie], ending: Ending) -> None:
    walk(lying_zip(archive, ending))


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, len(HONEST) - 1), st.integers(0, 255)), min_size=1, max_size=4),
    st.data(),
)
def test_bytes_that_changed(changes: list[tuple[int, int]], data: st.DataObject) -> None:
    broken = bytearray(HONEST)
    for position, value in changes:
        broken[position] = value
    cut = data.draw(st.integers(0, 30))
    walk(bytes(broken[: len(broken) - cut]))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_bytes_that_mean_nothing(data: bytes) -> None:
    walk(data)
    walk(data + HONEST[-22:])
