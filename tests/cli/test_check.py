"""`canserve check` as a whole: exit codes, formats, flags, what goes where; the real command."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import threading
import time
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import jsonschema
import pytest
import tiny
from command import COMMAND, environment, run

import canserve
from canserve.render.schemas import schema_text
from terminal import on_terminal


@pytest.fixture
def build(tmp_path: Path) -> str:
    return str(tiny.build(tmp_path / "build"))


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(tiny.model(tmp_path / "model"))


def test_text_json_and_markdown_agree(build: str, model: str) -> None:
    text = run("check", model, "-b", build)
    report = json.loads(run("check", model, "-b", build, "--format", "json").stdout)
    page = run("check", model, "-b", build, "--format", "md").stdout
    assert text.returncode == {"yes": 0, "no": 1, "unknown": 3}[report["verdict"]]
    assert f"\n{report['verdict']:<9}{build}\n" in text.stdout
    for finding in report["builds"][0]["findings"]:
        assert finding["check"] in text.stdout
        assert f"`{finding['check']}`" in page
    assert page.startswith("### `")
    jsonschema.validate(report, json.loads(schema_text("check")))


def test_the_same_answer_from_python(build: str, model: str) -> None:
    report = canserve.check(model, [build])
    printed = json.loads(run("check", model, "-b", build, "--format", "json").stdout)
    said = [(f.check, f.verdict.because) for f in report.builds[0].findings]
    assert said == [(f["check"], f["because"]) for f in printed["builds"][0]["findings"]]


def test_the_worst_build_decides_the_exit_code(build: str, model: str) -> None:
    assert run("check", model, "-b", "/no/such/build").returncode == 3
    assert run("check", model, "-b", "/no/such/build", "-b", build).returncode == 1


def test_what_cannot_be_read_is_unknown_and_says_what_would_settle_it(model: str) -> None:
    done = run("check", model, "-b", "/no/such/build")
    assert done.stdout.count("unknown  ") >= 2
    assert "ask: " in done.stdout


def test_explain_shows_the_line_of_the_file(build: str, model: str) -> None:
    done = run("check", model, "-b", build, "--explain", "architecture-registered")
    assert "vllm/model_executor/models/registry.py:2: " in done.stdout


def test_flags_for_the_engine_are_judged(build: str, model: str) -> None:
    report = json.loads(
        run("check", model, "-b", build, "--format", "json", "--", "--tool-call-parser", "x").stdout
    )
    judged = {finding["check"] for finding in report["builds"][0]["findings"]}
    assert {"parsers-known", "flags-accepted"} <= judged


def test_with_another_transformers(build: str, model: str) -> None:
    done = run("check", model, "-b", build, "--with", "transformers==4.53.2")
    assert "4.53.2" in done.stdout


def test_a_profile_that_does_not_exist_is_usage(build: str, model: str) -> None:
    done = run("check", model, "-b", build, "--on", "profile:h2000")
    assert (done.returncode, done.stdout) == (2, "")
    assert "h200" in done.stderr
    assert "hint: canserve machine --list" in done.stderr


def test_colour_only_on_a_terminal_that_wants_it(build: str, model: str) -> None:
    command = [*COMMAND, "check", model, "-b", build]
    assert "\x1b[1;31mno" in on_terminal(command)[1]
    assert "\x1b" not in on_terminal(command, environment={"NO_COLOR": "1"})[1]
    assert "\x1b" not in on_terminal(command, environment={"TERM": "dumb"})[1]
    assert "\x1b" not in run("check", model, "-b", build).stdout


def test_a_terminal_gets_lines_that_fit(build: str, model: str) -> None:
    shown = on_terminal([*COMMAND, "check", model, "-b", build], columns=60, environment={"NO_COLOR": "1"})[1]
    too_long = [
        line for line in shown.splitlines() if len(line) > 60 and build not in line and model not in line
    ]
    assert not too_long


def test_quiet_says_nothing_on_stderr(build: str, model: str) -> None:
    assert run("check", model, "-b", build, "--quiet").stderr == ""


def test_an_encoding_without_the_characters_is_no_failure(tmp_path: Path, build: str) -> None:
    model = tiny.model(tmp_path / "m\u00f6del\u4e2d")
    done = run("check", str(model), "-b", build, PYTHONIOENCODING="ascii")
    assert done.returncode == 1
    assert "m\\xf6del\\u4e2d" in done.stdout


class SilentIndex:
    """A package index that takes the connection and never says a word."""

    def __init__(self, server: socket.socket) -> None:
        self._server = server

    def settings(self) -> dict[str, str]:
        """What makes pip, and so canserve, ask this index only."""
        url = f"http://127.0.0.1:{self._server.getsockname()[1]}/simple"
        nothing = dict.fromkeys(("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"), "")
        return {**nothing, "PIP_INDEX_URL": url, "PIP_CONFIG_FILE": os.devnull}

    def was_asked(self) -> bool:
        """Whether anybody has connected."""
        self._server.setblocking(False)
        try:
            self._server.accept()[0].close()
        except BlockingIOError:
            return False
        return True


@pytest.fixture
def silent_index() -> Iterator[SilentIndex]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield SilentIndex(server)


def test_ctrl_c_ends_with_130_and_no_traceback(model: str, silent_index: SilentIndex) -> None:
    # A shell's background jobs ignore SIGINT and hand that down; a user's terminal does not.
    process = subprocess.Popen(
        ["env", "--default-signal=INT", *COMMAND, "check", model, "-b", "vllm==0.14.0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**silent_index.settings()),
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "reading vllm==0.14.0\n", "after a second it says what it waits for"
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (130, "")
    assert "Traceback" not in stderr


def test_an_index_that_never_answers_is_unknown(model: str, silent_index: SilentIndex) -> None:
    started = time.monotonic()
    patience = {"PIP_DEFAULT_TIMEOUT": "1", "PIP_RETRIES": "0"}
    done = run("check", model, "-b", "vllm==0.14.0", "-q", **silent_index.settings(), **patience)
    assert (done.returncode, done.stderr) == (3, "")
    assert silent_index.was_asked()
    assert time.monotonic() - started < 60


def test_offline_makes_no_attempt(model: str, silent_index: SilentIndex, tmp_path: Path) -> None:
    empty = {"CANSERVE_CACHE": str(tmp_path / "cache")}
    done = run("check", model, "-b", "vllm==0.14.0", "-q", "--offline", **silent_index.settings(), **empty)
    assert done.returncode == 3
    assert "offline" in done.stdout
    assert not silent_index.was_asked()


def test_what_the_system_refuses_ends_with_4() -> None:
    done = subprocess.run(
        ["bash", "-c", f"{COMMAND[0]} schema >/dev/full"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 4
    assert done.stderr.startswith("canserve failed: OSError: ")
    assert "Traceback" not in done.stderr


class NoRanges(SimpleHTTPRequestHandler):
    """Serves files whole, whatever range was asked for; and keeps quiet about it."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's own name
        pass


def test_a_download_of_the_whole_file_is_said(model: str, tmp_path: Path) -> None:
    wheel = tmp_path / "index" / "simple" / "vllm" / "vllm-0.99.0-py3-none-any.whl"
    wheel.parent.mkdir(parents=True)
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in tiny.FILES.items():
            archive.writestr(path, text)
        archive.writestr("vllm/_C.abi3.so", random.Random(1).randbytes(1 << 20))
    (wheel.parent / "index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>')
    handler = partial(NoRanges, directory=str(tmp_path / "index"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        settings = {
            **dict.fromkeys(("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"), ""),
            "PIP_INDEX_URL": f"http://127.0.0.1:{server.server_port}/simple",
            "PIP_CONFIG_FILE": os.devnull,
            "CANSERVE_CACHE": str(tmp_path / "cache"),
        }
        done = run("check", model, "-b", "vllm==0.99.0", "--format", "json", **settings)
        server.shutdown()
    assert "1 file was downloaded whole" in done.stderr
    assert json.loads(done.stdout)["cost"]["whole_downloads"] == 1
