"""A row of the library that is asked more than before: the answers are those of reading it anew."""

from __future__ import annotations

from pathlib import Path

from packaging.version import Version
from small_index import SmallIndex

from canserve.facts import Missing
from canserve.index.rows import Release, Row, release_of
from canserve.index.shelf import Shelf
from canserve.index.transformers_rows import Pair, pairs_of, read_library, recorded_pairs, with_answers
from canserve.trees.archive.remote import Place
from canserve.trees.cache import Cache
from canserve.trees.index.pages import File
from canserve.trees.web.client import Web

FIRST: set[Pair] = {("models.auto.modeling_auto", "MODEL_MAPPING_NAMES"), ("utils", "nothing")}
MORE: set[Pair] = FIRST | {("models.auto.modeling_auto", "Absent"), ("models.auto.configuration_auto", "CONFIG_MAPPING_NAMES")}  # fmt: skip


def release(root: Path) -> Release:
    index = SmallIndex(root)
    index.wheel("5.0.0", '{"moth": "MothConfig"}')
    (path,) = index.project.glob("*.whl")
    digest = str(index.files[0]["hashes"])
    return release_of(File(path.name, path.as_uri(), Version("5.0.0"), None, (), (), digest), ["any"])


def read(one: Release, place: Place, pairs: set[Pair]) -> Row:
    row = read_library(one, place, pairs, {})
    assert isinstance(row, Row)
    return row


def test_further_questions_are_answered_without_reading_all_of_it_again(tmp_path: Path) -> None:
    place = Place(Web(offline=True), Cache(tmp_path / "cache"))
    one = release(tmp_path)
    row = read(one, place, FIRST)
    assert row.names["imports"] == ("models.auto.modeling_auto MODEL_MAPPING_NAMES",)
    assert row.names["imports_absent"] == ("utils nothing",)
    assert recorded_pairs(row.names) == FIRST
    more = with_answers(row, one, place, MORE)
    assert more == read(one, place, MORE)
    assert isinstance(more, Row)
    assert "models.auto.modeling_auto Absent" in more.names["imports_absent"]


def test_a_file_that_is_gone_leaves_the_row_as_it_was(tmp_path: Path) -> None:
    place = Place(Web(offline=True), Cache(tmp_path / "cache"))
    one = release(tmp_path)
    row = read(one, place, FIRST)
    for path in tmp_path.rglob("*.whl"):
        path.unlink()
    assert isinstance(with_answers(row, one, place, MORE), Missing)


def test_what_engines_import_from_deep_modules() -> None:
    tables = {
        "class_imports": {
            "* transformers.utils WEIGHTS_NAME": "0",
            "!A transformers.utils WEIGHTS_NAME": "0",
            "A transformers LlamaConfig": "0",
            "A transformers.models.llama %": "0",
        },
        "config_imports": {"a transformers.configuration_utils PretrainedConfig": "0"},
    }
    shelf = Shelf("eng", "", "", (), tables, {})
    assert pairs_of([shelf]) == [("configuration_utils", "PretrainedConfig"), ("utils", "WEIGHTS_NAME")]
