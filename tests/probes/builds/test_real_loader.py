"""Which copy of NCCL is said to load, against the real loader of this machine in an image's own root."""

from __future__ import annotations

import ctypes.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from small_engine import CODE, SmallEngine

from archives import wheel_files
from canserve.facts import Known
from canserve.probes.build import BuildOptions, read_build
from canserve.subjects.build import Build, Want
from canserve.trees.cache import Cache
from made_images import Layout, Member, link

SITE = "usr/lib/python3/dist-packages"
TORCH = f"{SITE}/torch/lib/libtorch_cuda.so"
COPIES = {
    f"{SITE}/nvidia/nccl/lib": "2.27.5",
    "opt/mine": "2.28.9",
    "opt/configured": "2.26.2",
    "usr/lib": "2.21.5",
}
OWN = "$ORIGIN/../../nvidia/nccl/lib"
Flags = tuple[str, ...]


def needed(name: str) -> str:
    """A program that the test calls."""
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if path is None:
        pytest.skip(f"{name} is not installed, so no library can be made for the real loader")
    return path


def compiled(folder: Path, source: str, *flags: str) -> bytes:
    (folder / "a.c").write_text(source)
    out = folder / "a.so"
    subprocess.run(
        [needed("gcc"), "-shared", "-fPIC", "-nostdlib", "-o", out, folder / "a.c", *flags], check=True
    )
    return out.read_bytes()


@pytest.fixture(scope="module")
def loader() -> Path:
    """This machine's dynamic loader."""
    if os.geteuid() != 0:
        pytest.skip("the loader is asked within another root, which only the superuser may enter")
    text = subprocess.run(
        [needed("readelf"), "-lW", "/bin/sh"], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(r"interpreter: (\S+)\]", text)
    if found is None or ctypes.util.find_library("c") is None:
        pytest.skip("this machine's programs name no loader of GNU libc")
    return Path(found[1])


def root_of(
    folder: Path, flags: Flags, loader: Path, without: frozenset[str] = frozenset()
) -> dict[str, Member]:
    """Files of an image in which copies of the library and something that links against it lie."""
    folder.mkdir(parents=True)
    files: dict[str, Member] = {
        f"{SITE}/{path}": text.encode()
        for path, text in wheel_files("vllm", "1.2", {f"vllm/{n}": t for n, t in CODE.items()}).items()
    }
    for place, version in COPIES.items():
        if place not in without:
            source = f'const char said[] = "NCCL version {version}+cuda12.9"; int ncclGetVersion(void) {{ return 1; }}'
            files[f"{place}/libnccl.so.2"] = compiled(folder, source, "-Wl,-soname,libnccl.so.2")
    library = folder / "libnccl.so.2"
    library.write_bytes(
        compiled(folder, "int ncclGetVersion(void) { return 1; }", "-Wl,-soname,libnccl.so.2")
    )
    user = "int ncclGetVersion(void); int use(void) { return ncclGetVersion(); }"
    files[TORCH] = compiled(folder, user, str(library), *flags)
    files[f"{SITE}/torch/__init__.py"] = b""
    files["etc/ld.so.conf"] = b"include /etc/ld.so.conf.d/*.conf\n"
    files["etc/ld.so.conf.d/a.conf"] = b"/opt/configured\n"
    files[str(loader).lstrip("/")] = loader.read_bytes()
    return files


def unpacked(root: Path, files: Mapping[str, Member]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, tuple):
            path.symlink_to(content[1])
        elif content is not None:
            path.write_bytes(content)
            path.chmod(0o755)
    subprocess.run([needed("ldconfig"), "-r", root], check=True, capture_output=True)


def truly(root: Path, loader: Path, env: Mapping[str, str]) -> str | None:
    """The file that the real loader maps, from the root of the image."""
    done = subprocess.run(
        [needed("chroot"), root, str(loader), "--list", f"/{TORCH}"],
        capture_output=True, text=True, check=False, env=dict(env),
    )  # fmt: skip
    found = re.search(r"libnccl\.so\.2 => (/\S+)|(/\S*libnccl\.so\.2) \(", done.stdout)
    if found is None:
        assert "libnccl.so.2" in done.stdout + done.stderr
        return None
    inner = (found[1] or found[2]).lstrip("/")
    return os.path.relpath(os.path.realpath(root / inner), os.path.realpath(root))


def read(folder: Path, files: Mapping[str, Member], env: Mapping[str, str]) -> Build:
    layout = Layout(folder / "layout").started(
        files, {"Env": [f"{name}={value}" for name, value in env.items()]}
    )
    options = BuildOptions(cache=Cache(folder / "cache"), engines=(SmallEngine("vllm"),), offline=True)
    build = read_build(f"oci:{layout.root}", Want(stack=True, gpu_code=True), options).build
    assert isinstance(build, Build), build
    return build


OLD, NEW = ("-Wl,--disable-new-dtags",), ("-Wl,--enable-new-dtags",)


@pytest.mark.parametrize(
    ("flags", "env", "without"),
    [
        ((*OLD, f"-Wl,-rpath,{OWN}"), {}, ()),
        ((*OLD, f"-Wl,-rpath,{OWN}"), {"LD_LIBRARY_PATH": "/opt/mine"}, ()),
        ((*NEW, f"-Wl,-rpath,{OWN}"), {"LD_LIBRARY_PATH": "/opt/mine"}, ()),
        ((*NEW, f"-Wl,-rpath,{OWN}"), {"LD_LIBRARY_PATH": "/nowhere:/opt/mine/"}, ()),
        ((*NEW, f"-Wl,-rpath,{OWN}"), {}, ()),
        ((*NEW, "-Wl,-rpath,/gone:${ORIGIN}/../../nvidia/nccl/lib"), {}, ()),
        ((*OLD, f"-Wl,-rpath,{OWN}"), {"LD_PRELOAD": "/opt/mine/libnccl.so.2"}, ()),
        ((*OLD, f"-Wl,-rpath,{OWN}"), {"LD_PRELOAD": "/gone.so:/opt/mine/libnccl.so.2"}, ()),
        ((), {}, ()),
        ((), {"LD_LIBRARY_PATH": "/opt/mine"}, ()),
        ((), {}, ("opt/configured",)),
        ((*OLD, "-Wl,-rpath,/opt/mine"), {}, (f"{SITE}/nvidia/nccl/lib",)),
        ((*OLD, f"-Wl,-rpath,{OWN}"), {}, tuple(COPIES)),
    ],
)
def test_the_copy_that_the_real_loader_takes(
    flags: Flags, env: dict[str, str], without: Flags, loader: Path, tmp_path: Path
) -> None:
    files = root_of(tmp_path / "made", flags, loader, frozenset(without))
    unpacked(tmp_path / "root", files)
    real = truly(tmp_path / "root", loader, env)
    fact = read(tmp_path, files, env).stack.nccl_loaded
    assert isinstance(fact, Known), fact
    assert fact.value is not None
    assert fact.value.path == real
    if real is not None:
        assert isinstance(fact.value.version, Known)
        assert fact.value.version.value == COPIES[real.rpartition("/")[0]]


def test_a_folder_of_the_loader_that_is_a_link(loader: Path, tmp_path: Path) -> None:
    files = root_of(tmp_path / "made", (), loader, frozenset(COPIES) - {"usr/lib"})
    files = {name: content for name, content in files.items() if not name.startswith("lib")}
    files[f"usr{loader}"] = loader.read_bytes()
    top = loader.parts[1]
    files[top] = link(f"usr/{top}")
    files |= {"lib": link("usr/lib")} if top != "lib" else {}
    unpacked(tmp_path / "root", files)
    fact = read(tmp_path, files, {}).stack.nccl_loaded
    assert isinstance(fact, Known)
    assert fact.value is not None
    assert truly(tmp_path / "root", loader, {}) == "usr/lib/libnccl.so.2"
    assert fact.value.path in {"usr/lib/libnccl.so.2", "lib/libnccl.so.2"}
    assert isinstance(fact.value.version, Known)
