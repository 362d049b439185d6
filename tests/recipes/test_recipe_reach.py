"""Which further files are read for a recipe: those of its own folder tree, and those that the user names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from canserve.api import SpecError
from canserve.api.recipe_files import MAX_BYTES
from canserve.api.recipes import Loaded, load
from canserve.api.recipes_checked import check_recipes
from canserve.render.recipes_reports import recipes_junit, recipes_sarif
from canserve.subjects.recipe import Further


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A recipe's folder, with a file beside it that holds another model."""
    inner = tmp_path / "recipes"
    inner.mkdir()
    (tmp_path / "outside.yaml").write_text("model: stolen/model\n")
    return inner


def of(folder: Path, text: str, *further: str) -> Loaded:
    (folder / "serve.sh").write_text(text)
    return load([str(folder / "serve.sh"), *further])


def only(loaded: Loaded) -> Further:
    (file,) = loaded.recipe.files
    return file


def test_a_file_beside_it_is_read(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "s.yaml").write_text("model: a/b\n")
    loaded = of(folder, "vllm serve --config sub/../sub/s.yaml")
    assert str(loaded.recipe.model) == "a/b"
    assert only(loaded).found.evidence[0].subject == str(folder / "sub" / "s.yaml")


@pytest.mark.parametrize(
    "name", ["../outside.yaml", "sub/../../outside.yaml", "{absolute}", "~/outside.yaml"]
)
def test_nothing_outside_is_read_unless_it_is_named(folder: Path, name: str) -> None:
    name = name.format(absolute=folder.parent / "outside.yaml")
    loaded = of(folder, f"vllm serve --config {name}")
    assert loaded.recipe.model is None and "name it with a further --recipe" in (only(loaded).unread or "")
    named = of(folder, f"vllm serve --config {name}", str(folder.parent / "outside.yaml"))
    assert str(named.recipe.model) == "stolen/model"


def test_no_link_leads_outside(folder: Path) -> None:
    (folder / "s.yaml").symlink_to(folder.parent / "outside.yaml")
    loaded = of(folder, "vllm serve --config s.yaml")
    assert loaded.recipe.model is None and "link leads out" in (only(loaded).unread or "")
    (folder / "dir").symlink_to(folder.parent)
    loaded = of(folder, "vllm serve --config dir/outside.yaml")
    assert loaded.recipe.model is None and only(loaded).unread
    (folder / "inner.yaml").write_text("model: a/b\n")
    (folder / "t.yaml").symlink_to("inner.yaml")
    assert str(of(folder, "vllm serve --config t.yaml").recipe.model) == "a/b"


@pytest.mark.parametrize("kind", ["folder", "pipe", "large", "binary", "zeros", "circle", "long name"])
def test_what_is_no_text_of_fitting_size_is_missing(folder: Path, kind: str) -> None:
    path = folder / "s.yaml"
    match kind:
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "large":
            path.write_text("# " + "x" * MAX_BYTES)
        case "binary":
            path.write_bytes(b"model: \xff\xfe\n")
        case "zeros":
            path.write_bytes(b"model: a\0b\n")
        case "circle":
            path.symlink_to("s.yaml")
        case _:
            pass
    name = "x" * 5000 if kind == "long name" else "s.yaml"
    loaded = of(folder, f"vllm serve a/b --config {name}")
    assert only(loaded).unread and only(loaded).decides


def test_what_is_not_there_is_looked_for_and_known(folder: Path) -> None:
    loaded = of(folder, "vllm serve a/b --config s.yaml")
    assert only(loaded).unread == "it is not there" and only(loaded).found.evidence


def test_files_that_name_files_end(folder: Path) -> None:
    for number in range(60):
        (folder / f"{number}.sh").write_text(f"source {number + 1}.sh\nM=a/b\n")
    loaded = of(folder, "source 0.sh\nvllm serve $M")
    assert str(loaded.recipe.model) == "a/b" and len(loaded.recipe.files) < 20
    many = "".join(f"source {number}.sh\n" for number in range(60))
    assert any(
        "more than" in (file.unread or "") for file in of(folder, many + "vllm serve x/y").recipe.files
    )


def test_a_folder_that_is_named_is_the_tree(folder: Path) -> None:
    (folder / "serve.sh").write_text("vllm serve --config ../outside.yaml")
    assert str(load([str(folder / "serve.sh")], root=str(folder.parent)).recipe.model) == "stolen/model"


def test_two_recipes_are_still_two(folder: Path) -> None:
    with pytest.raises(SpecError, match="are two recipes"):
        of(folder, "vllm serve a/b", str(folder.parent / "outside.yaml"))


def test_a_compose_file_with_everything_beside_it(folder: Path) -> None:
    (folder / "compose.yaml").write_text(
        "services:\n  llm:\n    extends: {file: base.yaml, service: b}\n    env_file: x.env\n    command: --model $M\n"
    )
    (folder / "base.yaml").write_text("services: {b: {image: 'vllm/vllm-openai:${TAG}'}}\n")
    (folder / ".env").write_text("TAG=v1\nM=a/b\n")
    recipe = load([str(folder / "compose.yaml")]).recipe
    assert (str(recipe.image), str(recipe.model)) == ("vllm/vllm-openai:v1", "a/b")
    assert [file.path for file in recipe.files if file.unread] == ["x.env"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("vllm serve $M", "unknown"),
        ("vllm serve --novel x", "unknown"),
        ("vllm serve 'a/b; reboot'", "no"),
        ("services: [", "no"),
        ("echo hello", None),
    ],
)
def test_a_model_that_is_left_open_is_no_fault(folder: Path, text: str, expected: str | None) -> None:
    name = folder / ("x.yaml" if "services" in text else "x.sh")
    name.write_text(text)
    (one,) = check_recipes([str(name)])
    assert one.word == expected
    told = recipes_junit([one]) + recipes_sarif([one])
    assert ("<error" in told) == (expected == "unknown") and ("<failure" in told) == (expected == "no")
