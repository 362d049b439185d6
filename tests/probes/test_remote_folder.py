"""Folders of another machine, over a real sshd on loopback: an engine in an environment is read where it lies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from canserve.commands.ssh import Route
from canserve.facts import Cause, Known, Missing
from canserve.probes.build import BuildOptions, Reading, read_build
from canserve.probes.container.naming import remote_folder
from canserve.subjects.build import Build, Want
from canserve.trees.cache import Cache
from loopback import Loopback, problem, sshd

CI = os.environ.get("CI", "").lower() in {"1", "true"}
SITE = "lib/python3.12/site-packages"
ENGINE = {
    f"{SITE}/vllm/__init__.py": "",
    f"{SITE}/vllm/model_executor/models/registry.py": (
        '_TEXT_GENERATION_MODELS = {"TinyForCausalLM": ("tiny", "TinyForCausalLM")}\n'
        "_VLLM_MODELS = {**_TEXT_GENERATION_MODELS}\n"
    ),
    f"{SITE}/vllm/model_executor/models/tiny.py": "class TinyForCausalLM:\n    pass\n",
    f"{SITE}/vllm-0.99.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: vllm\nVersion: 0.99.0\n",
    "pyvenv.cfg": "home = /usr/bin\n",
}


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    if (why := problem()) is not None:
        if CI:
            pytest.fail(why)
        pytest.skip(why)
    with sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture(autouse=True)
def private_sockets(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("r")))


def venv(root: Path) -> Path:
    for path, text in ENGINE.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def read(box: Loopback, target: str, tmp_path: Path, offline: bool = False) -> Reading:
    routes = {"box": Route("box", (), box.configure())}
    options = BuildOptions(offline=offline, cache=Cache(tmp_path / "cache"), routes=routes)
    return read_build(target, Want(architectures=frozenset({"TinyForCausalLM"})), options)


def missing(reading: Reading) -> Missing:
    assert isinstance(reading.build, Missing), reading.build
    return reading.build


def test_what_is_a_folder_elsewhere_and_what_is_not() -> None:
    found = remote_folder("user@head:/opt/my venv/../venv/")
    assert found is not None and (found.machine, found.path) == ("user@head", "opt/venv")
    for target in ("oci-archive:x", "http://h/x", "file:///x", "/opt/x", "eng==1.0", "-oProxyCommand=x:/y",
                   "h:x", "h:/x\n", "a b:/x", "docker://h/x:1"):  # fmt: skip
        assert remote_folder(target) is None, target


def test_an_environment_there_is_read_like_one_here(box: Loopback, tmp_path: Path) -> None:
    there = venv(tmp_path / "my venv; touch pwned")
    reading = read(box, f"box:{there}", tmp_path)
    assert isinstance(reading.build, Build), reading.build
    assert reading.build.identity.version == Known("0.99.0", reading.build.identity.version.evidence)
    assert isinstance(reading.build.registry, Known) and "TinyForCausalLM" in reading.build.registry.value
    assert "folder on box" in reading.build.identity.origin
    here = read_build(str(there), Want(architectures=frozenset({"TinyForCausalLM"})), BuildOptions())
    assert isinstance(here.build, Build) and isinstance(here.build.registry, Known)
    assert set(here.build.registry.value) == set(reading.build.registry.value)
    assert not (Path.home() / "pwned").exists() and not Path("/pwned").exists()


def test_an_editable_installation_is_followed(box: Loopback, tmp_path: Path) -> None:
    there = venv(tmp_path / "venv")
    source = tmp_path / "checkout"
    source.mkdir()
    (there / SITE / "vllm").rename(source / "vllm")
    (there / SITE / "vllm.pth").write_text(f"{source}\n")
    reading = read(box, f"box:{there}", tmp_path)
    assert isinstance(reading.build, Build), reading.build
    assert isinstance(reading.build.registry, Known) and "TinyForCausalLM" in reading.build.registry.value


def test_a_folder_that_is_not_there(box: Loopback, tmp_path: Path) -> None:
    found = missing(read(box, f"box:{tmp_path}/absent", tmp_path))
    assert found.cause is Cause.UNAVAILABLE and "no such folder there" in found.why


def test_a_whole_machine_is_not_read(box: Loopback, tmp_path: Path) -> None:
    assert "whole machine" in missing(read(box, "box:/", tmp_path)).why


def test_offline_nothing_is_asked(box: Loopback, tmp_path: Path) -> None:
    found = missing(read(box, f"box:{venv(tmp_path / 'v')}", tmp_path, offline=True))
    assert found.cause is Cause.UNREACHED and "offline" in found.why


def test_a_machine_that_does_not_answer(box: Loopback, tmp_path: Path) -> None:
    options = BuildOptions(
        cache=Cache(tmp_path / "c"), routes={"box": Route("box", (), box.configure("Port 1"))}
    )
    reading = read_build("box:/opt/venv", Want(), options)
    assert missing(reading).cause is Cause.UNREACHED


def test_a_folder_without_an_engine_has_none_only_as_far_as_it_was_read(
    box: Loopback, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "file").write_text("x")
    found = missing(read(box, f"box:{tmp_path}/empty", tmp_path))
    assert "was read, and what it leads to" in found.why
