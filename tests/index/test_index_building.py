"""Making the index by the real command, from small releases; damaged, interrupted, and taken up again."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from small_index import LIBRARY, SmallIndex

from canserve.index.shelf import contents

SEED = int(os.environ["CANSERVE_SEED"])


@pytest.fixture
def small(tmp_path: Path) -> SmallIndex:
    index = SmallIndex(tmp_path)
    index.wheel("4.50.0", '{"moth": "MothConfig"}')
    return index


def test_a_build_has_what_the_page_lists(small: SmallIndex) -> None:
    small.wheel("4.10.0", "{}")  # older than anything an engine asks for
    done = small.run("build")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{LIBRARY}: 1 releases, to 4.50.0; 1 read, written to {small.path}\n"
    (row,) = small.shelf().releases
    assert (row["version"], row["date"], row["yanked"]) == ("4.50.0", "2026-01-02", True)
    assert row["sha256"] == small.files[0]["hashes"]["sha256"][:16]  # type: ignore[index]
    assert contents(small.shelf(), "config_types") == [frozenset({"moth"})]
    assert not list(small.mine.glob("*.partial"))


def test_only_what_is_new_is_read(small: SmallIndex) -> None:
    small.run("build")
    before = small.path.read_bytes()
    done = small.run("update")
    assert done.stdout == f"{LIBRARY}: 1 releases, to 4.50.0; nothing new\n"
    assert small.path.read_bytes() == before
    small.wheel("5.0.0", '{"moth": "M", "owl": "O"}')
    done = small.run("update")
    assert "2 releases, to 5.0.0; 1 read" in done.stdout
    assert contents(small.shelf(), "config_types") == [frozenset({"moth"}), frozenset({"moth", "owl"})]


def test_step_by_step_or_at_once_gives_the_same_bytes(small: SmallIndex, tmp_path: Path) -> None:
    small.run("build")
    small.wheel("5.0.0", '{"moth": "M", "owl": "O"}')
    small.run("update")
    step_by_step = small.path.read_bytes()
    done = small.run("build", "--into", str(tmp_path / "elsewhere"))
    assert "2 read" in done.stdout
    assert (tmp_path / "elsewhere" / small.path.name).read_bytes() == step_by_step


def test_what_is_withdrawn_later_is_marked_without_reading_it_again(small: SmallIndex) -> None:
    small.run("build")
    small.files[0]["yanked"] = False
    small.publish()
    assert "; 0 read, written" in small.run("update").stdout
    assert "yanked" not in small.shelf().releases[0]


def test_a_file_that_changed_is_read_anew(small: SmallIndex) -> None:
    small.run("build")
    small.wheel("4.50.0", '{"owl": "O"}')
    assert "; 1 read" in small.run("update").stdout
    assert contents(small.shelf(), "config_types") == [frozenset({"owl"})]


def test_what_is_listed_no_more_was_read_all_the_same(small: SmallIndex) -> None:
    small.wheel("5.0.0", '{"moth": "M"}')
    small.run("build")
    del small.files[0]
    small.wheel("5.1.0", '{"moth": "M"}')
    small.run("update")
    assert small.versions() == ["4.50.0", "5.0.0", "5.1.0"]
    small.run("build")
    assert small.versions() == ["5.0.0", "5.1.0"]


@pytest.mark.parametrize("types", ["build()", None])
def test_a_release_that_cannot_be_read_is_told_and_tried_again(small: SmallIndex, types: str | None) -> None:
    small.wheel("5.0.0", types or "{}", broken=types is None)
    done = small.run("build")
    assert done.returncode == 3
    assert f"{LIBRARY}: 5.0.0 could not be had: " in done.stdout
    assert small.versions() == ["4.50.0"]
    small.wheel("5.0.0", '{"owl": "O"}')
    assert small.run("update").returncode == 0
    assert small.versions() == ["4.50.0", "5.0.0"]


def test_an_index_that_cannot_be_asked_leaves_the_old_file(small: SmallIndex) -> None:
    small.run("build")
    before = small.path.read_bytes()
    (small.project / "index.json").write_text("{")
    done = small.run("build")
    assert done.returncode == 3
    assert "the package index could not be asked" in done.stdout
    assert small.path.read_bytes() == before


def damaged(small: SmallIndex, how: str) -> bytes:
    data = small.path.read_bytes()
    line, _, body = data.partition(b"\n")
    return {
        "cut": data[: len(data) // 2],
        "empty": b"",
        "changed": data[:-1] + bytes([data[-1] ^ 1]),
        "newer": json.dumps({**json.loads(line), "schema": 99}).encode() + b"\n" + body,
        "another's": data.replace(LIBRARY.encode(), b"large-library"),
    }[how]


@pytest.mark.parametrize("how", ["cut", "empty", "changed", "newer", "another's"])
def test_a_file_that_is_no_good_is_refused_in_one_line_and_made_anew(small: SmallIndex, how: str) -> None:
    small.run("build")
    good = small.path.read_bytes()
    small.path.write_bytes(damaged(small, how))
    done = small.run("status")
    assert done.returncode == 3
    assert done.stdout == f"{LIBRARY}: no index of {LIBRARY} is shipped\n"
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"note: {small.path}: index data ")
    assert line.endswith("`canserve index update` writes it anew")
    if how == "newer":
        assert "of schema 99; this program reads 2" in line
    assert small.run("build").returncode == 0
    assert small.path.read_bytes() == good
    assert small.run("status").stderr == ""


def test_update_mends_as_well(small: SmallIndex) -> None:
    small.run("build")
    small.path.write_bytes(b"?")
    assert small.run("update").returncode == 0
    assert small.run("status").stderr == ""


def test_an_index_that_gives_nothing_is_left_in_peace(small: SmallIndex) -> None:
    small.run("build")
    before = small.path.read_bytes()
    for number in range(20):
        small.wheel(f"5.{number}.0", '{"moth": "M"}')
    for path in small.project.glob("*-5.1?.0-*"):
        path.unlink()
    done = small.run("update")
    assert done.returncode == 3
    assert (
        f"{LIBRARY}: 1 releases, to 4.50.0; not finished: 0 read, which the next run need not" in done.stdout
    )
    assert done.stdout.count("could not be had: ") == 3
    assert small.path.read_bytes() == before


@pytest.fixture
def many(tmp_path: Path) -> SmallIndex:
    index = SmallIndex(tmp_path)
    for number in range(40):
        types = {f"type{number % 7}": "C", **{f"t{k}": "D" for k in range(number)}}
        index.wheel(f"5.{number}.0", repr(types))
    return index


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_stopped_at_any_moment_the_old_index_is_usable_and_the_next_run_goes_on(
    many: SmallIndex, how: signal.Signals, tmp_path: Path
) -> None:
    rng = random.Random(SEED)
    whole = many.files
    many.files = whole[:1]
    many.publish()
    assert many.run("build").returncode == 0
    old = many.path.read_bytes()
    many.files = whole
    many.publish()
    start = time.monotonic()
    assert many.run("update", "--into", str(tmp_path / "undisturbed")).returncode == 0
    lasts = time.monotonic() - start
    new = (tmp_path / "undisturbed" / many.path.name).read_bytes()
    interrupted = 0
    for _ in range(12):
        running = subprocess.Popen(
            many.command("update"),
            env=many.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        time.sleep(rng.uniform(0.15, lasts))
        running.send_signal(how)
        _, said = running.communicate(timeout=60)
        interrupted += running.returncode != 0
        if how is signal.SIGINT and running.returncode == 130 and "stopped" in said:
            assert (
                said.splitlines()[-1] == "stopped; the index is as it was, and the next run goes on from here"
            )
        assert many.path.read_bytes() in {old, new}
        status = many.run("status")
        assert status.returncode == 0
        assert status.stderr == ""
    assert interrupted
    done = many.run("update")
    assert done.returncode == 0
    assert many.path.read_bytes() == new
    assert not list(many.mine.glob("*.partial"))


def test_what_was_read_before_it_was_stopped_is_not_read_again(many: SmallIndex) -> None:
    running = subprocess.Popen(many.command("build"), env=many.environment, stdout=subprocess.DEVNULL)
    journal = many.mine / f"{LIBRARY}.partial"
    until = time.monotonic() + 60
    while not (journal.exists() and journal.stat().st_size > 3000) and time.monotonic() < until:
        time.sleep(0.002)
    running.kill()
    running.wait()
    lines = [line for line in journal.read_bytes().split(b"\n") if line]
    with journal.open("ab") as out:
        out.write(lines[0][: len(lines[0]) // 2])  # the line during which it was stopped
    done = many.run("build")
    assert f"{40 - len(lines)} read" in done.stdout or f"{41 - len(lines)} read" in done.stdout
    assert len(many.versions()) == 40
