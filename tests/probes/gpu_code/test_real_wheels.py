"""Real extensions from the package index: every entry as NVIDIA's own tool lists it, libraries as readelf does."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from canserve.probes.gpu_code import elf, fatbin
from canserve.trees.archive.blob import FileBlob
from canserve.trees.archive.zip import ZipTree
from canserve.trees.cache import Cache
from canserve.trees.positions import Positions, visit
from canserve.trees.tree import Tree
from releases import opened

pytestmark = [pytest.mark.slow, pytest.mark.network]

WHEELS = ("xformers", "bitsandbytes", "torchvision")
"""3, 43 and 8 MB."""
MEMBERS = {
    "vllm==0.33.0": (
        "vllm/_moe_C_stable_libtorch.abi3.so", "vllm/_qutlass_C.abi3.so", "vllm/_flashmla_C.abi3.so",
        "vllm/_flashkda_C.abi3.so", "vllm/third_party/deep_gemm/_C_extension.abi3.so",
    ),
    "vllm==0.17.1": ("vllm/_flashmla_C.abi3.so",),
    "sgl-kernel==0.3.21": ("sgl_kernel/flashmla_ops.abi3.so", "deep_gemm/deep_gemm_cpp.abi3.so"),
}  # fmt: skip
"""Extensions of engines, read out of wheels of 340 to 540 MB by ranges; 100 MB unpacked."""


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


def compared(tool: Path, tree: Tree, sizes: Mapping[str, int], copy: Path) -> dict[str, Counter[str]]:
    """Our entries of these files, each of which is compared with what the tools list."""
    found: dict[str, Counter[str]] = {}

    def use(name: str, file: Positions) -> None:
        headers = elf.read_elf(file)
        ours = Counter(
            entry.target
            for section in headers.named(fatbin.SECTION)
            for unit in fatbin.units(file, section)
            for entry in unit
        )
        copy.write_bytes(file.read(0, file.size))
        theirs = listed(tool, copy)
        if theirs is not None:
            plain: Counter[str] = Counter()
            for target, count in ours.items():
                plain[target.rstrip("f")] += count
            assert plain == theirs, name
            found[name] = ours
        linked_as_readelf_says(headers, file, copy)

    assert visit(tree, sizes, use) == {}
    return found


def linked_as_readelf_says(headers: elf.Elf, file: Positions, copy: Path) -> None:
    if not shutil.which("readelf"):
        return
    text = subprocess.run(["readelf", "-dVW", copy], capture_output=True, text=True, check=True).stdout
    assert list(elf.needed(headers, file)) == re.findall(r"Shared library: \[(.*?)\]", text)
    rpath, runpath = elf.searched(headers, file)
    assert ":".join(rpath) == "".join(re.findall(r"Library rpath: \[(.*?)\]", text)).strip(":")
    assert ":".join(runpath) == "".join(re.findall(r"Library runpath: \[(.*?)\]", text)).strip(":")
    versions = [tuple(map(int, v.split("."))) for v in re.findall(r"Name: GLIBC_([\d.]+) ", text)]
    newest = elf.libc(headers, file)
    assert (tuple(map(int, newest.split("."))) if newest else None) == max(versions, default=None)


@pytest.mark.parametrize("project", WHEELS)
def test_every_entry_is_the_one_that_nvidias_tool_lists(
    project: str, cuobjdump: Path, tmp_path: Path
) -> None:
    path = downloaded(project, tmp_path)
    tree = ZipTree(FileBlob(path, project), project, "wheel")
    sizes = {name: e.size for name, e in tree.listing().entries.items() if re.search(r"\.so(\.\d+)*$", name)}
    assert any(compared(cuobjdump, tree, sizes, tmp_path / "copy.so").values())


@pytest.mark.parametrize("release", MEMBERS)
def test_extensions_of_engines_too(release: str, cuobjdump: Path, tmp_path: Path) -> None:
    with opened(release, Cache(tmp_path / "cache"), "x86_64") as tree:
        entries = tree.listing().entries
        sizes = {name: entries[name].size for name in MEMBERS[release]}
        ours = compared(cuobjdump, tree, sizes, tmp_path / "copy.so")
    assert set(ours) == set(MEMBERS[release])
    targets = {target for each in ours.values() for target in each}
    assert any(target.endswith("a") for target in targets), targets
    for name, each in ours.items():
        print(f"{release} {name}: {sum(each.values())} entries: {dict(sorted(each.items()))}")
