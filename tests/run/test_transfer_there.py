"""The programs that copy, as they run on machines: both ends here, real pipes and sockets, hostile orders and frames."""

from __future__ import annotations

import ast
import os
import socket
import sys
import threading
import time
import zlib
from pathlib import Path
from typing import Any

import pytest

from canserve.plan.roads import Leg
from canserve.rules.machines import FIELDS, unstated
from canserve.run.transfer_digests import Digests
from canserve.run.transfer_hands import Hands, Job, carried_over
from canserve.run.transfer_load import Spool
from canserve.run.transfer_send import inventory, names_to_skip, old_names
from canserve.run.transfer_take import Counter, Folder
from canserve.run.transfer_talk import Far, TransferError, _line_of_ours, source
from canserve.run.transfer_weights import bring_weights, folder
from canserve.run.transfer_wire import HEAD, Cut, Door, Failed, In, Out, connected, unpacked
from canserve.subjects.cluster import Node
from canserve.subjects.machine import Machine

LAYERS = [
    "sha256:c41706bb1717e4cfa5e22fdce1ef8c853f0965bb3e8ec6d5bc99e00aa196ca22",
    "sha256:d6c78c224c0744809167b2e04ceacd2caf0d7f3ded6bee36b937400fd25143c3",
    "sha256:9e95ac082992ddf7a1c9e5cb857f81e7057919ec2e707d9cc8a7310cdfcefee2",
]
"""Of an image that docker 20.10 saved under the names below, its clock on UTC."""
SAVED = [
    "7a41c2d1b602734443bb5b31b5e28b5c92e194bd8f9f927da2f9ce101d9bf2ae/layer.tar",
    "e684a252e5ff07aa958871dd51be4de563cbe03513a7f5d677aac3ab8e3c465a/layer.tar",
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where programs note digests."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def machine(name: str) -> Node:
    return Node(
        name, Machine(name, **{field: unstated(name, field) for field in FIELDS}), "local", None, None
    )


def here(*names: str) -> Hands:
    return Hands({name: machine(name) for name in names}, {})


def bring(source_: Path, target: Path) -> str | None:
    it = folder(str(source_), "one", str(target))
    (done,) = bring_weights(it, ["two"], here("one", "two"))
    return done.problem


def test_the_program_stands_alone() -> None:
    text = source()
    names = {
        (node.module or "").split(".")[0] if isinstance(node, ast.ImportFrom) else alias.name.split(".")[0]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert names - {"__future__"} <= sys.stdlib_module_names
    assert len(text) < 100_000, "one argument of a command holds no more than 128 KiB"
    ast.parse(text, feature_version=(3, 8))


def test_a_folder_is_copied_once_and_then_only_what_differs(home: Path) -> None:
    one, two = home / "one", home / "two"
    (one / "deep").mkdir(parents=True)
    (one / "deep" / "w").write_bytes(os.urandom(3_000_000))
    (one / "link").symlink_to("deep/w")
    Path(os.fsdecode(bytes(one) + b"/no text \xff\n")).write_bytes(b"x")
    (one / "half.incomplete").write_bytes(b"half")
    assert bring(one, two) is None
    assert (two / "deep" / "w").read_bytes() == (one / "deep" / "w").read_bytes()
    assert str((two / "link").readlink()) == "deep/w"
    assert sorted(os.fsencode(each.name) for each in two.iterdir()) == [b"deep", b"link", b"no text \xff\n"]
    before = (two / "deep" / "w").stat()
    assert bring(one, two) is None
    assert (two / "deep" / "w").stat().st_ino == before.st_ino


def test_a_link_that_leads_out_is_copied_as_what_it_leads_to(home: Path) -> None:
    (home / "one").mkdir()
    (home / "elsewhere").write_bytes(b"weights")
    (home / "one" / "w").symlink_to(home / "elsewhere")
    assert bring(home / "one", home / "two") is None
    assert not (home / "two" / "w").is_symlink()
    assert (home / "two" / "w").read_bytes() == b"weights"


@pytest.mark.parametrize("target", ["../nowhere", "../a-folder"])
def test_a_link_to_nothing_or_to_a_folder_elsewhere_is_a_problem(home: Path, target: str) -> None:
    (home / "one").mkdir()
    (home / "a-folder").mkdir()
    (home / "one" / "w").symlink_to(target)
    problem = bring(home / "one", home / "two")
    assert problem is not None
    assert "is a link to" in problem


def test_pipes_and_sockets_are_no_files(home: Path) -> None:
    os.mkfifo(home / "pipe")
    assert inventory(bytes(home)) == []


def test_a_folder_that_is_not_there_is_a_problem(home: Path) -> None:
    problem = bring(home / "nowhere", home / "two")
    assert problem is not None
    assert "is no folder" in problem


def test_what_stands_where_a_file_belongs_is_replaced_and_a_folder_is_not(home: Path) -> None:
    one, two = home / "one", home / "two"
    one.mkdir()
    two.mkdir()
    (one / "w").write_bytes(b"weights")
    (home / "precious").write_bytes(b"mine")
    (two / "w").symlink_to(home / "precious")
    assert bring(one, two) is None
    assert (home / "precious").read_bytes() == b"mine"
    (two / "w").unlink()
    (two / "w").mkdir()
    problem = bring(one, two)
    assert problem is not None
    assert "is a folder here" in problem


@pytest.mark.parametrize(
    "entry",
    [
        ["../x", 1, 1, None],
        ["/etc/x", 1, 1, None],
        ["a//b", 1, 1, None],
        ["", 1, 1, None],
        ["a\0b", 1, 1, None],
        [".canserve-incoming/lock", 1, 1, None],
        ["link", 0, 0, "../../x"],
        ["link", 0, 0, "/etc/passwd"],
        ["deep/link", 0, 0, "../.."],
    ],
)
def test_names_and_links_that_lead_out_are_refused(home: Path, entry: list[Any]) -> None:
    with pytest.raises(Failed, match=r"is no name of a file here|leads out of the folder"):
        Folder({"root": str(home), "files": [entry]})


def test_a_folder_behind_a_link_is_not_written_to(home: Path) -> None:
    (home / "two").mkdir()
    (home / "outside").mkdir()
    (home / "two" / "deep").symlink_to(home / "outside")
    with pytest.raises(Failed, match="lies behind a link"):
        Folder({"root": str(home / "two"), "files": []}).path("deep/w")


def test_a_program_ends_with_its_operator(home: Path) -> None:
    far = Far("here", None)
    far.order(do="take-files", root=str(home / "two"), files=[], listen="127.0.0.1", ask="a", answer="b")
    assert far.answer()["port"]
    far.order(direct=True, width=1)
    assert far.process.stdin is not None
    far.process.stdin.close()
    assert far.process.wait(20) == 3
    far.close()


def test_what_a_program_over_there_cannot_do_is_a_problem(home: Path) -> None:
    (home / "file").write_bytes(b"")
    far = Far("here", None)
    far.order(do="take-files", root=str(home / "file" / "below"), files=[], listen=None, ask="", answer="")
    with pytest.raises(TransferError, match=r"here: .*cannot be written"):
        far.answer()
    far.close()


def test_layers_of_old_archives_are_known_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert list(old_names(LAYERS)) == SAVED
    assert SAVED[0] in names_to_skip(LAYERS, 1)
    assert SAVED[1] not in names_to_skip(LAYERS, 1)
    assert f"blobs/{LAYERS[0].replace(':', '/')}" in names_to_skip(LAYERS, 1)
    assert names_to_skip(LAYERS, 0) == set()
    monkeypatch.setenv("TZ", "CET-1")
    time.tzset()
    assert not set(old_names(LAYERS)) & set(SAVED), "the daemon writes the moment zero in its own time zone"
    monkeypatch.undo()
    time.tzset()


def test_a_layer_that_is_needed_again_higher_up_is_sent() -> None:
    assert f"blobs/{LAYERS[0].replace(':', '/')}" not in names_to_skip([*LAYERS, LAYERS[0]], 1)


def test_a_packed_frame_is_bounded() -> None:
    assert unpacked(zlib.compress(bytes(1 << 20))) == bytes(1 << 20)
    with pytest.raises(Failed, match="larger than it may be"):
        unpacked(zlib.compress(bytes(64 << 20)))


def test_contents_are_packed_on_a_slow_way_where_it_helps() -> None:
    ours, theirs = socket.socketpair()
    out, frames = Out(ours.fileno()), In(theirs.fileno())
    out.packing = True
    out.window = time.monotonic() + 1000
    text, noise = b"the same again. " * 4096, os.urandom(65536)
    got: list[bytes] = []

    def read() -> None:
        while (frame := frames.next())[0] != b"Q":
            got.append(bytes(frame[1]))

    reader = threading.Thread(target=read)
    reader.start()
    out.data(memoryview(text))
    out.data(memoryview(noise))
    out.end()
    reader.join()
    assert got == [text, noise]
    assert len(noise) < frames.count < len(noise) + 5000


def test_a_connection_that_ends_early_is_a_cut_and_nonsense_is_refused() -> None:
    ours, theirs = socket.socketpair()
    ours.sendall(HEAD.pack(b"D", 10) + b"half")
    ours.close()
    with pytest.raises(Cut):
        In(theirs.fileno()).next()
    ours, theirs = socket.socketpair()
    ours.sendall(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(Failed, match="does not speak this language"):
        In(theirs.fileno()).next()


def test_only_who_knows_the_secret_comes_in() -> None:
    door = Door("127.0.0.1", "ask" * 8, "answer" * 4)
    found: list[socket.socket] = []
    waiting = threading.Thread(target=lambda: found.extend(door.let_in(1, 20)))
    waiting.start()
    with socket.create_connection(("127.0.0.1", door.port)) as stranger:
        stranger.sendall(b"x" * 24)
        assert stranger.recv(100) == b""
    way = connected(["127.0.0.1", door.port, "ask" * 8, "answer" * 4])
    waiting.join()
    assert len(found) == 1
    way.close()
    found[0].close()


def test_who_does_not_answer_with_the_secret_gets_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        serving = threading.Thread(target=lambda: other.accept()[0].sendall(b"SSH-2.0-OpenSSH_9.2\r\n" * 4))
        serving.start()
        with pytest.raises(OSError, match="another program"):
            connected(["127.0.0.1", other.getsockname()[1], "ask", "answer" * 4])
        serving.join()


def test_notes_of_digests_hold_only_while_nothing_changed(home: Path) -> None:
    file = home / "w"
    file.write_bytes(b"one")
    seen = file.stat()
    digests = Digests()
    digests.new[str(file)] = [
        seen.st_dev,
        seen.st_ino,
        seen.st_size,
        seen.st_mtime_ns,
        seen.st_ctime_ns,
        "noted",
    ]
    digests.keep()
    assert Digests().of(bytes(file)) == "noted"
    file.write_bytes(b"two")
    os.utime(file, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert Digests().of(bytes(file)) != "noted"
    (home / "cache" / "canserve" / "digests.json").write_text('{"x": 1, "')
    assert Digests().of(bytes(file)) != "noted"


def test_more_than_was_announced_never_reaches_an_engine(home: Path) -> None:
    with (home / "archive").open("wb") as load:
        spool = Spool(bytes(home), load, keep=False, counter=Counter())
        spool.begin({"name": "x", "size": 4, "mode": 0o644, "type": "0", "to": "", "at": 0})
        with pytest.raises(Failed, match="more came"):
            spool.data(b"12345")


@pytest.mark.parametrize("line", [b"", b"[]", b"nonsense", b"[" * 100_000, b"\xff", b"1"])
def test_what_is_no_answer_of_ours_is_a_problem_and_no_defect(line: bytes) -> None:
    with pytest.raises(TransferError, match="no answer of the program"):
        _line_of_ours("m", line)


def test_answers_in_another_form_are_a_problem_of_the_machine(home: Path) -> None:
    (home / "one").mkdir()

    def settle(first: object, has: object) -> tuple[dict[str, Any], dict[str, Any], int | None]:
        raise KeyError("have")

    send = {"do": "send-files", "root": str(home / "one")}
    job = Job("w", send, {"do": "take-files", "root": str(home / "two")}, settle)
    with pytest.raises(TransferError, match="another form"):
        carried_over(job, Leg("two", "through", "one"), here("one", "two"))


def test_what_was_kept_and_had_to_go_is_not_gone_on_with(home: Path) -> None:
    with (home / "archive").open("wb") as load:
        spool = Spool(bytes(home), load, keep=False, counter=Counter())
        with pytest.raises(Cut, match="again from the beginning"):
            spool.begin({"name": "x", "size": 4, "mode": 0o644, "type": "0", "to": "", "at": 2})
