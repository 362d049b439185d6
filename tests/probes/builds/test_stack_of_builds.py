"""What environments and images stand on: every fact where it is there, where it is not, and where nobody can tell."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_engine import CODE, SmallEngine

from archives import wheel_files, zipped
from canserve.facts import Cause, Fact, Known, Missing
from canserve.probes.build import BuildOptions, read_build
from canserve.subjects.build import Build, Want
from canserve.subjects.stack import Stack, Started
from canserve.trees.cache import Cache
from gpu_files import Shared
from made_images import Layout, Member, layer, link

SITE = "usr/lib/python3/dist-packages"
PTXAS = b"\0Cuda compilation tools, release 12.9, V12.9.86\0"
RPATH = "$ORIGIN/../../nvidia/nccl/lib:$ORIGIN"


def said(text: bytes) -> bytes:
    """A program or library with these words among its constants."""
    return Shared({".rodata": text}).made()


def nccl(version: str) -> bytes:
    return said(f"\0NCCL version {version}+cuda12.9\0".encode())


def torch(rpath: str = RPATH, runpath: str = "") -> bytes:
    paths = {tag: text for tag, text in ((15, rpath), (29, runpath)) if text}
    return Shared(needed=["libnccl.so.2", "libc10.so"], paths=paths).made()


def engine(site: str = SITE) -> dict[str, Member]:
    files = wheel_files("vllm", "1.2", {f"vllm/{n}": t for n, t in CODE.items()})
    return {f"{site}/{path}": text.encode() for path, text in files.items()}


def installed(name: str, version: str, *requires: str) -> dict[str, Member]:
    lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {each}" for each in requires)]
    text = "\n".join(["Metadata-Version: 2.1", *lines, "", ""])
    return {f"{SITE}/{name.replace('-', '_')}-{version}.dist-info/METADATA": text.encode()}


BASE: dict[str, Member] = {
    "etc/ld.so.conf": b"include /etc/ld.so.conf.d/*.conf\n",
    "etc/ld.so.conf.d/zz.conf": b"# comment\n/opt/lib\n",
    "etc/os-release": b'NAME="Small"\nPRETTY_NAME="Small Linux 12"\n',
    "var/lib/dpkg/status": b"Package: libc-bin\nVersion: 9.99\n\nPackage: libc6\nStatus: ok\nVersion: 2.36-9+deb12u10\n",
    "usr/bin/python3": b"",
}
TORCH: dict[str, Member] = {
    f"{SITE}/torch/__init__.py": b"",
    f"{SITE}/torch/version.py": b"__version__ = '2.10.0+cu129'\ncuda: Optional[str] = '12.9'\nhip: Optional[str] = None\n",
    f"{SITE}/torch/lib/libtorch_cuda.so": torch(),
    **installed("torch", "2.10.0", "nvidia-nccl-cu12==2.27.5; platform_system == 'Linux'"),
}
TRITON: dict[str, Member] = {
    f"{SITE}/triton/__init__.py": b"",
    f"{SITE}/triton/runtime/build.py": b'raise RuntimeError("Failed to find C compiler. Please")\n',
    f"{SITE}/triton/backends/nvidia/bin/ptxas": said(PTXAS),
    f"{SITE}/triton/backends/nvidia/bin/cuobjdump": said(PTXAS),
    **installed("triton", "3.6.0"),
}
NCCL: dict[str, Member] = {
    f"{SITE}/nvidia/nccl/lib/libnccl.so.2": nccl("2.27.5"),
    **installed("nvidia-nccl-cu12", "2.27.5"),
}
OWN = f"{SITE}/nvidia/nccl/lib/libnccl.so.2"


def read(target: str, tmp_path: Path, **want: Any) -> Stack:
    options = BuildOptions(cache=Cache(tmp_path / "cache"), engines=(SmallEngine("vllm"),), offline=True)
    build = read_build(target, Want(**({"stack": True, "gpu_code": True} | want)), options).build
    assert isinstance(build, Build), build
    return build.stack


def image(tmp_path: Path, *members: Mapping[str, Member], **config: Any) -> Stack:
    """The stack of an image of one layer, started as ``config`` says."""
    files = {name: content for each in members for name, content in each.items()}
    layout = Layout(tmp_path / "image").started(files, {"Env": [], **config})
    return read(f"oci:{layout.root}", tmp_path)


def of(fact: Fact[Any]) -> Any:
    assert isinstance(fact, Known), fact
    assert fact.evidence
    return fact.value


def test_a_whole_image(tmp_path: Path) -> None:
    toolkit = {"cuda": {"version": "12.8.1"}, "cuda_nvcc": {"version": "12.8.93"}}
    more: dict[str, Member] = {
        "usr/local/cuda": link("cuda-12.8"),
        "usr/local/cuda-12.8/version.json": json.dumps(toolkit).encode(),
        "usr/local/cuda-12.8/bin/nvcc": b"",
        "usr/local/cuda-12.8/compat/libcuda.so.570.86.15": b"",
        "usr/bin/gcc-12": b"",
        "usr/bin/gcc": link("gcc-12"),
        "usr/bin/ninja": b"",
        "usr/include/python3.12/Python.h": b"",
        f"{SITE}/flashinfer/__init__.py": b"",
        f"{SITE}/flashinfer_jit_cache/jit_cache/a/sm_121a/a.so": b"",
        f"{SITE}/flashinfer_jit_cache/__init__.py": b"",
        f"{SITE}/vllm/third_party/deep_gemm/sm90.cubin": b"",
        "root/.cache/flashinfer/0.6.4/90a_121a/cached_ops/x.so": b"",
        "entry.sh": b'#!/bin/bash\nset -e\nexec vllm serve "$@"\n',
        **installed("flashinfer-python", "0.6.4"),
        **installed("flashinfer-jit-cache", "0.6.4"),
        **installed("ray", "2.60.0"),
        **installed("nvidia-cuda-runtime-cu12", "12.9.79"),
        f"{SITE}/ray/__init__.py": b"",
    }
    env = ["CUDA_VERSION=12.8.1", "NCCL_SOCKET_IFNAME=eth0", "HF_TOKEN=hf_secret", "VLLM_HOST_IP=10.0.0.1"]
    found = image(
        tmp_path,
        BASE,
        engine(),
        TORCH,
        TRITON,
        NCCL,
        more,
        Env=env,
        Entrypoint=["/entry.sh"],
        Cmd=["--port", "1"],
    )
    assert of(found.torch_cuda) == "12.9"
    assert of(found.torch_requires_nccl) == "==2.27.5"
    assert [str(each) for each in of(found.cuda)] == [
        f"12.9.79 ({SITE}/nvidia_cuda_runtime_cu12-12.9.79.dist-info)",
        "12.8.1 (usr/local/cuda-12.8)",
        "12.8.1 (CUDA_VERSION)",
    ]
    assert of(found.cuda_compat) == "570.86.15"
    assert [str(each) for each in of(found.nccl)] == [f"{OWN}: 2.27.5"]
    loaded = of(found.nccl_loaded)
    assert (loaded.path, of(loaded.version)) == (OWN, "2.27.5")
    assert loaded.because == "RPATH of torch/lib/libtorch_cuda.so" and loaded.certain
    assert of(found.ray) == "2.60.0"
    triton = of(found.triton)
    assert [str(each) for each in triton.assemblers] == [f"{SITE}/triton/backends/nvidia/bin/ptxas: 12.9.86"]
    assert of(triton.version) == "3.6.0" and of(triton.compiles) is True and triton.named == {}
    assert [str(each) for each in of(found.nvcc)] == ["usr/local/cuda-12.8/bin/nvcc: 12.8.93"]
    assert of(found.c_compiler) == "usr/bin/gcc"
    assert of(found.ninja) == "usr/bin/ninja"
    assert of(found.system) == "Small Linux 12"
    assert of(found.libc) == "2.36"
    kernels = {each.path: each for each in of(found.kernels)}
    assert set(kernels) == {
        f"{SITE}/flashinfer", f"{SITE}/flashinfer_jit_cache", f"{SITE}/vllm/third_party/deep_gemm",
        "root/.cache/flashinfer",
    }  # fmt: skip
    ahead, kept = kernels[f"{SITE}/flashinfer_jit_cache"], kernels["root/.cache/flashinfer"]
    assert (ahead.files, ahead.targets, of(ahead.version), ahead.kept) == (1, ("121a",), "0.6.4", False)
    assert kept.kept and kept.targets == ("90a_121a",)
    started = of(found.started)
    assert (started.entrypoint, started.command) == (("/entry.sh",), ("--port", "1"))
    assert of(started.script) == 'vllm serve "$@"'
    assert of(found.pins) == {"NCCL_SOCKET_IFNAME": "eth0", "VLLM_HOST_IP": "10.0.0.1"}
    assert "hf_secret" not in repr(found)


def test_a_bare_image_lacks_them_for_certain(tmp_path: Path) -> None:
    found = image(tmp_path, BASE, engine())
    absent = (
        "torch_cuda",
        "torch_requires_nccl",
        "cuda_compat",
        "nccl_loaded",
        "ray",
        "triton",
        "c_compiler",
        "ninja",
    )
    assert {name: of(getattr(found, name)) for name in absent} == dict.fromkeys(absent)
    assert of(found.cuda) == of(found.nccl) == of(found.nvcc) == of(found.kernels) == ()
    assert of(found.pins) == {}
    assert of(found.started).entrypoint == ()


def test_a_wheel_has_nothing_around_it(tmp_path: Path) -> None:
    wheel = tmp_path / "vllm-1.2-py3-none-any.whl"
    wheel.write_bytes(zipped(wheel_files("vllm", "1.2", {f"vllm/{n}": t for n, t in CODE.items()})))
    found = read(str(wheel), tmp_path)
    assert all(
        isinstance(fact := getattr(found, name), Missing) and fact.cause is Cause.UNREACHED
        for name in Stack.__dataclass_fields__
    )


def test_nobody_asked(tmp_path: Path) -> None:
    lay_out(tmp_path / "venv", environment())
    assert read(str(tmp_path / "venv"), tmp_path, stack=False) == Stack()


def lay_out(root: Path, files: Mapping[str, Member]) -> Path:
    for name, content in files.items():
        assert isinstance(content, bytes)
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


def environment() -> dict[str, Member]:
    site = "lib/python3.12/site-packages"
    files = {**engine(), **TORCH, **TRITON, **NCCL}
    moved = {name.replace(SITE, site): content for name, content in files.items()}
    return {"pyvenv.cfg": b"home = /usr/bin\n", **moved}


def test_an_environment_says_what_lies_in_it_and_nothing_of_what_is_around(tmp_path: Path) -> None:
    found = read(str(lay_out(tmp_path / "venv", environment())), tmp_path)
    assert of(found.nccl_loaded).path == "lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2"
    assert of(of(found.triton).assemblers[0].version) == "12.9.86"
    for name in (
        "cuda",
        "cuda_compat",
        "nvcc",
        "c_compiler",
        "ninja",
        "python_header",
        "system",
        "libc",
        "started",
    ):
        fact = getattr(found, name)
        assert isinstance(fact, Missing) and fact.cause is Cause.UNREACHED, name


# which copy of NCCL loads ----------------------------------------------------------------------------

OTHER: dict[str, Member] = {
    "usr/lib/libnccl.so.2": link("libnccl.so.2.21.5"),
    "usr/lib/libnccl.so.2.21.5": nccl("2.21.5"),
}
PRELOADED: dict[str, Member] = {"opt/mine/libnccl.so.2": nccl("2.28.9")}
CONFIGURED: dict[str, Member] = {"opt/lib/libnccl.so.2": nccl("2.26.2")}


def with_torch(rpath: str = "", runpath: str = "") -> dict[str, Member]:
    return {**TORCH, f"{SITE}/torch/lib/libtorch_cuda.so": torch(rpath, runpath)}


@pytest.mark.parametrize(
    ("rpath", "runpath", "env", "path", "because"),
    [
        (RPATH, "", [], OWN, "RPATH"),
        (RPATH, "", ["LD_LIBRARY_PATH=/opt/mine"], OWN, "RPATH"),
        ("", RPATH, ["LD_LIBRARY_PATH=/opt/mine"], "opt/mine/libnccl.so.2", "LD_LIBRARY_PATH"),
        (RPATH, "/nowhere", ["LD_LIBRARY_PATH=:/opt/mine"], "opt/mine/libnccl.so.2", "LD_LIBRARY_PATH"),
        ("", "${ORIGIN}/../../nvidia/nccl/lib", [], OWN, "RUNPATH"),
        (RPATH, "", ["LD_PRELOAD=/x.so /opt/mine/libnccl.so.2"], "opt/mine/libnccl.so.2", "LD_PRELOAD"),
        ("", "", [], "opt/lib/libnccl.so.2", "ld.so.conf"),
        ("$ORIGIN", "", [], "opt/lib/libnccl.so.2", "ld.so.conf"),
        ("../../../../../../../opt/mine", "", [], "opt/lib/libnccl.so.2", "ld.so.conf"),
    ],
)  # fmt: skip
def test_the_loaders_order(
    rpath: str, runpath: str, env: list[str], path: str, because: str, tmp_path: Path
) -> None:
    files = (BASE, engine(), with_torch(rpath, runpath), NCCL, OTHER, PRELOADED, CONFIGURED)
    found = image(tmp_path, *files, Env=env)
    loaded = of(found.nccl_loaded)
    assert loaded.path == path and because in loaded.because and loaded.certain
    versions = {"2.27.5", "2.21.5", "2.28.9", "2.26.2"}
    assert {of(each.version) for each in of(found.nccl)} == versions


def test_the_system_comes_last_and_a_linked_name_stands_for_its_file(tmp_path: Path) -> None:
    found = image(tmp_path, BASE, engine(), with_torch(), OTHER)
    loaded = of(found.nccl_loaded)
    assert (loaded.path, of(loaded.version)) == ("usr/lib/libnccl.so.2", "2.21.5")
    assert loaded.because == "the loader's own folders"
    assert [each.path for each in of(found.nccl)] == ["usr/lib/libnccl.so.2"]


def test_no_copy_anywhere_and_a_torch_that_needs_none(tmp_path: Path) -> None:
    absent = of(image(tmp_path, BASE, engine(), TORCH).nccl_loaded)
    assert absent.path is None and "no folder" in absent.because
    static = {**TORCH, f"{SITE}/torch/lib/libtorch_cuda.so": Shared().made()}
    assert of(image(tmp_path / "b", BASE, engine(), static).nccl_loaded) is None


def test_an_environment_without_a_copy_may_find_one_on_the_machine(tmp_path: Path) -> None:
    files = {name: content for name, content in environment().items() if "nccl" not in name}
    found = read(str(lay_out(tmp_path / "venv", files)), tmp_path)
    assert isinstance(found.nccl_loaded, Missing) and found.nccl_loaded.cause is Cause.UNREACHED
    runpath = {**environment(), "lib/python3.12/site-packages/torch/lib/libtorch_cuda.so": torch("", RPATH)}
    unsure = read(str(lay_out(tmp_path / "other", runpath)), tmp_path)
    assert not of(unsure.nccl_loaded).certain


def test_a_library_that_an_extension_of_torch_hides(tmp_path: Path) -> None:
    broken = {**TORCH, f"{SITE}/torch/lib/libtorch_cuda.so": b"\x7fELF" + b"\0" * 80}
    found = image(tmp_path, BASE, engine(), broken, NCCL)
    assert isinstance(found.nccl_loaded, Missing) and found.nccl_loaded.cause is Cause.UNREADABLE


# files that are not what they should be --------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"#!/bin/sh\n", said(b"nothing"), said(PTXAS)[:-40]])
def test_an_assembler_that_says_nothing(content: bytes, tmp_path: Path) -> None:
    files = {**TRITON, f"{SITE}/triton/backends/nvidia/bin/ptxas": content}
    found = of(image(tmp_path, BASE, engine(), files).triton)
    version = found.assemblers[0].version
    assert isinstance(version, Missing) and version.cause is Cause.UNREADABLE


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("def get_ptxas():\n    return knobs.nvidia.ptxas\n", None),
        ("def get_ptxas(arch):\n    return k.ptxas_blackwell if arch >= 100 else k.ptxas\n", 100),
        ("def get_ptxas(arch: int):\n    name = 'ptxas-blackwell' if arch >= 100 else 'ptxas'\n", 100),
        (
            "def get_ptxas(arch):\n    if arch < 90:\n        return k.ptxas\n    return k.ptxas_blackwell\n",
            90,
        ),
        ("def get_ptxas(arch):\n    return k.ptxas_blackwell if is_new(arch) else k.ptxas\n", "unknown"),
        ("def get_ptxas(arch):\n    return blackwell if arch >= 90 and arch < 130 else k.ptxas\n", "unknown"),
        ("blackwell = 1\n", "unknown"),
        ("def blackwell(:\n", "unknown"),
        ("blackwell = " + "(" * 5000, "unknown"),
    ],
)
def test_how_triton_chooses_an_assembler(text: str, number: object, tmp_path: Path) -> None:
    """The forms of triton 3.4.0, 3.6.0, 3.3.1 and 3.9.0, and some that nobody has written yet."""
    files = {**TRITON, f"{SITE}/triton/backends/nvidia/compiler.py": text.encode()}
    found = of(image(tmp_path, BASE, engine(), files).triton).newer_from
    if number == "unknown":
        assert isinstance(found, Missing) and found.cause is Cause.UNREADABLE
    else:
        assert of(found) == number


def test_an_assembler_that_torch_brings(tmp_path: Path) -> None:
    files: dict[str, Member] = {f"{SITE}/torch/bin/ptxas": said(PTXAS)}
    found = of(image(tmp_path, BASE, engine(), TORCH, TRITON, files).triton).by_torch
    assert str(found) == f"{SITE}/torch/bin/ptxas: 12.9.86"
    assert of(image(tmp_path / "b", BASE, engine(), TORCH, TRITON).triton).by_torch is None


def test_constants_are_read_across_pieces(tmp_path: Path) -> None:
    for start in ((1 << 20) - 20, (1 << 20) + 100, 3 << 20):
        files = {**TRITON, f"{SITE}/triton/backends/nvidia/bin/ptxas": said(bytes(start) + PTXAS)}
        found = of(image(tmp_path / str(start), BASE, engine(), files).triton)
        assert of(found.assemblers[0].version) == "12.9.86"


def test_versions_by_the_names_around_a_library_that_says_nothing(tmp_path: Path) -> None:
    silent = {**NCCL, OWN: said(b"silent")}
    assert of(of(image(tmp_path, BASE, engine(), silent).nccl)[0].version) == "2.27.5"
    unsaid = {OWN: said(b"silent")}
    found = of(image(tmp_path / "b", BASE, engine(), unsaid).nccl)[0].version
    assert isinstance(found, Missing) and found.cause is Cause.UNREADABLE
    own: dict[str, Member] = {
        "usr/lib/libnccl.so.2": link("libnccl.so.2.21.5"),
        "usr/lib/libnccl.so.2.21.5": said(b"silent"),
    }
    assert of(of(image(tmp_path / "c", BASE, engine(), own).nccl)[0].version) == "2.21.5"


def test_packages_that_were_installed_over_one_another_do_not_say_what_lies_there(tmp_path: Path) -> None:
    """nvidia-nccl-cu12 and nvidia-nccl-cu13 bring one file."""
    both = {**NCCL, **installed("nvidia-nccl-cu13", "2.28.9"), OWN: nccl("2.28.9")}
    assert of(of(image(tmp_path, BASE, engine(), both).nccl)[0].version) == "2.28.9"
    version = of(image(tmp_path / "b", BASE, engine(), {**both, OWN: said(b"silent")}).nccl)[0].version
    assert isinstance(version, Missing) and "one over the other" in version.why


def test_sources_of_kernels_are_compiled_for_nothing(tmp_path: Path) -> None:
    files: dict[str, Member] = {
        f"{SITE}/flashinfer/__init__.py": b"",
        f"{SITE}/flashinfer/data/sm100/gemm_sm_100a.cuh": b"",
    }
    (found,) = of(image(tmp_path, BASE, engine(), files).kernels)
    assert (found.files, found.targets) == (0, ())


@pytest.mark.parametrize(
    "text", [b"{", b"[]", b'{"cuda": 1}', b'{"cuda": {"version": "x; rm"}}', b"[" * 100_000]
)
def test_a_toolkit_whose_list_is_not_understood(text: bytes, tmp_path: Path) -> None:
    files: dict[str, Member] = {"usr/local/cuda/version.json": text, "usr/local/cuda/bin/nvcc": b""}
    found = image(tmp_path, BASE, engine(), files)
    assert isinstance(of(found.nvcc)[0].version, Missing)
    assert of(found.cuda) == ()


def test_torch_that_does_not_say_its_cuda(tmp_path: Path) -> None:
    files = {**TORCH, f"{SITE}/torch/version.py": b"__version__ = '2.0'\ncuda = open('x')\n"}
    found = image(tmp_path, BASE, engine(), files)
    assert isinstance(found.torch_cuda, Missing) and found.torch_cuda.cause is Cause.UNREADABLE
    none = {**TORCH, f"{SITE}/torch/version.py": b"cuda = None\n"}
    assert of(image(tmp_path / "b", BASE, engine(), none).torch_cuda) is None


@pytest.mark.parametrize(
    ("line", "machine", "wanted"),
    [
        ("nvidia-nccl-cu13==2.28.9; platform_system == 'Linux'", 183, "==2.28.9"),
        ("nvidia-nccl-cu12==2.27.5; platform_machine == 'x86_64'", 183, None),
        ("nvidia-nccl-cu12==2.27.5; platform_machine == 'x86_64'", 62, "==2.27.5"),
        ("nvidia-nccl-cu12==2.27.5; platform_machine == 'aarch64'", 183, "==2.27.5"),
        ("nvidia-nccl-cu12==2.27.5; platform_machine == 'aarch64'", 62, None),
        ("numpy", 62, None),
    ],
)
def test_the_nccl_that_torch_requires_on_its_own_cpu(
    line: str, machine: int, wanted: str | None, tmp_path: Path
) -> None:
    library = Shared(needed=["libnccl.so.2"], machine=machine).made()
    files = {**TORCH, f"{SITE}/torch/lib/libtorch_cuda.so": library, **installed("torch", "2.10.0", line)}
    assert of(image(tmp_path, BASE, engine(), files).torch_requires_nccl) == wanted


def test_entrypoints_that_are_no_scripts(tmp_path: Path) -> None:
    def script(where: str, entry: list[str], **files: bytes) -> Fact[str | None]:
        members: dict[str, Member] = {f"opt/{name}": content for name, content in files.items()}
        started: Started = of(image(tmp_path / where, BASE, engine(), members, Entrypoint=entry).started)
        return started.script

    assert of(script("a", ["vllm", "serve"])) is None
    assert of(script("b", ["/opt/run"], run=b"\x7fELF\0\0")) is None
    assert of(script("c", ["/opt/run"], run=b"#!/bin/sh\nvllm serve\n")) is None
    assert of(script("d", ["/opt/run"], run=b'#!/bin/sh\nexec a\n  exec "$@"\n')) == '"$@"'
    assert isinstance(script("e", ["/opt/run"]), Missing)
    assert isinstance(script("f", ["/opt/../../etc/run.sh"]), Missing)
    assert of(script("g", ["/opt/run"], run=b"#!/bin/sh\n" + b"#" * (1 << 17))) is None
    hostile = of(script("h", ["/opt/run"], run=b"#!/bin/sh\nexec \x1b[31m\x07 x\n"))
    assert "\x1b" not in hostile and "\x07" not in hostile


def test_secrets_of_an_image_are_not_told(tmp_path: Path) -> None:
    script = {"opt/run": b"#!/bin/sh\nexec vllm serve --hf-token word3 $@\n"}
    config: dict[str, Any] = {
        "Entrypoint": ["/opt/run", "--api-key"],
        "Cmd": ["word1", "--api-key=word2"],
        "Env": ["RAY_ADDRESS=ray://me:word4@head:10001"],
    }
    stack = image(tmp_path, BASE, engine(), script, **config)
    assert of(stack.started).command == ("[REDACTED]", "--api-key=[REDACTED]")
    assert "word" not in repr((stack.started, stack.pins))


def test_an_image_for_another_cpu_is_read_as_what_it_is(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "image")
    layout.add(layout.image([layer({**BASE, **engine()})], "arm64"))
    options = BuildOptions(
        arch="x86_64", cache=Cache(tmp_path / "cache"), engines=(SmallEngine("vllm"),), offline=True
    )
    asked = read_build(f"oci:{layout.root}", Want(), options).build
    assert isinstance(asked, Missing) and "no image for x86_64" in asked.why and "--arch" in (asked.ask or "")
    build = read_build(f"oci:{layout.root}", Want(), replace(options, cpu_named=False)).build
    assert isinstance(build, Build)
    assert of(build.identity.platforms) == ("linux_aarch64",)


def test_the_other_libc(tmp_path: Path) -> None:
    base = {name: content for name, content in BASE.items() if "dpkg" not in name}
    musl: dict[str, Member] = {"lib/ld-musl-aarch64.so.1": b""}
    assert of(image(tmp_path, base, engine(), musl).libc) == "musl"
    old: dict[str, Member] = {"lib64/libc-2.28.so": b""}
    assert of(image(tmp_path / "b", base, engine(), old).libc) == "2.28"
    own = said(b"\0GNU C Library (GNU libc) stable release version 2.34.\n\0")
    itself: dict[str, Member] = {"usr/lib64/libc.so.6": own}
    assert of(image(tmp_path / "c", base, engine(), itself).libc) == "2.34"
    assert isinstance(image(tmp_path / "d", base, engine()).libc, Missing)


@pytest.mark.parametrize(
    ("path", "env", "found"),
    [
        ("usr/bin/gcc", [], "usr/bin/gcc"),
        ("usr/bin/clang", [], "usr/bin/clang"),
        ("opt/bin/gcc", [], None),
        ("opt/bin/gcc", ["PATH=/opt/bin"], "opt/bin/gcc"),
        ("opt/bin/tool", ["CC=/opt/bin/tool -O2"], "opt/bin/tool"),
        ("opt/bin/tool", ["CC=tool", "PATH=/opt/bin"], "opt/bin/tool"),
        ("usr/bin/gcc", ["CC=/gone"], "unknown"),
        ("usr/bin/gcc", ["CC=gone"], "unknown"),
        ("usr/bin/gcc-12", [], "unknown"),
        ("usr/bin/aarch64-conda-linux-gnu-gcc", [], "unknown"),
        ("usr/bin/gcc-ar", [], None),
    ],
)
def test_a_c_compiler_is_looked_for_as_triton_does(
    path: str, env: list[str], found: str | None, tmp_path: Path
) -> None:
    fact = image(tmp_path, BASE, engine(), {path: b""}, Env=env).c_compiler
    if found == "unknown":
        assert isinstance(fact, Missing) and fact.cause is Cause.UNREADABLE
    else:
        assert of(fact) == found


def test_text_that_is_made_to_be_slow_is_read_as_any_other(tmp_path: Path) -> None:
    lines = b"\n" * (1 << 20)
    slow: dict[str, Member] = {
        "var/lib/dpkg/status": b"Package: libc6\n" * (1 << 16) + b"Version: 2.36-9\n",
        "etc/ld.so.conf.d/a.conf": lines + b"/opt/lib",
        "entry.sh": b"#!/bin/sh\n" + b" \n" * 30_000 + b'exec "$@"\n',
        f"{SITE}/torch/version.py": b"cuda" + b"\n" * (1 << 20) + b"cuda = '12.9'\n",
        f"{SITE}/triton/backends/nvidia/compiler.py": b"blackwell = " + b"1 + " * 100_000 + b"1\n",
    }
    env = [f"PATH={'/a:' * 100_000}", f"LD_LIBRARY_PATH={'/b:' * 100_000}/opt/mine"]
    files = (BASE, engine(), with_torch(), TRITON, CONFIGURED, slow)
    found = image(tmp_path, *files, Env=env, Entrypoint=["/entry.sh"])
    assert of(found.libc) == "2.36"
    assert of(found.nccl_loaded).because == "/etc/ld.so.conf"
    assert of(of(found.started).script) == '"$@"'
    assert of(found.torch_cuda) == "12.9"
    assert isinstance(of(found.triton).newer_from, Missing)
    assert of(found.c_compiler) is None


def test_a_variable_that_names_an_assembler(tmp_path: Path) -> None:
    files: dict[str, Member] = {"usr/local/cuda/bin/ptxas": said(PTXAS.replace(b"12.9", b"13.0"))}
    env = ["TRITON_PTXAS_PATH=/usr/local/cuda/bin/ptxas", "TRITON_PTXAS_BLACKWELL_PATH=/gone"]
    named = of(image(tmp_path, BASE, engine(), TRITON, files, Env=env).triton).named
    assert {name: of(tool.version) for name, tool in named.items()} == {"TRITON_PTXAS_PATH": "13.0.86"}
