"""Where a model may lie on this disk, and what must not be followed, opened or waited for."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from model_making import folder, known, missing, safetensors

from canserve.facts import Cause
from canserve.probes.model import Options, read_model
from canserve.probes.model.folder import Folder
from canserve.trees.folder import MAX_NAMES
from canserve.trees.tree import TreeError

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CONFIG = {"architectures": ["A"], "model_type": "a"}
OFFLINE = Options(offline=True)


def snapshot(cache: Path, repo: str = "org/name") -> Path:
    """A repository in the Hub's cache, as huggingface_hub lays it out: links into blobs."""
    store = cache / ("models--" + repo.replace("/", "--"))
    folder(
        store, {"blobs/1111": CONFIG, "blobs/2222": safetensors({"w": ("F32", (3,))}), "refs/main": COMMIT}
    )
    (store / "snapshots" / COMMIT).mkdir(parents=True)
    for name, blob in (("config.json", "1111"), ("model.safetensors", "2222")):
        (store / "snapshots" / COMMIT / name).symlink_to(f"../../blobs/{blob}")
    return store


def test_a_folder(tmp_path: Path) -> None:
    model = read_model(str(folder(tmp_path, {"config.json": CONFIG, "a/b.txt": "x", ".git/HEAD": "x"})))
    assert (model.origin, model.subject) == ("folder", str(tmp_path))
    assert known(model.files) == ("a/b.txt", "config.json")
    assert known(model.architectures) == ("A",)


def test_a_snapshot_folder_with_links_into_blobs(tmp_path: Path) -> None:
    path = snapshot(tmp_path) / "snapshots" / COMMIT
    model = read_model(str(path))
    assert known(model.revision) == COMMIT
    assert known(model.parameters).total == 3
    assert known(read_model(str(path / "config.json")).architectures) == ("A",)


def test_a_link_to_the_models_folder_is_followed(tmp_path: Path) -> None:
    folder(tmp_path / "real", {"config.json": CONFIG})
    (tmp_path / "link").symlink_to("real")
    assert known(read_model(str(tmp_path / "link")).architectures) == ("A",)


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    folder(tmp_path, {"secret.json": CONFIG, "model/tokenizer.json": "{}"})
    (tmp_path / "model" / "config.json").symlink_to("../secret.json")
    (tmp_path / "model" / "generation_config.json").symlink_to("/etc/passwd")
    model = read_model(str(tmp_path / "model"))
    for fact in (model.config, model.generation):
        assert "leads out" in missing(fact).why or "outside the tree" in missing(fact).why
    assert known(model.tokenizer).kind == "fast"


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    folder(tmp_path, {"config.json": CONFIG})
    (tmp_path / "again").symlink_to(".")
    (tmp_path / "tokenizer_config.json").symlink_to("tokenizer_config.json")
    model = read_model(str(tmp_path))
    assert known(model.architectures) == ("A",)
    missing(model.tokenizer)


def test_a_link_to_nothing_is_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    store = snapshot(tmp_path)
    (store / "blobs" / "2222").unlink()
    model = read_model(str(store / "snapshots" / COMMIT))
    for fact in (model.parameters, model.weight_format):
        lost = missing(fact)
        assert lost.cause is Cause.UNAVAILABLE
        assert lost.why.endswith("model.safetensors: a link to nothing")
    assert known(model.architectures) == ("A",)


@pytest.mark.parametrize("name", ["model.safetensors", "m.gguf", "pytorch_model.bin"])
def test_weights_behind_a_link_out_are_not_no_weights(tmp_path: Path, name: str) -> None:
    folder(tmp_path, {name: "x", "model/config.json": CONFIG})
    (tmp_path / "model" / name).symlink_to(f"../{name}")
    model = read_model(str(tmp_path / "model"))
    assert "leads out" in missing(model.weight_format).why
    assert "leads out" in missing(model.parameters).why


def test_a_vocabulary_behind_a_link_out_is_not_no_vocabulary(tmp_path: Path) -> None:
    folder(tmp_path, {"tokenizer.json": "{}", "model/config.json": CONFIG})
    (tmp_path / "model" / "tokenizer.json").symlink_to("../tokenizer.json")
    assert "leads out" in missing(read_model(str(tmp_path / "model")).tokenizer).why


def test_pipes_and_folders_in_place_of_files_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(folder(tmp_path / "model", {"tokenizer.json": "{}"}) / "config.json")
    (tmp_path / "model" / "generation_config.json").mkdir()
    begin = time.monotonic()
    model = read_model(str(tmp_path / "model"))
    assert "a pipe, not a file" in missing(model.config).why
    assert known(model.generation) is None
    missing(read_model(str(tmp_path / "model" / "config.json")).config)
    assert time.monotonic() - begin < 30


def test_a_pipe_put_in_place_of_a_listed_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    begin = time.monotonic()
    with pytest.raises(TreeError, match="a pipe, not a file"):
        Folder(tmp_path, "m").read("config.json", 0, 10)
    assert time.monotonic() - begin < 30


NOBODY = 65534


@pytest.fixture
def as_nobody() -> Iterator[Path]:
    """A folder outside the private one of the tests, and a user whom permissions bind (root they do not)."""
    path = Path(tempfile.mkdtemp())
    root = os.geteuid() == 0
    if root:
        os.chown(path, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    try:
        yield path
    finally:
        if root:
            os.seteuid(0)
        shutil.rmtree(path)


def test_an_unreadable_file_is_unavailable(as_nobody: Path) -> None:
    path = folder(as_nobody, {"config.json": CONFIG, "tokenizer_config.json": {}})
    (path / "config.json").chmod(0)
    model = read_model(str(path))
    lost = missing(model.architectures)
    assert (lost.cause, lost.why) == (Cause.UNAVAILABLE, "config.json: Permission denied")
    assert known(model.tokenizer).files == ("tokenizer_config.json",)
    assert missing(read_model(str(path / "config.json")).architectures).cause is Cause.UNAVAILABLE


def test_an_unreadable_folder_is_unavailable_and_not_empty(as_nobody: Path) -> None:
    path = folder(as_nobody / "model", {"config.json": CONFIG, "sub/x": "x"})
    path.chmod(0o300)
    model = read_model(str(path))
    for fact in (model.files, model.config, model.tokenizer, model.weight_format, model.processor):
        assert missing(fact).cause is Cause.UNAVAILABLE
    path.chmod(0o700)
    (path / "sub").chmod(0)
    model = read_model(str(path))
    assert known(model.architectures) == ("A",)
    assert not model.files.evidence[0].whole
    (path / "sub").chmod(0o700)


def test_a_folder_behind_a_closed_door_is_unavailable(as_nobody: Path) -> None:
    path = folder(as_nobody / "door" / "model", {"config.json": CONFIG})
    path.parent.chmod(0)
    lost = missing(read_model(str(path)).config)
    assert (lost.cause, "Permission denied" in lost.why) == (Cause.UNAVAILABLE, True)
    path.parent.chmod(0o700)


def test_names_that_cannot_be_shown_are_escaped(tmp_path: Path) -> None:
    folder(tmp_path, {"config.json": CONFIG, "bad\x1b[2Jname": "x"})
    with open(os.fsencode(tmp_path) + b"/\xff\xfe.safetensors", "wb"):  # noqa: PTH123 - a name that is no text
        pass
    model = read_model(str(tmp_path))
    assert known(model.files) == ("config.json",)
    assert not model.files.evidence[0].whole
    assert known(model.architectures) == ("A",)
    assert repr(model).isprintable()


@pytest.mark.slow
def test_a_folder_of_many_files_is_cut_short_in_bounded_time(tmp_path: Path) -> None:
    folder(tmp_path, {"config.json": CONFIG})
    for number in range(MAX_NAMES + 100):
        os.close(os.open(tmp_path / f"{number}.txt", os.O_CREAT))
    begin = time.process_time()
    model = read_model(str(tmp_path))
    assert time.process_time() - begin < 5
    assert not model.files.evidence[0].whole
    assert "more than" in missing(model.processor).why


def test_deep_folders_end(tmp_path: Path) -> None:
    deep = tmp_path
    folder(tmp_path, {"config.json": CONFIG})
    for _ in range(60):
        deep = deep / "d"
    deep.mkdir(parents=True)
    assert known(read_model(str(tmp_path)).architectures) == ("A",)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("./nowhere", "no such file or folder"),
        ("/nowhere/model", "no such file or folder"),
        ("nowhere.json", "no such file or folder"),
        ("a/b/c/d", "not a Hub id"),
        ("", "not a Hub id"),
        ("org/na me", "not a Hub id"),
        ("org/../../etc", "not a Hub id"),
        ("org/name@../../x", "offline"),
        ("-x/y", "not a Hub id"),
        ("org/--name", "not a Hub id"),
        ("o" * 5000, "name too long"),
        ("a\0b", "null byte"),
        ("/dev/zero", "not a regular file"),
        ("~nobody-of-that-name/model", "no such file or folder"),
    ],
)
def test_what_is_no_model_says_so_in_every_fact(spec: str, said: str) -> None:
    model = read_model(spec, OFFLINE)
    lost = missing(model.config)
    assert said.lower() in lost.why.lower()
    for fact in (
        model.files,
        model.architectures,
        model.tokenizer,
        model.parameters,
        model.gguf_architecture,
    ):
        assert fact == lost
    assert model.origin == "unknown"


def test_a_weights_file_points_at_its_folder(tmp_path: Path) -> None:
    path = folder(tmp_path, {"model.safetensors": safetensors({})}) / "model.safetensors"
    assert "name its folder" in str(missing(read_model(str(path)).config).ask)


def test_offline_reads_the_hubs_cache(tmp_path: Path) -> None:
    snapshot(tmp_path)
    options = Options(offline=True, cache=tmp_path)
    for spec in ("org/name", f"org/name@{COMMIT}", "org/name@main"):
        model = read_model(spec, options)
        assert model.origin == "hub"
        assert known(model.revision) == COMMIT
        assert known(model.architectures) == ("A",)
        assert known(model.parameters).total == 3
    assert "offline" in model.revision.evidence[0].saw


def test_what_is_not_cached_may_still_exist(tmp_path: Path) -> None:
    snapshot(tmp_path)
    model = read_model("org/name", Options(offline=True, cache=tmp_path))
    for fact in (model.tokenizer, model.processor, model.quantization, model.generation, model.chat_template):
        lost = missing(fact)
        assert lost.cause is Cause.UNREACHED
        assert "not in the Hub's cache" in lost.why
    assert not model.files.evidence[0].whole


def test_what_the_hub_said_it_does_not_have_is_known(tmp_path: Path) -> None:
    store = snapshot(tmp_path)
    folder(
        store / ".no_exist" / COMMIT, dict.fromkeys(["generation_config.json", "hf_quant_config.json"], "")
    )
    model = read_model("org/name", Options(offline=True, cache=tmp_path))
    assert known(model.generation) is None
    missing(model.tokenizer)


def test_a_recorded_file_list_makes_the_snapshot_whole(tmp_path: Path) -> None:
    store = snapshot(tmp_path)
    listed = {"config.json": {"size": 5}, "model.safetensors": {"size": 100}, "tokenizer.json": {"size": 9}}
    folder(store, {f"trees/{COMMIT}.json": {"format_version": 1, "files": listed}})
    model = read_model("org/name", Options(offline=True, cache=tmp_path))
    assert known(model.processor) is None
    assert known(model.generation) is None
    assert known(model.tokenizer).files == ("tokenizer.json",)
    for broken in (b"{", b"[]", b'{"files": {"a": 5}}', b'{"files": {"../a": {"size": 1}}}'):
        folder(store, {f"trees/{COMMIT}.json": broken})
        assert known(read_model("org/name", Options(offline=True, cache=tmp_path)).architectures) == ("A",)


def test_an_incomplete_snapshot_names_the_missing_shard(tmp_path: Path) -> None:
    store = snapshot(tmp_path)
    index = {"weight_map": {"w": "model.safetensors", "v": "model-2.safetensors"}}
    folder(store / "snapshots" / COMMIT, {"model.safetensors.index.json": index})
    model = read_model("org/name", Options(offline=True, cache=tmp_path))
    assert missing(model.parameters).cause is Cause.UNREACHED
    assert known(model.architectures) == ("A",)


@pytest.mark.parametrize("reference", ["../../../etc", "f" * 39, ""])
def test_a_broken_reference_is_not_cached(tmp_path: Path, reference: str) -> None:
    folder(snapshot(tmp_path), {"refs/main": reference})
    lost = missing(read_model("org/name", Options(offline=True, cache=tmp_path)).config)
    assert lost.cause is Cause.UNREACHED
    assert "hf download" in str(lost.ask)
