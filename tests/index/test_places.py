"""Files where an index should lie, and that are none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from canserve.index.places import MAX_BYTES, read_from
from canserve.index.shelf import ShelfError


def test_no_file_is_no_index(tmp_path: Path) -> None:
    assert read_from(tmp_path, "vllm") is None


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "vllm.index")
    with pytest.raises(ShelfError, match="not a file; `canserve index update` writes it anew"):
        read_from(tmp_path, "vllm")


def test_what_is_larger_than_any_index_is_not_read_whole(tmp_path: Path) -> None:
    with (tmp_path / "vllm.index").open("wb") as file:
        file.truncate(MAX_BYTES * 1000)
    with pytest.raises(ShelfError, match="larger than"):
        read_from(tmp_path, "vllm")


@pytest.mark.parametrize("data", [b"", b"\n", b"{}\n", b"[" * 10**5, b"\xff" * 100])
def test_any_other_bytes_are_one_line(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "vllm.index").write_bytes(data)
    with pytest.raises(ShelfError) as caught:
        read_from(tmp_path, "vllm")
    assert str(tmp_path) in str(caught.value) and "\n" not in str(caught.value)
