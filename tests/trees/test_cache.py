"""The cache: whole or not there, good or fetched again, bounded, shared between processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from canserve.trees.cache import Cache, default_folder


def test_what_is_put_is_got(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    assert cache.get("pages", "a") is None
    assert cache.put("pages", "a", b"hello")
    assert cache.get("pages", "a") == b"hello"
    assert cache.part("pages", "a", 1, 3) == b"ell"
    assert cache.part("pages", "a", 1, 30) is None
    assert cache.keys("pages") == ["a"]
    cache.drop("pages", "a")
    assert cache.get("pages", "a") is None
    assert list((cache.folder / "new").iterdir()) == []


@pytest.mark.parametrize("damage", [b"", b"canserve1", b"x" * 100])
def test_what_has_gone_bad_is_not_given_out_and_removed(tmp_path: Path, damage: bytes) -> None:
    cache = Cache(tmp_path)
    cache.put("pages", "a", b"hello")
    (cache.folder / "pages" / "a").write_bytes(damage)
    assert cache.get("pages", "a") is None
    assert cache.keys("pages") == []


def test_the_oldest_goes_when_it_gets_too_large(tmp_path: Path) -> None:
    for number in range(10):
        cache = Cache(tmp_path, limit=5_000)  # the first write of each process looks
        cache.put("pages", f"{number}", bytes(1_000))
        os.utime(cache.folder / "pages" / f"{number}", (number, number))
    assert cache.keys("pages") == ["6", "7", "8", "9"]


def test_what_is_used_stays(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put("pages", "a", b"hello")
    path = cache.folder / "pages" / "a"
    os.utime(path, (1, 1))
    cache.get("pages", "a")
    assert path.stat().st_mtime > time.time() - 60


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file")
    assert not cache.put("pages", "a", b"x")
    assert cache.get("pages", "a") is None
    assert cache.keys("pages") == []


WRITER = """
import sys
from pathlib import Path
from canserve.trees.cache import Cache
cache = Cache(Path(sys.argv[1]))
for number in range(200):
    cache.put("pages", "same", sys.argv[2].encode() * 5_000)
    got = cache.get("pages", "same")
    assert got is None or len(set(got)) == 1, "torn"
"""


def test_processes_do_not_tear_each_others_entries(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    writers = [subprocess.Popen([*command, letter], stderr=subprocess.PIPE) for letter in "abc"]
    assert [writer.communicate(timeout=60)[1] for writer in writers] == [b"", b"", b""]
    assert len(Cache(tmp_path).get("pages", "same") or b"") == 5_000


def test_the_environment_says_where_it_is() -> None:
    before = os.environ.pop("CANSERVE_CACHE", None)
    try:
        assert default_folder().name == "canserve"
        os.environ["CANSERVE_CACHE"] = "/somewhere/else"
        assert default_folder() == Path("/somewhere/else")
    finally:
        os.environ.pop("CANSERVE_CACHE", None)
        if before is not None:
            os.environ["CANSERVE_CACHE"] = before
