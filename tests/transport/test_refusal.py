"""What ssh says, and what it means: real messages of OpenSSH, and those that nobody knows."""

from __future__ import annotations

import pytest

from canserve.facts import Cause
from canserve.transport.refusal import refusal


@pytest.mark.parametrize(
    ("talk", "status", "late", "cause", "why"),
    [
        (
            "ssh: Could not resolve hostname x: Name or service not known",
            255,
            None,
            Cause.UNREACHED,
            "no address",
        ),
        ("ssh: connect to host x port 22: Connection refused", 255, None, Cause.UNREACHED, "nothing answers"),
        ("ssh: connect to host x port 22: No route to host", 255, None, Cause.UNREACHED, "does not answer"),
        ("Connection timed out during banner exchange", 255, None, Cause.UNREACHED, "does not answer"),
        ("me@x: Permission denied (publickey,password).", 255, None, Cause.UNAVAILABLE, "login was refused"),
        ("Host key verification failed.", 255, None, Cause.UNAVAILABLE, "not known here"),
        ("Too many authentication failures", 255, None, Cause.UNAVAILABLE, "login was refused"),
        ("a banner\nsomething new", 255, None, Cause.UNREACHED, "the connection failed (ssh: something new)"),
        ("", None, "no end within 40 s", Cause.UNREACHED, "no end within 40 s"),
        ("", 255, None, Cause.UNREACHED, "the connection failed"),
        ("sh: not found", 127, None, Cause.UNAVAILABLE, "exit status 127"),
        ("", 1, None, Cause.UNAVAILABLE, "it ran no script"),
    ],
)
def test_causes(talk: str, status: int | None, late: str | None, cause: Cause, why: str) -> None:
    found = refusal(talk, status, late, ())
    assert found.cause is cause and why in found.why and found.ask and not found.again


def test_a_changed_key_is_more_than_a_failed_verification() -> None:
    talk = (
        "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n"
        "Host key for x has changed and you have requested strict checking.\nHost key verification failed.\n"
    )
    assert "has changed" in refusal(talk, 255, None, ()).why


@pytest.mark.parametrize(
    "talk",
    [
        "kex_exchange_identification: Connection closed by remote host",
        "kex_exchange_identification: read: Connection reset by peer\nConnection reset by 10.0.0.1 port 22",
    ],
)
def test_an_sshd_that_is_busy_is_asked_again(talk: str) -> None:
    assert refusal(talk, 255, None, ()).again


def test_the_jump_host_is_named() -> None:
    talk = "ssh: connect to host j port 22: Connection refused\nConnection closed by UNKNOWN port 65535"
    assert "through j" in refusal(talk, 255, None, ("j",)).why
