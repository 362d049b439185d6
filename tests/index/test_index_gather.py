"""Building the index: from an index of two small releases, interrupted and taken up again."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

import pytest

from canserve.facts import Missing
from canserve.index.gather import gather, main
from canserve.index.shelf import Shelf, contents, unpack

AUTO = "transformers/models/auto/"


def wheel(folder: Path, version: str, types: str, broken: bool = False) -> dict[str, object]:
    path = folder / f"transformers-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("transformers/__init__.py", "class MothModel: ...\n")
        archive.writestr(AUTO + "configuration_auto.py", f"CONFIG_MAPPING_NAMES = {types}\n")
        archive.writestr(AUTO + "modeling_auto.py", 'MODEL_MAPPING_NAMES = {"moth": "MothModel"}\n')
    data = path.read_bytes()
    if broken:
        path.write_bytes(data[:-40])
    return {
        "filename": path.name,
        "url": path.name,
        "hashes": {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()},
        "size": path.stat().st_size,
        "upload-time": "2026-01-02T03:04:05Z",
        "yanked": version == "4.50.0",
    }


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "simple" / "transformers"
    folder.mkdir(parents=True)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "simple").as_uri())
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    return folder


def publish(folder: Path, files: list[dict[str, object]]) -> None:
    page = {"meta": {"api-version": "1.1"}, "name": "transformers", "files": files}
    (folder / "index.json").write_text(json.dumps(page))


def gathered(partial: Path) -> tuple[Shelf, list[str]]:
    told: list[str] = []
    shelf = gather("transformers", partial, told.append)
    assert not isinstance(shelf, Missing)
    return shelf, told


def test_only_what_is_new_is_read(project: Path, tmp_path: Path) -> None:
    first = wheel(project, "4.50.0", '{"moth": "MothConfig"}')
    publish(project, [first, wheel(project, "4.10.0", "{}")])
    partial = tmp_path / "partial.jsonl"
    shelf, told = gathered(partial)
    assert told == ["transformers 4.50.0"]  # 4.10 is older than anything an engine asks for
    assert shelf.releases[0]["yanked"] is True
    assert shelf.releases[0]["date"] == "2026-01-02"
    assert contents(shelf, "config_types") == [frozenset({"moth"})]

    with partial.open("a") as out:
        out.write('["2", {"sha')  # the line during which it was interrupted
    publish(project, [first, wheel(project, "5.0.0", '{"moth": "M", "owl": "O"}')])
    shelf, told = gathered(partial)
    assert told == ["transformers 5.0.0"]
    assert [row["version"] for row in shelf.releases] == ["4.50.0", "5.0.0"]
    assert contents(shelf, "config_types") == [frozenset({"moth"}), frozenset({"moth", "owl"})]


def test_a_file_that_changed_is_read_anew(project: Path, tmp_path: Path) -> None:
    publish(project, [wheel(project, "4.50.0", '{"moth": "M"}')])
    gathered(tmp_path / "partial.jsonl")
    publish(project, [wheel(project, "4.50.0", '{"owl": "O"}')])
    shelf, told = gathered(tmp_path / "partial.jsonl")
    assert told == ["transformers 4.50.0"]
    assert contents(shelf, "config_types") == [frozenset({"owl"})]


@pytest.mark.parametrize("types", ["build()", None])
def test_a_release_that_cannot_be_read_has_no_row(project: Path, tmp_path: Path, types: str | None) -> None:
    bad = wheel(project, "5.0.0", types or "{}", broken=types is None)
    publish(project, [wheel(project, "4.50.0", '{"moth": "M"}'), bad])
    shelf, told = gathered(tmp_path / "partial.jsonl")
    assert [row["version"] for row in shelf.releases] == ["4.50.0"]
    assert any(line.startswith("transformers 5.0.0: ") for line in told)


def test_the_file_is_the_same_every_time(project: Path, tmp_path: Path) -> None:
    publish(project, [wheel(project, "4.50.0", '{"moth": "M"}')])
    assert main(["transformers", str(tmp_path)]) == 0
    data = (tmp_path / "transformers.json.xz").read_bytes()
    assert main(["transformers", str(tmp_path)]) == 0
    assert (tmp_path / "transformers.json.xz").read_bytes() == data
    assert unpack(data).project == "transformers"
    assert not list(tmp_path.glob("*.partial.jsonl"))


def test_an_index_that_cannot_be_asked_leaves_the_old_file(project: Path, tmp_path: Path) -> None:
    (project / "index.json").write_text("{")
    (tmp_path / "transformers.json.xz").write_bytes(b"old")
    assert main(["transformers", str(tmp_path)]) == 1
    assert (tmp_path / "transformers.json.xz").read_bytes() == b"old"
