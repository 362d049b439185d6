"""Real wheels of the package index, and a real virtual environment with real editable installs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from small_engine import CODE, ENGINES, lay, package

from archives import wheel_files, zipped
from canserve.facts import Known
from canserve.probes.build import BuildOptions, read_build
from canserve.probes.discover import Found, discover
from canserve.subjects.build import Build, Want
from canserve.trees.archive.remote import Place
from canserve.trees.cache import Cache
from canserve.trees.folder import FolderTree
from canserve.trees.index.client import Index
from canserve.trees.index.pip_config import PipConfig, pip_config
from canserve.trees.tree import Cost
from canserve.trees.web.client import Web

SHARE = 0.005


@pytest.mark.network
@pytest.mark.parametrize("target", ["vllm", "vllm==0.14.0"])
def test_a_registry_costs_less_than_half_a_percent_of_the_wheel(tmp_path: Path, target: str) -> None:
    from packaging.requirements import Requirement

    options = BuildOptions(cache=Cache(tmp_path))
    reading = read_build(target, Want(), options)
    assert isinstance(reading.build, Build)
    assert isinstance(reading.build.registry, Known)
    assert len(reading.build.registry.value) > 250
    config = pip_config()
    assert isinstance(config, PipConfig)
    found = Index(config, Place(Web(config.settings), Cache(tmp_path))).find(
        Requirement(target), None, target
    )
    assert isinstance(found, Known)
    size = found.value.file.size
    assert size is None or reading.cost.bytes < SHARE * size
    assert reading.cost.requests < 15
    assert reading.cost.whole_downloads == 0
    again = read_build(target, Want(), BuildOptions(cache=Cache(tmp_path), offline=True))
    assert again.cost == Cost()
    assert isinstance(again.build, Build)
    assert again.build.registry == reading.build.registry


@pytest.mark.network
def test_a_release_that_is_only_a_source_distribution(tmp_path: Path) -> None:
    reading = read_build("vllm==0.1.0", Want(), BuildOptions(cache=Cache(tmp_path)))
    assert isinstance(reading.build, Build)
    assert "source distribution" in reading.build.identity.origin
    assert reading.cost.whole_downloads == 1
    assert isinstance(reading.build.registry, Known)
    assert len(reading.build.registry.value) == 4


@pytest.mark.network
def test_a_yanked_release_is_read_when_it_is_named_exactly(tmp_path: Path) -> None:
    reading = read_build("vllm==0.2.1", Want(), BuildOptions(cache=Cache(tmp_path)))
    assert isinstance(reading.build, Build)
    assert any("yanked" in note for note in reading.notes)


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment as ``python -m venv`` makes it."""
    folder = tmp_path_factory.mktemp("real") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=120)
    return folder


def pip(venv: Path, *arguments: str) -> None:
    command = [
        str(venv / "bin" / "python"),
        "-m",
        "pip",
        *arguments,
        "--quiet",
        "--disable-pip-version-check",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def test_a_wheel_that_pip_installed(venv: Path, tmp_path: Path) -> None:
    code = {f"eng/{name}": text for name, text in CODE.items()}
    wheel = tmp_path / "eng-1.2-py3-none-any.whl"
    wheel.write_bytes(zipped(wheel_files("eng", "1.2", code, ("transformers<5",))))
    library = tmp_path / "transformers-4.57.3-py3-none-any.whl"
    library.write_bytes(zipped(wheel_files("transformers", "4.57.3", {"transformers/__init__.py": ""})))
    pip(venv, "install", "--no-index", "--no-deps", str(wheel), str(library))
    reading = read_build(str(venv), Want(), BuildOptions(cache=Cache(tmp_path), engines=ENGINES))
    build = reading.build
    assert isinstance(build, Build)
    assert build.identity.origin.startswith("virtual environment, installed in lib/python3.")
    assert build.identity.version.value == "1.2"  # type: ignore[union-attr]
    assert build.transformers.installed.value == "4.57.3"  # type: ignore[union-attr]
    assert isinstance(build.registry, Known)
    assert set(build.registry.value) == {"Alpha", "Beta"}
    pip(venv, "uninstall", "--yes", "eng", "transformers")


PROJECTS = {
    "setuptools": '[build-system]\nrequires = ["setuptools>=64"]\nbuild-backend = "setuptools.build_meta"\n'
    '[project]\nname = "eng"\nversion = "1.2"\n[tool.setuptools.packages.find]\nwhere = ["{where}"]\n',
    "hatchling": '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
    '[project]\nname = "eng"\nversion = "1.2"\n[tool.hatch.build.targets.wheel]\npackages = ["{where}/eng"]\n',
}


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.parametrize("where", ["python", "."])
@pytest.mark.parametrize(
    ("backend", "settings"),
    [("hatchling", []), ("setuptools", []), ("setuptools", ["--config-settings", "editable_mode=compat"])],
)
def test_an_editable_install_by_pip(
    venv: Path, tmp_path: Path, where: str, backend: str, settings: list[str]
) -> None:
    """Whatever files the build backend leaves: they lead to the code."""
    lay(tmp_path, {**package(where.strip(".")), "pyproject.toml": PROJECTS[backend].format(where=where)})
    pip(venv, "install", "--no-deps", *settings, "--editable", str(tmp_path))
    found = discover(FolderTree(venv), ENGINES, lambda folder: FolderTree(Path(folder)))
    assert isinstance(found, Found), found
    assert "editable install of" in found.origin
    assert found.metadata.version.value == "1.2"  # type: ignore[union-attr]
    assert found.sources("eng").has("eng/registry.py")
    pip(venv, "uninstall", "--yes", "eng")
