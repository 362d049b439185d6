"""Scripts over a real sshd: whatever the network or the machine does is a cause, never a wrong answer."""

from __future__ import annotations

import os
import resource
import socket
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from canserve.commands.ssh import Route
from canserve.facts import Cause, Missing
from canserve.transport.frames import Answer, Section
from canserve.transport.reach import STARTS, Limits, Look, control_socket, look_there
from loopback import Loopback, free_port, key, problem, sshd

CI = os.environ.get("CI", "").lower() in {"1", "true"}
ASK = (Section("name", "uname -s"), Section("last", "echo last"))
SHORT = Limits(connect=3, whole=15)


def can_start() -> None:
    if (why := problem()) is not None:
        if CI:
            pytest.fail(why)
        pytest.skip(why)


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    can_start()
    with sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture(autouse=True)
def private_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # No test finds the open connection of another: a short path, as sockets have.
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


def look(options: tuple[str, ...], sections: tuple[Section, ...] = ASK, limits: Limits = SHORT) -> Look:
    return look_there("box", Route("box", (), options), sections, limits)


def text(found: Answer | Missing) -> str:
    assert isinstance(found, Answer), found
    return found.text


def trouble(seen: Look) -> Missing:
    assert seen.trouble is not None and not seen.answers
    return seen.trouble


def wrapped(box: Loopback, folder: Path, script: str) -> Iterator[Loopback]:
    """An sshd where every login runs this script instead, which may run the asked-for command."""
    with sshd(folder / "wrapped") as running:
        program = folder / "login.sh"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        keys = running.folder / "authorized_keys"
        keys.write_text(f'command="{program}" {keys.read_text()}')
        yield running


def test_it_answers(box: Loopback) -> None:
    seen = look(box.configure())
    assert seen.trouble is None and text(seen.section("name")) == f"{os.uname().sysname}\n"
    assert text(seen.section("last")) == "last\n" and seen.how.startswith("ssh ") and " box " in seen.how


def test_banners_are_no_answers(box: Loopback, tmp_path: Path) -> None:
    script = r"printf 'Welcome to \377\376\033[31m box\nhello\nbye'; echo noise >&2; eval $SSH_ORIGINAL_COMMAND; echo done"
    for running in wrapped(box, tmp_path, script):
        seen = look(running.configure())
        assert seen.trouble is None and text(seen.section("name")) == f"{os.uname().sysname}\n"


def test_a_connection_cut_in_the_middle_keeps_what_came(box: Loopback) -> None:
    # What was said has time to arrive: sshd passes it on when it likes.
    kill = "sleep 1; p=$$; while [ \"$(cat /proc/$p/comm)\" != sshd ]; do p=$(awk '{print $4}' /proc/$p/stat); done; kill -9 $p; sleep 5"
    seen = look(
        box.configure(), (Section("first", "echo 1"), Section("cut", kill), Section("then", "echo 3"))
    )
    assert text(seen.section("first")) == "1\n"
    for name in ("cut", "then"):
        found = seen.section(name)
        assert isinstance(found, Missing) and found.cause is Cause.UNREACHED
        assert "the connection was cut" in found.why and "while asking for cut" in found.why


def test_exit_255_of_a_script_is_no_lost_connection(box: Loopback) -> None:
    seen = look(box.configure(), (Section("odd", "exit 255"), *ASK))
    odd = seen.section("odd")
    assert seen.trouble is None and isinstance(odd, Answer) and odd.status == 255


def test_a_wrong_key_is_refused(box: Loopback, tmp_path: Path) -> None:
    key(tmp_path / "other")
    options = box.configure()
    box.config.write_text(box.config.read_text().replace(f"{box.folder}/key", f"{tmp_path}/other"))
    found = trouble(look(options))
    assert found.cause is Cause.UNAVAILABLE and "the login was refused" in found.why
    assert found.ask is not None and "ssh box true" in found.ask


def test_a_changed_host_key(box: Loopback, tmp_path: Path) -> None:
    options = box.configure()
    (tmp_path / "known").write_text(f"box {key(tmp_path / 'host')}\n")
    box.config.write_text(box.config.read_text().replace(f"{box.folder}/known_hosts", f"{tmp_path}/known"))
    found = trouble(look(options))
    assert found.cause is Cause.UNAVAILABLE and "host key has changed" in found.why


def test_an_unknown_host_key(box: Loopback) -> None:
    options = box.configure()
    box.config.write_text(box.config.read_text().replace(f"{box.folder}/known_hosts", "/dev/null"))
    assert "host key is not known" in trouble(look(options)).why


def test_nothing_listens(box: Loopback) -> None:
    found = trouble(look(box.configure(port=free_port())))
    assert found.cause is Cause.UNREACHED and "nothing answers on its ssh port" in found.why


def test_a_name_of_nobody(box: Loopback) -> None:
    options = box.configure("Host box\n  HostName no-such-machine.invalid\n")
    found = trouble(look(options))
    assert found.cause is Cause.UNREACHED and "stands for no address" in found.why


def test_a_dead_host_costs_its_deadline_only(box: Loopback) -> None:
    with socket.socket() as silent:  # takes connections and never says a word
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        start = time.monotonic()
        found = trouble(look(box.configure(port=silent.getsockname()[1])))
        assert time.monotonic() - start < 8
    assert found.cause is Cause.UNREACHED and "does not answer" in found.why


def test_a_jump_host_that_is_down(box: Loopback) -> None:
    options = box.configure(f"Host jump\n  Port {free_port()}\n")
    seen = look_there("box", Route("box", ("jump",), options), ASK, SHORT)
    found = trouble(seen)
    assert found.cause is Cause.UNREACHED and "nothing answers" in found.why and "jump" in found.why


def test_through_a_jump_host(box: Loopback) -> None:
    seen = look_there("box", Route("box", ("jump",), box.configure()), ASK, SHORT)
    assert seen.trouble is None and "-J jump" in seen.how


def test_a_gigabyte_of_output_is_cut_on_the_machine(box: Loopback) -> None:
    sections = (Section("much", "head -c 1000000000 /dev/zero"), *ASK)
    seen = look(box.configure(), sections)
    much = seen.section("much")
    assert isinstance(much, Answer) and len(much.out) == sections[0].limit and not much.whole
    assert text(seen.section("last")) == "last\n"


def test_a_gigabyte_of_banner_is_cut_here(box: Loopback, tmp_path: Path) -> None:
    for running in wrapped(box, tmp_path, "head -c 1000000000 /dev/zero; eval $SSH_ORIGINAL_COMMAND"):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found = trouble(look(running.configure()))
        assert "MiB of output" in found.why
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def test_an_account_without_a_shell(box: Loopback, tmp_path: Path) -> None:
    for running in wrapped(box, tmp_path, "echo This account is currently not available.; exit 1"):
        found = trouble(look(running.configure()))
        assert found.cause is Cause.UNAVAILABLE and "exit status 1" in found.why


def test_twenty_at_once_on_one_sshd(box: Loopback) -> None:
    routes = [Route(f"box{number}", (), box.configure()) for number in range(20)]
    with ThreadPoolExecutor(20) as pool:
        seen = list(pool.map(lambda route: look_there(route.destination, route, ASK, Limits(8, 60)), routes))
    assert [one.trouble for one in seen] == [None] * 20
    assert "MaxStartups" not in box.log()


def test_further_looks_find_the_connection_open(box: Loopback) -> None:
    options = tuple(word for word in box.configure())
    box.config.write_text(box.config.read_text().replace("  ControlPath none\n", ""))
    place = control_socket()
    assert place is None or (Path(place).parent.stat().st_mode & 0o777) == 0o700
    before = box.log().count("Accepted publickey")
    assert look(options).trouble is None and look(options).trouble is None
    assert box.log().count("Accepted publickey") - before == (2 if place is None else 1)


def test_connections_are_kept_in_a_folder_of_this_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        monkeypatch.setenv("XDG_RUNTIME_DIR", short)
        place = control_socket()
        assert place is not None and Path(place).parent.parent == Path(short)
        Path(place).parent.chmod(0o755)
        assert control_socket() is None
        Path(place).parent.rmdir()
        Path(place).parent.symlink_to(tmp_path)
        assert control_socket() is None
    for unfit in (str(tmp_path / "not there"), f"{tmp_path}/{'x' * 60}"):
        monkeypatch.setenv("XDG_RUNTIME_DIR", unfit)
        assert control_socket() is None


def test_only_the_start_of_a_connection_waits_for_others(box: Loopback) -> None:
    routes = [Route(f"slow{number}", (), box.configure()) for number in range(STARTS + 2)]
    wait = (Section("wait", "sleep 8"),)
    with ThreadPoolExecutor(len(routes)) as pool:
        seen = list(pool.map(lambda route: look_there(route.destination, route, wait, Limits(8, 60)), routes))
    assert [one.trouble for one in seen] == [None] * len(routes)
    assert max(one.begun for one in seen) < min(one.ended for one in seen)
