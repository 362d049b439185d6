"""How much came of how much: a copy never shows more than all of it."""

from __future__ import annotations

import os
import tarfile
import threading
from pathlib import Path

import pytest

from canserve.run.transfer_digests import Digests
from canserve.run.transfer_hands import total
from canserve.run.transfer_load import Spool
from canserve.run.transfer_send import INCOMING, inventory, send_file
from canserve.run.transfer_take import Counter, Folder
from canserve.run.transfer_talk import Came
from canserve.run.transfer_wire import Failed, In, Out
from made_images import docker_archive, layer


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where programs note digests."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


class Watched(Counter):
    """Looks with every piece whether more has come than was announced."""

    def more(self, announced: int = 0, got: int = 0) -> None:
        super().more(announced, got)
        assert self.got <= self.announced


def test_no_more_comes_of_a_folder_than_was_announced(home: Path) -> None:
    """Of a file that differs at the same size nothing was expected; of one that was cut the rest is."""
    one, two = home / "one", home / "two"
    for each in (one, two / INCOMING):
        each.mkdir(parents=True)
    contents = {
        "differs": os.urandom(3_000_000),
        "lacks": os.urandom(2_000_000),
        "cut": os.urandom(4_000_000),
    }
    for name, content in contents.items():
        (one / name).write_bytes(content)
    (two / "differs").write_bytes(bytes(3_000_000))
    taking = Folder({"root": os.fsdecode(two), "files": inventory(bytes(one))})
    Path(os.fsdecode(taking.part(taking.files["cut"]))).write_bytes(contents["cut"][:1_000_000])
    taking.prepare()
    have = {name: taking.state(each) for name, each in taking.files.items()}
    counter = Watched(taking.announced(have))
    assert counter.announced == 5_000_000
    reading, writing = os.pipe()

    def send() -> None:
        out = Out(writing)
        for name, size, mtime, _ in taking.files.values():
            there = have[name] or {}
            send_file(out, bytes(one), [name, size, mtime, there.get("at", 0), there.get("sha")], Digests())
        out.end()

    sender = threading.Thread(target=send)
    sender.start()
    taking.take(In(reading), counter)
    sender.join()
    taking.finish()
    assert {name: (two / name).read_bytes() for name in contents} == contents
    assert (counter.got, counter.announced) == (8_000_000, 8_000_000)
    os.close(reading)
    os.close(writing)


def test_a_file_that_does_not_end_is_given_up(home: Path) -> None:
    (home / "one").mkdir()
    (home / "one" / "w").write_bytes(b"1234")
    taking = Folder({"root": str(home / "two"), "files": inventory(bytes(home / "one"))})
    taking.prepare()
    reading, writing = os.pipe()
    out = Out(writing)
    out.told(b"N", name="w", size=4, at=0, mtime=0, mode=0o644)
    out.put(b"D", b"12345")
    out.end()
    with pytest.raises(Failed, match="more came"):
        taking.take(In(reading), Counter())
    os.close(reading)
    os.close(writing)


def test_what_comes_of_an_image_is_never_more_than_all_of_it(home: Path) -> None:
    """Engines count contents; an archive of many small files is larger than these."""
    parts = [layer({f"opt/{number}-{each}": b"x" for each in range(2000)}) for number in range(2)]
    archive = docker_archive(home / "image.tar", parts, "small:1")
    expected = 2 * 2000
    counter = Watched()
    said = []
    with tarfile.open(archive) as members, (home / "loaded.tar").open("wb") as load:
        spool = Spool(bytes(home), load, keep=True, counter=counter)
        for member in members:
            spool.begin(
                {"name": member.name, "size": member.size, "mode": 0o644, "type": "0", "to": "", "at": 0}
            )
            content = members.extractfile(member)
            while content is not None and (piece := content.read(100_000)):
                spool.data(piece)
                came = Came(counter.got, counter.announced, "copying", 1.0)
                said.append((came.got, total(expected, came)))
        spool.end()
    assert counter.got > expected
    assert all(whole is not None and got <= whole for got, whole in said), said
    assert total(None, came) is None
    assert total(10 * counter.got, came) == 10 * counter.got
