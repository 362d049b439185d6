"""The GPU code of whole builds: an environment, a wheel, an image; which files are looked at and which are not."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

import pytest
from small_engine import CODE, SmallEngine, lay

from archives import wheel_files, zipped
from canserve.facts import Cause, Known, Missing
from canserve.probes.build import BuildOptions, read_build
from canserve.probes.gpu_code import reading
from canserve.probes.gpu_code.elf import FormError
from canserve.subjects.build import Build, Want
from canserve.subjects.gpu_code import CudaLibrary, Extension, Unit
from canserve.trees.cache import Cache
from gpu_files import cuda_object
from made_images import Layout, Member, layer

SITE = "lib/python3.12/site-packages"
OWN = cuda_object(["sm_90", "sm_120f"], ["sm_90a"], libc="2.34")
TORCH = cuda_object(["sm_90", "compute_90"], needed=("libcudart.so.12", "libcublas.so.12"))
WANT = Want(gpu_code=True)


def read(target: str, tmp_path: Path, want: Want = WANT) -> Build:
    options = BuildOptions(cache=Cache(tmp_path / "cache"), engines=(SmallEngine("vllm"),), offline=True)
    build = read_build(target, want, options).build
    assert isinstance(build, Build), build
    return build


def known(build: Build) -> Mapping[str, Extension | None]:
    assert isinstance(build.gpu_code, Known)
    return {
        name: fact.value if isinstance(fact, Known) else None for name, fact in build.gpu_code.value.items()
    }


def environment(site: str = SITE) -> dict[str, bytes]:
    files: dict[str, bytes] = {
        f"{site}/{path}": text.encode()
        for path, text in wheel_files("vllm", "1.2", {f"vllm/{n}": t for n, t in CODE.items()}).items()
    }
    files |= {
        f"{site}/vllm/_C.abi3.so": OWN,
        f"{site}/vllm/kernels/_deep.cpython-312-x86_64-linux-gnu.so": OWN,
    }
    files |= {f"{site}/vllm/data.so.txt": b"", f"{site}/vllm/pointer.so": b"version https://git-lfs"}
    files |= {f"{site}/torch/__init__.py": b"", f"{site}/torch/lib/libtorch_cuda.so": TORCH}
    files |= {f"{site}/flash_attn/__init__.py": b"", f"{site}/flash_attn_2_cuda.cpython-312.so": OWN}
    files |= {f"{site}/other/__init__.py": b"", f"{site}/other/_C.so": OWN}
    files |= {
        f"{site}/sgl_kernel/__init__.py": b"",
        f"{site}/sgl_kernel/common_ops.so": OWN,
    }  # of another engine
    files[f"{site}/nvidia/cuda_runtime/lib/libcudart.so.12"] = b"\x7fELF"
    files[f"{site}/nvidia/cublas/lib/libcublas.so.13"] = b"\x7fELF"
    return files


def laid(root: Path, files: Mapping[str, bytes]) -> Path:
    lay(root, {"pyvenv.cfg": ""})
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    return root


FOUND = {
    "vllm/_C.abi3.so",
    "vllm/kernels/_deep.cpython-312-x86_64-linux-gnu.so",
    "torch/lib/libtorch_cuda.so",
    "flash_attn_2_cuda.cpython-312.so",
}


def test_an_environment(tmp_path: Path) -> None:
    build = read(str(laid(tmp_path / "venv", environment())), tmp_path)
    found = known(build)
    assert set(found) == FOUND  # of other packages nothing, and nothing that is no ELF file
    own = found["vllm/_C.abi3.so"]
    assert own is not None
    assert own.units == (Unit(("sm_120f", "sm_90"), 1), Unit(("sm_90a",), 1))
    assert (own.package, own.cpu, own.libc) == ("vllm", "aarch64", "2.34")
    assert isinstance(build.gpu_code, Known) and "vllm/pointer.so" in build.gpu_code.evidence[0].saw
    assert build.libc_needed == Known("2.34", build.gpu_code.evidence)
    assert isinstance(build.cuda_needed, Known)
    by = (
        "flash_attn_2_cuda.cpython-312.so",
        "torch/lib/libtorch_cuda.so",
        "vllm/_C.abi3.so",
        "vllm/kernels/_deep.cpython-312-x86_64-linux-gnu.so",
    )
    assert build.cuda_needed.value == {
        "libcublas.so.12": CudaLibrary(("torch/lib/libtorch_cuda.so",), None, ("libcublas.so.13",)),
        "libcudart.so.12": CudaLibrary(by, f"{SITE}/nvidia/cuda_runtime/lib/libcudart.so.12"),
    }


def test_nothing_is_read_unasked(tmp_path: Path) -> None:
    build = read(str(laid(tmp_path / "venv", environment())), tmp_path, Want())
    assert isinstance(build.gpu_code, Missing) and build.gpu_code.cause is Cause.UNREACHED


def test_a_damaged_extension_leaves_the_others(tmp_path: Path) -> None:
    files = environment() | {f"{SITE}/vllm/_C.abi3.so": OWN[:300]}
    build = read(str(laid(tmp_path / "venv", files)), tmp_path)
    found = known(build)
    assert found["vllm/_C.abi3.so"] is None and found["torch/lib/libtorch_cuda.so"] is not None
    assert isinstance(build.libc_needed, Missing) and build.libc_needed.cause is Cause.UNREADABLE


@pytest.mark.parametrize("again", [False, True])
def test_a_wheel(tmp_path: Path, again: bool) -> None:
    files = wheel_files("vllm", "1.2", {f"vllm/{n}": t for n, t in CODE.items()})
    path = tmp_path / "vllm-1.2-cp312-abi3-manylinux_2_28_aarch64.whl"
    path.write_bytes(zipped({**files, "vllm/_C.abi3.so": OWN, "vllm.libs/libcudart-01234567.so.12": OWN}))
    build = read(str(path), tmp_path)
    if again:
        assert read(str(path), tmp_path) == build
    assert set(known(build)) == {"vllm/_C.abi3.so"}
    assert isinstance(build.cuda_needed, Known)
    assert build.cuda_needed.value["libcudart.so.12"].others == ("libcudart-01234567.so.12",)


@pytest.mark.parametrize("how", ["gzip", "zstd"])
def test_an_image(tmp_path: Path, how: str) -> None:
    files: dict[str, Member] = {f"usr/{path}": data for path, data in environment().items()}
    below: dict[str, Member] = {
        "etc/ld.so.conf": b"include",
        "usr/local/cuda-13.0/targets/sbsa-linux/lib/libcudart.so.13": b"\x7fELF",
        "usr/local/cuda-12.9/lib64/libcublas.so.12": b"\x7fELF",
        f"usr/{SITE}/vllm/_C.abi3.so": b"older",
    }
    layout = Layout(tmp_path / "image")
    layout.add(layout.image([layer(below), layer(files)], how=how))
    build = read(f"oci:{layout.root}", tmp_path)
    assert build.identity.origin.startswith("image on disk: Python environment, installed in usr/lib")
    assert set(known(build)) == FOUND
    own = known(build)["vllm/_C.abi3.so"]
    assert own is not None and own.libc == "2.34"
    assert isinstance(build.cuda_needed, Known)
    assert build.cuda_needed.value["libcublas.so.12"].found == "usr/local/cuda-12.9/lib64/libcublas.so.12"
    assert build.cuda_needed.value["libcudart.so.12"].others == ("libcudart.so.13",)
    assert not build.cuda_needed.value["libcudart.so.12"].everywhere  # all were in the usual folders
    assert known(read(f"oci:{layout.root}", tmp_path)) == known(build)


def test_a_library_in_an_unusual_folder_of_an_image(tmp_path: Path) -> None:
    files: dict[str, Member] = {f"usr/{path}": data for path, data in environment().items()}
    files |= {"etc/ld.so.conf": b"", "opt/odd/lib/libcublas.so.12": b"\x7fELF"}
    del files[f"usr/{SITE}/nvidia/cuda_runtime/lib/libcudart.so.12"]
    layout = Layout(tmp_path / "image")
    layout.add(layout.image([layer(files)]))
    build = read(f"oci:{layout.root}", tmp_path)
    assert isinstance(build.cuda_needed, Known)
    assert build.cuda_needed.value["libcublas.so.12"].found == "opt/odd/lib/libcublas.so.12"
    absent = build.cuda_needed.value["libcudart.so.12"]
    assert absent.found is None and absent.everywhere


def test_a_library_that_is_not_as_large_as_it_declares(tmp_path: Path) -> None:
    files = wheel_files("vllm", "1.2", {f"vllm/{n}": t for n, t in CODE.items()})
    data = bytearray(zipped({**files, "vllm/_C.abi3.so": OWN}))
    at = data.rindex(b"vllm/_C.abi3.so") - 46  # its entry in the central directory
    struct.pack_into("<I", data, at + 24, 0xFFFFFFF0)
    path = tmp_path / "vllm-1.2-cp312-abi3-manylinux_2_28_aarch64.whl"
    path.write_bytes(data)
    build = read(str(path), tmp_path)
    assert isinstance(build.gpu_code, Known)
    fact = build.gpu_code.value["vllm/_C.abi3.so"]
    assert isinstance(fact, Missing) and fact.cause is Cause.UNREADABLE


def test_more_headers_than_patience(tmp_path: Path) -> None:
    class Endless:
        size = 1 << 40

        def read(self, start: int, end: int) -> bytes:
            return bytes(end - start)

    patience = reading._Patience()
    patience.left = 3
    file = reading._Counted(Endless(), patience)
    for _ in range(3):
        file.read(0, 1)
    with pytest.raises(FormError, match="reads"):
        file.read(0, 1)
