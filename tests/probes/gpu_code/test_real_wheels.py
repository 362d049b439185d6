"""Real extensions from the package index: every entry as NVIDIA's own tool lists it, libraries as readelf does."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from canserve.probes.gpu_code import elf, fatbin
from canserve.trees.archive.blob import FileBlob
from canserve.trees.archive.zip import ZipTree
from canserve.trees.positions import Positions, visit

pytestmark = [pytest.mark.slow, pytest.mark.network]

WHEELS = ("xformers", "bitsandbytes", "torchvision")
"""3, 43 and 8 MB."""


def downloaded(project: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:"]
    subprocess.run([*command, "-d", str(folder), project], check=True, capture_output=True, timeout=300)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def cuobjdump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if platform.machine() != "x86_64":
        pytest.skip("the tool's wheel for other CPUs was not tried")
    folder = tmp_path_factory.mktemp("cuobjdump")
    with zipfile.ZipFile(downloaded("nvidia-cuda-cuobjdump", folder)) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith("/bin/cuobjdump"))
        path = Path(wheel.extract(name, folder))
    path.chmod(0o755)
    return path


def listed(tool: Path, path: Path) -> Counter[str] | None:
    """Entries by target, without the ``f`` that the tool leaves out; None: it gave up on the file."""
    done = subprocess.run(
        [tool, "--list-elf", "--list-ptx", path], capture_output=True, text=True, check=False
    )
    if "fatal" in done.stderr:
        return None
    found = re.findall(r"^(ELF|PTX) file .*\.sm_(\d+a?)\.(?:cubin|ptx)$", done.stdout, re.MULTILINE)
    return Counter(f"{'sm' if kind == 'ELF' else 'compute'}_{number}" for kind, number in found)


@pytest.mark.parametrize("project", WHEELS)
def test_every_entry_is_the_one_that_nvidias_tool_lists(
    project: str, cuobjdump: Path, tmp_path: Path
) -> None:
    path = downloaded(project, tmp_path)
    tree = ZipTree(FileBlob(path, project), project, "wheel")
    sizes = {name: e.size for name, e in tree.listing().entries.items() if re.search(r"\.so(\.\d+)*$", name)}
    compared: list[str] = []

    def use(name: str, file: Positions) -> None:
        headers = elf.read_elf(file)
        ours = Counter(
            entry.target.rstrip("f")
            for section in headers.named(fatbin.SECTION)
            for unit in fatbin.units(file, section)
            for entry in unit
        )
        copy = tmp_path / "copy.so"
        copy.write_bytes(file.read(0, file.size))
        theirs = listed(cuobjdump, copy)
        if theirs is not None:
            assert ours == theirs, name
            compared.extend([name] if ours else [])
        if shutil.which("readelf"):
            text = subprocess.run(
                ["readelf", "-dVW", copy], capture_output=True, text=True, check=True
            ).stdout
            assert list(elf.needed(headers, file)) == re.findall(r"Shared library: \[(.*?)\]", text)
            versions = [tuple(map(int, v.split("."))) for v in re.findall(r"Name: GLIBC_([\d.]+) ", text)]
            newest = elf.libc(headers, file)
            assert (tuple(map(int, newest.split("."))) if newest else None) == max(versions, default=None)

    assert visit(tree, sizes, use) == {}
    assert compared
