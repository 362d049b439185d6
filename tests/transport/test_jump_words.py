"""The command that reaches a machine behind another: what ssh itself makes of it."""

from __future__ import annotations

import shlex
import subprocess

import pytest

from canserve.commands.ssh import Route, shell
from canserve.transport.refusal import refusal

SOCKET = "/run/user/1000/canserve-1000/%C"


def proxy(route: Route, jumps: tuple[str, ...]) -> str | None:
    """The ``ProxyCommand`` as ssh understands the whole command, before it starts anything."""
    argv = shell(route, 8, SOCKET, jumps)
    told = subprocess.run(
        [*argv[:-3], "-G", "--", argv[-2]], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return next((line for line in told if line.startswith(("proxycommand ", "proxyjump "))), None)


@pytest.mark.parametrize(
    ("jump", "words"),
    [
        ("head", "-- head"),
        ("me@head", "-- me@head"),
        ("me@10.0.0.1:2222", "-- me@10.0.0.1"),
    ],
)
def test_the_way_through_a_jump_host_is_shared(jump: str, words: str) -> None:
    said = proxy(Route("second", (jump,), ("-F", "/dev/null")), (jump,))
    assert said is not None and said.startswith("proxycommand ssh -F /dev/null ")
    assert said.endswith(f"-W '[%h]:%p' {words}")
    assert ("-p 2222" in said) == ("2222" in jump)
    inner = shlex.split(said.removeprefix("proxycommand "))
    assert f"ControlPath={SOCKET.replace('%', '%%')}" in inner, "what it expands, it finds twice"


def test_hops_before_the_last_are_gone_through_on_the_way() -> None:
    said = proxy(Route("third", ("one", "two"), ("-F", "/dev/null")), ("one", "two"))
    assert said is not None and "-J one " in said and said.endswith("-- two")


@pytest.mark.parametrize("jump", ["[fd00::1]:22", "ssh://me@head:22", "he%ad"])
def test_other_forms_are_left_to_ssh(jump: str) -> None:
    argv = shell(Route("second", (jump,)), 8, SOCKET, (jump,))
    assert argv[1:3] == ("-J", jump) and not any("ProxyCommand" in word for word in argv)


def test_without_a_place_for_sockets_ssh_jumps_by_itself() -> None:
    argv = shell(Route("second", ("head",)), 8, None, ("head",))
    assert argv[1:3] == ("-J", "head") and not any("Control" in word for word in argv)


@pytest.mark.parametrize(
    "talk",
    [
        "mux_client_request_stdio_fwd: stdio forwarding request failed: Session open refused by peer\n",
        "kex_exchange_identification: Connection closed by remote host\r\nConnection closed by UNKNOWN port 65535\r\n",
    ],
)
def test_a_shared_way_that_fails_keeps_its_reason(talk: str) -> None:
    found = refusal(talk, 255, None, ("head",))
    assert found.untold and "on the way through head" in found.why


def test_a_way_of_its_own_tells_it() -> None:
    talk = "channel 0: open failed: connect failed: No route to host\r\nstdio forwarding failed\r\n"
    found = refusal(f"{talk}Connection closed by UNKNOWN port 65535\r\n", 255, None, ("head",))
    assert not found.untold and "does not answer" in found.why
