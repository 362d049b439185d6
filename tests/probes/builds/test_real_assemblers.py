"""Real assemblers out of real wheels, by ranges: what they say of themselves is what they answer, and so is the table."""

from __future__ import annotations

import platform
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from canserve.facts import Known
from canserve.probes.stack.constants import PTXAS, Asked, Means, releases
from canserve.rules.stack import assembler
from canserve.trees.cache import Cache
from canserve.trees.positions import Positions, visit
from canserve.trees.tree import Tree
from releases import opened as open_release

pytestmark = [pytest.mark.slow, pytest.mark.network]

WHEELS = {
    "triton==2.1.0": ("triton/third_party/cuda/bin/ptxas",),
    "triton==3.6.0": ("triton/backends/nvidia/bin/ptxas", "triton/backends/nvidia/bin/ptxas-blackwell"),
    "nvidia-cuda-nvcc-cu12==12.4.131": ("nvidia/cuda_nvcc/bin/ptxas",),
    "nvidia-cuda-nvcc==13.0.88": ("nvidia/cu13/bin/ptxas",),
    "nvidia-cuda-nvcc==13.5.37": ("nvidia/cu13/bin/ptxas",),
}
"""About 10 MB of each are read."""


@pytest.fixture
def opened(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Tree]:
    with open_release(request.param, Cache(tmp_path / "cache"), "x86_64") as tree:
        yield tree


@pytest.mark.parametrize(("opened", "release"), [(each, each) for each in WHEELS], indirect=["opened"])
def test_an_assembler_says_its_release_and_the_table_what_it_compiles_for(
    opened: Tree, release: str, tmp_path: Path
) -> None:
    if platform.machine() != "x86_64":
        pytest.skip("the wheels are those for x86_64, whose programs do not run here")
    entries = opened.listing().entries
    sizes = {path: entries[path].size for path in WHEELS[release]}
    told = releases(Means(opened, release, True), {path: Asked(size, PTXAS) for path, size in sizes.items()})
    answered: list[str] = []

    def ask(path: str, file: Positions) -> None:
        program = tmp_path / "ptxas"
        program.write_bytes(file.read(0, file.size))
        program.chmod(0o755)

        def output(flag: str) -> str:
            return subprocess.run([program, flag], capture_output=True, text=True, check=True).stdout

        version = re.search(r"release [\d.]+, V([\d.]+)", output("--version"))
        own = told[path]
        assert version is not None
        assert isinstance(own, Known), own
        assert own.value == version[1]
        row = assembler(own.value)
        assert row is not None
        text = re.sub(r"\s", "", output("--help").partition("--gpu-name")[2].partition("Defaultvalue")[0])
        listed = {f"{number[:-1]}.{number[-1]}" for number in re.findall(r"'sm_(\d{2,3})'", text)}
        assert set(row.texts("capabilities")) == listed
        answered.append(own.value)

    assert visit(opened, sizes, ask) == {}
    assert len(answered) == len(sizes)
