"""`canserve diagnose` as it is used: files, folders, pipes; formats, exit codes, hostile names and texts."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import jsonschema
import pytest
from command import COMMAND, environment, run

from canserve.render import schemas

OOM = "(Worker pid=3) ERROR 11-30 04:29:00 [m.py:1] torch.OutOfMemoryError: CUDA out of memory.\n"
READY = "INFO:     Application startup complete.\n"
NAMES = ("version", "engine", "engine_version", "phase", "kind", "cause", "because", "fix", "next_look")
SCHEMA = Path(schemas.__file__).parent / "schema" / "diagnose.json"


def told(path: Path) -> dict[str, object]:
    done = run("diagnose", str(path), "--format", "json")
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_the_json_has_its_promised_names_and_keeps_its_schema(tmp_path: Path) -> None:
    path = tmp_path / "engine.log"
    schema = json.loads(SCHEMA.read_text())
    for text in (OOM, READY, "", "nothing of note\n" * 20):
        path.write_text(text)
        found = told(path)
        assert tuple(found)[: len(NAMES)] == NAMES
        jsonschema.validate(found, schema)
    path.write_text("first\n" + OOM)
    found = told(path)
    assert found["version"] == 1
    assert found["kind"] == "memory"
    assert found["cause"] == {
        "line": 2,
        "text": "torch.OutOfMemoryError: CUDA out of memory.",
        "file": "engine.log",
        "process": "Worker",
    }


@pytest.mark.parametrize(("text", "code"), [(OOM, 1), (READY, 0), ("", 3), ("nothing\n", 3)])
def test_exit_codes(tmp_path: Path, text: str, code: int) -> None:
    path = tmp_path / "log"
    path.write_text(text)
    for form in ("text", "json", "md"):
        assert run("diagnose", str(path), "--format", form).returncode == code


def test_a_pipe_is_read_to_its_end() -> None:
    done = subprocess.run(
        [*COMMAND, "diagnose", "-", "--format", "json"],
        input=OOM,
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    assert json.loads(done.stdout)["cause"]["file"] == "-"


def test_a_name_that_is_not_there_is_a_mistake_of_usage(tmp_path: Path) -> None:
    done = run("diagnose", str(tmp_path / "none"))
    assert done.returncode == 2
    assert done.stdout == ""
    assert "No such file" in done.stderr
    assert "hint: " in done.stderr


@pytest.mark.parametrize("form", ["text", "json", "md"])
def test_nothing_of_a_log_moves_a_terminal(tmp_path: Path, form: str) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    evil = "\x1b]0;owned\x07\x9b31m\u202etxet \x00\x08"
    (folder / f"a{evil.replace(chr(0), '')}.log").write_bytes(
        (f"(W{evil} pid=3) RuntimeError: CUDA out of memory {evil}\n" * 3).encode()
    )
    (folder / "b.log").write_bytes(
        b"\x80\xff torch.OutOfMemoryError: CUDA out of memory \x1b[2J" + evil.encode()
    )
    done = run("diagnose", str(folder), "--format", form)
    assert done.returncode == 1
    assert not set(done.stdout) & set("\x1b\x07\x9b\u202e\x00\x08")


def test_markdown_has_no_markup_of_the_log(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(
        "torch.OutOfMemoryError: CUDA out of memory <script>alert(1)</script> [x](http://y) @someone\n"
    )
    text = run("diagnose", str(path), "--format", "md").stdout
    assert "<script>" not in text
    assert "@someone" not in text


def test_text_fits_eighty_columns_in_a_terminal(tmp_path: Path) -> None:
    from canserve.api.diagnosing import diagnose
    from canserve.render.diagnosis_text import diagnosis_text
    from canserve.render.page import Look

    path = tmp_path / "log"
    path.write_text("RuntimeError: CUDA out of memory " + "very long " * 60 + "\n" + OOM)
    text = diagnosis_text(diagnose(path), Look(80))
    assert max(map(len, text.splitlines())) <= 80
    assert text.startswith("failed: memory (out-of-memory)")


def test_a_page(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text(
        "INFO vLLM API server version 0.17.1\ntorch.OutOfMemoryError: CUDA out of memory. <script>\n"
    )
    done = run("diagnose", str(log), "--format", "html")
    assert done.returncode == 1 and done.stdout.startswith("<!doctype html>"), done.stderr
    assert "CUDA out of memory. &lt;script&gt;" in done.stdout and "<script" not in done.stdout
