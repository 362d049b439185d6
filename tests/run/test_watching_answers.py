"""How a server is asked on its own machine: by whatever there is to ask with, over TLS too."""

from __future__ import annotations

import http.server
import shutil
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from canserve.commands import watching
from canserve.engines.listening import asked_at

WITHIN = 'within() { shift; "$@"; }\n'
TOOLS = ("curl", "python3", "bash", "wget")


class Answers(http.server.BaseHTTPRequestHandler):
    """Healthy; of its models it says one."""

    def reply(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.reply(503 if self.path == "/loading" else 200, b'{"ok": "yes"}')

    def do_POST(self) -> None:
        self.reply(200, b"got " + self.rfile.read(int(self.headers["Content-Length"])))

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture(params=["http", "https"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    if request.param == "https":
        key, made = tmp_path / "key", tmp_path / "cert"
        words = (
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            "/CN=elsewhere",
            "-days",
            "2",
        )
        subprocess.run([*words, "-keyout", key, "-out", made], check=True, capture_output=True, timeout=60)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(made, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"{request.param}://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def run(script: str, folder: Path, *tools: str) -> subprocess.CompletedProcess[str]:
    """With these programs and no others."""
    folder.mkdir()
    for tool in ("sh", "tail", "head", "cat", *tools):
        found = sys.executable if tool == "python3" else shutil.which(tool)
        assert found is not None, f"no {tool}"
        (folder / tool).symlink_to(found)
    words = [str(folder / "sh"), "-c", WITHIN + script]
    return subprocess.run(
        words, env={"PATH": str(folder)}, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize("tool", TOOLS)
def test_a_status_by_whatever_is_there(url: str, tool: str, tmp_path: Path) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"no {tool} here")
    done = run(watching.answer(f"{url}/health"), tmp_path / "one", tool)
    if tool == "bash" and url.startswith("https"):
        assert done.returncode == 3
        return
    assert done.stdout.strip()[-3:] == "200", done
    other = run(watching.answer(f"{url}/loading"), tmp_path / "two", tool)
    assert other.stdout.strip()[-3:] == ("" if tool == "wget" else "503"), other


@pytest.mark.parametrize("tool", TOOLS[:2])
def test_a_request_and_its_answer(url: str, tool: str, tmp_path: Path) -> None:
    body = '{"prompt": "it\'s $(true) `x`"}'
    done = run(watching.request(f"{url}/v1/completions", body, 20), tmp_path / "one", tool)
    assert done.stdout == f"got {body}\n200\n", done


def test_nothing_to_ask_with_and_nobody_who_answers(tmp_path: Path) -> None:
    assert run(watching.answer("http://127.0.0.1:9/health"), tmp_path / "one").returncode == 3
    for number, tool in enumerate(tool for tool in TOOLS if shutil.which(tool)):
        done = run(watching.answer("http://127.0.0.1:9/health"), tmp_path / f"more-{number}", tool)
        assert not done.stdout.strip().endswith("200") and done.returncode != 3, done


@pytest.mark.parametrize(
    ("words", "url"),
    [
        ((), "http://127.0.0.1:8000"),
        (("--host", "0.0.0.0"), "http://127.0.0.1:8000"),
        (("--host=10.0.0.1",), "http://10.0.0.1:8000"),
        (("--host", "::"), "http://[::1]:8000"),
        (("--ssl-keyfile", "k", "--ssl-certfile", "c"), "https://127.0.0.1:8000"),
        (("--ssl-key-file", "k", "--api-prefix", "/llm"), "https://127.0.0.1:8000/llm"),
    ],
)
def test_where_a_server_is_asked(words: tuple[str, ...], url: str) -> None:
    assert asked_at(("serve", *words), 8000) == url
