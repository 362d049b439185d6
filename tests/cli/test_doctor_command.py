"""``canserve doctor``: everything a bug report needs, and nothing that is nobody's business."""

from __future__ import annotations

import json
import re
from pathlib import Path

from command import run
from jsonschema import Draft202012Validator

from canserve import __version__
from canserve.store.journal import Journal

SECRET = "hf_abcdefghijklmnopqrstuvwxyz"


def test_it_says_what_is_here(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "one").write_bytes(b"x" * 2_000_000)
    journal = Journal(tmp_path / "data")
    journal.begin("0a0b0c0d", "2026-01-01T00:00:00Z", {})
    done = run("doctor", "--format", "json", CANSERVE_CACHE=str(cache), CANSERVE_DATA=str(tmp_path / "data"), HOME=str(tmp_path))  # fmt: skip
    assert done.returncode == 0, done.stderr
    shape = json.loads(done.stdout)
    Draft202012Validator(json.loads(run("schema", "doctor").stdout)).validate(shape)
    said = {(item["topic"], item["name"]): item["value"] for item in shape["items"]}
    assert said["canserve", "version"] == __version__
    assert re.fullmatch(r"~/cache: 1 files, 2\.0 MB; .* GB free", said["places", "cache"])
    assert said["places", "journal"] == "~/data/journal.sqlite: form 1, 1 starting"
    assert all(date in said["index", "vllm"] for date in ("releases to", "of 20"))
    assert {"ssh", "docker", "podman"} <= {name for topic, name in said if topic == "programs"}


def test_no_secret_and_no_home_unless_asked(tmp_path: Path) -> None:
    variables = {
        "HF_TOKEN": SECRET, "CANSERVE_API_KEY": SECRET, "PIP_INDEX_URL": f"https://user:{SECRET}@host.example/simple",
        "HTTPS_PROXY": f"http://user:{SECRET}@proxy.example", "HOME": str(tmp_path), "CANSERVE_DATA": str(tmp_path / "d"),
        "CANSERVE_CACHE": str(tmp_path / "c"),
    }  # fmt: skip
    for form in ("text", "md", "json"):
        done = run("doctor", "--format", form, **variables)
        assert done.returncode == 0
        for hidden in (SECRET, "host.example", "proxy.example", str(tmp_path)):
            assert hidden not in done.stdout
        assert "HF_TOKEN" in done.stdout
    assert str(tmp_path / "c") in run("doctor", "--paths", **variables).stdout


def test_what_is_damaged_is_said(tmp_path: Path) -> None:
    (tmp_path / "journal.sqlite").write_bytes(b"no database at all" * 100)
    done = run("doctor", CANSERVE_DATA=str(tmp_path), PATH=str(tmp_path))
    assert done.returncode == 0
    assert "cannot be read: file is not a database" in done.stdout
    assert re.search(r"ssh +not there", done.stdout)
    assert (tmp_path / "journal.sqlite").read_bytes().startswith(b"no database")
