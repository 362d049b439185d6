"""``up`` of a model that a machine cannot read: told before anything is claimed, of this machine and of one behind sshd."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from loopback import problem, sshd
from made_plans import environment, saved, server
from operator_here import Here

CI = os.environ.get("CI", "").lower() in {"1", "true"}


@pytest.fixture
def shelf() -> Iterator[Path]:
    """A folder to which everybody can go: pytest's own are only for their user."""
    folder = Path(tempfile.mkdtemp(prefix="canserve-shelf-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def model(folder: Path) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_text("x")
    return folder


@pytest.fixture
def ssh(tmp_path: Path) -> Iterator[str]:
    """An ``ssh`` that reaches this machine, as a user without root, under any name; its folder."""
    if (why := problem()) is not None:
        if CI:
            pytest.fail(why)
        pytest.skip(why)
    drop = f"{shutil.which('setpriv')} --reuid 65534 --regid 65534 --clear-groups"
    forced = f'ForceCommand {drop} sh -c "$SSH_ORIGINAL_COMMAND"' if os.getuid() == 0 else ""
    with sshd(tmp_path / "sshd", forced) as running:
        running.configure()
        program = tmp_path / "bin" / "ssh"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {running.config} "$@"\n')
        program.chmod(0o755)
        yield str(program.parent)


@pytest.mark.parametrize(
    ("fault", "words"),
    [("absent", ()), ("dangling", ("--no-distribute",)), ("link", ()), ("file", ("--dry-run",))],
)
def test_it_is_told_before_anything_is_claimed(here: Here, fault: str, words: tuple[str, ...]) -> None:
    folder = here.folder / "m"
    if fault == "dangling":
        folder.symlink_to("gone")
    elif fault == "link":
        folder = here.folder / "link" / "m"
        (here.folder / "link").symlink_to(here.folder / "other")
    elif fault == "file":
        (model(folder) / "model-2.safetensors").symlink_to("../blobs/2")
    build = environment(here.folder, "vllm")
    plan = str(saved(here.folder / "plan.json", [server("local", here.port)], build=build, model=str(folder)))
    said = {
        "absent": f"{folder} is not there",
        "dangling": f"{folder} is a link that leads nowhere",
        "link": f"{folder.parent} is a link that leads nowhere",
        "file": f"model-2.safetensors in {folder}: links that lead nowhere",
    }[fault]
    done = here.run("up", plan, *words)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert f"model-readable on local: {said}" in done.stderr and "hint: " in done.stderr
    assert not here.state.exists()


def test_a_model_that_is_there_serves(here: Here) -> None:
    build, folder = environment(here.folder, "vllm"), model(here.folder / "m")
    plan = str(saved(here.folder / "plan.json", [server("local", here.port)], build=build, model=str(folder)))
    up, code = here.asked("up", plan)
    assert (up["state"], code, up["notes"]) == ("up", 0, []), up
    (finding,) = up["findings"]
    assert (finding["check"], finding["about"], finding["verdict"]) == ("model-readable", "local", "yes")
    assert finding["because"] == f"the login reads 2 files of {folder}" and finding["evidence"]
    assert here.asked("down", up["run"])[1] == 0


def test_a_login_that_may_not_read_it(here: Here, shelf: Path, ssh: str) -> None:
    """A process of the login cannot, root of a container engine may: there it is not known."""
    folder = model(shelf / "m")
    processes = [server("box", here.port)]
    plan = str(saved(here.folder / "plan.json", processes, build="/srv/venv", model=str(folder)))
    path = f"{ssh}:{os.environ['PATH']}"
    asked = ("up", plan, "--on", "box", "--dry-run")
    assert here.run(*asked, PATH=path).returncode == 0
    (folder / "model.safetensors").chmod(0)
    done = here.run(*asked, PATH=path)
    assert done.returncode == 2, done.stdout
    assert "model-readable on box: the login there may not read model.safetensors" in done.stderr
    assert f"chmod -R a+rX {folder}" in done.stderr
    inside = here.run(*asked, "--in", "docker-daemon:e:1", "--accelerators", "none", PATH=path)
    assert inside.returncode == 0, inside.stderr
    assert "\n# note: model-readable is not known on box: " in inside.stdout
