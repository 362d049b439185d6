"""The command ``canserve verify``, as a user starts it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from command import run

from canserve.render.schemas import schema_text
from stub_server import serving

BRIEF = ("--quick", "--patience", "3")


def strict(schema: Any) -> Any:
    if isinstance(schema, dict):
        walked = {key: strict(value) for key, value in schema.items()}
        return {**walked, "additionalProperties": False} if "properties" in schema else walked
    return [strict(item) for item in schema] if isinstance(schema, list) else schema


def test_a_healthy_server_is_a_yes(tmp_path: Path) -> None:
    with serving() as stub:
        kept = tmp_path / "runs.jsonl"
        done = run("verify", stub.url, *BRIEF, "--export", str(kept))
        assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stdout + done.stderr
        first, *rest = done.stdout.splitlines()
        assert first.split() == ["yes", f"{stub.url}:", "tiny,", "4096", "tokens"]
        assert any("answer-correct" in line and line.split()[0] == "yes" for line in rest)
        assert any(line.split()[:1] == ["decode"] and "tok/s" in line for line in rest)
        assert json.loads(kept.read_text().splitlines()[0])["backend"] == "openai-chat"
        again = run("verify", stub.url, *BRIEF, "--samples", str(kept), "--format", "json")
        document = json.loads(again.stdout)
        assert document["speeds"]["imported"] == str(kept)


def test_json_keeps_its_schema_and_the_key_stays_out() -> None:
    with serving("key") as stub:
        done = run("verify", stub.url, *BRIEF, "--format", "json", CANSERVE_API_KEY="open-sesame")
        asked = stub.headers
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    jsonschema.validate(document, strict(json.loads(schema_text("verify"))))
    assert document["verdict"] == "yes"
    assert "open-sesame" not in done.stdout + done.stderr
    assert all(headers["authorization"] == "Bearer open-sesame" for headers in asked)
    assert document["speeds"]["samples"][0]["arrivals"]


def test_a_fault_is_a_no_with_its_advice() -> None:
    with serving("tags") as stub:
        done = run("verify", stub.url, *BRIEF)
        assert done.returncode == 1
        assert "no       reasoning-in-its-field: the answer to" in done.stdout
        assert "fix: start it with the parser of this model" in done.stdout
        md = run("verify", stub.url, *BRIEF, "--format", "md", "--explain", "reasoning-in-its-field")
    assert "**no** `reasoning-in-its-field`" in md.stdout
    assert "POST /v1/chat/completions" in md.stdout


def test_nobody_there() -> None:
    done = run("verify", "http://127.0.0.1:9")
    assert done.returncode == 1
    assert done.stdout.splitlines()[0].split() == ["no", "http://127.0.0.1:9"]
    assert "nothing listens" in done.stdout
    assert run("verify", "http://no-such-host.invalid").returncode == 3


def test_waiting_for_a_server_that_starts() -> None:
    import threading

    with serving("starting") as stub:
        timer = threading.Timer(1.0, lambda: setattr(stub, "faults", frozenset()))
        timer.start()
        done = run("verify", stub.url, *BRIEF, "--wait", "30")
        timer.join()
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("http://user:pass@h",),
        ("ftp://h",),
        ("http://h", "--key-file", "/does/not/exist"),
        ("http://h", "--plan", "/does/not/exist"),
        ("http://h", "--samples", "/does/not/exist"),
        ("http://h", "--expect", "miracles"),
        ("http://h", "--explain", "no-such-check"),
        ("http://h", "--time", "0"),
        (),
    ],
)
def test_usage(arguments: tuple[str, ...]) -> None:
    done = run("verify", *arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "pass@" not in done.stderr
    assert "Traceback" not in done.stderr


def test_a_key_that_no_header_can_carry() -> None:
    done = run("verify", "http://127.0.0.1:9", CANSERVE_API_KEY="two words")
    assert done.returncode == 2
    assert "two words" not in done.stderr
