"""What no server should send, and addresses and keys that are none: bounded, one line, no key where none belongs."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from test_served_faults import FAST, because, words

from canserve.api import SpecError
from canserve.api.verifying import VerifyReport, VerifyWishes, key_of, read_key, verify
from canserve.render.page import Look
from canserve.render.structure import to_json
from canserve.render.verify_structure import verify_output
from canserve.render.verify_text import verify_markdown, verify_text
from canserve.trees.secret import Secret
from stub_server import serving
from web_server import page, running, status

BRIEF = replace(FAST, patience=1.0, total=20.0)
KEY = Secret("open-sesame")


def everything_printed(report: VerifyReport) -> str:
    explain = frozenset({"all"})
    shown = (verify_text(report, Look(explain=explain)), verify_markdown(report, explain))
    return "".join((to_json(verify_output(report)), *shown, repr(report)))


def reason(report: VerifyReport, check: str) -> str:
    finding = next(finding for finding in report.findings if finding.check == check)
    assert "\n" not in finding.verdict.because
    return finding.verdict.because


@contextmanager
def raw(*answers: bytes, models: bytes = b"") -> Iterator[str]:
    """A server that sends these bytes, whatever it is asked, and hangs up; ``models``: its list, where it has one."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                try:
                    listed = b"/v1/models" in connection.recv(65536) and models
                    for answer in [listed] if listed else answers:
                        connection.sendall(answer)
                except OSError:
                    continue

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate that signs itself, and its key."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
         "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key


def test_the_key_goes_to_the_server_and_is_printed_nowhere() -> None:
    with serving("key") as stub:
        report = verify(stub.url, VerifyWishes(limits=FAST, key=KEY))
        assert because(report) == {}
        assert all(headers["authorization"] == "Bearer open-sesame" for headers in stub.headers)
    assert "open-sesame" not in everything_printed(report)


def test_a_redirect_is_not_followed_and_gets_no_key() -> None:
    with running() as thief, running() as site:
        thief.put("/v1/models", page(b"{}", "application/json"))
        site.put("/v1/models", status(302, Location=f"{thief.url}/v1/models?token=abc"))
        report = verify(site.url, VerifyWishes(limits=BRIEF, key=KEY))
        assert thief.requests == []
    assert words(report, "no") == {"ready"}
    assert "redirects" in reason(report, "ready")
    printed = everything_printed(report)
    assert "open-sesame" not in printed
    assert "token=abc" not in printed


def test_a_redirect_of_an_answer_is_not_followed_either() -> None:
    with running() as thief:
        answer = f"HTTP/1.1 307 X\r\nLocation: {thief.url}/?k=secret\r\nContent-Length: 0\r\n\r\n".encode()
        with raw(answer) as url:
            report = verify(url, VerifyWishes(limits=BRIEF, model="tiny", key=KEY))
        assert thief.requests == []
    assert words(report, "no") <= {"ready", "answers"}


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate, and is not here")
def test_a_certificate_that_nobody_signed_is_not_believed(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    models = json.dumps({"data": [{"id": "tiny"}]}).encode()
    with running(context) as site:
        site.put("/v1/models", page(models, "application/json"))
        report = verify(site.url, VerifyWishes(limits=BRIEF, key=KEY))
        assert words(report, "unknown") == {"ready"}
        assert words(report, "no") == set()
        assert "CERTIFICATE_VERIFY_FAILED" in reason(report, "ready")
        assert site.requests == []
        trusted = verify(site.url, VerifyWishes(limits=BRIEF, certificates=cert))
        assert "ready" in words(trusted, "yes")


def test_https_where_there_is_none() -> None:
    with serving() as stub:
        report = verify(stub.url.replace("http://", "https://"), VerifyWishes(limits=BRIEF))
    assert words(report, "unknown") == {"ready"}
    finding = next(finding for finding in report.findings if finding.check == "ready")
    assert "http://" in getattr(finding.verdict, "ask", "")


def test_nothing_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    report = verify(f"http://127.0.0.1:{port}", VerifyWishes(limits=BRIEF))
    assert words(report, "no") == {"ready"}
    assert "nothing listens" in reason(report, "ready")


def test_a_name_that_does_not_exist_is_unknown() -> None:
    report = verify("http://no-such-host.invalid:8000", VerifyWishes(limits=BRIEF))
    assert words(report, "unknown") == {"ready"}
    assert words(report, "no") == set()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzzzz\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 300_000 + b"\r\n\r\n",
        b"\x00\xff" * 2000,
    ],
)
def test_what_is_no_http_ends_in_one_line(answer: bytes) -> None:
    with raw(answer) as url:
        report = verify(url, VerifyWishes(limits=BRIEF))
    assert words(report, "no") == {"ready"}
    assert len(reason(report, "ready")) < 500


def test_packed_replies_are_not_unpacked() -> None:
    bomb = (
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 20\r\n\r\n" + b"\x1f\x8b" + b"\0" * 18
    )
    with raw(bomb) as url:
        report = verify(url, VerifyWishes(limits=BRIEF))
    assert words(report, "no") == {"ready"}


MODELS = b'{"data": [{"id": "tiny"}]}'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
REPLIES = {
    "list": b"[1, 2]",
    "deep": b"[" * 100_000,
    "no choices": b'{"choices": []}',
    "choice of another type": b'{"choices": ["a"]}',
    "no message": b'{"choices": [{}]}',
    "text of another type": b'{"choices": [{"message": {"content": {"a": 1}}}], "usage": {"completion_tokens": "x"}}',
    "negative": b'{"choices": [{"message": {"content": "", "tool_calls": [3, {"function": 7}]}}], "usage": 4}',
}


@pytest.mark.parametrize("name", REPLIES)
def test_replies_of_another_form(name: str) -> None:
    listed, answer = (
        HEAD + f"Content-Length: {len(body)}\r\n\r\n".encode() + body for body in (MODELS, REPLIES[name])
    )
    with raw(answer, models=listed) as url:
        report = verify(url, VerifyWishes(limits=BRIEF, model="tiny"))
    assert words(report, "no") == {"answers"}
    assert len(reason(report, "answers")) < 600


@pytest.mark.parametrize("fault", ["endless", "huge", "slow-loris"])
def test_endless_answers_are_left(fault: str) -> None:
    with serving(fault) as stub:
        report = verify(stub.url, VerifyWishes(limits=BRIEF))
    assert words(report, "no") <= {"answers", "streams", "tool-call-streamed"}
    assert words(report, "no")


def test_terminal_codes_in_answers_stay_harmless() -> None:
    evil = "\x1b]0;owned\x07\x1b[2J<script>alert(1)</script>"
    body = json.dumps({"error": {"message": evil}}).encode()
    with raw(f"HTTP/1.1 500 X\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body) as url:
        report = verify(url, VerifyWishes(limits=BRIEF, model=evil))
    for text in (verify_text(report, Look(explain=frozenset({"all"}))), verify_markdown(report)):
        assert "\x1b" not in text
        assert "<script>" not in verify_markdown(report)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://host/v1", "no address of a web server"),
        ("http://", "no address of a web server"),
        ("http://user:secret@host:8000", "a login in an address"),
        ("http://host:99999", "no address"),
        ("http://ho st", "blank"),
        ("http://host\r\nX: y", "blank"),
        ("http://[::1", "no address"),
    ],
)
def test_addresses_that_are_none(url: str, said: str) -> None:
    with pytest.raises(SpecError, match=said) as error:
        verify(url, VerifyWishes(limits=BRIEF))
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1/", "/v1/chat/completions", "/v1/models"])
def test_what_belongs_to_the_protocol_is_taken_off(ending: str) -> None:
    from canserve.verify.target import endpoint

    assert endpoint(f"10.0.0.1:8000{ending}").protocol("models") == "http://10.0.0.1:8000/v1/models"
    assert endpoint(f"https://h/team/a{ending}").root == "https://h/team/a"


def test_keys(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(" abc \n")
    assert read_key(path) == Secret("abc")
    for bad in ("", "two words", "café", "a\nb"):
        path.write_text(bad)
        with pytest.raises(SpecError):
            read_key(path)
    with pytest.raises(SpecError):
        read_key(tmp_path / "none")
    assert key_of("", "X") is None
    path.write_text("x" * 9000)
    with pytest.raises(SpecError, match="larger"):
        read_key(path)
