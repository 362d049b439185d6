"""The community image's layout with a folder that may not be read: a cause, never "not there"."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_engine import installed, lay, library, package

DIST = "usr/local/lib/python3.12/dist-packages"
FILES = {
    "etc/os-release": "", "var/x": "", **package("opt/eng"), "opt/eng/eng/models/__init__.py": "",
    **library(DIST, "transformers", "4.57.3"),
}  # fmt: skip

PROBE = """
import json, os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from small_engine import ENGINES
import canserve.trees.view, canserve.probes.discover.metadata, tomllib
from canserve.facts import Missing
from canserve.probes.build import BuildOptions, read_build
from canserve.probes.discover import discover
from canserve.subjects.build import Want
from canserve.trees.folder import FolderTree
discover(FolderTree(Path(sys.argv[2])), ENGINES)  # loads what is loaded lazily
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
found = discover(FolderTree(Path(sys.argv[1]), "image"), ENGINES)
if isinstance(found, Missing):
    print(json.dumps({"cause": found.cause, "why": found.why}))
else:
    sources = found.sources("eng")
    registry = sources.text("eng/registry.py")
    gap = sources.gap("eng/models/alpha.py")
    installed = found.installed_version("transformers")
    print(json.dumps({
        "origin": found.origin,
        "registry": registry.cause if isinstance(registry, Missing) else "read",
        "models": gap.cause if gap else "listed",
        "transformers": installed.cause if isinstance(installed, Missing) else installed.value,
    }))
"""


@pytest.fixture
def image() -> Iterator[Path]:
    """The layout, in a folder that other users can reach, which pytest's own are not."""
    folder = Path(tempfile.mkdtemp(prefix="canserve-"))
    folder.chmod(0o755)
    yield lay(folder, FILES)
    for path in folder.rglob("*"):
        path.chmod(0o755)
    shutil.rmtree(folder)


def seen(image: Path) -> dict[str, str]:
    command = [sys.executable, "-c", PROBE, str(image), str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, str] = json.loads(done.stdout)
    return answer


def test_the_layout_as_it_is(image: Path) -> None:
    assert seen(image) == {
        "origin": "source tree opt/eng", "registry": "read", "models": "listed", "transformers": "4.57.3",
    }  # fmt: skip


def test_the_models_folder_cannot_be_listed(image: Path) -> None:
    (image / "opt/eng/eng/models").chmod(0)
    got = seen(image)
    assert (got["registry"], got["models"]) == ("read", "unavailable")


def test_the_registry_cannot_be_read(image: Path) -> None:
    (image / "opt/eng/eng/registry.py").chmod(0)
    assert seen(image)["registry"] == "unavailable"


@pytest.mark.parametrize("shut", ["opt/eng/eng", "opt/eng", "opt"])
def test_the_engine_itself_cannot_be_seen(image: Path, shut: str) -> None:
    (image / shut).chmod(0)
    got = seen(image)
    assert got["cause"] == "unavailable"
    assert shut in got["why"]


def test_the_site_cannot_be_listed(image: Path) -> None:
    """An engine may be installed there: what lies about in the image is not taken for it."""
    (image / DIST).chmod(0)
    got = seen(image)
    assert got.get("cause") == "unavailable" or got["transformers"] == "unavailable"


def test_the_installed_engine_cannot_be_listed(image: Path) -> None:
    lay(image, {**package(DIST), **installed(DIST, "eng", "1.2")})
    (image / DIST / "eng").chmod(0)
    got = seen(image)
    assert got["cause"] == "unavailable"
    assert f"{DIST}/eng" in got["why"]


def test_the_code_of_an_editable_install_cannot_be_listed(image: Path) -> None:
    lay(image, {**installed(DIST, "eng", "1.2"), f"{DIST}/_eng.pth": "/opt/eng\n"})
    (image / "opt/eng").chmod(0)
    got = seen(image)
    assert got["cause"] == "unavailable"
    assert "opt/eng" in got["why"]
