"""Source trees that are no Python package: told by a file, and carried by the package of another name."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_engine import CODE, SmallEngine, installed, lay, package

from canserve.engines import Checkout
from canserve.facts import Cause, Known, Missing
from canserve.probes.build import BuildOptions, read_build
from canserve.probes.build_target import Means, open_target
from canserve.subjects.build import Build, Want
from canserve.trees.archive.remote import Place
from canserve.trees.cache import Cache
from canserve.trees.index.pip_config import PipConfig
from canserve.trees.web.client import Web
from canserve.trees.web.settings import Settings


class CarriedEngine(SmallEngine):
    """``core``, which the package ``eng`` of the project ``eng-python`` carries; told by ``src/core.c``."""

    def __init__(self) -> None:
        super().__init__("eng")
        self.name = "core"
        self.distribution = "eng-python"
        self.checkout = Checkout(("src/core.c", "core.c"), "vendor/core")


ENGINES = (SmallEngine("second"), CarriedEngine())
TREE = {"src/core.c": "int a;\n", "eng/registry.py": 'MODELS = ["Alpha"]\n', "README": ""}


def build(target: Path, tmp_path: Path) -> Build | Missing:
    options = BuildOptions(offline=True, cache=Cache(tmp_path / "cache"), config=PipConfig(), engines=ENGINES)
    return read_build(str(target), Want(), options).build


def under(folder: str) -> dict[str, str]:
    return {f"{folder}/{name}".lstrip("/"): text for name, text in TREE.items()}


@pytest.mark.parametrize("folder", ["", "core-1.0", "home/user/core"])
def test_a_checkout_is_told_by_its_file(tmp_path: Path, folder: str) -> None:
    found = build(lay(tmp_path / "tree", under(folder)), tmp_path)
    assert isinstance(found, Build), found
    assert found.identity.engine == "core"
    assert isinstance(found.registry, Known)
    assert set(found.registry.value) == {"Alpha"}
    assert isinstance(found.identity.version, Missing)
    assert found.identity.version.cause is Cause.UNAVAILABLE
    assert found.identity.requires == Known((), found.identity.requires.evidence)


def test_the_older_file_at_the_top(tmp_path: Path) -> None:
    found = build(lay(tmp_path / "tree", {"core.c": "", "eng/registry.py": "MODELS = []\n"}), tmp_path)
    assert isinstance(found, Build), found


def test_the_package_is_read_together_with_what_it_carries(tmp_path: Path) -> None:
    files = {f"eng-python-1.0/{name}": text for name, text in package("").items()}
    files |= {
        "eng-python-1.0/PKG-INFO": "Name: eng-python\nVersion: 1.0\n",
        **under("eng-python-1.0/vendor/core"),
    }
    seen: list[str] = []

    class Watching(CarriedEngine):
        def first_files(self, sources, want):  # type: ignore[no-untyped-def]
            seen.extend(path for path in ("vendor/core/src/core.c", "eng/registry.py") if sources.has(path))
            return super().first_files(sources, want)

    options = BuildOptions(
        offline=True, cache=Cache(tmp_path / "c"), config=PipConfig(), engines=(Watching(),)
    )
    found = read_build(str(lay(tmp_path / "tree", files)), Want(), options)
    assert isinstance(found.build, Build), found
    assert seen == ["vendor/core/src/core.c", "eng/registry.py"]
    assert isinstance(found.build.identity.version, Known)
    assert found.build.identity.version.value == "1.0"
    assert not any("also found" in note for note in found.notes)


def test_an_installation_is_found_by_its_project(tmp_path: Path) -> None:
    site = "venv/lib/python3.12/site-packages"
    code = {f"{site}/eng/{name}": text for name, text in CODE.items() if name != "version.py"}
    files = {**code, **installed(site, "eng_python", "3.4"), "venv/pyvenv.cfg": ""}
    found = build(lay(tmp_path / "tree", files), tmp_path)
    assert isinstance(found, Build), found
    assert isinstance(found.identity.version, Known)
    assert found.identity.version.value == "3.4"


def test_a_tree_beside_an_installation_does_not_stand_in_for_it(tmp_path: Path) -> None:
    site = "venv/lib/python3.12/site-packages"
    files = {
        **package(site, "second"),
        **installed(site, "second", "1"),
        **under("src/llm"),
        "venv/pyvenv.cfg": "",
    }
    found = build(lay(tmp_path / "tree", files), tmp_path)
    assert isinstance(found, Build), found
    assert found.identity.engine == "second"


@pytest.mark.parametrize("name", ["core", "eng-python", "ENG_python"])
def test_a_release_goes_by_the_engines_name_and_by_its_projects(tmp_path: Path, name: str) -> None:
    place = Place(Web(Settings(), offline=True), Cache(tmp_path))
    opened = open_target(f"{name}==9", Means(place, PipConfig(), None, ENGINES))
    assert isinstance(opened, Missing)
    assert "eng-python" in opened.why
